// Hot experts differ between prefill and decode, models and quantisations, and a count file names none.
#include "check/counts/checks.hpp"

namespace eplb::check {

Findings check_scenario(const CountContext& context) {
    if (context.window) return {};
    return {{Severity::info, "NO_SIDECAR", "",
             "no file beside the counts says which model, role (prefill or decode) and load they come from",
             "write it down for eplb-fit --scenario FILE; never mix prefill and decode counts"}};
}

}  // namespace eplb::check
