#include "check/files_differ.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "check/variation.hpp"

namespace eplb::check {
namespace {

bool comparable(const CountReport& report) {
    return report.statistics && report.statistics->total != 0 && report.reduction != Reduction::per_rank;
}

}  // namespace

void check_files_differ(std::span<const CountReport> reports, std::vector<Finding>& findings) {
    // A fifth of the traffic: public runs of one prefill server with inputs of 500 to 4096 tokens differ by up to 0.18,
    // and from the mean of their lengths by 0.11; prefill and decode by more than 0.3. Three times the noise, as
    // between halves of one file.
    constexpr double least = 0.20, times_noise = 3;
    if (!std::all_of(reports.begin(), reports.end(), comparable)) return;
    const CountReport& first = reports.front();
    const CountReport* most_different = nullptr;
    double largest = 0, its_noise = 0;
    for (const CountReport& report : reports.subspan(1)) {
        const CountStatistics &a = *first.statistics, &b = *report.statistics;
        if (a.layers != b.layers || a.experts != b.experts) return;  // FILES_DISAGREE
        const double difference = median_variation(a, b);
        const double noise =
            std::max({median_sampling_noise(a, b), first.alternate_variation, report.alternate_variation});
        if (difference < least || difference < times_noise * noise || difference <= largest) continue;
        most_different = &report;
        largest = difference;
        its_noise = noise;
    }
    if (!most_different) return;
    findings.push_back({Severity::warning, "FILES_DIFFER", fmt::format("{} and {}", first.path, most_different->path),
                        fmt::format("in the median layer {:.1f} % of the traffic sits on other experts in the second "
                                    "file than in the first (sampling noise: {:.1f} %)",
                                    100 * largest, 100 * its_noise),
                        "they look like other roles (prefill and decode) or other loads: fit each by itself"});
}

}  // namespace eplb::check
