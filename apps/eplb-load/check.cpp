#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/app.hpp"
#include "core/build_info.hpp"
#include "core/error.hpp"
#include "files/mapped_file.hpp"
#include "files/output.hpp"
#include "loader/admission.hpp"
#include "run.hpp"

namespace eplb {
namespace {

AdmissionRequest request_of(const CheckOptions& options) {
    AdmissionRequest request;
    request.layout_path = options.layout;
    request.table_path = options.table;
    request.current_path = options.current;
    request.allow_no_manifest = options.allow_no_manifest;
    request.engine = options.engine;
    for (const auto& [name, value] : options.facts) request.facts.add(name, value, "--" + name);
    if (options.model_config) request.facts.add(read_model_config(*options.model_config), *options.model_config);
    if (options.server_args) {
        const auto file = MappedFile::open(*options.server_args);
        read_server_arguments(file->path(), std::string(file->text()), find_engine_profile(options.engine),
                              request.facts);
    }
    return request;
}

void hold_to(const std::string& path, AdmissionReport& report) {
    const auto file = MappedFile::open(path);
    Attestation attested;
    try {
        attested = decode_attestation(file->text());
    } catch (const Error& error) {
        throw error.inside(path);
    }
    if (!report.attestation) return;  // refused anyway
    std::vector<Finding> found;
    for (std::string& line : differences(attested, *report.attestation)) {
        found.push_back({Severity::error, "ATTESTATION_DIFFERS", path, std::move(line), "something was changed since"});
    }
    report.findings.insert(report.findings.begin(), found.begin(), found.end());
    if (any_at_least(report.findings, Severity::error)) report.attestation.reset();
}

std::string json_of(const AdmissionReport& report) {
    nlohmann::ordered_json json;
    json["tool"] = "eplb-load check";
    json["version"] = version();
    json["ok"] = report.admitted();
    json["attestation"] = nullptr;
    if (report.attestation) {
        json["attestation"] = nlohmann::ordered_json::parse(encode_attestation(*report.attestation));
    }
    json["findings"] = nlohmann::ordered_json::array();
    for (const Finding& finding : report.findings) {
        json["findings"].push_back({{"severity", name_of(finding.severity)},
                                    {"code", finding.code},
                                    {"where", finding.where},
                                    {"message", finding.message},
                                    {"hint", finding.hint}});
    }
    return json.dump(2) + "\n";
}

std::string text_of(const CheckOptions& options, const AdmissionReport& report) {
    std::string text = fmt::format("{}: {}\n", options.layout, report.admitted() ? "admitted" : "REFUSED");
    for (const Finding& finding : report.findings) {
        text += fmt::format("  {:<7} {}: {}{}{}{}\n", name_of(finding.severity), finding.code, finding.where,
                            finding.where.empty() ? "" : ": ", finding.message,
                            finding.hint.empty() ? "" : fmt::format(" ({})", finding.hint));
    }
    if (!report.attestation) return text;
    const Attestation& attestation = *report.attestation;
    text += fmt::format("  layout  {} ({} layers, {})\n  map     {}\n", attestation.layout_sha256,
                        attestation.geometry.layers, describe(attestation.geometry), attestation.map_hash);
    if (attestation.table_sha256) text += fmt::format("  table   {}\n", *attestation.table_sha256);
    text += "  first row\n";
    for (std::size_t rank = 0; rank < attestation.first_row.size(); ++rank) {
        text += fmt::format("    rank {:<4} {}\n", rank, fmt::join(attestation.first_row[rank], " "));
    }
    return text;
}

}  // namespace

int run_check(const CheckOptions& options) {
    AdmissionReport report = admit(request_of(options));
    if (options.expect) hold_to(*options.expect, report);
    if (options.attest && report.attestation) {
        OutputSet outputs(options.force);
        outputs.add(*options.attest, encode_attestation(*report.attestation));
        outputs.commit();
    }
    cli::print(options.common.json ? json_of(report) : text_of(options, report));
    return report.admitted() ? 0 : 1;
}

}  // namespace eplb
