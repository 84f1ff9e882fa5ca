// What must be known and true before a checkpoint is baked or cut into slots; all of it throws before anything is
// written.
#pragma once

#include <string>

#include "loader/checkpoint.hpp"

namespace eplb {

// Throws Error{input} unless every layer with experts has the first router tensor of the family, with one row an
// expert, every other router tensor that is there has its experts where the family says, and every name of a family
// that the user described (`generic`) is that of some tensor.
void require_routers(const Checkpoint& checkpoint, const ModelFamily& family, const ExpertIndex& index, int experts);

// Every `stacked` name of a family that the user described matches a tensor.
void require_stacked(const Checkpoint& checkpoint, const ModelFamily& family);

// Throws Error{input} for a checkpoint that an earlier bake wrote, unless it is to be composed. Returns what to note
// then: what the experts of the source were before.
std::string require_unbaked(const Checkpoint& checkpoint, bool compose);

// Throws Error{output} unless `out` is absent, or a folder that holds our record and none of the inputs: only such a
// folder may be replaced as a whole.
void require_replaceable(const std::string& out, const Checkpoint& checkpoint, const std::string& layout);

}  // namespace eplb
