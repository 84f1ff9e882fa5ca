// Dispatch table files: [ranks, layers, experts] of physical slots, as .npy or JSON, and the manifest beside them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dispatch_table.hpp"

namespace eplb {

// The bytes of X.npy: int32. This and the next throw Error{internal} when reading them would not give the same table.
std::vector<std::byte> encode_dispatch_table(const DispatchTable& table);

// The bytes of a table file for this path: X.npy holds int32, X.json one object with the one key dispatch_table, a
// source rank and layer per line. Throws Error{usage} for another name.
std::vector<std::byte> encode_dispatch_table(const DispatchTable& table, const std::string& path);

struct DispatchFile {
    std::string path, sha256;
    DispatchTable table;
};

// Any integer type is read; an entry that is no slot of any layout becomes -1, and whoever holds the table against a
// layout refuses it. `one`: the row of one rank, which may also be a .npy of [layers, experts]. Throws Error{input}
// when the file is neither form.
enum class TableRows { all, one };
DispatchFile read_dispatch_table(const std::string& path, TableRows rows = TableRows::all);

// What a table was made for and how. Byte-equal on re-runs.
struct DispatchTableManifest {
    std::string layout_sha256;  // of the layout file's bytes
    std::string table_sha256;   // of the table file's bytes
    int ranks = 0, layers = 0, experts = 0;
    std::string dispatch;      // model name, or balanced
    std::optional<int> nodes;  // where the rule asks for them
    int tensor_parallel = 1;
    int moe_tensor_parallel = 1, pipeline_stages = 1;  // written where not 1: `ranks` are processes then
    std::string tool_version, tool_commit;
    bool operator==(const DispatchTableManifest&) const = default;
};

// Throws Error{internal} when decode_dispatch_table_manifest() would not make the same manifest of it.
std::string encode_dispatch_table_manifest(const DispatchTableManifest& manifest);
// Throws Error{input} with the JSON path for unknown, duplicate or missing keys and for values out of range.
DispatchTableManifest decode_dispatch_table_manifest(std::string_view text);

// "X.npy" or "X.json" -> "X.manifest.json"
std::string dispatch_table_manifest_path(const std::string& table_path);

// "X.json" -> "X.dispatch.npy": where eplb-fit puts the table that belongs to a layout.
std::string dispatch_table_path(const std::string& layout_path);

// The manifest beside a table, if there is one. Throws Error{input} when it cannot be read, or when the hash of the
// table or of the layout is not the one it states (finding code TABLE_MISMATCH).
std::optional<DispatchTableManifest> find_dispatch_table_manifest(const DispatchFile& table,
                                                                  const std::string& layout_sha256);

// Traffic of each source rank, for unequal sources: a .npy or JSON list of `ranks` numbers >= 0 in any unit. Throws
// Error{input} for anything else.
std::vector<double> read_source_weights(const std::string& path, int ranks);

}  // namespace eplb
