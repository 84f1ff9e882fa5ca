#include "counts_io/extra_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace eplb {
namespace {

constexpr std::size_t most_named = 16;  // a file may hold millions

}  // namespace

void ExtraKeys::add(std::string where, const std::string& what) {
    if (count_++ >= most_named) return;
    first_.push_back({Severity::info, "EXTRA_KEYS", std::move(where), fmt::format("{} is not read", what), ""});
}

void ExtraKeys::move_to(std::vector<Finding>& findings) {
    std::move(first_.begin(), first_.end(), std::back_inserter(findings));
    if (count_ > most_named) {
        findings.push_back(
            {Severity::info, "EXTRA_KEYS", "", fmt::format("{} more keys are not read", count_ - most_named), ""});
    }
}

}  // namespace eplb
