// An EP size that divides the slots but is not the one of the fit moves experts to wrong ranks without any other sign.
#include <fmt/format.h>

#include "check/layout/checks.hpp"

namespace eplb::check {

std::vector<Finding> check_manifest_geometry(const LayoutContext& context) {
    if (!context.expectation.recorded) return {};
    const Geometry& recorded = *context.expectation.recorded;
    std::vector<Finding> findings;
    const auto differs = [&](const char* what, std::size_t here, int there, const char* hint) {
        if (here == static_cast<std::size_t>(there)) return;
        findings.push_back({Severity::error, "MANIFEST_DISAGREES", "",
                            fmt::format("{} {} here, the manifest says {}", here, what, there), hint});
    };
    differs("ranks", static_cast<std::size_t>(context.expectation.ranks), recorded.ranks,
            "the layout was fitted for another EP size: give that one, or fit again");
    differs("experts", static_cast<std::size_t>(context.experts), recorded.experts, "is it the right model?");
    differs("layers", context.layout.rows.size(), recorded.layers, "the layout file was changed after the fit");
    if (context.width) {
        differs("physical slots", static_cast<std::size_t>(*context.width), recorded.physical_slots(),
                "the layout file was changed after the fit");
    }
    return findings;
}

}  // namespace eplb::check
