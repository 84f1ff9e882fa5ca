// The functions behind the table of dispatch models. Sources of every rule: docs/dispatch.md.
#pragma once

#include "dispatch/model.hpp"

namespace eplb::dispatch {

using Slots = std::span<const SlotId>;

// even.cpp
Slots all_targets(const DispatchSource& source, Slots replicas, int expert);

// sglang_static.cpp. The generations of SGLang; names and periods are in sglang_releases.cpp.
inline constexpr SeededRule sglang_a{.node = NodePreference::none, .deals_single = true};
inline constexpr SeededRule sglang_b{.node = NodePreference::always, .deals_single = true};
inline constexpr SeededRule sglang_c{.node = NodePreference::always, .own_streams = true};
inline constexpr SeededRule sglang_c_one_stream{.node = NodePreference::always};
inline constexpr SeededRule sglang_d{.node = NodePreference::where_part, .own_streams = true, .row_of_ep_rank = true};
inline constexpr SeededRule sglang_d_elastic{.node = NodePreference::none, .own_streams = true, .row_of_ep_rank = true};

// Whether a rank without a replica of its own looks for one on its node; `any` source of the deployment.
bool prefers_node(const SeededRule& rule, const DispatchSource& any, Slots replicas);
Slots near_or_all(const SeededRule& rule, const DispatchSource& source, Slots replicas);
int settled_near(const SeededRule& rule, std::span<const DispatchSource> sources, Slots replicas,
                 std::span<int> settled);
DispatchTable seeded_table(const SeededRule& rule, const Layout& layout, const DispatchContext& context);

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
