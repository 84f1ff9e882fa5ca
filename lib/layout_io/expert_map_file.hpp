// vllm-ascend's map file: the experts of each device, layer by layer, of the layers that have experts.
#pragma once

#include <string>
#include <string_view>

#include "core/layout.hpp"

namespace eplb {

// The text of the file that eplb_config.expert_map_path names: moe_layer_count, and device_expert of every device in
// layer_list. Throws Error{internal} when require_expert_map() would not find the layout in it.
std::string encode_expert_map(const Layout& layout);

// The engine reads moe_layer_count, and the devices' experts by their position; everything else is ignored. Throws
// Error{input} with the JSON path unless it would read this layout, slot by slot.
void require_expert_map(std::string_view text, const Layout& layout);

// The same for a file.
void require_expert_map_file(const std::string& path, const Layout& layout);

}  // namespace eplb
