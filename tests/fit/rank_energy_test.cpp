#include "fit/rank_energy.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <span>

#include "fit/step_counts.hpp"

using namespace eplb;

namespace {

// The energy from scratch, in double precision and with the C library, around fixed M_t and b_t.
struct Oracle {
    const LayerCounts& counts;
    int ranks;
    double sharpness;
    std::vector<double> reference;  // M_t

    Oracle(const LayerCounts& counts_, int ranks_, double sharpness_, std::span<const ExpertId> row)
        : counts(counts_), ranks(ranks_), sharpness(sharpness_) {
        for (int t = 0; t < counts.slots; ++t) {
            const auto loads = rank_loads(row, t);
            reference.push_back(std::max(1.0, *std::max_element(loads.begin(), loads.end())));
        }
    }

    double total() const {
        double sum = 0;
        for (const auto count : counts.values) sum += static_cast<double>(count);
        return sum;
    }

    std::vector<double> rank_loads(std::span<const ExpertId> row, int t) const {
        const auto shares = test::even_shares(row, counts.experts);
        const std::size_t slots = row.size() / static_cast<std::size_t>(ranks);
        const auto slot_total = static_cast<double>(counts.slot_total(t));
        std::vector<double> loads(static_cast<std::size_t>(ranks));
        for (std::size_t p = 0; p < row.size(); ++p) {
            const auto count = counts.row(t)[static_cast<std::size_t>(row[p].value)];
            loads[p / slots] += static_cast<double>(count) * shares[p] * ranks / slot_total;
        }
        return loads;
    }

    double terms(std::span<const ExpertId> row, int t) const {
        double sum = 0;
        const auto M = reference[static_cast<std::size_t>(t)];
        for (const double load : rank_loads(row, t)) sum += std::exp(sharpness / M * (load - M));
        return sum;
    }

    double weight(int t) const { return static_cast<double>(counts.slot_total(t)) / total(); }

    double energy(std::span<const ExpertId> row) const {
        double sum = 0;
        for (int t = 0; t < counts.slots; ++t) {
            const auto M = reference[static_cast<std::size_t>(t)];
            sum += weight(t) * (M + M / sharpness * std::log(terms(row, t)));
        }
        return sum;
    }

    // The change along the tangent at `before`.
    double tangent_change(std::span<const ExpertId> before, std::span<const ExpertId> after) const {
        double sum = 0;
        for (int t = 0; t < counts.slots; ++t) {
            const auto M = reference[static_cast<std::size_t>(t)];
            const double now = terms(before, t);
            sum += weight(t) * M / sharpness * (terms(after, t) - now) / now;
        }
        return sum;
    }
};

struct Shape {
    int experts, ranks, slots_per_rank, record_slots;
};

constexpr Shape shapes[] = {{24, 4, 8, 5}, {16, 8, 3, 17}, {40, 5, 9, 40}, {6, 2, 4, 1}, {26, 15, 2, 8}};

std::vector<ExpertId> with(std::vector<ExpertId> row, const Swap& swap, int slots_per_rank) {
    const auto at = [&](int rank, int index) { return static_cast<std::size_t>(rank * slots_per_rank + index); };
    std::swap(row[at(swap.rank_a, swap.index_a)], row[at(swap.rank_b, swap.index_b)]);
    return row;
}

std::vector<ExpertId> with(std::vector<ExpertId> row, const ReplicaMove& move, int slots_per_rank) {
    row[static_cast<std::size_t>(move.rank * slots_per_rank + move.index)] = ExpertId{move.gaining};
    return row;
}

// Random moves on random states; `body(energy, oracle, move)` for those that are allowed.
template <class Move, class Draw, class Body>
void for_random_moves(const Draw& draw, const Body& body) {
    Random random(7);
    for (const Shape& shape : shapes) {
        const auto counts = test::bursty_counts(random, shape.record_slots, shape.experts);
        const auto shares = slot_shares(counts, shape.ranks);
        const auto row = test::random_row(random, shape.experts, shape.ranks, shape.slots_per_rank);
        const float sharpness = 12;
        RankEnergy energy(shares, row, shape.ranks, sharpness);
        const Oracle oracle(counts, shape.ranks, static_cast<double>(sharpness), row);
        int tried = 0;
        for (int i = 0; i < 200; ++i) {
            const Move move = draw(random, shape);
            if (!energy.allowed(move)) continue;
            body(energy, oracle, move);
            energy.apply(move);
            energy.refresh();
            ++tried;
        }
        CHECK(tried > 0);
    }
}

int below(Random& random, int bound) {
    return static_cast<int>(random.below(static_cast<std::uint32_t>(bound)));
}

Swap draw_swap(Random& random, const Shape& shape) {
    const int a = below(random, shape.ranks), b = (a + 1 + below(random, shape.ranks - 1)) % shape.ranks;
    return {a, below(random, shape.slots_per_rank), b, below(random, shape.slots_per_rank)};
}

ReplicaMove draw_replica_move(Random& random, const Shape& shape) {
    return {below(random, shape.ranks), below(random, shape.slots_per_rank), below(random, shape.experts)};
}

template <class Move>
void check_change(RankEnergy& energy, const Oracle& oracle, const Move& move) {
    const auto before = energy.row(), after = with(before, move, energy.slots_per_rank());
    const double expected = oracle.tangent_change(before, after);
    CHECK(static_cast<double>(energy.change(move)) == Approx(expected).epsilon(1e-3).margin(3e-6));
    CHECK(expected >= oracle.energy(after) - oracle.energy(before) - 1e-12);
    CHECK(energy.value() == Approx(oracle.energy(before)).epsilon(1e-5));
}

}  // namespace

