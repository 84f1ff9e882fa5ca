// JSON counts: {"logical_count": [[...]]}, which SGLang's --init-expert-location accepts as statistics; physical counts
// beside their layout; a key for each layer; and the bare list that lmdeploy and DLBlas dump.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "counts_io/count_formats.hpp"
#include "counts_io/extra_keys.hpp"
#include "counts_io/json_numbers.hpp"
#include "counts_io/layer_stack.hpp"
#include "files/json_document.hpp"

namespace eplb {
namespace {

constexpr std::string_view map_key = "physical_to_logical_map";

void note_extra_keys(JsonValue root, const std::vector<std::string_view>& read, std::vector<Finding>& findings) {
    ExtraKeys extra;
    for (const auto [name, value] : root.members()) {
        if (std::find(read.begin(), read.end(), name) != read.end()) continue;
        const std::string shown = shortened(name, 80);
        extra.add("$." + shown, fmt::format("key \"{}\"", shown));
    }
    extra.move_to(findings);
}

// Does every row name each of 0..E-1 and nothing else, as a layout does? Counts hardly ever do.
bool is_like_a_layout(const Tensor& list) {
    if (list.shape.size() != 2 || list.dtype != DType::int64 || list.numel() == 0) return false;
    std::int64_t experts = 0;
    for (std::int64_t cell = 0; cell < list.numel(); ++cell) {
        const std::int64_t id = integer_at(list, cell);
        if (id < 0 || id >= list.shape[1]) return false;
        experts = std::max(experts, id + 1);
    }
    for (std::int64_t row = 0; row < list.shape[0]; ++row) {
        std::vector<bool> there(static_cast<std::size_t>(experts));
        for (std::int64_t slot = 0; slot < list.shape[1]; ++slot) {
            there[static_cast<std::size_t>(integer_at(list, row * list.shape[1] + slot))] = true;
        }
        if (std::find(there.begin(), there.end(), false) != there.end()) return false;
    }
    return experts > 1;
}

DecodedCounts read_list(JsonValue root, const CountOptions& options) {
    DecodedCounts result;
    result.tensor = json_numbers(root, 2, 3);
    if (!options.format && is_like_a_layout(result.tensor)) {
        root.fail("NOT_A_COUNT_FILE", "is a bare list of expert ids, every expert in every row: a layout, not counts",
                  "--format json reads it as counts all the same");
    }
    return result;
}

// Counts of physical slots beside the layout that was in force.
DecodedCounts read_slots(JsonValue root, JsonValue map, const CountOptions& options) {
    std::vector<std::string_view> lists;
    for (const auto [name, value] : root.members()) {
        if (name != map_key && value.is(JsonKind::array) && value.size() > 0 &&
            (*value.elements().begin()).is(JsonKind::array)) {
            lists.push_back(name);
        }
    }
    if (lists.empty()) root.fail("NOT_A_COUNT_FILE", "this is a layout, not counts");
    if (lists.size() > 1) {
        root.fail("NOT_A_COUNT_FILE",
                  fmt::format("holds {} lists that could be the counts: {}", lists.size(), fmt::join(lists, ", ")),
                  "keep the counts of the physical slots and their layout only");
    }
    DecodedCounts result;
    result.tensor = json_numbers(root.at(lists.front()), 2, 3);
    result.columns = Columns::slots;
    result.slots.map = slot_map_of(json_numbers(map, 2, 2), options.experts, map.path());
    note_extra_keys(root, {map_key, lists.front()}, result.findings);
    return result;
}

// {"0": [...], "1": [...]}, the keys being the layers' numbers.
DecodedCounts read_layers(JsonValue root, const CountOptions& options) {
    std::vector<LayerCountsOf> layers;
    std::vector<std::string_view> read;
    for (const auto [name, value] : root.members()) {
        const std::optional<std::int64_t> layer = layer_of_key(name);
        if (!layer && !value.is(JsonKind::array)) continue;
        if (!layer) {
            value.fail("NOT_A_COUNT_FILE",
                       fmt::format("the key \"{}\" stands among those of layers", shortened(name, 80)),
                       "a key for each layer is its number, alone or behind \"layer_\"");
        }
        layers.push_back({*layer, json_numbers(value, 1, 2), value.path()});
        read.push_back(name);
    }
    DecodedCounts result;
    result.tensor = stack_layers(layers, options.layers);
    note_extra_keys(root, read, result.findings);
    return result;
}

bool has_layer_keys(JsonValue root) {
    for (const auto [name, value] : root.members()) {
        if (value.is(JsonKind::array) && layer_of_key(name)) return true;
    }
    return false;
}

}  // namespace

bool looks_like_json(std::span<const std::byte> bytes) {
    constexpr std::array<std::byte, 3> byte_order_mark = {std::byte{0xef}, std::byte{0xbb}, std::byte{0xbf}};
    if (bytes.size() > 3 && std::equal(byte_order_mark.begin(), byte_order_mark.end(), bytes.begin())) {
        bytes = bytes.subspan(3);  // some editors put it there, and the parser takes it
    }
    for (const std::byte byte : bytes) {
        const char c = static_cast<char>(byte);
        if (c == '{' || c == '[') return true;
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return false;
    }
    return false;
}

DecodedCounts json_counts_of(const JsonValue& root, const CountOptions& options) {
    if (root.is(JsonKind::array) && !options.dataset) return read_list(root, options);
    if (!root.is(JsonKind::object)) {
        root.fail("NOT_A_COUNT_FILE", "is no object with the key \"logical_count\"",
                  "write {\"logical_count\": [...]}");
    }
    const std::string key = options.dataset.value_or("logical_count");
    if (const std::optional<JsonValue> counts = root.find(key)) {
        DecodedCounts result;
        result.tensor = json_numbers(*counts, 2, 3);
        result.reduction = Reduction::reduced;
        if (!options.dataset) result.columns = Columns::experts;
        note_extra_keys(root, {key}, result.findings);
        return result;
    }
    if (!options.dataset) {
        if (const std::optional<JsonValue> map = root.find(map_key)) return read_slots(root, *map, options);
        if (has_layer_keys(root)) return read_layers(root, options);
    }
    if (root.find("layer_list")) root.fail("NOT_A_COUNT_FILE", "this is a layout of vllm-ascend or msit, not counts");
    root.fail("NOT_A_COUNT_FILE", fmt::format("lacks the key \"{}\"", key), "--dataset KEY names another one");
}

DecodedCounts read_json_counts(const std::shared_ptr<const MappedFile>& file, const CountOptions& options) {
    const JsonDocument document = JsonDocument::parse(file->text());
    return json_counts_of(document.root(), options);
}

}  // namespace eplb
