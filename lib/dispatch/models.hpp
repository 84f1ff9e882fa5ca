// The functions behind the table of dispatch models. Sources of every rule: docs/dispatch.md.
#pragma once

#include "dispatch/model.hpp"

namespace eplb::dispatch {

using Slots = std::span<const SlotId>;

// even.cpp
Slots all_targets(const DispatchSource& source, Slots replicas, int expert);

// sglang_static.cpp
Slots local_or_all_targets(const DispatchSource& source, Slots replicas, int expert);
Slots nearest_or_all_targets(const DispatchSource& source, Slots replicas, int expert);
int nearest_settled(std::span<const DispatchSource> sources, Slots replicas, std::span<int> settled);
DispatchTable sglang_a_table(const Layout& layout, const DispatchContext& context);
DispatchTable sglang_b_table(const Layout& layout, const DispatchContext& context);
DispatchTable sglang_c_table(const Layout& layout, const DispatchContext& context);

// vllm_ascend.cpp
Slots vllm_ascend_targets(const DispatchSource& source, Slots replicas, int expert);
DispatchTable vllm_ascend_table(const Layout& layout, const DispatchContext& context);

// xllm.cpp
Slots xllm_targets(const DispatchSource& source, Slots replicas, int expert);
DispatchTable xllm_table(const Layout& layout, const DispatchContext& context);

// omni.cpp
Slots omni_targets(const DispatchSource& source, Slots replicas, int expert);
DispatchTable omni_table(const Layout& layout, const DispatchContext& context);

// given_table.cpp
DispatchTable given_table(const Layout& layout, const DispatchContext& context);

}  // namespace eplb::dispatch
