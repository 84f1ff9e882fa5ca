// eplb-checkpoint.json, beside the tensors that were written: where they come from and what they must hash to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/geometry.hpp"

namespace eplb {

struct CheckpointRecord {
    std::string kind;  // "bake" or "slots"
    std::string tool_version;
    std::string layout_sha256, map_hash, family;
    Geometry geometry;
    std::string source_config_sha256, source_index_sha256;  // empty where the source has none
    struct File {
        std::string name, sha256;
        std::uint64_t bytes = 0;
        bool operator==(const File&) const = default;
    };
    std::vector<File> files;
    std::vector<std::string> notes;
    bool operator==(const CheckpointRecord&) const = default;
};

inline constexpr std::string_view checkpoint_record_name = "eplb-checkpoint.json";

// JSON, keys in a fixed order, ends with a newline. Throws Error{internal} when decode_checkpoint_record() would not
// make the same record of it.
std::string encode_checkpoint_record(const CheckpointRecord& record);

// Throws Error{input} with the JSON path for unknown, duplicate or missing keys and for what the schema does not allow.
CheckpointRecord decode_checkpoint_record(std::string_view text);

}  // namespace eplb