TEST_CASE("the change of a swap is that of the energy's tangent, computed from scratch") {
    for_random_moves<Swap>(draw_swap, check_change<Swap>);
}

TEST_CASE("the change of a replica move is that of the energy's tangent, computed from scratch") {
    for_random_moves<ReplicaMove>(draw_replica_move, check_change<ReplicaMove>);
}

TEST_CASE("the step value kept along thousands of moves is the judge's") {
    Random random(3);
    const Shape shape{32, 8, 6, 20};
    const auto counts = test::bursty_counts(random, shape.record_slots, shape.experts);
    const auto shares = slot_shares(counts, shape.ranks);
    RankEnergy energy(shares, test::random_row(random, shape.experts, shape.ranks, shape.slots_per_rank), shape.ranks,
                      12);
    for (int i = 0; i < 4000; ++i) {
        const auto swap = draw_swap(random, shape);
        if (energy.allowed(swap)) energy.apply(swap);
        const auto move = draw_replica_move(random, shape);
        if (energy.allowed(move)) energy.apply(move);
    }
    energy.refresh();
    CHECK(energy.step() == Approx(test::judged_step(counts, energy.row(), shape.ranks)).epsilon(1e-4));
    energy.rebase();
    CHECK(energy.step() == Approx(test::judged_step(counts, energy.row(), shape.ranks)).epsilon(1e-6));
}

TEST_CASE("moves that would put an expert twice on a rank or lose one are not allowed") {
    // Ranks {0, 1} and {0, 2}.
    LayerCounts counts{1, 3, {4, 2, 2}};
    const std::vector<ExpertId> row{{0}, {1}, {0}, {2}};
    const auto shares = slot_shares(counts, 2);
    const RankEnergy energy(shares, row, 2, 12);
    CHECK(energy.allowed(Swap{0, 1, 1, 1}));
    CHECK_FALSE(energy.allowed(Swap{0, 0, 1, 1}));
    CHECK_FALSE(energy.allowed(Swap{0, 0, 1, 0}));
    CHECK(energy.allowed(ReplicaMove{0, 0, 2}));
    CHECK_FALSE(energy.allowed(ReplicaMove{0, 0, 1}));
    CHECK_FALSE(energy.allowed(ReplicaMove{0, 1, 2}));  // the only replica of expert 1
}

TEST_CASE("the scan of two ranks finds the best of all swaps between them") {
    Random random(5);
    for (const Shape& shape : shapes) {
        const auto counts = test::bursty_counts(random, shape.record_slots, shape.experts);
        const auto shares = slot_shares(counts, shape.ranks);
        RankEnergy energy(shares, test::random_row(random, shape.experts, shape.ranks, shape.slots_per_rank),
                          shape.ranks, 12);
        for (int rank = 1; rank < shape.ranks; ++rank) {
            double least = INFINITY;
            int allowed = 0;
            for (int i = 0; i < shape.slots_per_rank; ++i) {
                for (int j = 0; j < shape.slots_per_rank; ++j) {
                    const Swap swap{0, i, rank, j};
                    if (!energy.allowed(swap)) continue;
                    ++allowed;
                    least = std::min(least, static_cast<double>(energy.change(swap)));
                }
            }
            Swap best;
            float change = 0;
            CHECK(energy.best_swap(0, rank, best, change) == (allowed > 0));
            CHECK(energy.swaps_looked_at() == allowed);
            if (allowed == 0) continue;
            CHECK(energy.allowed(best));
            CHECK(static_cast<double>(change) == Approx(least).margin(1e-5));
            CHECK(static_cast<double>(energy.change(best)) == Approx(least).margin(1e-5));
        }
    }
}

TEST_CASE("every instruction set gives the same bits") {
    Random random(11);
    for (const Shape& shape : shapes) {
        const auto counts = test::bursty_counts(random, shape.record_slots, shape.experts);
        const auto shares = slot_shares(counts, shape.ranks);
        const auto row = test::random_row(random, shape.experts, shape.ranks, shape.slots_per_rank);
        std::vector<RankEnergy> energies;
        for (int set = 0; set < energy::kernel_set_count(); ++set) {
            energies.emplace_back(shares, row, shape.ranks, 12.0F, energy::kernel_set(set));
        }
        const auto equal = [](float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; };
        for (int i = 0; i < 300; ++i) {
            const Swap swap = draw_swap(random, shape);
            const ReplicaMove move = draw_replica_move(random, shape);
            for (std::size_t k = 1; k < energies.size(); ++k) {
                if (energies[0].allowed(swap)) CHECK(equal(energies[0].change(swap), energies[k].change(swap)));
                if (energies[0].allowed(move)) CHECK(equal(energies[0].change(move), energies[k].change(move)));
                Swap best_0, best_k;
                float change_0 = 0, change_k = 0;
                energies[0].best_swap(swap.rank_a, swap.rank_b, best_0, change_0);
                energies[k].best_swap(swap.rank_a, swap.rank_b, best_k, change_k);
                CHECK(equal(change_0, change_k));
                CHECK(best_0.index_a == best_k.index_a);
                CHECK(best_0.index_b == best_k.index_b);
            }
            const bool apply_swap = energies[0].allowed(swap);
            for (RankEnergy& energy : energies) {
                if (apply_swap) energy.apply(swap);
            }
            const bool apply_move = energies[0].allowed(move);
            for (RankEnergy& energy : energies) {
                if (apply_move) energy.apply(move);
            }
        }
        for (RankEnergy& energy : energies) CHECK(energy.value() == energies[0].value());
    }
}
