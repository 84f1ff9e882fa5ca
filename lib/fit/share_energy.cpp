#include "fit/share_energy.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace eplb {
namespace {

constexpr std::size_t row_lanes = lane_count;

// value^(2^doublings), for whole rows; the loops over elements have no order to lose.
template <int doublings>
void raise(const float* values, float* powers, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        float power = values[i];
        for (int doubling = 0; doubling < doublings; ++doubling) power *= power;
        powers[i] = power;
    }
}

void raise(const float* values, float* powers, std::size_t count, int doublings) {
    switch (doublings) {
        case 3:
            return raise<3>(values, powers, count);
        case 4:
            return raise<4>(values, powers, count);
        case 5:
            return raise<5>(values, powers, count);
        default:
            return raise<6>(values, powers, count);
    }
}

double root(double value, int doublings) {
    for (int i = 0; i < doublings; ++i) value = std::sqrt(value);  // exactly rounded, unlike pow
    return value;
}

float lane_sum(const std::array<float, row_lanes>& sums) {
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace

ShareEnergy::ShareEnergy(const SlotShares& shares, int ranks, int doublings)
    : ranks_(ranks),
      experts_(shares.experts),
      steps_(shares.slots),
      doublings_(doublings),
      width_(static_cast<std::size_t>(shares.vectors) * row_lanes),
      touched_index_(static_cast<std::size_t>(ranks), -1) {
    expert_load_.reserve(static_cast<std::size_t>(experts_) * width_);
    for (const Lanes& vector : shares.values) {
        expert_load_.insert(expert_load_.end(), vector.values.begin(), vector.values.end());
    }
    for (const Lanes& vector : shares.weights) {
        weight_.insert(weight_.end(), vector.values.begin(), vector.values.end());
    }
    const std::size_t all_ranks = static_cast<std::size_t>(ranks) * width_;
    rank_load_.resize(all_ranks);
    rank_power_.resize(all_ranks);
    new_load_.resize(all_ranks);
    new_power_.resize(all_ranks);
    power_sum_.resize(width_);
    tangent_.resize(width_);
    sum_change_.resize(width_);
}

void ShareEnergy::clear() {
    std::fill(rank_load_.begin(), rank_load_.end(), 0.0f);
}

void ShareEnergy::place(int rank, int expert, double share) {
    const float* loads = expert_load_.data() + static_cast<std::size_t>(expert) * width_;
    float* sums = rank_load_.data() + at(rank);
    for (std::size_t i = 0; i < width_; ++i) sums[i] += static_cast<float>(share) * loads[i];
}

void ShareEnergy::refresh() {
    raise(rank_load_.data(), rank_power_.data(), rank_load_.size(), doublings_);
    std::fill(power_sum_.begin(), power_sum_.end(), 0.0f);
    for (int rank = 0; rank < ranks_; ++rank) {
        for (std::size_t i = 0; i < width_; ++i) power_sum_[i] += rank_power_[at(rank) + i];
    }
    renew_tangent();
}

void ShareEnergy::rescale() {
    for (int step = 0; step < steps_; ++step) {
        const double scale = load(hottest_rank(step), step) / 2;
        if (scale <= 1) continue;
        const auto column = static_cast<std::size_t>(step);
        weight_[column] *= scale;
        for (std::size_t i = column; i < expert_load_.size(); i += width_) {
            expert_load_[i] = static_cast<float>(expert_load_[i] / scale);
        }
        for (std::size_t i = column; i < rank_load_.size(); i += width_) {
            rank_load_[i] = static_cast<float>(rank_load_[i] / scale);
        }
    }
    refresh();
}

void ShareEnergy::renew_tangent() {
    const double p = 1 << doublings_;
    for (std::size_t i = 0; i < width_; ++i) {
        const double sum = power_sum_[i];
        tangent_[i] = sum > 0 ? static_cast<float>(weight_[i] / p * root(sum, doublings_) / sum) : 0.0f;
    }
    commits_since_tangent_ = 0;
}

double ShareEnergy::value() const {
    double sum = 0;
    for (std::size_t i = 0; i < width_; ++i) sum += weight_[i] * root(power_sum_[i], doublings_);
    return sum;
}

double ShareEnergy::floor() const {
    return root(ranks_, doublings_);
}

double ShareEnergy::load(int rank, int step) const {
    return rank_load_[at(rank) + static_cast<std::size_t>(step)];
}

int ShareEnergy::hottest_rank(int step) const {
    int hottest = 0;
    for (int rank = 1; rank < ranks_; ++rank) {
        if (load(rank, step) > load(hottest, step)) hottest = rank;
    }
    return hottest;
}

void ShareEnergy::begin() {
    for (const int rank : touched_) touched_index_[static_cast<std::size_t>(rank)] = -1;
    touched_.clear();
}

void ShareEnergy::change(int rank, int expert, double share_change) {
    int& index = touched_index_[static_cast<std::size_t>(rank)];
    const bool first = index < 0;
    if (first) {
        index = static_cast<int>(touched_.size());
        touched_.push_back(rank);
    }
    float* loads = new_load_.data() + static_cast<std::size_t>(index) * width_;
    const float* before = first ? rank_load_.data() + at(rank) : loads;
    const float* expert_loads = expert_load_.data() + static_cast<std::size_t>(expert) * width_;
    const auto factor = static_cast<float>(share_change);
    for (std::size_t i = 0; i < width_; ++i) loads[i] = before[i] + factor * expert_loads[i];
}

double ShareEnergy::delta() {
    std::fill(sum_change_.begin(), sum_change_.end(), 0.0f);
    for (std::size_t index = 0; index < touched_.size(); ++index) {
        float* powers = new_power_.data() + index * width_;
        raise(new_load_.data() + index * width_, powers, width_, doublings_);
        const float* before = rank_power_.data() + at(touched_[index]);
        for (std::size_t i = 0; i < width_; ++i) sum_change_[i] += powers[i] - before[i];
    }
    std::array<float, row_lanes> sums{};
    for (std::size_t i = 0; i < width_; i += row_lanes) {
        for (std::size_t lane = 0; lane < row_lanes; ++lane) sums[lane] += tangent_[i + lane] * sum_change_[i + lane];
    }
    return lane_sum(sums);
}

void ShareEnergy::commit() {
    for (std::size_t index = 0; index < touched_.size(); ++index) {
        std::copy_n(new_load_.data() + index * width_, width_, rank_load_.data() + at(touched_[index]));
        std::copy_n(new_power_.data() + index * width_, width_, rank_power_.data() + at(touched_[index]));
    }
    for (std::size_t i = 0; i < width_; ++i) power_sum_[i] = std::max(0.0f, power_sum_[i] + sum_change_[i]);
    if (++commits_since_tangent_ == 4) renew_tangent();
}

}  // namespace eplb
