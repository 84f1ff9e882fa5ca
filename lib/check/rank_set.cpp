#include "check/rank_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace eplb::check {
namespace {

// What two files of one window have in common. Their passes may differ at an end.
bool same_window(const WindowFacts& a, const WindowFacts& b) {
    return a.name == b.name && a.members == b.members && a.layouts == b.layouts;
}

std::string difference(const WindowFacts& a, const WindowFacts& b) {
    if (a.name != b.name) return fmt::format("windows \"{}\" and \"{}\"", a.name, b.name);
    if (a.members != b.members) return "other members";
    return "other layouts in force";
}

constexpr const char* every_file = "give exactly one file of every rank";
constexpr std::size_t shown = 8;  // ranks that a message lists

template <typename Ranks>
std::string list_of(const Ranks& ranks) {
    std::string text;
    std::size_t count = 0;
    for (const int rank : ranks) {
        if (count++ == shown) return text + ", ...";
        text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
    }
    return text;
}

using Shares = std::vector<const CountReport*>;

void check_unnamed(const Shares& shares, const CountOptions& options, std::vector<Finding>& findings) {
    if (options.recorded_ranks) {
        if (static_cast<int>(shares.size()) == *options.recorded_ranks) return;
        findings.push_back({Severity::error, "RANKS_INCOMPLETE", "",
                            fmt::format("{} file{} for {} ranks (--recorded-ranks)", shares.size(),
                                        shares.size() == 1 ? "" : "s", *options.recorded_ranks),
                            every_file});
        return;
    }
    findings.push_back(
        {Severity::info, "RANKS_NOT_STATED", "",
         fmt::format("the files do not name their ranks; {} are taken as one whole window", shares.size()),
         "give exactly one file of every rank; --recorded-ranks N checks their number"});
}

// The ranks that the window needs; empty, with a finding, when they are not known.
std::set<int> wanted_ranks(const WindowFacts& facts, const std::map<int, const CountReport*>& by_rank,
                           const CountOptions& options, std::vector<Finding>& findings) {
    std::set<int> wanted(facts.members.begin(), facts.members.end());
    if (!wanted.empty()) {
        if (options.recorded_ranks && static_cast<int>(wanted.size()) != *options.recorded_ranks) {
            findings.push_back({Severity::error, "RANKS_INCOMPLETE", "",
                                fmt::format("the sidecars name {} ranks, --recorded-ranks says {}", wanted.size(),
                                            *options.recorded_ranks),
                                "drop --recorded-ranks: the sidecars know"});
            return {};
        }
        return wanted;
    }
    const int files = static_cast<int>(by_rank.size());
    const bool numbered_through = by_rank.begin()->first == 0 && by_rank.rbegin()->first == files - 1;
    if (!options.recorded_ranks && (files == 1 || !numbered_through)) {
        std::vector<int> tags;
        for (const auto& [rank, share] : by_rank) tags.push_back(rank);
        findings.push_back({Severity::error, "RANKS_INCOMPLETE", "",
                            fmt::format("nothing tells how many ranks counted; {} {} given: {}", files,
                                        files == 1 ? "file is" : "files are",
                                        fmt::format("{} {}", files == 1 ? "rank" : "ranks", list_of(tags))),
                            "give the file of every rank, numbered from 0, or say --recorded-ranks N"});
        return {};
    }
    for (int rank = 0; rank < options.recorded_ranks.value_or(files); ++rank) wanted.insert(rank);
    if (!options.recorded_ranks) {
        findings.push_back(
            {Severity::info, "RANKS_NOT_STATED", "",
             fmt::format("nothing tells how many ranks counted; the files of ranks 0 to {} are taken as all",
                         files - 1),
             "--recorded-ranks N checks their number"});
    }
    return wanted;
}

void check_named(const Shares& shares, const CountOptions& options, std::vector<Finding>& findings) {
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
            findings.push_back(
                {Severity::error, "RANK_TWICE", fmt::format("{} and {}", place->second->path, share->path),
                 fmt::format("rank {} twice: its counts would be summed twice", place->first), every_file});
            return;
        }
    }
    const std::set<int> wanted = wanted_ranks(*first.window, by_rank, options, findings);
    if (wanted.empty()) return;
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
        findings.push_back(
            {Severity::error, "RANKS_INCOMPLETE", "",
             fmt::format("{} of {} ranks are missing: {}", missing.size(), wanted.size(), list_of(missing)),
             "a sum without them is not the load of the model: give the file of every rank"});
    }
}

// "rank 3 (Y.rank3.pt)", or the file alone.
std::string share_name(const CountReport& share) {
    if (!share.window || !share.window->rank) return share.path;
    return fmt::format("rank {} ({})", *share.window->rank, share.path);
}

}  // namespace

void check_rank_set(std::span<const CountReport> reports, const CountOptions& options, std::vector<Finding>& findings) {
    Shares shares;
    for (const CountReport& report : reports) {
        if (report.reduction == Reduction::per_rank) shares.push_back(&report);
    }
    if (shares.empty()) return;
    const auto named = [](const CountReport* share) { return share->window && share->window->rank; };
    if (std::all_of(shares.begin(), shares.end(), named)) {
        check_named(shares, options, findings);
    } else {
        check_unnamed(shares, options, findings);
    }
    for (const CountReport* share : shares) {
        if (!share->statistics || share->statistics->total != 0) continue;
        findings.push_back(
            {Severity::warning, "EMPTY_RANK", share->path,
             fmt::format("{} counted nothing", share->window && share->window->rank
                                                   ? fmt::format("rank {}", *share->window->rank)
                                                   : std::string("one rank")),
             "it was idle, or the recorder was not started there: then its part of the load is missing"});
    }
}

std::vector<Finding> passes_findings(std::span<const CountReport> reports, const CommonPasses& passes) {
    const auto first = reports.begin();
    if (!passes.agree) {
        const auto other = std::find_if(first, reports.end(), [&](const CountReport& report) {
            return report.record_slots != first->record_slots;
        });
        const CountReport& differs = other == reports.end() ? reports.back() : *other;
        return {{Severity::error, "FILES_DISAGREE", fmt::format("{} and {}", first->path, differs.path),
                 fmt::format("{} and {} record slots, and not every file numbers its passes", first->record_slots,
                             differs.record_slots),
                 "the ranks of one window have the same record slots: give one window only, or cut the files to the "
                 "passes that they share"}};
    }
    const auto most = std::max_element(passes.left_out.begin(), passes.left_out.end());
    if (*most == 0) return {};
    if (passes.sequence.empty()) {
        return {{Severity::error, "FOREIGN_RANK",
                 fmt::format("{} and {}", first->path,
                             reports[static_cast<std::size_t>(most - passes.left_out.begin())].path),
                 "the files have no pass in common", "give the files of one window only"}};
    }
    std::string text;
    std::size_t files = 0;
    for (std::size_t share = 0; share < reports.size(); ++share) {
        if (passes.left_out[share] == 0 || files++ >= shown) continue;
        text += fmt::format("{}{} of {}", text.empty() ? "" : ", ", passes.left_out[share], share_name(reports[share]));
    }
    if (files > shown) text += fmt::format(" and of {} more files", files - shown);
    return {
        {Severity::warning, "PASSES_LEFT_OUT", "",
         fmt::format("passes that every file has, and that are used: {}; left out are {}", passes.sequence.size(),
                     text),
         "ranks that stopped earlier or sat idle skip passes; where many are missing the files are of other windows"}};
}

}  // namespace eplb::check
