#include "layout_io/layout_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "files/digest.hpp"
#include "files/json_document.hpp"
#include "files/mapped_file.hpp"
#include "layout_io/foreign_layout.hpp"

namespace eplb {
namespace {

constexpr std::string_view map_key = "physical_to_logical_map";

JsonValue map_of(JsonValue root) {
    if (root.is(JsonKind::array)) {
        root.fail("NO_LAYOUT", "is a bare list",
                  fmt::format("a layout is an object with the key {}: convert the file", map_key));
    }
    if (!root.is(JsonKind::object)) {
        root.fail("NO_LAYOUT", "is no object", fmt::format("a layout is an object with the key {}", map_key));
    }
    if (const auto map = root.find(map_key)) return *map;
    if (root.find("logical_count")) {
        root.fail("NO_LAYOUT", "holds counts (logical_count), not a layout",
                  "validate it without --layout; eplb-fit makes a layout of it");
    }
    if (const std::string foreign = foreign_layout_object(root); !foreign.empty()) {
        root.fail("NO_LAYOUT", foreign + ", not a layout", layout_form_hint);
    }
    root.fail("NO_LAYOUT", fmt::format("has no key {}", map_key), layout_form_hint);
}

void note_not_integer(RawLayout& layout, JsonValue value, std::string text) {
    if (layout.not_integers++ == 0) {
        layout.first_not_integer = std::move(text);
        layout.first_not_integer_path = value.path();
    }
}

std::int64_t read_id(RawLayout& layout, JsonValue value) {
    constexpr double exact_limit = 9007199254740992.0;  // 2^53
    switch (value.kind()) {
        case JsonKind::integer:
            if (value.as_integer() == no_number) value.fail("NEGATIVE_EXPERT", "is an absurd expert id");
            return value.as_integer();
        case JsonKind::real: {
            const double number = value.as_number();
            const bool whole = number >= -exact_limit && number <= exact_limit &&
                               number == static_cast<double>(static_cast<std::int64_t>(number));
            note_not_integer(layout, value, whole ? fmt::format("{:.1f}", number) : fmt::format("{}", number));
            return whole ? static_cast<std::int64_t>(number) : no_number;
        }
        case JsonKind::string:
            note_not_integer(layout, value, fmt::format("\"{}\"", shortened(value.as_string(), 80)));
            return no_number;
        case JsonKind::boolean:
            note_not_integer(layout, value, value.as_boolean() ? "true" : "false");
            return no_number;
        case JsonKind::null:
            note_not_integer(layout, value, "null");
            return no_number;
        case JsonKind::array:
        case JsonKind::object:
            value.fail("NO_LAYOUT", "is a list or an object, expected an expert id",
                       "a row lists the physical slots of all ranks one after the other");
    }
    return no_number;
}

}  // namespace

std::string encode_layout(const Layout& layout) {
    std::string text = fmt::format("{{\"{}\": [", map_key);
    for (int layer = 0; layer < layout.geometry().layers; ++layer) {
        text += layer == 0 ? "\n[" : ",\n[";
        const auto row = layout.row(layer);
        for (std::size_t slot = 0; slot < row.size(); ++slot) {
            if (slot != 0) text += ", ";
            fmt::format_to(std::back_inserter(text), "{}", row[slot].value);
        }
        text += "]";
    }
    return text + "\n]}\n";
}

RawLayout decode_raw_layout(std::string_view text, std::string path) {
    refuse_foreign_layout(text);
    const JsonDocument document = JsonDocument::parse(text);
    RawLayout layout;
    layout.path = std::move(path);
    const JsonValue map = map_of(document.root());
    for (const auto& [key, value] : document.root().members()) {
        if (key != map_key) layout.extra_keys.emplace_back(key);
    }
    if (!map.is(JsonKind::array)) map.fail("NO_LAYOUT", "is no list", "the map is a list with a row per layer");
    layout.rows.reserve(map.size());
    for (const JsonValue row : map.elements()) {
        if (!row.is(JsonKind::array)) {
            row.fail("NO_LAYOUT", "is no list", "the map is a list with a row per layer, also for one layer");
        }
        std::vector<std::int64_t>& ids = layout.rows.emplace_back();
        ids.reserve(row.size());
        for (const JsonValue value : row.elements()) ids.push_back(read_id(layout, value));
    }
    return layout;
}

Layout decode_layout(std::string_view text, int ranks, std::optional<int> experts) {
    const RawLayout raw = decode_raw_layout(text, "");
    if (!raw.extra_keys.empty()) {
        throw Error(ErrorCode::input, fmt::format("$.{}", raw.extra_keys.front()),
                    fmt::format("a layout file holds the key {} only", map_key), "see eplb-validate --layout");
    }
    if (raw.not_integers != 0) {
        throw Error(ErrorCode::input, raw.first_not_integer_path,
                    fmt::format("{} is no whole number", raw.first_not_integer), "see eplb-validate --layout");
    }
    const std::string map_path = fmt::format("$.{}", map_key);
    const std::size_t width = raw.rows.empty() ? 0 : raw.rows.front().size();
    if (width == 0) throw Error(ErrorCode::input, map_path, "the map is empty");
    if (raw.rows.size() > max_layers || width > max_physical_slots) {
        throw Error(ErrorCode::input, map_path,
                    fmt::format("{} layers x {} physical slots are above {} x {}", raw.rows.size(), width, max_layers,
                                max_physical_slots));
    }
    if (ranks < 1 || width % static_cast<std::size_t>(ranks) != 0) {
        throw Error(ErrorCode::input, map_path,
                    fmt::format("{} physical slots do not divide by {} ranks", width, ranks),
                    "give the number of ranks that the layout was made for");
    }
    std::vector<ExpertId> slots;
    slots.reserve(raw.rows.size() * width);
    std::int64_t largest = 0;
    for (std::size_t layer = 0; layer < raw.rows.size(); ++layer) {
        if (raw.rows[layer].size() != width) {
            throw Error(ErrorCode::input, fmt::format("{}[{}]", map_path, layer),
                        fmt::format("{} physical slots, row 0 has {}", raw.rows[layer].size(), width));
        }
        for (std::size_t slot = 0; slot < width; ++slot) {
            const std::int64_t id = raw.rows[layer][slot];
            if (id < 0 || id >= experts.value_or(max_experts)) {
                throw Error(ErrorCode::input, fmt::format("{}[{}][{}]", map_path, layer, slot),
                            fmt::format("expert {} is outside 0..{}", id, experts.value_or(max_experts) - 1));
            }
            largest = std::max(largest, id);
            slots.push_back(ExpertId{static_cast<std::int32_t>(id)});
        }
    }
    const Geometry geometry{static_cast<int>(raw.rows.size()), experts.value_or(static_cast<int>(largest) + 1), ranks,
                            static_cast<int>(width) / ranks};
    return Layout(geometry, std::move(slots));
}

LayoutFile read_layout(const MappedFile& file, int ranks, std::optional<int> experts) {
    try {
        return {file.path(), sha256_hex(file.bytes()), decode_layout(file.text(), ranks, experts)};
    } catch (...) {
        rethrow_inside(file.path());
    }
}

LayoutFile read_layout(const std::string& path, int ranks, std::optional<int> experts) {
    return read_layout(*MappedFile::open(path), ranks, experts);
}

std::string manifest_path(const std::string& layout_path) {
    constexpr std::string_view ending = ".json";
    const bool json = layout_path.size() > ending.size() && layout_path.ends_with(ending);
    return layout_path.substr(0, layout_path.size() - (json ? ending.size() : 0)) + ".manifest.json";
}

}  // namespace eplb
