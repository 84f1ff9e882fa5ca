#include "loader/checkpoint_record.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "files/json_document.hpp"
#include "files/read_back.hpp"
#include "loader/geometry_members.hpp"

namespace eplb {

std::string encode_checkpoint_record(const CheckpointRecord& record) {
    nlohmann::ordered_json json;
    json["format_version"] = 1;
    json["kind"] = record.kind;
    json["tool_version"] = record.tool_version;
    json["layout_sha256"] = record.layout_sha256;
    json["map_hash"] = record.map_hash;
    json["family"] = record.family;
    json["geometry"] = geometry_members(record.geometry);
    const auto or_null = [](const std::string& text) -> nlohmann::ordered_json {
        return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
    };
    json["source"] = {{"config_sha256", or_null(record.source_config_sha256)},
                      {"index_sha256", or_null(record.source_index_sha256)}};
    json["files"] = nlohmann::ordered_json::array();
    for (const CheckpointRecord::File& file : record.files) {
        json["files"].push_back({{"name", file.name}, {"sha256", file.sha256}, {"bytes", file.bytes}});
    }
    json["notes"] = record.notes;
    return require_reads_back(checkpoint_record_name, json.dump(2) + "\n", record, decode_checkpoint_record);
}

CheckpointRecord decode_checkpoint_record(std::string_view text) {
    constexpr std::array<std::string_view, 10> keys{"format_version", "kind",   "tool_version", "layout_sha256",
                                                    "map_hash",       "family", "geometry",     "source",
                                                    "files",          "notes"};
    constexpr std::array<std::string_view, 2> source_keys{"config_sha256", "index_sha256"};
    constexpr std::array<std::string_view, 3> file_keys{"name", "sha256", "bytes"};
    const JsonDocument document = JsonDocument::parse(text);
    const JsonValue root = document.root();
    root.allow_keys(keys);
    root.at("format_version").as_integer(1, 1);
    CheckpointRecord record;
    const JsonValue kind = root.at("kind");
    record.kind = kind.as_string();
    if (record.kind != "bake" && record.kind != "slots") {
        kind.fail("MALFORMED", fmt::format("'{}' is neither bake nor slots", record.kind));
    }
    record.tool_version = root.at("tool_version").as_string();
    record.layout_sha256 = root.at("layout_sha256").as_sha256();
    record.map_hash = root.at("map_hash").as_sha256();
    record.family = root.at("family").as_string();
    record.geometry = read_geometry_members(root.at("geometry"));
    const JsonValue source = root.at("source");
    source.allow_keys(source_keys);
    const auto digest_or_empty = [&](std::string_view key) {
        const JsonValue digest = source.at(key);
        return digest.is(JsonKind::null) ? std::string() : digest.as_sha256();
    };
    record.source_config_sha256 = digest_or_empty("config_sha256");
    record.source_index_sha256 = digest_or_empty("index_sha256");
    for (const JsonValue file : root.at("files").elements()) {
        file.allow_keys(file_keys);
        const std::int64_t bytes = file.at("bytes").as_integer(0, std::numeric_limits<std::int64_t>::max());
        record.files.push_back({std::string(file.at("name").as_string()), file.at("sha256").as_sha256(),
                                static_cast<std::uint64_t>(bytes)});
    }
    for (const JsonValue note : root.at("notes").elements()) record.notes.emplace_back(note.as_string());
    return record;
}

}  // namespace eplb
