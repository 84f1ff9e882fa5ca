// Feeds arbitrary bytes to one count reader: it may only return counts or throw Error{input} with a finding code.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "core/counts.hpp"
#include "counts_io/count_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace eplb;
    CountOptions options;
    options.format = EPLB_FUZZED_FORMAT;
    try {
        const auto bytes = std::as_bytes(std::span(data, size));
        const CountFile file = decode_count_file(MappedFile::copy_of("input", bytes), options);
        const Counts counts({file.tensor});
        std::vector<std::int64_t> row(static_cast<std::size_t>(counts.experts()));
        for (int slot = 0; slot < counts.record_slots(); ++slot) {
            for (int layer = 0; layer < counts.layers(); ++layer) {
                try {
                    counts.read_row(slot, layer, row);  // touches every value; wrong values are no fault of the reader
                } catch (const Error&) {
                }
            }
        }
    } catch (const Error& error) {
        if (error.code() != ErrorCode::input || error.finding_code().empty()) std::abort();
    }
    return 0;
}
