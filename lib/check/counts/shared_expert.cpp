// A fused shared expert adds columns that every token hits: one that equals the row's token count (seen in
// sgl-project/sglang PR 25367), or one on each rank that equals the rank's tokens.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

#include "check/counts/checks.hpp"
#include "check/wording.hpp"
#include "core/counts.hpp"
#include "core/wide.hpp"

namespace eplb::check {
namespace {

constexpr std::size_t least_rows = 8;  // a few tiny rows can look like anything by chance

struct SharedColumns {
    std::vector<int> experts;  // columns, ascending
    std::int64_t part = 0;     // together 1/part of every row: top-k + 1
};

// One column: in every row it is the largest cell, and the same whole fraction of the total.
std::optional<SharedColumns> one_column(const CountStatistics& statistics, const std::vector<int>& layers) {
    std::int64_t fraction = 0;
    std::size_t rows = 0;
    std::vector<std::int64_t> maxima(static_cast<std::size_t>(statistics.layers));
    for (const int slot : statistics.filled) {
        for (const int layer : layers) {
            const std::size_t row = statistics.row(slot, layer);
            if (statistics.row_totals[row] == 0) continue;
            if (statistics.row_totals[row] % statistics.row_maxima[row] != 0) return std::nullopt;
            const std::int64_t quotient = statistics.row_totals[row] / statistics.row_maxima[row];
            if (rows++ == 0) fraction = quotient;
            if (quotient != fraction || fraction < 2) return std::nullopt;
            maxima[static_cast<std::size_t>(layer)] += statistics.row_maxima[row];
        }
    }
    if (rows < least_rows) return std::nullopt;
    for (int expert = statistics.experts - 1; expert >= 0; --expert) {
        const bool everywhere = std::all_of(layers.begin(), layers.end(), [&](int layer) {
            return statistics.expert_totals[statistics.cell(layer, expert)] == maxima[static_cast<std::size_t>(layer)];
        });
        if (everywhere) return SharedColumns{{expert}, fraction};
    }
    return std::nullopt;
}

// Does `sum` stay the same whole part of the totals? Starts with part 0.
bool same_part(std::int64_t total, std::int64_t sum, std::int64_t& part) {
    constexpr std::int64_t most_top_k = 64;
    if (sum == 0 || total % sum != 0) return false;
    const std::int64_t quotient = total / sum;
    if (part == 0) part = quotient;
    return quotient == part && quotient >= 2 && quotient <= most_top_k + 1;
}

// Columns that count a rank's tokens: what a rank holds in a pass does not depend on the layer, and what its tokens are
// routed to does.
std::optional<SharedColumns> same_in_all_layers(const Counts& counts, const CountStatistics& statistics,
                                                const std::vector<int>& layers) {
    if (layers.size() < 2 || statistics.filled.size() * (layers.size() - 1) < least_rows) return std::nullopt;
    SharedColumns shared;
    for (int expert = 0; expert < statistics.experts; ++expert) {
        if (statistics.expert_totals[statistics.cell(layers.front(), expert)] != 0) shared.experts.push_back(expert);
    }
    std::vector<std::int64_t> first(static_cast<std::size_t>(statistics.experts)), row(first.size());
    const auto cell = [](const std::vector<std::int64_t>& values, int expert) {
        return values[static_cast<std::size_t>(expert)];
    };
    for (const int slot : statistics.filled) {
        counts.read_row(slot, layers.front(), first);
        for (const int layer : layers) {
            counts.read_row(slot, layer, row);
            std::erase_if(shared.experts, [&](int expert) { return cell(row, expert) != cell(first, expert); });
            if (shared.experts.size() < 2) return std::nullopt;
        }
    }
    for (const int slot : statistics.filled) {
        counts.read_row(slot, layers.front(), row);
        std::int64_t sum = 0;
        for (const int expert : shared.experts) sum += cell(row, expert);
        for (const int layer : layers) {
            if (!same_part(statistics.row_totals[statistics.row(slot, layer)], sum, shared.part)) return std::nullopt;
        }
    }
    return shared;
}

// The last columns of a row. Where the first ones, as many, are the same part of every row, experts are routed in
// groups and none is shared.
std::optional<SharedColumns> last_columns(const Counts& counts, const CountStatistics& statistics,
                                          const std::vector<int>& layers) {
    struct Block {
        std::size_t columns = 0;
        std::int64_t part = 0;
        std::int64_t first = 0, first_total = 0;  // of the first row: the first columns, and all
        bool grouped = true;                      // the first columns are a fixed part
    };
    std::vector<Block> blocks;
    for (std::size_t columns = 2; 2 * columns <= static_cast<std::size_t>(statistics.experts); ++columns) {
        blocks.push_back({columns});
    }
    std::size_t rows = 0;
    std::vector<std::int64_t> row(static_cast<std::size_t>(statistics.experts)), before(row.size() + 1);
    for (const int slot : statistics.filled) {
        for (const int layer : layers) {
            const std::int64_t total = statistics.row_totals[statistics.row(slot, layer)];
            if (total == 0) continue;
            ++rows;
            counts.read_row(slot, layer, row);
            for (std::size_t expert = 0; expert < row.size(); ++expert)
                before[expert + 1] = before[expert] + row[expert];
            std::erase_if(blocks, [&](Block& block) {
                const std::int64_t last = total - before[row.size() - block.columns];
                if (!same_part(total, last, block.part)) return true;
                const std::int64_t first = before[block.columns];
                if (block.first_total == 0) block.first = first, block.first_total = total;
                block.grouped = block.grouped && static_cast<int128>(first) * block.first_total ==
                                                     static_cast<int128>(block.first) * total;
                return false;
            });
            if (blocks.empty()) return std::nullopt;
        }
    }
    if (rows < least_rows || blocks.front().grouped) return std::nullopt;
    SharedColumns shared{{}, blocks.front().part};
    for (int expert = statistics.experts - static_cast<int>(blocks.front().columns); expert < statistics.experts;
         ++expert) {
        for (const int layer : layers) {
            if (statistics.expert_totals[statistics.cell(layer, expert)] == 0) return std::nullopt;
        }
        shared.experts.push_back(expert);
    }
    return shared;
}

}  // namespace

Findings check_shared_expert(const CountContext& context) {
    const CountStatistics& statistics = context.statistics;
    const std::vector<int> layers = statistics.counted_layers();
    std::optional<SharedColumns> shared = one_column(statistics, layers);
    const Counts counts({context.tensor});
    if (!shared) shared = same_in_all_layers(counts, statistics, layers);
    if (!shared) shared = last_columns(counts, statistics, layers);
    if (!shared) return {};
    const bool several = shared->experts.size() > 1;
    return {{Severity::warning, "SHARED_EXPERT_SUSPECTED",
             fmt::format("expert{} {}", several ? "s" : "", number_ranges(shared->experts)),
             several ? fmt::format("every token hits one of these {} in every layer: together they have 1/{} of each "
                                   "row's total",
                                   shared->experts.size(), shared->part)
                     : fmt::format("every token hits it in every layer: its count is 1/{} of each row's total",
                                   shared->part),
             several ? "a fused shared expert, spread over the ranks, is counted as routed ones; export the routed "
                       "experts only"
                     : "a fused shared expert is counted as a routed one; export the routed experts only"}};
}

}  // namespace eplb::check
