// Finding codes of counts, and which of them --accept may turn from an error into a warning.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/finding.hpp"

namespace eplb {

struct CountCode {
    std::string_view name;
    Severity worst = Severity::error;  // that a finding with this code can have
    std::string_view binding = {};     // an error that nobody can accept: why not; else empty

    bool acceptable() const { return worst == Severity::error && binding.empty(); }
};

// Every code of count_checks() and across_files_codes(), each once.
std::vector<CountCode> count_codes();

// Throws Error{usage} for a code that cannot be accepted, with the reason, and for one that does not exist, with those
// that can be. `undecodable`: the codes of files that cannot be read, which count_codes() does not know.
void require_acceptable(std::span<const std::string> codes, std::span<const std::string_view> undecodable);

// Errors whose code is in `codes` become warnings that say so. `codes` have passed require_acceptable().
void accept_findings(std::vector<Finding>& findings, std::span<const std::string> codes);

}  // namespace eplb
