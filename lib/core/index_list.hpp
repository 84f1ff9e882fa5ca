// Lists of numbers as flags take them: "0-3,17", "0-46/2".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace eplb {

// Whole numbers from 0, kept as ranges: "0-2000000000" is as cheap as "7".
class IndexList {
  public:
    IndexList() = default;

    // "5", "0-3", "0-46/2" (every second one from 0), joined by commas. Throws Error{usage} at `flag` for anything
    // else, and for numbers above 2^31 - 1.
    static IndexList parse(std::string_view flag, const std::string& text);

    static IndexList below(int n);                         // 0 to n - 1
    static IndexList of(const std::vector<int>& numbers);  // ascending

    bool contains(int number) const;
    bool empty() const { return ranges_.empty(); }
    int largest() const;                               // -1 when empty
    const std::string& text() const { return text_; }  // as it can be given to the flag again

  private:
    struct Range {
        int first = 0, last = 0, step = 1;
    };
    std::vector<Range> ranges_;
    std::string text_;
};

}  // namespace eplb
