// Dispatch table files: .npy int32 [R, L, E] of physical slots.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/dispatch_table.hpp"

namespace eplb {

struct DispatchFile {
    std::string path, sha256;
    DispatchTable table;
};

// Any integer type is read; an entry that is no slot of any layout becomes -1, and whoever holds the table against a
// layout refuses it. Throws Error{input} when the file is no array of whole numbers [R, L, E].
DispatchFile read_dispatch_table(const std::string& path);

std::vector<std::byte> encode_dispatch_table(const DispatchTable& table);

// "X.json" -> "X.dispatch.npy"
std::string dispatch_table_path(const std::string& layout_path);

}  // namespace eplb
