// layer_id,expert_id,count: what SGLang's recorder wrote before it wrote tensors, one file a rank, a line for each
// expert that was hit; and what lmdeploy and others export alike.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/geometry.hpp"
#include "counts_io/count_formats.hpp"
#include "counts_io/fail_input.hpp"
#include "counts_io/layer_stack.hpp"
#include "counts_io/name_facts.hpp"
#include "counts_io/text_counts.hpp"
#include "files/number_list.hpp"

namespace eplb {
namespace {}  // namespace

bool looks_like_sglang_csv(std::span<const std::byte> bytes) {
    const std::string_view line = first_line(text_of(bytes));
    return line == "layer_id,expert_id,count" || line == "layer,expert,count";
}

DecodedCounts read_sglang_csv_counts(const std::shared_ptr<const MappedFile>& file, const CountOptions& options) {
    const NumberTable table = parse_number_table(file->text(), {',', true, false});
    if (!looks_like_sglang_csv(file->bytes())) {
        fail_input("NOT_A_COUNT_FILE", "line 1", "is not layer_id,expert_id,count", "the first line names the columns");
    }
    if (!table.cells.whole()) fail_input("MALFORMED", "", "holds numbers with a fraction", "export the raw counts");
    const std::vector<std::int64_t>& cells = table.cells.integers();
    const auto cell = [&](std::int64_t row, std::int64_t column) {
        return cells[static_cast<std::size_t>(row * 3 + column)];
    };
    std::int64_t largest_layer = 0, largest_expert = 0;
    for (std::int64_t row = 0; row < table.rows; ++row) {
        const std::int64_t layer = cell(row, 0), expert = cell(row, 1);
        if (layer < 0 || layer >= options.layers.value_or(max_layers)) {
            fail_input("BAD_GEOMETRY", table.place(row),
                       fmt::format("layer {} is none of 0..{}", layer, options.layers.value_or(max_layers) - 1),
                       "--layers is the number of the model's layers");
        }
        if (expert < 0 || expert >= options.experts.value_or(max_experts)) {
            fail_input("BAD_GEOMETRY", table.place(row),
                       fmt::format("expert {} is none of 0..{}", expert, options.experts.value_or(max_experts) - 1),
                       "--experts is the number of the model's logical experts");
        }
        largest_layer = std::max(largest_layer, layer);
        largest_expert = std::max(largest_expert, expert);
    }
    const std::int64_t layers = options.layers ? *options.layers : largest_layer + 1;
    const std::int64_t experts = options.experts ? *options.experts : largest_expert + 1;
    require_plausible_size(layers * experts, table.rows, fmt::format("{} layers of {} experts", layers, experts));
    std::vector<std::int64_t> counts(static_cast<std::size_t>(layers * experts));
    std::vector<bool> there(counts.size());
    for (std::int64_t row = 0; row < table.rows; ++row) {
        const auto target = static_cast<std::size_t>(cell(row, 0) * experts + cell(row, 1));
        if (there[target]) {
            fail_input("MALFORMED", table.place(row),
                       fmt::format("expert {} of layer {} is there twice", cell(row, 1), cell(row, 0)),
                       "give one dump a file; the sum of two is not made here");
        }
        there[target] = true;
        counts[target] = cell(row, 2);
    }
    DecodedCounts result;
    note_open_end(table, result.findings);
    result.tensor = tensor_of(std::move(counts), {1, layers, experts});
    result.columns = Columns::experts;
    result.reduction = Reduction::per_rank;
    if (const auto rank = rank_in_name(file->path())) {
        result.window = WindowFacts{};
        result.window->rank = rank;
    }
    if (!options.experts) result.findings.push_back(experts_not_stated(experts));
    return result;
}

}  // namespace eplb
