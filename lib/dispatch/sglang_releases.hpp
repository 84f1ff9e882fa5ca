// Which rule a release of SGLang dispatches by.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace eplb {

// Puts the models in place of the names `auto`, `sglang` (static, both) and `sglang-dynamic`, which depend on the
// version of the server (--engine-version): a release ("0.5.6", "v0.5.4.post2") or, for a build from source, the date
// of its newest commit ("2026-07-20"). Other names stay. Throws Error{usage} when the version is none or its rule not
// known, when `auto` has no version, and when a version is given that no name depends on.
void resolve_dispatch(std::span<std::string> names, const std::optional<std::string>& version);

// What to say instead of a name that older versions of this program used for a rule that no SGLang has; else empty.
std::string renamed_sglang_model(std::string_view name);

}  // namespace eplb
