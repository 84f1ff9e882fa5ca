// JSON lines: a record a line, each an object as in a JSON count file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/counts.hpp"
#include "core/error.hpp"
#include "counts_io/count_formats.hpp"
#include "counts_io/layer_stack.hpp"
#include "files/json_document.hpp"
#include "files/number_list.hpp"

namespace eplb {
namespace {

// Keys under which recorders number their records.
constexpr std::array<std::string_view, 5> sequence_keys{"step", "iteration", "iter", "forward_pass_id", "launch"};

std::optional<std::int64_t> sequence_of(JsonValue record) {
    if (!record.is(JsonKind::object)) return std::nullopt;
    for (const std::string_view key : sequence_keys) {
        const std::optional<JsonValue> value = record.find(key);
        if (value && value->is(JsonKind::integer)) return value->as_integer();
    }
    return std::nullopt;
}

// Appends the numbers of one record, [layers, experts] or [record slots, layers, experts].
class Records {
  public:
    void add(const Tensor& tensor, std::optional<std::int64_t> number, const std::string& line) {
        const std::size_t axes = tensor.shape.size();
        const std::vector<std::int64_t> shape(tensor.shape.end() - 2, tensor.shape.end());
        const std::int64_t slots = axes == 3 ? tensor.shape[0] : 1;
        if (shape_.empty()) shape_ = shape;
        if (shape != shape_) {
            fail("BAD_GEOMETRY", line,
                 fmt::format("has layers and experts [{}], the lines before it [{}]", fmt::join(shape, ", "),
                             fmt::join(shape_, ", ")),
                 "give the records of one model");
        }
        numbered_ = numbered_ && number && slots == 1;
        if (numbered_) {
            if (!sequence_.empty() && *number <= sequence_.back()) {
                fail("MALFORMED", line,
                     *number == sequence_.back() ? fmt::format("record {} is there twice", *number)
                                                 : fmt::format("record {} comes after {}", *number, sequence_.back()),
                     "records stand in the order of their numbers, each once");
            }
            sequence_.push_back(*number);
        }
        for (std::int64_t cell = 0; cell < tensor.numel(); ++cell) {
            if (is_floating(tensor.dtype)) {
                values_.add(floating_at(tensor, cell));
            } else {
                values_.add(integer_at(tensor, cell));
            }
        }
        slots_ += slots;
    }

    DecodedCounts counts() && {
        DecodedCounts result;
        result.tensor = std::move(values_).tensor({slots_, shape_.at(0), shape_.at(1)});
        WindowFacts facts;
        facts.sequence = std::move(sequence_);
        if (!numbered_) {  // lines are appended: their order is that of time
            facts.sequence.clear();
            for (std::int64_t slot = 0; slot < slots_; ++slot) facts.sequence.push_back(slot);
        }
        result.window = std::move(facts);
        return result;
    }

    [[noreturn]] static void fail(std::string_view finding, std::string where, std::string what, std::string hint) {
        throw Error(ErrorCode::input, std::move(where), std::move(what), std::move(hint)).as_finding(finding);
    }

  private:
    std::vector<std::int64_t> shape_, sequence_;
    std::int64_t slots_ = 0;
    bool numbered_ = true;
    NumberList values_;
};

bool is_blank(std::string_view line) {
    return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

bool looks_like_json_lines(std::span<const std::byte> bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!text.starts_with('{')) return false;
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return false;
    std::string_view line = text.substr(0, end), rest = text.substr(end + 1);
    while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
    // A second object on a line of its own; a single object over several lines closes its brace on the last one.
    const std::size_t next = rest.find_first_not_of(" \t\r\n");
    return line.ends_with('}') && next != std::string_view::npos && rest[next] == '{';
}

DecodedCounts read_json_lines_counts(const std::shared_ptr<const MappedFile>& file, const CountOptions& options) {
    const std::string_view text = file->text();
    Records records;
    std::vector<Finding> notes;
    Reduction reduction = Reduction::unknown;
    Columns columns = Columns::unknown;
    std::size_t line = 0, read = 0;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::string_view record = text.substr(at, end - at);
        at = end + 1;
        const std::string place = fmt::format("line {}", ++line);
        if (is_blank(record)) continue;
        try {
            const JsonDocument document = JsonDocument::parse(record);
            DecodedCounts one = json_counts_of(document.root(), options);
            fold_to_experts(one, CountOptions{});  // a record with a layout of its own
            if (read++ == 0) {
                reduction = one.reduction;
                columns = one.columns;
                notes = std::move(one.findings);
            } else if (one.reduction != reduction || one.columns != columns) {
                Records::fail("MALFORMED", "", "is a record of another kind than the lines before it",
                              "give records of one kind");
            }
            records.add(one.tensor, sequence_of(document.root()), "");
        } catch (const Error& error) {
            throw error.inside(place);
        }
    }
    if (read == 0) Records::fail("TRUNCATED", "", "holds no record", "nothing was recorded, or the file was cut");
    DecodedCounts result = std::move(records).counts();
    result.reduction = reduction;
    result.columns = columns;
    std::erase_if(notes, [](const Finding& note) {  // a record's number is read
        return note.code == "EXTRA_KEYS" &&
               std::any_of(sequence_keys.begin(), sequence_keys.end(),
                           [&](std::string_view key) { return note.where == fmt::format("$.{}", key); });
    });
    result.findings = std::move(notes);
    return result;
}

}  // namespace eplb
