#include <fmt/format.h>

#include "cli/app.hpp"
#include "core/printable.hpp"
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
    request.expect_path = options.expect;
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

std::string text_of(const CheckOptions& options, const AdmissionReport& report) {
    std::string text = fmt::format("{}: {}\n", printable(options.layout), report.admitted() ? "admitted" : "REFUSED");
    for (const Finding& finding : report.findings) {
        text += fmt::format("  {:<7} {}\n", name_of(finding.severity), line_of(finding));
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
    if (options.attest) require_writable(*options.attest, options.force);
    const AdmissionReport report = admit(request_of(options));
    if (options.attest && report.attestation) {
        OutputSet outputs(options.force);
        outputs.add(*options.attest, encode_attestation(*report.attestation));
        outputs.commit();
    }
    cli::print(options.common.json ? encode_admission(report) : text_of(options, report));
    return report.admitted() ? 0 : 1;
}

}  // namespace eplb
