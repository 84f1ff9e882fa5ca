#include "counts_io/json_numbers.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/error.hpp"
#include "files/number_list.hpp"

namespace eplb {
namespace {

// Numbers of a rectangular nest of arrays, row-major. Whole numbers stay int64; one literal with a fraction or exponent
// makes all of them doubles.
class NumberNest {
  public:
    NumberNest(JsonValue root, std::size_t least, std::size_t most) {
        for (JsonValue level = root; level.is(JsonKind::array); level = *level.elements().begin()) {
            shape_.push_back(static_cast<std::int64_t>(level.size()));
            if (level.size() == 0) break;
        }
        if (shape_.size() < least || shape_.size() > most) {
            root.fail("BAD_GEOMETRY", fmt::format("is nested {} deep", shape_.size()),
                      most == 3 ? "counts are [layers][experts] or [record slots][layers][experts]"
                                : "a layer is [experts] or [record slots][experts]");
        }
        collect(root, 0);
    }

    Tensor tensor() && { return std::move(numbers_).tensor(shape_); }

  private:
    void collect(JsonValue level, std::size_t axis) {  // at most `most` deep
        if (static_cast<std::int64_t>(level.size()) != shape_[axis]) {
            level.fail("BAD_GEOMETRY",
                       fmt::format("has {} entries, its neighbours have {}", level.size(), shape_[axis]));
        }
        for (const JsonValue value : level.elements()) {
            if (axis + 1 < shape_.size()) {
                collect(value, axis + 1);
            } else {
                add(value);
            }
        }
    }
    void add(JsonValue value) {
        try {
            if (value.is(JsonKind::integer)) {
                numbers_.add(value.as_integer());
            } else {
                numbers_.add(value.as_number());
            }
        } catch (const Error& error) {
            if (error.where() == value.path()) throw;  // no number at all
            throw error.inside(value.path());
        }
    }

    std::vector<std::int64_t> shape_;
    NumberList numbers_;
};

}  // namespace

Tensor json_numbers(const JsonValue& nest, std::size_t least, std::size_t most) {
    return NumberNest(nest, least, most).tensor();
}

}  // namespace eplb
