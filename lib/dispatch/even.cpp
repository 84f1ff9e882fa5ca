// Every replica of an expert gets the same share: what most fitters assume, and what a choice per token gives in
// expectation (vLLM, TensorRT-LLM, SGLang's `dynamic` up to generation B).
#include "dispatch/models.hpp"

namespace eplb::dispatch {

Slots all_targets(const DispatchSource&, Slots replicas, int) {
    return replicas;
}

}  // namespace eplb::dispatch
