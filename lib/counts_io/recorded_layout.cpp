#include "counts_io/recorded_layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/geometry.hpp"
#include "counts_io/count_formats.hpp"
#include "files/json_document.hpp"
#include "files/mapped_file.hpp"
#include "files/npy.hpp"
#include "files/number_list.hpp"
#include "layout_io/layout_file.hpp"

namespace eplb {
namespace {

using Rows = std::vector<std::vector<std::int64_t>>;

[[noreturn]] void fail_layout(std::string where, std::string what, std::string hint = "") {
    throw Error(ErrorCode::input, std::move(where), std::move(what), std::move(hint)).as_finding("NO_LAYOUT");
}

Tensor matrix_of(const Rows& rows) {
    const std::size_t width = rows.empty() ? 0 : rows.front().size();
    std::vector<std::int64_t> values;
    for (std::size_t layer = 0; layer < rows.size(); ++layer) {
        if (rows[layer].size() != width || width == 0) {
            fail_layout(fmt::format("layer {}", layer),
                        fmt::format("has {} physical slots, layer 0 has {}", rows[layer].size(), width),
                        "every layer needs the same number of slots");
        }
        values.insert(values.end(), rows[layer].begin(), rows[layer].end());
    }
    return tensor_of(std::move(values), {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(width)});
}

// {"moe_layer_count": L, "layer_list": [{"device_list": [{"device_expert": [ids]}]}]}, read by position as vllm-ascend
// reads it: its layer and device numbers are labels.
Rows device_lists(JsonValue root) {
    Rows rows;
    const JsonValue layers = root.at("layer_list");
    for (const JsonValue layer : layers.elements()) {
        std::vector<std::int64_t>& row = rows.emplace_back();
        for (const JsonValue device : layer.at("device_list").elements()) {
            for (const JsonValue id : device.at("device_expert").elements()) {
                row.push_back(id.as_integer(0, max_experts - 1));
            }
        }
    }
    if (const auto count = root.find("moe_layer_count")) {
        if (count->as_integer() != static_cast<std::int64_t>(rows.size())) {
            count->fail("NO_LAYOUT", fmt::format("is {}, the layer list has {}", count->as_integer(), rows.size()));
        }
    }
    return rows;
}

Tensor json_map(const MappedFile& file) {
    const JsonDocument document = JsonDocument::parse(file.text());
    const JsonValue root = document.root();
    if (root.is(JsonKind::object) && root.find("layer_list")) return matrix_of(device_lists(root));
    const RawLayout raw = decode_raw_layout(file.text(), file.path());
    if (raw.not_integers != 0) fail_layout(raw.first_not_integer_path, "is no whole number");
    return matrix_of(raw.rows);
}

// omni-infer's masks: a rank's experts ascending are its slots.
Tensor placement_map(const Tensor& mask) {
    const std::int64_t ranks = mask.shape[0], layers = mask.shape[1], experts = mask.shape[2];
    if (layers > max_layers || experts > max_experts) fail_layout("", "has more layers or experts than any model");
    Rows rows(static_cast<std::size_t>(layers));
    for (std::int64_t layer = 0; layer < layers; ++layer) {
        std::size_t slots = 0;  // of one rank
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
            std::vector<std::int64_t>& row = rows[static_cast<std::size_t>(layer)];
            const std::size_t before = row.size();
            for (std::int64_t expert = 0; expert < experts; ++expert) {
                const std::int64_t cell =
                    integer_at(mask, rank * mask.strides[0] + layer * mask.strides[1] + expert * mask.strides[2]);
                if (cell != 0 && cell != 1) {
                    fail_layout(fmt::format("[{}, {}, {}]", rank, layer, expert), fmt::format("{} is not 0 or 1", cell),
                                "a placement holds 0 and 1, [ranks, layers, experts]");
                }
                if (cell == 1) row.push_back(expert);
            }
            if (rank == 0) slots = row.size();
            if (row.size() - before != slots) {
                fail_layout(fmt::format("[{}, {}]", rank, layer),
                            fmt::format("{} slots, rank 0 has {}", row.size() - before, slots),
                            "positions of unequal ranks are not folded");
            }
        }
    }
    return matrix_of(rows);
}

Tensor array_map(const std::shared_ptr<const MappedFile>& file) {
    Tensor array = read_npy(file);
    if (!is_integer(array.dtype)) fail_layout("", "holds no whole numbers");
    if (array.shape.size() == 3) return placement_map(array);
    return array;
}

Tensor read_map(const std::shared_ptr<const MappedFile>& file) {
    if (looks_like_npy(file->bytes())) return array_map(file);
    if (looks_like_json(file->bytes())) return json_map(*file);
    if (looks_like_pt(file->bytes())) {
        CountOptions options;
        options.dataset = "physical_to_logical_map";
        return read_pt_counts(file, options).tensor;
    }
    fail_layout("", "is no layout that is read", "give SGLang's JSON or .pt, vllm-ascend's JSON, or omni-infer's .npy");
}

}  // namespace

SlotMap read_recorded_layout(const std::string& path, std::optional<int> experts) {
    const auto file = MappedFile::open(path);
    try {
        return slot_map_of(read_map(file), experts, "");
    } catch (const Error& error) {
        throw error.inside(path);
    }
}

}  // namespace eplb
