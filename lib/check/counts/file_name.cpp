// A writer that renames its temporary file when it is whole has not finished this one.
#include <fmt/format.h>

#include "check/counts/checks.hpp"

namespace eplb::check {

Findings check_file_name(const CountContext& context) {
    const std::string& path = context.path;
    for (const char* const ending : {".tmp", ".part", ".partial"}) {
        if (path.size() > std::string_view(ending).size() && path.ends_with(ending)) {
            return {{Severity::warning, "TEMPORARY_FILE", "",
                     fmt::format("the name ends in {}: its writer may not have finished it", ending),
                     "use the file under its final name"}};
        }
    }
    return {};
}

}  // namespace eplb::check
