#include "check/count_code.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "check/count_check.hpp"
#include "check/counts.hpp"
#include "core/error.hpp"

namespace eplb {
namespace {

constexpr const char* flag = "--accept";

std::string acceptable_names(const std::vector<CountCode>& codes) {
    std::vector<std::string_view> names;
    for (const CountCode& code : codes) {
        if (code.acceptable()) names.push_back(code.name);
    }
    std::sort(names.begin(), names.end());
    return fmt::format("{}", fmt::join(names, ", "));
}

[[noreturn]] void refuse(const std::string& code, std::string_view why) {
    throw Error(ErrorCode::usage, flag, fmt::format("{} cannot be accepted: {}", code, why));
}

}  // namespace

std::vector<CountCode> count_codes() {
    std::vector<CountCode> codes;
    const auto add = [&](std::span<const CountCode> more) {
        for (const CountCode& code : more) {
            const bool known = std::any_of(codes.begin(), codes.end(),
                                           [&](const CountCode& other) { return other.name == code.name; });
            if (!known) codes.push_back(code);
        }
    };
    for (const CountCheck& check : count_checks()) add(check.codes);
    add(across_files_codes());
    return codes;
}

void require_acceptable(std::span<const std::string> codes, std::span<const std::string_view> undecodable) {
    const std::vector<CountCode> known = count_codes();
    for (const std::string& code : codes) {
        if (std::find(undecodable.begin(), undecodable.end(), code) != undecodable.end()) {
            refuse(code, "such a file holds no counts that could be read");
        }
        const auto found =
            std::find_if(known.begin(), known.end(), [&](const CountCode& other) { return other.name == code; });
        if (found == known.end()) {
            throw Error(ErrorCode::usage, flag, fmt::format("\"{}\" is no finding code of counts", code),
                        fmt::format("those that can be accepted are {}", acceptable_names(known)));
        }
        if (found->worst != Severity::error) {
            refuse(code, fmt::format("it is never an error, at worst {}",
                                     found->worst == Severity::info ? "an information" : "a warning"));
        }
        if (!found->binding.empty()) refuse(code, found->binding);
    }
}

void accept_findings(std::vector<Finding>& findings, std::span<const std::string> codes) {
    for (Finding& finding : findings) {
        if (finding.severity != Severity::error || std::find(codes.begin(), codes.end(), finding.code) == codes.end()) {
            continue;
        }
        finding.severity = Severity::warning;
        finding.accepted = true;
        finding.message = fmt::format("accepted ({}): {}", flag, finding.message);
    }
}

}  // namespace eplb
