#include "sample/spec.hpp"

#include <fmt/format.h>

#include <array>
#include <string>

#include "core/error.hpp"
#include "core/geometry.hpp"

namespace eplb {
namespace {

// Shapes are those of SGLang's recorder for the named models; ranks, slots and trivial balance are a plausible
// deployment. prefill-16k and decode have the shape and the filling of two dumps of a 43-layer model that were
// published with this job: 34 prefill passes in a ring of 512, and a full ring with 45.6 M assignments.
constexpr std::array<SamplePreset, 5> presets = {{
    {"prefill-16k",
     "[512, 43, 256], 34 record slots filled: chunked prefill of 16 k tokens, top-6, 16 ranks",
     {512, 34, 43, 0, 256, 6, 16, 17, 1.60, 16384, 10, 11}},
    {"decode",
     "[512, 43, 256], all filled, about 45.6 M counts: small noisy decode steps, top-6, 16 ranks",
     {512, 512, 43, 0, 256, 6, 16, 17, 1.50, 345, 24, 12}},
    {"deepseek-v3",
     "[128, 61, 256], three dense layers: prefill of 8 k tokens, top-8, 32 ranks",
     {128, 128, 61, 3, 256, 8, 32, 9, 1.90, 8192, 16, 13}},
    {"kimi-k2",
     "[64, 60, 384]: prefill of 8 k tokens, top-8, 32 ranks",
     {64, 64, 60, 0, 384, 8, 32, 13, 1.80, 8192, 16, 14}},
    {"qwen3",
     "[200, 94, 128]: prefill of 4 k tokens, top-8, 16 ranks",
     {200, 200, 94, 0, 128, 8, 16, 9, 1.70, 4096, 16, 15}},
}};

constexpr std::int64_t max_elements = std::int64_t{1} << 30;  // 4 GiB of int32
constexpr std::int64_t max_model = std::int64_t{1} << 27;     // 1 GiB of doubles
constexpr int max_tokens = 1 << 24;                           // a cell of the file, at most about 4 x this, fits int32
constexpr int max_topics = 4096;

void require_range(std::string_view field, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value < low || value > high) {
        throw Error(ErrorCode::usage, "", fmt::format("{} = {} is outside {}..{}", field, value, low, high));
    }
}

}  // namespace

std::span<const SamplePreset> sample_presets() {
    return presets;
}

const SamplePreset& find_sample_preset(std::string_view name) {
    std::string names;
    for (const SamplePreset& preset : presets) {
        if (preset.name == name) return preset;
        names += (names.empty() ? "" : ", ") + std::string(preset.name);
    }
    throw Error(ErrorCode::usage, "", fmt::format("there is no preset \"{}\"", name), "presets: " + names);
}

void require_sensible(const SampleSpec& spec) {
    require_range("record slots", spec.record_slots, 1, max_elements);
    require_range("filled record slots", spec.filled_slots, 0, spec.record_slots);
    require_range("layers", spec.layers, 1, max_layers);
    require_range("dense layers", spec.dense_layers, 0, spec.layers - 1);
    require_range("experts", spec.experts, 1, max_experts);
    require_range("top-k", spec.top_k, 1, spec.experts);
    require_range("tokens", spec.tokens, 1, max_tokens);
    require_range("topics", spec.topics, 1, max_topics);
    require_range("record slots x layers x experts",
                  static_cast<std::int64_t>(spec.record_slots) * spec.layers * spec.experts, 1, max_elements);
    require_range("layers x topics x experts", static_cast<std::int64_t>(spec.layers) * spec.topics * spec.experts, 1,
                  max_model);
    require_range("filled record slots x topics", static_cast<std::int64_t>(spec.filled_slots) * spec.topics, 0,
                  max_model);
    if (!(spec.trivial_balance >= 1.0)) {
        throw Error(ErrorCode::usage, "", fmt::format("trivial balance = {} is below 1", spec.trivial_balance),
                    "it is max/mean over the ranks");
    }
    require_feasible({spec.layers, spec.experts, spec.ranks, spec.slots_per_rank});
}

}  // namespace eplb
