#include "counts_io/window_sidecar.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/printable.hpp"
#include "files/json_document.hpp"
#include "files/read_back.hpp"

namespace eplb {
namespace {

constexpr std::int64_t any_count = std::numeric_limits<std::int64_t>::max();
constexpr std::array<std::string_view, 4> phase_names{"unknown", "prefill", "decode", "mixed"};

std::string scalar_text(const JsonValue& value) {
    switch (value.kind()) {
        case JsonKind::string:
            return std::string(value.as_string());
        case JsonKind::integer:
            return fmt::format("{}", value.as_integer());
        case JsonKind::real:
            return fmt::format("{}", value.as_number());
        case JsonKind::boolean:
            return value.as_boolean() ? "true" : "false";
        default:
            value.fail("MALFORMED", "a scenario entry is a string, a number or a boolean");
    }
}

template <typename T, typename Read>
std::vector<T> list_of(const JsonValue& array, Read read) {
    std::vector<T> list;
    for (const JsonValue element : array.elements()) list.push_back(static_cast<T>(read(element)));
    return list;
}

// A list in which nothing stands twice, and something does stand.
void require_set(const JsonValue& array, std::vector<int> numbers) {
    if (numbers.empty()) array.fail("MALFORMED", "is empty");
    std::sort(numbers.begin(), numbers.end());
    const auto twice = std::adjacent_find(numbers.begin(), numbers.end());
    if (twice != numbers.end()) array.fail("MALFORMED", fmt::format("{} stands there twice", *twice));
}

void require_length(const JsonValue& array, int records) {
    if (array.size() != static_cast<std::size_t>(records)) {
        array.fail("MALFORMED", fmt::format("{} entries for {} records", array.size(), records));
    }
}

}  // namespace

std::string window_sidecar_path(std::string_view count_file) {
    return std::filesystem::path(count_file).replace_extension(".window.json").string();
}

WindowSidecar decode_window_sidecar(std::string_view text) {
    const JsonDocument document = JsonDocument::parse(text);
    const JsonValue root = document.root();
    constexpr std::array<std::string_view, 18> keys{
        "format_version", "file",    "sha256",           "reduction", "window",  "members",
        "rank",           "shape",   "first_sequence",   "records",   "tokens",  "overwritten",
        "phases",         "layouts", "layout_of_record", "scenario",  "seconds", "complete"};
    root.allow_keys(keys);
    root.at("format_version").as_integer(1, 1);

    WindowSidecar sidecar;
    sidecar.file = root.at("file").as_string();
    if (sidecar.file.empty()) root.at("file").fail("MALFORMED", "is empty");
    sidecar.sha256 = root.at("sha256").as_sha256();
    const JsonValue reduction = root.at("reduction");
    if (reduction.as_string() == name_of(Reduction::per_rank)) {
        sidecar.reduction = Reduction::per_rank;
    } else if (reduction.as_string() != name_of(Reduction::reduced)) {
        reduction.fail("MALFORMED", fmt::format("'{}' is neither reduced nor per-rank", reduction.as_string()));
    }
    sidecar.window = root.at("window").as_string();
    const auto rank_of = [](const JsonValue& value) { return value.as_integer(0, std::numeric_limits<int>::max()); };
    sidecar.members = list_of<int>(root.at("members"), rank_of);
    require_set(root.at("members"), sidecar.members);
    if (const auto rank = root.find("rank")) sidecar.rank = static_cast<int>(rank_of(*rank));
    if (sidecar.rank.has_value() != (sidecar.reduction == Reduction::per_rank)) {
        root.fail("MALFORMED", "a rank is named exactly when the counts are one rank's share");
    }
    const JsonValue shape = root.at("shape");
    sidecar.shape = list_of<std::int64_t>(shape, [](const JsonValue& value) { return value.as_integer(0, any_count); });
    if (sidecar.shape.size() != 3) shape.fail("MALFORMED", "a shape is [record slots, layers, experts]");
    sidecar.first_sequence = root.at("first_sequence").as_integer(0, any_count);
    sidecar.records = static_cast<int>(
        root.at("records").as_integer(0, std::min<std::int64_t>(sidecar.shape[0], std::numeric_limits<int>::max())));
    // The sequence number of every record is a number too.
    root.at("first_sequence").as_integer(0, any_count - std::max(sidecar.records - 1, 0));
    sidecar.overwritten = root.at("overwritten").as_integer(0, any_count);
    const JsonValue tokens = root.at("tokens"), phases = root.at("phases"), generations = root.at("layout_of_record");
    for (const JsonValue& list : {tokens, phases, generations}) require_length(list, sidecar.records);
    sidecar.tokens =
        list_of<std::int64_t>(tokens, [](const JsonValue& value) { return value.as_integer(0, any_count); });
    sidecar.phases = list_of<std::string>(phases, [](const JsonValue& value) {
        if (std::find(phase_names.begin(), phase_names.end(), value.as_string()) == phase_names.end()) {
            value.fail("MALFORMED", fmt::format("'{}' is not prefill, decode, mixed or unknown", value.as_string()));
        }
        return value.as_string();
    });
    const JsonValue layouts = root.at("layouts");
    sidecar.layouts = list_of<std::string>(layouts, [](const JsonValue& value) { return value.as_sha256(); });
    if (sidecar.layouts.empty()) layouts.fail("MALFORMED", "is empty");
    sidecar.layout_of_record = list_of<int>(generations, [&](const JsonValue& value) {
        return value.as_integer(0, static_cast<std::int64_t>(sidecar.layouts.size()) - 1);
    });
    for (const auto [key, value] : root.at("scenario").members()) sidecar.scenario.emplace(key, scalar_text(value));
    for (const auto [key, value] : root.at("seconds").members()) sidecar.seconds.emplace(key, value.as_number(0.0));
    sidecar.complete = root.at("complete").as_boolean();
    return sidecar;
}

namespace {

std::map<std::string, std::string> printable_texts(const std::map<std::string, std::string>& texts) {
    std::map<std::string, std::string> shown;
    for (const auto& [key, text] : texts) shown.emplace(printable(key), printable(text));
    return shown;
}

}  // namespace

std::string encode_window_sidecar(const WindowSidecar& sidecar) {
    WindowSidecar meant = sidecar;
    meant.file = printable(sidecar.file);
    meant.window = printable(sidecar.window);
    meant.scenario = printable_texts(sidecar.scenario);
    nlohmann::ordered_json json{{"format_version", 1},    {"file", meant.file},
                                {"sha256", meant.sha256}, {"reduction", name_of(meant.reduction)},
                                {"window", meant.window}, {"members", meant.members}};
    if (meant.rank) json["rank"] = *meant.rank;
    json["shape"] = meant.shape;
    json["first_sequence"] = meant.first_sequence;
    json["records"] = meant.records;
    json["overwritten"] = meant.overwritten;
    json["tokens"] = meant.tokens;
    json["phases"] = meant.phases;
    json["layouts"] = meant.layouts;
    json["layout_of_record"] = meant.layout_of_record;
    json["scenario"] = meant.scenario;
    json["seconds"] = meant.seconds;
    json["complete"] = meant.complete;
    return require_reads_back("the window's sidecar", json.dump(1) + "\n", meant, decode_window_sidecar);
}

WindowFacts facts_of(const WindowSidecar& sidecar) {
    WindowFacts facts{sidecar.window, sidecar.rank, sidecar.members, {}, sidecar.overwritten, sidecar.layouts};
    for (int record = 0; record < sidecar.records; ++record) facts.sequence.push_back(sidecar.first_sequence + record);
    return facts;
}

}  // namespace eplb
