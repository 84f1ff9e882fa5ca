// Rows of counts that the user leaves out: record slots (a warm-up pass) and layers (another pipeline stage).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/index_list.hpp"
#include "core/tensor.hpp"

namespace eplb {

// The value of one --drop-slots or --take-slots.
struct SlotChoice {
    std::optional<std::string> file;  // path or base name; absent: the only file, or the sum over the ranks of a window
    IndexList slots;
    std::string text;  // as given
};

// "0-3,17" or "FILE:0-3,17". Throws Error{usage} at `flag`.
SlotChoice parse_slot_choice(std::string_view flag, const std::string& text);

struct Selection {
    std::vector<SlotChoice> drop_slots, take_slots;     // one of the two is empty
    std::optional<IndexList> drop_layers, take_layers;  // at most one of the two

    bool any_slots() const { return !drop_slots.empty() || !take_slots.empty(); }
    bool keeps_layer(int layer) const;
};

// Throws Error{usage} for drop and take of one kind together, and for a file name that is none of the files, or
// several.
void require_consistent(const Selection& selection, const std::vector<std::string>& files);

// What of one tensor is left out.
struct LeftOut {
    std::vector<int> slots, layers;  // ascending

    bool any() const { return !slots.empty() || !layers.empty(); }
};

// What is left out of the tensor [record slots, layers, experts] of the file `path`, or, where that is absent, of the
// sum over the ranks of a window. `alone`: no other file could be meant. Throws Error{usage} for a number that the
// tensor does not have, and for a list without a file name where several could be meant.
LeftOut left_out(const Selection& selection, const Tensor& tensor, const std::optional<std::string>& path, bool alone);

// The tensor with zeros in the rows that are left out; the others keep their numbers. Shares the bytes where nothing
// is left out.
Tensor without(const Tensor& tensor, const LeftOut& left_out);

}  // namespace eplb
