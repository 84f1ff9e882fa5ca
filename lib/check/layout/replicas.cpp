// More replicas than ranks must share a rank; and engines have tables of fixed size.
#include <fmt/format.h>

#include <algorithm>

#include "check/layout/checks.hpp"
#include "check/wording.hpp"

namespace eplb::check {

std::vector<Finding> check_replicas(const LayoutContext& context) {
    int most = 0, at_expert = 0;
    std::size_t at_layer = 0;
    std::vector<int> replicas(static_cast<std::size_t>(context.experts));
    for (std::size_t layer = 0; layer < context.layout.rows.size(); ++layer) {
        std::fill(replicas.begin(), replicas.end(), 0);
        for (const std::int64_t id : context.layout.rows[layer]) {
            if (id < 0 || id >= context.experts) continue;
            const int count = ++replicas[static_cast<std::size_t>(id)];
            if (count > most) most = count, at_layer = layer, at_expert = static_cast<int>(id);
        }
    }
    const std::string where = expert_place(static_cast<int>(at_layer), at_expert);
    if (most > context.expectation.ranks) {
        return {{Severity::error, "MORE_REPLICAS_THAN_RANKS", where,
                 fmt::format("{} replicas on {} ranks", most, context.expectation.ranks),
                 "one replica a rank is the most that can help: is the number of ranks right?"}};
    }
    if (most > context.target.most_replicas) {
        return {{Severity::warning, "TOO_MANY_REPLICAS", where,
                 fmt::format("{} replicas; tables of engines hold {}", most, context.target.most_replicas),
                 "check the limit of the engine"}};
    }
    return {};
}

}  // namespace eplb::check
