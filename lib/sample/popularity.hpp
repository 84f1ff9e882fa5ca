// How popular each expert is: the latent-topic model behind made-up counts.
#pragma once

#include <vector>

#include "sample/spec.hpp"

namespace eplb {

// Every layer has a base popularity and, for each topic, a few strongly favoured experts. Every record slot mixes the
// topics, the same mix in all layers, and the mix drifts from slot to slot. So experts of one topic are busy together,
// which is what makes step balancedness worse than window balancedness in real traffic.
class PopularityModel {
  public:
    explicit PopularityModel(const SampleSpec& spec);

    // Probability of each expert in each topic of a layer, [topics, experts]; rows sum to 1. `contrast` 0 makes all
    // experts equal, larger values spread them. No probability exceeds 0.9 / top-k (or 1 / experts where that is more),
    // since a token picks an expert at most once.
    std::vector<double> topic_rows(int layer, double contrast) const;

    // Share of each topic in a record slot, [filled slots, topics]; rows sum to 1.
    const std::vector<double>& mixes() const { return mixes_; }

    // Tokens of each record slot, [filled slots], >= 1.
    const std::vector<int>& tokens() const { return tokens_; }

  private:
    SampleSpec spec_;
    std::vector<double> log_popularity_;  // [layers, topics, experts], base and topic added up
    std::vector<double> mixes_;
    std::vector<int> tokens_;
};

}  // namespace eplb
