// --recorded-layout FILE: the layout that was in force while physical slots were counted.
#pragma once

#include <optional>
#include <string>

#include "counts_io/physical_slots.hpp"

namespace eplb {

// Reads SGLang's {"physical_to_logical_map": ...} as JSON or .pt, vllm-ascend's and msit's {"layer_list": ...}, an .npy
// of ids [layers, physical slots], and omni-infer's placement .npy of 0 and 1 [ranks, layers, experts], whose slots
// hold a rank's experts in ascending order. Throws Error{input} that names the file and the place in it.
SlotMap read_recorded_layout(const std::string& path, std::optional<int> experts);

}  // namespace eplb
