// The engines as data: names of their arguments (FORMATS 1.1, 2, 3) and of the tensors that move (FORMATS 4.1).
#include <fmt/format.h>

#include <array>

#include "core/error.hpp"
#include "loader/server_facts.hpp"

namespace eplb {
namespace {

using Argument = EngineProfile::Argument;
using Quantisation = EngineProfile::Quantisation;

constexpr std::array sglang_arguments{
    Argument{"ep-size", "ranks"},
    Argument{"ep", "ranks"},
    Argument{"expert-parallel-size", "ranks"},
    Argument{"tp-size", "tensor-parallel"},
    Argument{"tp", "tensor-parallel"},
    Argument{"tensor-parallel-size", "tensor-parallel"},
    Argument{"pp-size", "pipeline-parallel"},
    Argument{"pipeline-parallel-size", "pipeline-parallel"},
    Argument{"dp-size", "data-parallel"},
    Argument{"data-parallel-size", "data-parallel"},
    Argument{"nnodes", "nodes"},
    Argument{"ep-num-redundant-experts", "redundant-total"},
    Argument{"moe-a2a-backend", "a2a"},
    Argument{"ep-dispatch-algorithm", "dispatch-algorithm"},
    Argument{"enable-eplb", "enable-eplb"},
    Argument{"init-expert-location", "layout-path"},
    Argument{"quantization", "quant"},
    Argument{"disable-shared-experts-fusion", "shared-fusion"},
    Argument{"disaggregation-mode", "role"},
    Argument{"speculative-algorithm", "speculative"},
};
constexpr std::array sglang_quantisations{
    Quantisation{"none", "sglang-npu-bf16", ""},
    Quantisation{"w8a8", "sglang-npu-w8a8", ""},
    Quantisation{"w4a8", "sglang-npu-w4a8", ""},
    Quantisation{"w4a4", "sglang-npu-w4a4", ""},
    Quantisation{"fuseep", "",
                 "ascend_fuseep mode 2 flattens the scales: only the engine's own loading can place them"},
};

constexpr std::array vllm_ascend_arguments{
    Argument{"tensor-parallel-size", "tensor-parallel"},
    Argument{"tp", "tensor-parallel"},
    Argument{"data-parallel-size", "data-parallel"},
    Argument{"dp", "data-parallel"},
    Argument{"pipeline-parallel-size", "pipeline-parallel"},
    Argument{"pp", "pipeline-parallel"},
    Argument{"q", "quant"},
    Argument{"nnodes", "nodes"},
    Argument{"num-redundant-experts", "redundant-total"},
    Argument{"eplb-config.num-redundant-experts", "redundant-total"},
    Argument{"eplb-config.expert-map-path", "layout-path"},
    Argument{"eplb-config.dynamic-eplb", "dynamic-eplb"},
    Argument{"additional-config.eplb-config.num-redundant-experts", "redundant-total"},
    Argument{"additional-config.eplb-config.expert-map-path", "layout-path"},
    Argument{"additional-config.eplb-config.dynamic-eplb", "dynamic-eplb"},
    Argument{"enable-eplb", "enable-eplb"},
    Argument{"quantization", "quant"},
    Argument{"kv-transfer-config.kv-role", "role"},
    Argument{"speculative-config.method", "speculative"},
};
constexpr std::array vllm_ascend_quantisations{
    Quantisation{"none", "vllm-ascend-bf16", "list mode: vllm-ascend-bf16-list"},
    Quantisation{"w8a8", "vllm-ascend-w8a8", "list mode: vllm-ascend-w8a8-list"},
    Quantisation{"w4a8", "vllm-ascend-w4a8", "list mode: vllm-ascend-w4a8-list"},
    Quantisation{"mxfp", "vllm-ascend-mxfp", "W8A8MXFP and W4A4MXFP"},
    Quantisation{"w4a8-mxfp", "", "the engine itself refuses load balancing for W4A8MXFP"},
    Quantisation{"w4a16", "", "the engine itself refuses load balancing for W4A16"},
};

constexpr std::array xllm_arguments{
    Argument{"ep-size", "ranks"},
    Argument{"nnodes", "nodes"},
    Argument{"dp-size", "data-parallel"},
    Argument{"redundant-experts-num", "redundant-per-rank"},
    Argument{"enable-eplb", "dynamic-eplb"},
};
constexpr std::array xllm_quantisations{
    Quantisation{"none", "xllm", ""},
    Quantisation{"w8a8", "xllm", ""},
    Quantisation{"w4a8", "xllm", ""},
};

constexpr std::array generic_arguments{
    Argument{"ranks", "ranks"},
    Argument{"world-size", "world-size"},
    Argument{"nodes", "nodes"},
    Argument{"layers", "layers"},
    Argument{"experts", "experts"},
    Argument{"redundant-total", "redundant-total"},
    Argument{"redundant-per-rank", "redundant-per-rank"},
    Argument{"role", "role"},
    Argument{"quant", "quant"},
    Argument{"a2a", "a2a"},
    Argument{"dispatch", "dispatch"},
    Argument{"enable-eplb", "enable-eplb"},
    Argument{"dynamic-eplb", "dynamic-eplb"},
    Argument{"shared-fusion", "shared-fusion"},
    Argument{"draft-layers", "draft-layers"},
};
constexpr std::array generic_quantisations{
    Quantisation{"none", "generic", ""},
    Quantisation{"fp8", "generic", ""},
    Quantisation{"w8a8", "generic", ""},
    Quantisation{"w4a8", "generic", ""},
};

constexpr std::array profiles{
    EngineProfile{"sglang", "SGLang, on NPU or GPU", true, true, true, true, sglang_arguments, sglang_quantisations,
                  "sglang-"},
    EngineProfile{"vllm-ascend", "vllm-ascend, model runner V1", false, false, false, false, vllm_ascend_arguments,
                  vllm_ascend_quantisations, "vllm-ascend", true},
    EngineProfile{"xllm", "xLLM: reads no layout file; for a build that takes one", false, false, false, false,
                  xllm_arguments, xllm_quantisations, "xllm"},
    EngineProfile{"generic", "any engine with contiguous slots", true, true, false, false, generic_arguments,
                  generic_quantisations, ""},
};

}  // namespace

std::span<const EngineProfile> engine_profiles() {
    return profiles;
}

const EngineProfile& find_engine_profile(std::string_view name) {
    std::string list;
    for (const EngineProfile& profile : profiles) {
        if (profile.name == name) return profile;
        list += fmt::format("{}{}", list.empty() ? "" : ", ", profile.name);
    }
    throw Error(ErrorCode::usage, "--engine", fmt::format("'{}' is not an engine", name), "one of " + list);
}

}  // namespace eplb
