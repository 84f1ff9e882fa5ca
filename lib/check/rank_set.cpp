#include "check/rank_set.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

namespace eplb::check {
namespace {

// What two files of one window have in common.
bool same_window(const WindowFacts& a, const WindowFacts& b) {
    return a.name == b.name && a.members == b.members && a.sequence == b.sequence && a.layouts == b.layouts;
}

std::string difference(const WindowFacts& a, const WindowFacts& b) {
    if (a.name != b.name) return fmt::format("windows \"{}\" and \"{}\"", a.name, b.name);
    if (a.members != b.members) return "other members";
    if (a.layouts != b.layouts) return "other layouts in force";
    return "other passes";
}

// The ranks that the window needs: its members, else --ranks from 0; empty when neither is known.
std::set<int> wanted_ranks(const WindowFacts& facts, const CountOptions& options) {
    std::set<int> wanted(facts.members.begin(), facts.members.end());
    if (wanted.empty()) {
        for (int rank = 0; rank < options.ranks.value_or(0); ++rank) wanted.insert(rank);
    }
    return wanted;
}

}  // namespace

void check_rank_set(std::span<const CountReport> reports, const CountOptions& options, std::vector<Finding>& findings) {
    std::vector<const CountReport*> shares;
    for (const CountReport& report : reports) {
        if (report.reduction == Reduction::per_rank) shares.push_back(&report);
    }
    if (shares.empty()) return;
    const auto named = [](const CountReport* share) { return share->window && share->window->rank; };
    if (!std::all_of(shares.begin(), shares.end(), named)) {
        findings.push_back(
            {Severity::info, "RANKS_NOT_STATED", "",
             fmt::format("the files do not name their ranks; {} are taken as one whole window", shares.size()),
             "give exactly one file of every rank"});
        if (options.ranks && static_cast<int>(shares.size()) != *options.ranks) {
            findings.push_back({Severity::error, "RANKS_INCOMPLETE", "",
                                fmt::format("{} files for {} ranks (--ranks)", shares.size(), *options.ranks),
                                "give exactly one file of every rank"});
        }
        return;
    }
    const CountReport& first = *shares.front();
    std::map<int, const CountReport*> by_rank;
    for (const CountReport* share : shares) {
        if (!same_window(*share->window, *first.window)) {
            findings.push_back(
                {Severity::error, "FOREIGN_RANK", fmt::format("{} and {}", first.path, share->path),
                 fmt::format("the files are not of one window: {}", difference(*first.window, *share->window)),
                 "give the files of one window only"});
            return;
        }
        const auto [place, added] = by_rank.emplace(*share->window->rank, share);
        if (!added) {
            findings.push_back({Severity::error, "RANK_TWICE",
                                fmt::format("{} and {}", place->second->path, share->path),
                                fmt::format("rank {} twice: its counts would be summed twice", place->first),
                                "give exactly one file of every rank"});
            return;
        }
    }
    const std::set<int> wanted = wanted_ranks(*first.window, options);
    if (wanted.empty()) {
        findings.push_back(
            {Severity::error, "RANKS_INCOMPLETE", "",
             fmt::format("nothing tells how many ranks the window has; {} files are given", shares.size()),
             "give --ranks R"});
        return;
    }
    std::vector<int> missing, foreign;
    for (const int rank : wanted) {
        if (!by_rank.contains(rank)) missing.push_back(rank);
    }
    for (const auto& [rank, share] : by_rank) {
        if (!wanted.contains(rank)) foreign.push_back(rank);
    }
    if (!foreign.empty()) {
        findings.push_back(
            {Severity::error, "FOREIGN_RANK", by_rank[foreign.front()]->path,
             fmt::format("rank {} is none of the {} ranks of the window", foreign.front(), wanted.size()),
             "give the files of one window only, and its number of ranks"});
    }
    if (!missing.empty()) {
        findings.push_back({Severity::error, "RANKS_INCOMPLETE", "",
                            fmt::format("{} of {} ranks are missing: {}", missing.size(), wanted.size(),
                                        fmt::join(missing.begin(),
                                                  missing.begin() + static_cast<std::ptrdiff_t>(
                                                                        std::min<std::size_t>(missing.size(), 8)),
                                                  ", ")),
                            "a sum without them is not the load of the model: give the file of every rank"});
    }
}

}  // namespace eplb::check
