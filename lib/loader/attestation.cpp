#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "core/build_info.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "files/json_document.hpp"
#include "files/json_text.hpp"
#include "files/read_back.hpp"
#include "loader/admission.hpp"
#include "loader/geometry_members.hpp"

namespace eplb {
namespace {

constexpr int format_version = 1;

std::optional<std::string> text_or_null(const JsonValue& value) {
    if (value.is(JsonKind::null)) return std::nullopt;
    return std::string(value.as_string());
}

// As JSON can hold it.
Attestation with_printable_texts(Attestation attestation) {
    attestation.layout_name = printable(attestation.layout_name);
    for (auto& [name, value] : attestation.facts) {
        name = printable(name);
        value = printable(value);
    }
    return attestation;
}

nlohmann::ordered_json to_json(const Attestation& attestation) {
    nlohmann::ordered_json json;
    const auto or_null = [](const std::optional<std::string>& text) {
        return text ? nlohmann::ordered_json(*text) : nlohmann::ordered_json();
    };
    json["format_version"] = format_version;
    json["layout"] = attestation.layout_name;
    json["layout_sha256"] = attestation.layout_sha256;
    json["map_hash"] = attestation.map_hash;
    json["table_sha256"] = or_null(attestation.table_sha256);
    json["geometry"] = geometry_members(attestation.geometry);
    json["engine"] = attestation.engine;
    json["dispatch"] = or_null(attestation.dispatch);
    json["first_row"] = attestation.first_row;
    json["facts"] = nlohmann::ordered_json::object();
    for (const auto& [name, value] : attestation.facts) json["facts"][name] = value;
    return json;
}

}  // namespace

std::string encode_attestation(const Attestation& attestation) {
    const Attestation meant = with_printable_texts(attestation);
    return require_reads_back("the attestation", to_json(meant).dump() + "\n", meant, decode_attestation);
}

std::string encode_admission(const AdmissionReport& report) {
    nlohmann::ordered_json json;
    json["tool"] = "eplb-load check";
    json["version"] = version();
    json["ok"] = report.admitted();
    json["attestation"] =
        report.attestation ? to_json(with_printable_texts(*report.attestation)) : nlohmann::ordered_json();
    json["findings"] = nlohmann::ordered_json::array();
    for (const Finding& finding : report.findings) {
        json["findings"].push_back({{"severity", name_of(finding.severity)},
                                    {"code", finding.code},
                                    {"where", finding.where},
                                    {"message", finding.message},
                                    {"hint", finding.hint}});
    }
    return json_text(json);
}

Attestation decode_attestation(std::string_view text) {
    constexpr std::array<std::string_view, 10> keys{"format_version", "layout",   "layout_sha256", "map_hash",
                                                    "table_sha256",   "geometry", "engine",        "dispatch",
                                                    "first_row",      "facts"};
    const JsonDocument document = JsonDocument::parse(text);
    const JsonValue root = document.root();
    root.allow_keys(keys);
    if (root.at("format_version").as_integer() != format_version) {
        root.at("format_version").fail("UNKNOWN_VERSION", fmt::format("is not {}", format_version));
    }
    Attestation attestation;
    attestation.layout_name = root.at("layout").as_string();
    attestation.layout_sha256 = root.at("layout_sha256").as_sha256();
    attestation.map_hash = root.at("map_hash").as_sha256();
    if (const JsonValue table = root.at("table_sha256"); !table.is(JsonKind::null)) {
        attestation.table_sha256 = table.as_sha256();
    }
    attestation.geometry = read_geometry_members(root.at("geometry"));
    attestation.engine = root.at("engine").as_string();
    attestation.dispatch = text_or_null(root.at("dispatch"));
    for (const JsonValue row : root.at("first_row").elements()) {
        auto& slots = attestation.first_row.emplace_back();
        for (const JsonValue expert : row.elements()) {
            slots.push_back(static_cast<int>(expert.as_integer(0, max_experts - 1)));
        }
    }
    for (const auto [name, value] : root.at("facts").members()) attestation.facts.emplace_back(name, value.as_string());
    return attestation;
}

std::vector<std::string> differences(const Attestation& attested, const Attestation& now) {
    std::vector<std::string> lines;
    const auto compare = [&](std::string_view what, const std::string& then, const std::string& current) {
        if (then != current) lines.push_back(fmt::format("{}: attested {}, now {}", what, then, current));
    };
    compare("layout_sha256", attested.layout_sha256, now.layout_sha256);
    compare("map_hash", attested.map_hash, now.map_hash);
    compare("table_sha256", attested.table_sha256.value_or("none"), now.table_sha256.value_or("none"));
    compare("geometry", fmt::format("{} layers, {}", attested.geometry.layers, describe(attested.geometry)),
            fmt::format("{} layers, {}", now.geometry.layers, describe(now.geometry)));
    compare("engine", attested.engine, now.engine);
    compare("dispatch", attested.dispatch.value_or("none"), now.dispatch.value_or("none"));
    if (attested.first_row != now.first_row) lines.emplace_back("first_row: other experts on the ranks");
    std::map<std::string, std::pair<std::string, std::string>> facts;
    for (const auto& [name, value] : attested.facts) facts[name].first = value;
    for (const auto& [name, value] : now.facts) facts[name].second = value;
    for (const auto& [name, values] : facts) {
        compare(name, values.first.empty() ? "nothing" : values.first,
                values.second.empty() ? "nothing" : values.second);
    }
    return lines;
}

}  // namespace eplb
