// What SGLang's loader does with the file before it looks at the map.
#include <fmt/format.h>

#include "check/layout/checks.hpp"
#include "core/printable.hpp"

namespace eplb::check {

std::vector<Finding> check_layout_file(const LayoutContext& context) {
    const RawLayout& layout = context.layout;
    std::vector<Finding> findings;
    if (!layout.extra_keys.empty()) {
        findings.push_back({context.target.only_the_map_key ? Severity::error : Severity::warning, "EXTRA_KEY",
                            fmt::format("$.{}", shortened(layout.extra_keys.front(), 80)),
                            fmt::format("{} key{} beside physical_to_logical_map: {}", layout.extra_keys.size(),
                                        layout.extra_keys.size() == 1 ? "" : "s", first_few(layout.extra_keys)),
                            "SGLang passes every key on as an argument and ends at start: keep notes in another file"});
    }
    if (layout.not_integers != 0) {
        findings.push_back(
            {Severity::error, "NOT_AN_INTEGER", layout.first_not_integer_path,
             fmt::format("{} is not written as a whole number ({} such value{})", layout.first_not_integer,
                         layout.not_integers, layout.not_integers == 1 ? "" : "s"),
             "a server makes a float tensor of it and cannot index with that: write 3, not 3.0"});
    }
    const bool named_json = layout.path.empty() || layout.path == "-" || layout.path.ends_with(".json");
    if (context.target.json_file_name && !named_json) {
        findings.push_back({Severity::warning, "NAME_NOT_JSON", "", "the name does not end in .json",
                            "SGLang takes any other name for JSON text: rename it"});
    }
    return findings;
}

}  // namespace eplb::check
