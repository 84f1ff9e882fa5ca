// What a check has to say about an input. Findings are data, not errors: they are collected, printed and counted.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace eplb {

enum class Severity { info, warning, error };

struct Finding {
    Severity severity = Severity::info;
    std::string code;       // stable, UPPER_SNAKE; docs/reference.md lists every one
    std::string where;      // coordinate inside the file, e.g. "record slot 3, layer 7, expert 12"
    std::string message;    // one line, with the value
    std::string hint;       // what to do; may be empty
    bool accepted = false;  // an error that the user made a warning (--accept)
};

constexpr const char* name_of(Severity severity) {
    switch (severity) {
        case Severity::info:
            return "info";
        case Severity::warning:
            return "warning";
        case Severity::error:
            return "error";
    }
    return "error";
}

inline bool any_at_least(const std::vector<Finding>& findings, Severity severity) {
    return std::any_of(findings.begin(), findings.end(),
                       [&](const Finding& finding) { return finding.severity >= severity; });
}

}  // namespace eplb
