#include "core/index_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/error.hpp"

namespace eplb {
namespace {

// Takes a number off the front of `text`; false where there is none.
bool take_number(std::string_view& text, int& number) {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || number < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
    return true;
}

bool take(std::string_view& text, char sign) {
    if (text.empty() || text.front() != sign) return false;
    text.remove_prefix(1);
    return true;
}

}  // namespace

IndexList IndexList::parse(std::string_view flag, const std::string& text) {
    const auto fail = [&](const std::string& what) {
        throw Error(ErrorCode::usage, std::string(flag), fmt::format("'{}' {}", text, what),
                    "numbers and ranges, for example 0-3,17 or 0-46/2 for every second one");
    };
    IndexList list;
    list.text_ = text;
    std::string_view rest = text;
    do {
        Range range;
        if (!take_number(rest, range.first)) fail("is no list of numbers");
        range.last = range.first;
        if (take(rest, '-') && !take_number(rest, range.last)) fail("is no list of numbers");
        if (take(rest, '/') && (!take_number(rest, range.step) || range.step == 0)) fail("is no list of numbers");
        if (range.last < range.first) fail(fmt::format("goes down from {} to {}", range.first, range.last));
        list.ranges_.push_back(range);
    } while (take(rest, ','));
    if (!rest.empty()) fail("is no list of numbers");
    return list;
}

IndexList IndexList::below(int n) {
    IndexList list;
    if (n > 0) list.ranges_.push_back({0, n - 1, 1});
    list.text_ = fmt::format("{}", n);
    return list;
}

IndexList IndexList::of(const std::vector<int>& numbers) {
    IndexList list;
    for (std::size_t first = 0; first < numbers.size();) {
        std::size_t last = first;
        while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
        list.ranges_.push_back({numbers[first], numbers[last], 1});
        list.text_ += fmt::format("{}{}", first == 0 ? "" : ",", numbers[first]);
        if (last > first) list.text_ += fmt::format("-{}", numbers[last]);
        first = last + 1;
    }
    return list;
}

bool IndexList::contains(int number) const {
    return std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
        return number >= range.first && number <= range.last && (number - range.first) % range.step == 0;
    });
}

int IndexList::largest() const {
    int largest = -1;
    for (const Range& range : ranges_) {
        largest = std::max(largest, range.first + (range.last - range.first) / range.step * range.step);
    }
    return largest;
}

}  // namespace eplb
