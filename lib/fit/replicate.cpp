#include "fit/replicate.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/wide.hpp"

namespace eplb {
namespace {

// Handing out replicas one by one takes the total_slots - E largest of all quotients w_e/c (c = 1 .. ranks-1). A
// threshold theta splits them: every quotient >= theta is taken when no more than that many are. So a search over
// u = 1/theta does most of the work in float, and the greedy itself, on exact quotients, only the rest. For exactly
// the greedy's counts the float counts are bounded from both sides: five roundings of 2^-24 are below `margin`.
constexpr float margin = 1e-6f;
constexpr float largest_u = 1e30f;  // a weight that float rounds away, relative to the largest, counts as 0 up to here
constexpr int most_steps = 12;
constexpr std::int64_t small_rest = 4;  // replicas that the greedy hands out faster than another step would

int lower_count(float weight, float u, float cap) {
    return 1 + static_cast<int>(std::min(weight * u * (1 - margin), cap));
}

int upper_count(float weight, float u, float cap) {
    return 1 + static_cast<int>(std::min(weight * u * (1 + margin), cap));
}

struct CountBounds {
    std::int64_t lower = 0, upper = 0;
};

// Bounds of sum_e min(ranks, 1 + floor(w_e * u)).
CountBounds count_bounds(std::span<const float> weights, float u, float cap) {
    constexpr std::size_t block = 4096;  // block * max_ranks fits an int, which keeps the loop in 32-bit lanes
    CountBounds bounds;
    for (std::size_t first = 0; first < weights.size(); first += block) {
        const std::size_t last = std::min(first + block, weights.size());
        int lower = 0, upper = 0;
        for (std::size_t e = first; e < last; ++e) {
            lower += lower_count(weights[e], u, cap);
            upper += upper_count(weights[e], u, cap);
        }
        bounds.lower += lower;
        bounds.upper += upper;
    }
    return bounds;
}

struct Bracket {
    float safe = 0;            // at most total_slots replicas go to quotients >= 1/safe
    float enough = largest_u;  // at least total_slots do to quotients >= 1/enough; largest_u: no such u was found
};

// The counts are nearly linear in u, so a secant finds the place in a few steps.
Bracket search(std::span<const float> weights, float cap, std::int64_t total_slots) {
    float sum = 0;
    for (const float weight : weights) sum += weight;
    const auto experts = static_cast<std::int64_t>(weights.size());
    Bracket bracket;
    std::int64_t at_safe = experts, at_enough = 0;
    float u = (static_cast<float>(total_slots) - 0.5f * static_cast<float>(experts)) / sum;
    for (int step = 0; step < most_steps && u > bracket.safe && u < bracket.enough; ++step) {
        const CountBounds bounds = count_bounds(weights, u, cap);
        if (bounds.upper <= total_slots) {
            bracket.safe = u;
            at_safe = bounds.upper;
        } else if (bounds.lower >= total_slots) {
            bracket.enough = u;
            at_enough = bounds.lower;
        } else {
            break;  // quotients that float cannot tell apart
        }
        if (total_slots - at_safe <= small_rest && bracket.enough < largest_u) break;
        const float wanted = static_cast<float>(total_slots - at_safe);
        u = bracket.enough < largest_u
                ? bracket.safe + (bracket.enough - bracket.safe) * wanted / static_cast<float>(at_enough - at_safe + 1)
                : bracket.safe + 2 * (wanted + 1) / sum;
    }
    return bracket;
}

// What the heap orders: which expert gets the next replica.
struct ExactQuotient {
    std::int64_t weight = 0;
    int replicas = 1, expert = 0;
    void add_replica() { ++replicas; }
    bool before(const ExactQuotient& other) const {
        if (ratio_greater(weight, replicas, other.weight, other.replicas)) return true;
        if (ratio_greater(other.weight, other.replicas, weight, replicas)) return false;
        return expert < other.expert;
    }
};

struct RoundedQuotient {
    double weight = 0;
    int replicas = 1, expert = 0;
    double quotient = weight / replicas;
    void add_replica() { quotient = weight / ++replicas; }
    bool before(const RoundedQuotient& other) const {
        return quotient != other.quotient ? quotient > other.quotient : expert < other.expert;
    }
};

template <typename Quotient, typename Weight>
std::vector<int> replicate_by_greedy(std::span<const Weight> weights, int ranks, int total_slots) {
    const std::size_t experts = weights.size();
    if (experts == 0 || total_slots < static_cast<std::int64_t>(experts) ||
        total_slots > static_cast<std::int64_t>(experts) * ranks) {
        throw Error(ErrorCode::internal, "replicate",
                    fmt::format("{} slots for {} experts on {} ranks", total_slots, experts, ranks));
    }
    const Weight largest = *std::max_element(weights.begin(), weights.end());
    std::vector<float> scaled(experts);
    if (largest > 0) {
        for (std::size_t e = 0; e < experts; ++e) {
            scaled[e] = static_cast<float>(static_cast<double>(weights[e]) / static_cast<double>(largest));
        }
    }
    const auto cap = static_cast<float>(ranks - 1);
    const Bracket bracket = largest > 0 ? search(scaled, cap, total_slots) : Bracket{};
    const bool bounded = bracket.enough < largest_u;
    std::vector<int> counts(experts);
    std::vector<Quotient> heap;
    std::int64_t rest = total_slots;
    for (std::size_t e = 0; e < experts; ++e) {
        counts[e] = lower_count(scaled[e], bracket.safe, cap);
        rest -= counts[e];
        if (counts[e] < (bounded ? upper_count(scaled[e], bracket.enough, cap) : ranks)) {
            heap.push_back({weights[e], counts[e], static_cast<int>(e)});
        }
    }
    const auto later = [](const Quotient& a, const Quotient& b) { return b.before(a); };
    std::make_heap(heap.begin(), heap.end(), later);
    for (; rest > 0; --rest) {
        std::pop_heap(heap.begin(), heap.end(), later);
        Quotient& next = heap.back();
        next.add_replica();
        ++counts[static_cast<std::size_t>(next.expert)];
        if (next.replicas < ranks) {
            std::push_heap(heap.begin(), heap.end(), later);
        } else {
            heap.pop_back();
        }
    }
    return counts;
}

}  // namespace

std::vector<int> replicate(std::span<const std::int64_t> weights, int ranks, int total_slots) {
    return replicate_by_greedy<ExactQuotient>(weights, ranks, total_slots);
}

std::vector<int> replicate(std::span<const double> weights, int ranks, int total_slots) {
    return replicate_by_greedy<RoundedQuotient>(weights, ranks, total_slots);
}

}  // namespace eplb
