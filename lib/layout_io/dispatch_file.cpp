#include "layout_io/dispatch_file.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/geometry.hpp"
#include "core/tensor.hpp"
#include "files/digest.hpp"
#include "files/json_document.hpp"
#include "files/mapped_file.hpp"
#include "files/npy.hpp"
#include "files/read_back.hpp"

namespace eplb {
namespace {

constexpr std::string_view table_key = "dispatch_table";
constexpr int format_version = 1;
constexpr std::int64_t most_entries = std::int64_t{1} << 30;

std::string without_extension(const std::string& path) {
    return path.substr(0, path.size() - std::filesystem::path(path).extension().string().size());
}

DispatchTable make_table(std::int64_t ranks, std::int64_t layers, std::int64_t experts) {
    const bool sane = ranks >= 1 && ranks <= max_ranks && layers >= 1 && layers <= max_layers && experts >= 1 &&
                      experts <= max_experts && ranks * layers <= most_entries / experts;
    if (!sane) {
        throw Error(ErrorCode::input, "",
                    fmt::format("{} ranks x {} layers x {} experts is no dispatch table", ranks, layers, experts),
                    "the axes are [ranks, layers, experts]")
            .as_finding("BAD_GEOMETRY");
    }
    return {static_cast<int>(ranks), static_cast<int>(layers), static_cast<int>(experts)};
}

SlotId slot_of(std::int64_t value) {
    return SlotId{value >= 0 && value < max_physical_slots ? static_cast<std::int32_t>(value) : -1};
}

DispatchTable table_of_npy(const std::shared_ptr<const MappedFile>& file, TableRows rows) {
    Tensor tensor = read_npy(file);
    if (!is_integer(tensor.dtype)) {
        throw Error(ErrorCode::input, "", fmt::format("holds {}, not integers", name_of(tensor.dtype)),
                    "a dispatch table is int32 [ranks, layers, experts]")
            .as_finding("UNSUPPORTED_TYPE");
    }
    if (rows == TableRows::one && tensor.shape.size() == 2) {
        tensor.shape.insert(tensor.shape.begin(), 1);
        tensor.strides.insert(tensor.strides.begin(), 0);
    }
    if (tensor.shape.size() != 3) {
        throw Error(ErrorCode::input, "", fmt::format("has {} axes, not 3", tensor.shape.size()),
                    "a dispatch table is int32 [ranks, layers, experts]")
            .as_finding("BAD_GEOMETRY");
    }
    DispatchTable table = make_table(tensor.shape[0], tensor.shape[1], tensor.shape[2]);
    std::size_t entry = 0;
    for (std::int64_t rank = 0; rank < tensor.shape[0]; ++rank) {
        for (std::int64_t layer = 0; layer < tensor.shape[1]; ++layer) {
            for (std::int64_t expert = 0; expert < tensor.shape[2]; ++expert, ++entry) {
                const std::int64_t index =
                    rank * tensor.strides[0] + layer * tensor.strides[1] + expert * tensor.strides[2];
                table.slots[entry] = slot_of(integer_at(tensor, index));
            }
        }
    }
    return table;
}

DispatchTable table_of_json(std::string_view text) {
    const JsonDocument document = JsonDocument::parse(text);
    const JsonValue root = document.root();
    root.allow_keys(std::array{table_key});
    const JsonValue ranks = root.at(table_key);
    const JsonValue first_rank = ranks.size() > 0 ? *ranks.elements().begin() : ranks;
    const JsonValue first_layer = first_rank.size() > 0 ? *first_rank.elements().begin() : first_rank;
    DispatchTable table =
        make_table(static_cast<std::int64_t>(ranks.size()), static_cast<std::int64_t>(first_rank.size()),
                   static_cast<std::int64_t>(first_layer.size()));
    std::size_t entry = 0;
    for (const JsonValue rank : ranks.elements()) {
        if (rank.size() != static_cast<std::size_t>(table.layers)) {
            rank.fail("BAD_GEOMETRY", fmt::format("has {} layers, the first rank has {}", rank.size(), table.layers));
        }
        for (const JsonValue layer : rank.elements()) {
            if (layer.size() != static_cast<std::size_t>(table.experts)) {
                layer.fail("BAD_GEOMETRY",
                           fmt::format("has {} experts, the first layer has {}", layer.size(), table.experts));
            }
            for (const JsonValue slot : layer.elements()) {
                table.slots[entry] = slot_of(slot.as_integer());
                ++entry;
            }
        }
    }
    return table;
}

DispatchTable table_of(const std::shared_ptr<const MappedFile>& file, TableRows rows) {
    return looks_like_npy(file->bytes()) ? table_of_npy(file, rows) : table_of_json(file->text());
}

std::string json_of(const DispatchTable& table) {
    std::string text = fmt::format("{{\"{}\": [", table_key);
    for (int rank = 0; rank < table.ranks; ++rank) {
        text += rank == 0 ? "\n[" : ",\n[";
        for (int layer = 0; layer < table.layers; ++layer) {
            text += layer == 0 ? "[" : ",\n[";
            const auto row = table.row(rank, layer);
            for (std::size_t expert = 0; expert < row.size(); ++expert) {
                if (expert != 0) text += ", ";
                fmt::format_to(std::back_inserter(text), "{}", row[expert].value);
            }
            text += "]";
        }
        text += "]";
    }
    return text + "\n]}\n";
}

std::vector<std::byte> npy_of(const DispatchTable& table) {
    std::vector<std::int32_t> values;
    values.reserve(table.slots.size());
    for (const SlotId slot : table.slots) values.push_back(slot.value);
    const std::array<std::int64_t, 3> shape{table.ranks, table.layers, table.experts};
    return encode_npy(std::span<const std::int32_t>(values), shape);
}

std::vector<std::byte> require_same_table(std::vector<std::byte> bytes, const DispatchTable& table) {
    return require_reads_back("the dispatch table", std::move(bytes), table, [](const std::vector<std::byte>& encoded) {
        return table_of(MappedFile::copy_of("the dispatch table", encoded), TableRows::all);
    });
}

}  // namespace

std::vector<std::byte> encode_dispatch_table(const DispatchTable& table) {
    return require_same_table(npy_of(table), table);
}

std::vector<std::byte> encode_dispatch_table(const DispatchTable& table, const std::string& path) {
    if (path.ends_with(".npy")) return encode_dispatch_table(table);
    if (!path.ends_with(".json")) {
        throw Error(ErrorCode::usage, path, "a dispatch table is written as .npy or .json", "end the name so");
    }
    const std::string text = json_of(table);
    const auto bytes = std::as_bytes(std::span(text));
    return require_same_table({bytes.begin(), bytes.end()}, table);
}

DispatchFile read_dispatch_table(const std::string& path, TableRows rows) {
    const auto file = MappedFile::open(path);
    try {
        return {path, sha256_hex(file->bytes()), table_of(file, rows)};
    } catch (...) {
        rethrow_inside(path);
    }
}

std::string encode_dispatch_table_manifest(const DispatchTableManifest& manifest) {
    nlohmann::ordered_json object;
    object["format_version"] = format_version;
    object["layout_sha256"] = manifest.layout_sha256;
    object["table_sha256"] = manifest.table_sha256;
    object["ranks"] = manifest.ranks;
    object["layers"] = manifest.layers;
    object["experts"] = manifest.experts;
    object["dispatch"] = manifest.dispatch;
    object["nodes"] = manifest.nodes ? nlohmann::ordered_json(*manifest.nodes) : nlohmann::ordered_json(nullptr);
    object["tensor_parallel"] = manifest.tensor_parallel;
    if (manifest.moe_tensor_parallel != 1) object["moe_tensor_parallel"] = manifest.moe_tensor_parallel;
    if (manifest.pipeline_stages != 1) object["pipeline_stages"] = manifest.pipeline_stages;
    object["tool"] = {{"version", manifest.tool_version}, {"commit", manifest.tool_commit}};
    return require_reads_back("the dispatch table's manifest", object.dump(2) + "\n", manifest,
                              decode_dispatch_table_manifest);
}

DispatchTableManifest decode_dispatch_table_manifest(std::string_view text) {
    const JsonDocument document = JsonDocument::parse(text);
    const JsonValue root = document.root();
    constexpr std::array<std::string_view, 12> keys{"format_version",
                                                    "layout_sha256",
                                                    "table_sha256",
                                                    "ranks",
                                                    "layers",
                                                    "experts",
                                                    "dispatch",
                                                    "nodes",
                                                    "tensor_parallel",
                                                    "tool",
                                                    "moe_tensor_parallel",
                                                    "pipeline_stages"};
    root.allow_keys(keys);
    root.at("format_version").as_integer(format_version, format_version);
    DispatchTableManifest manifest;
    manifest.layout_sha256 = root.at("layout_sha256").as_sha256();
    manifest.table_sha256 = root.at("table_sha256").as_sha256();
    manifest.ranks = static_cast<int>(root.at("ranks").as_integer(1, max_ranks));
    manifest.layers = static_cast<int>(root.at("layers").as_integer(1, max_layers));
    manifest.experts = static_cast<int>(root.at("experts").as_integer(1, max_experts));
    manifest.dispatch = root.at("dispatch").as_string();
    if (const JsonValue nodes = root.at("nodes"); !nodes.is(JsonKind::null)) {
        manifest.nodes = static_cast<int>(nodes.as_integer(1, max_ranks));
    }
    manifest.tensor_parallel = static_cast<int>(root.at("tensor_parallel").as_integer(1, max_ranks));
    const auto processes = [&](std::string_view key) {
        const auto value = root.find(key);
        return value ? static_cast<int>(value->as_integer(2, max_ranks)) : 1;
    };
    manifest.moe_tensor_parallel = processes("moe_tensor_parallel");
    manifest.pipeline_stages = processes("pipeline_stages");
    const JsonValue tool = root.at("tool");
    constexpr std::array<std::string_view, 2> tool_keys{"version", "commit"};
    tool.allow_keys(tool_keys);
    manifest.tool_version = tool.at("version").as_string();
    manifest.tool_commit = tool.at("commit").as_string();
    return manifest;
}

std::string dispatch_table_manifest_path(const std::string& table_path) {
    return without_extension(table_path) + ".manifest.json";
}

std::string dispatch_table_path(const std::string& layout_path) {
    return without_extension(layout_path) + ".dispatch.npy";
}

std::optional<DispatchTableManifest> find_dispatch_table_manifest(const DispatchFile& table,
                                                                  const std::string& layout_sha256) {
    const std::string path = dispatch_table_manifest_path(table.path);
    std::error_code ignored;
    if (table.path == "-" || !std::filesystem::exists(path, ignored)) return std::nullopt;
    const auto file = MappedFile::open(path);
    DispatchTableManifest manifest;
    try {
        manifest = decode_dispatch_table_manifest(file->text());
    } catch (...) {
        rethrow_inside(path);
    }
    const auto refuse = [&](const char* what, const std::string& stated, const std::string& found) {
        throw Error(ErrorCode::input, path,
                    fmt::format("it is for the {} with SHA-256 {}, this one has {}", what, stated, found),
                    "make the table again with eplb-load table, or find the files that belong together")
            .as_finding("TABLE_MISMATCH");
    };
    if (manifest.table_sha256 != table.sha256) refuse("table", manifest.table_sha256, table.sha256);
    if (manifest.layout_sha256 != layout_sha256) refuse("layout", manifest.layout_sha256, layout_sha256);
    return manifest;
}

std::vector<double> read_source_weights(const std::string& path, int ranks) {
    const auto file = MappedFile::open(path);
    std::vector<double> weights;
    try {
        if (looks_like_npy(file->bytes())) {
            const Tensor tensor = read_npy(file);
            if (tensor.shape.size() != 1) {
                throw Error(ErrorCode::input, "", fmt::format("has {} axes, not 1", tensor.shape.size()));
            }
            for (std::int64_t i = 0; i < tensor.shape[0] && i <= ranks; ++i) {
                weights.push_back(is_floating(tensor.dtype)
                                      ? floating_at(tensor, i * tensor.strides[0])
                                      : static_cast<double>(integer_at(tensor, i * tensor.strides[0])));
            }
        } else {
            const JsonDocument document = JsonDocument::parse(file->text());
            for (const JsonValue value : document.root().elements()) weights.push_back(value.as_number());
        }
    } catch (...) {
        rethrow_inside(path);
    }
    if (weights.size() != static_cast<std::size_t>(ranks)) {
        throw Error(ErrorCode::input, path,
                    fmt::format("holds {}{} numbers for {} ranks",
                                weights.size() > static_cast<std::size_t>(ranks) ? "more than " : "",
                                std::min(weights.size(), static_cast<std::size_t>(ranks)), ranks));
    }
    for (std::size_t rank = 0; rank < weights.size(); ++rank) {
        if (std::isfinite(weights[rank]) && weights[rank] >= 0) continue;
        throw Error(ErrorCode::input, fmt::format("{}: rank {}", path, rank),
                    fmt::format("{} is no amount of traffic", weights[rank]));
    }
    return weights;
}

}  // namespace eplb
