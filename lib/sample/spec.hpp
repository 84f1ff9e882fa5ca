// What a made-up count file should look like, and the presets that resemble real deployments.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace eplb {

struct SampleSpec {
    int record_slots = 0;    // first axis of the file
    int filled_slots = 0;    // the first ones hold counts, the others stay zero: a ring buffer that never filled up
    int layers = 0;          // second axis, dense layers included
    int dense_layers = 0;    // leading layers without experts; their counts are zero
    int experts = 0;         // third axis
    int top_k = 0;           // experts that each token is routed to
    int ranks = 0;           // with slots_per_rank: the trivial layout that trivial_balance speaks of
    int slots_per_rank = 0;  //
    double trivial_balance = 1.0;  // window max/mean of the trivial layout to aim at, median over the MoE layers
    int tokens = 0;                // tokens in an average record slot
    int topics = 0;                // latent topics that the record slots mix
    std::uint64_t seed = 1;
};

struct SamplePreset {
    std::string_view name;     // --preset NAME
    std::string_view summary;  // one line for help and docs
    SampleSpec spec;
};

std::span<const SamplePreset> sample_presets();

// Throws Error{usage} that lists the names.
const SamplePreset& find_sample_preset(std::string_view name);

// Throws Error{usage} that names the field whose value makes no sense, and Error{infeasible} when the geometry has no
// trivial layout.
void require_sensible(const SampleSpec& spec);

}  // namespace eplb
