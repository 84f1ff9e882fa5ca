// omni-infer's activation_counts_recordstep_<k>_rank_<r>.txt: a line a MoE layer, a column for each physical position,
// tabs between and often one at the end. Rank 0 writes the positions of all ranks, rank by rank; in folders that end in
// _perRank, and while prefilling, every rank writes its own.
#include <string>
#include <utility>

#include "core/error.hpp"
#include "counts_io/count_formats.hpp"
#include "counts_io/name_facts.hpp"
#include "counts_io/text_counts.hpp"

namespace eplb {

bool looks_like_omni_text(std::span<const std::byte> bytes) {
    const std::string_view text = text_of(bytes);
    return begins_with_numbers(text, '\t') && first_line(text).find('\t') != std::string_view::npos;
}

DecodedCounts read_omni_counts(const std::shared_ptr<const MappedFile>& file, const CountOptions& options) {
    NumberTable table = parse_number_table(file->text(), {'\t', false, true});
    DecodedCounts result;
    note_open_end(table, result.findings);
    const std::int64_t rows = table.rows, columns = table.columns;
    result.tensor = std::move(table.cells).tensor({1, rows, columns});
    result.columns = Columns::slots;
    result.slots.rank = rank_in_name(file->path());
    result.slots.received = true;
    result.slots.experts = options.experts;
    if (const auto step = number_in_name(file->path(), "recordstep")) {
        result.window = WindowFacts{};
        result.window->sequence = {*step};
    }
    return result;
}

}  // namespace eplb
