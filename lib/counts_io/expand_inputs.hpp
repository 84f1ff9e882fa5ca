// Folders and patterns among the inputs.
#pragma once

#include <string>
#include <vector>

namespace eplb {

// Each folder becomes its files, each path with *, ? or [ that is no file becomes the files that it matches, in the
// order of the numbers in their names (2 before 10); everything else stays as it is. Left out of a folder are hidden
// files, sub-folders, and what engines and this toolkit keep beside counts and is none: sidecars, manifests,
// TensorRT-LLM's meta_info.json, co-occurrences and token records, MindIE's model_gen_config.json, top-k files, and
// x_bak.csv beside x.csv. Throws Error{input} where nothing is left.
std::vector<std::string> expand_inputs(const std::vector<std::string>& paths);

}  // namespace eplb
