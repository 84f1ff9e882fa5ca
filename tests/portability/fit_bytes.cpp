// Fits generated problems with every policy and prints a hash of each layout and the figures that decisions hang on.
// The output must be the same from every compiler and on every machine: compare.cmake holds it against an aarch64
// build.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/random.hpp"
#include "fit/problem.hpp"
#include "score/step_bound.hpp"

using namespace eplb;

namespace {

// Topics shared by all layers, in integers; every seventh record slot of the last layer is empty.
std::vector<LayerCounts> topic_counts(int layers, int slots, int experts) {
    constexpr std::uint32_t topics = 5;
    Random random(20261129);
    std::vector<std::uint32_t> mix;
    for (int t = 0; t < slots; ++t) {
        for (std::uint32_t k = 0; k < topics; ++k) mix.push_back(random.below(3) == 0 ? 1 + random.below(64) : 1);
    }
    std::vector<LayerCounts> result;
    for (int layer = 0; layer < layers; ++layer) {
        std::vector<std::uint32_t> strength;
        for (int e = 0; e < experts * static_cast<int>(topics); ++e) {
            strength.push_back(random.below(14) == 0 ? 100 + random.below(900) : 10 + random.below(60));
        }
        LayerCounts counts{slots, experts, {}};
        for (int t = 0; t < slots; ++t) {
            for (int e = 0; e < experts; ++e) {
                std::int64_t count = random.below(200);
                for (std::uint32_t k = 0; k < topics; ++k) {
                    count += std::int64_t{mix[static_cast<std::size_t>(t) * topics + k]} *
                             strength[static_cast<std::size_t>(e) * topics + k];
                }
                counts.values.push_back(layer == layers - 1 && t % 7 == 3 ? 0 : count);
            }
        }
        result.push_back(std::move(counts));
    }
    return result;
}

// FNV-1a.
std::uint64_t hash_of(const Layout& layout) {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (int layer = 0; layer < layout.geometry().layers; ++layer) {
        for (const ExpertId expert : layout.row(layer)) {
            hash = (hash ^ static_cast<std::uint32_t>(expert.value)) * 0x100000001b3u;
        }
    }
    return hash;
}

void print(const char* name, double value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    std::printf(" %s=%016llx", name, static_cast<unsigned long long>(bits));
}

}  // namespace

int main() {
    struct Shape {
        int layers, slots, experts, ranks, slots_per_rank;
    };
    for (const Shape& shape :
         {Shape{3, 12, 64, 8, 9}, Shape{2, 40, 48, 16, 4}, Shape{2, 2, 20, 6, 4}, Shape{1, 9, 60, 33, 2}}) {
        FitProblem problem;
        problem.geometry = {shape.layers, shape.experts, shape.ranks, shape.slots_per_rank};
        problem.layers = topic_counts(shape.layers, shape.slots, shape.experts);
        problem.effort = Effort::fast;
        problem.seed = 7;
        for (const FitPolicy& policy : fit_policies()) {
            for (const Objective objective : {Objective::step, Objective::window}) {
                if (!policy.obeys_objective && objective == Objective::step) continue;
                problem.objective = objective;
                const FitResult result = fit(policy, problem);
                std::printf("%dx%d %.*s-%s %016llx", shape.ranks, shape.slots_per_rank,
                            static_cast<int>(policy.name.size()), policy.name.data(),
                            objective == Objective::step ? "step" : "window",
                            static_cast<unsigned long long>(hash_of(result.layout)));
                if (result.guard) {
                    print("r2", result.guard->predictability.value_or(-1));
                    print("holdout", result.guard->expected_holdout.value_or(-1));
                    print("shrink", result.guard->mean_shrink);
                }
                std::printf("\n");
            }
        }
        print("bound", step_lower_bound(problem.layers.front(), shape.ranks, shape.slots_per_rank));
        std::printf("\n");
    }
    return 0;
}
