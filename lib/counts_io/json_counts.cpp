// {"logical_count": [[...]]}: what SGLang's --init-expert-location accepts as statistics.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "core/counts.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "counts_io/count_formats.hpp"
#include "counts_io/extra_keys.hpp"
#include "files/json_document.hpp"

namespace eplb {
namespace {

bool exact_as_double(std::int64_t value) {
    constexpr std::int64_t limit = std::int64_t{1} << 53;
    return value >= -limit && value <= limit;
}

// Numbers of a rectangular nest of arrays, row-major. Whole numbers stay int64; one literal with a fraction or exponent
// makes all of them doubles.
class NumberNest {
  public:
    explicit NumberNest(JsonValue root) {
        for (JsonValue level = root; level.is(JsonKind::array); level = *level.elements().begin()) {
            shape_.push_back(static_cast<std::int64_t>(level.size()));
            if (level.size() == 0) break;
        }
        if (shape_.size() < 2 || shape_.size() > 3) {
            root.fail("BAD_GEOMETRY", fmt::format("is nested {} deep", shape_.size()),
                      "counts are [layers][experts] or [record slots][layers][experts]");
        }
        collect(root, 0);
    }

    Tensor tensor() && {
        Tensor tensor;
        tensor.shape = shape_;
        tensor.strides = tensor.contiguous_strides();
        if (reals_.empty()) {
            const auto owner = std::make_shared<std::vector<std::int64_t>>(std::move(integers_));
            tensor.dtype = DType::int64;
            tensor.data = reinterpret_cast<const std::byte*>(owner->data());
            tensor.owner = owner;
        } else {
            const auto owner = std::make_shared<std::vector<double>>(std::move(reals_));
            tensor.dtype = DType::float64;
            tensor.data = reinterpret_cast<const std::byte*>(owner->data());
            tensor.owner = owner;
        }
        return tensor;
    }

  private:
    void collect(JsonValue level, std::size_t axis) {  // at most three deep
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
        if (reals_.empty() && value.is(JsonKind::integer)) {
            integers_.push_back(value.as_integer());
            return;
        }
        if (reals_.empty()) {  // the first real: the whole numbers before it must survive as doubles too
            for (const std::int64_t integer : integers_) {
                if (!exact_as_double(integer)) inexact(value);
                reals_.push_back(static_cast<double>(integer));
            }
            integers_ = {};
        }
        if (value.is(JsonKind::integer) && !exact_as_double(value.as_integer())) inexact(value);
        reals_.push_back(value.as_number());
    }
    [[noreturn]] static void inexact(JsonValue value) {
        value.fail("MALFORMED", "mixes numbers with a fraction or exponent and whole numbers above 2^53",
                   "write all counts as whole numbers");
    }

    std::vector<std::int64_t> shape_, integers_;
    std::vector<double> reals_;
};

}  // namespace

bool looks_like_json(std::span<const std::byte> bytes) {
    constexpr std::array<std::byte, 3> byte_order_mark = {std::byte{0xef}, std::byte{0xbb}, std::byte{0xbf}};
    if (bytes.size() > 3 && std::equal(byte_order_mark.begin(), byte_order_mark.end(), bytes.begin())) {
        bytes = bytes.subspan(3);  // some editors put it there, and the parser takes it
    }
    for (const std::byte byte : bytes) {
        const char c = static_cast<char>(byte);
        if (c == '{' || c == '[') return true;
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return false;
    }
    return false;
}

DecodedCounts read_json_counts(const std::shared_ptr<const MappedFile>& file, const CountOptions& options) {
    const std::string key = options.dataset.value_or("logical_count");
    const JsonDocument document = JsonDocument::parse(file->text());
    const JsonValue root = document.root();
    if (!root.is(JsonKind::object)) {
        root.fail("NOT_A_COUNT_FILE", "is no object with the key \"logical_count\"",
                  "write {\"logical_count\": [...]}");
    }
    const std::optional<JsonValue> counts = root.find(key);
    if (!counts) {
        const bool layout = root.find("physical_to_logical_map").has_value();
        root.fail("NOT_A_COUNT_FILE",
                  layout ? "this is a layout, not counts" : fmt::format("lacks the key \"{}\"", key),
                  layout ? "" : "--dataset KEY names another one");
    }
    DecodedCounts result{NumberNest(*counts).tensor(), Reduction::reduced, std::nullopt, {}};
    ExtraKeys extra;
    for (const auto [name, value] : root.members()) {
        if (name == key) continue;
        const std::string shown = shortened(name, 80);
        extra.add("$." + shown, fmt::format("key \"{}\"", shown));
    }
    extra.move_to(result.findings);
    return result;
}

}  // namespace eplb
