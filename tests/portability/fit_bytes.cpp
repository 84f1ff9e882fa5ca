// Prints the lines of tests/fit/pinned_fits.txt, and the bits of the lower bounds that reports show. The output must be
// the same from every compiler and on every machine: compare.cmake holds it against an aarch64 build.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "fit/pinned_cases.hpp"
#include "score/step_bound.hpp"

using namespace eplb;

// Without arguments the pinned lines only; with `bounds` those of the bounds too.
int main(int count, char** arguments) {
    for (const test::PinnedCase& pinned : test::pinned_cases()) {
        std::printf("%s\n", test::line_of(pinned, pinned.fit()).c_str());
    }
    if (count < 2 || std::string_view(arguments[1]) != "bounds") return 0;
    for (const auto& [slots, experts, ranks, slots_per_rank] : {std::array{12, 64, 8, 9}, std::array{9, 60, 33, 2}}) {
        const double bound = step_lower_bound(test::pinned_topics(1, slots, experts).front(), ranks, slots_per_rank);
        std::uint64_t bits = 0;
        std::memcpy(&bits, &bound, sizeof bits);
        std::printf("bound %016llx\n", static_cast<unsigned long long>(bits));
    }
    return 0;
}
