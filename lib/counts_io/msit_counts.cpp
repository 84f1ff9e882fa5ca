// MindIE's expert hotness tables, which msit's elb tool reads: decode_<rank>.csv and prefill_<rank>.csv, a line a MoE
// layer, a column for each of the rank's slots. With model_gen_config.json beside them the tables are "split": one
// block of lines after another, each a total since the start.
#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/geometry.hpp"
#include "counts_io/count_formats.hpp"
#include "counts_io/fail_input.hpp"
#include "counts_io/name_facts.hpp"
#include "counts_io/recorded_layout.hpp"
#include "counts_io/text_counts.hpp"
#include "files/json_document.hpp"
#include "files/number_list.hpp"

namespace eplb {
namespace {

constexpr const char* config_name = "model_gen_config.json";

struct SplitConfig {
    int layers = 0;
    std::optional<int> experts;
    int shared_ranks = 0;  // leading ranks that hold shared experts only
    std::string map_file;  // layout that was in force; may be empty
};

SplitConfig read_config(const std::string& path) {
    const auto file = MappedFile::open(path);
    try {
        const JsonDocument document = JsonDocument::parse(file->text());
        const JsonValue root = document.root();
        SplitConfig config;
        config.layers = static_cast<int>(root.at("num_moe_layers").as_integer(1, max_layers));
        if (const auto experts = root.find("num_of_experts")) {
            config.experts = static_cast<int>(experts->as_integer(1, max_experts));
        }
        const auto enabled = root.find("enable_dangling_shared_expert");
        if (const auto ranks = root.find("num_dangling_shared_experts"); ranks && (!enabled || enabled->as_boolean())) {
            config.shared_ranks = static_cast<int>(ranks->as_integer(0, max_ranks));
        }
        if (const auto map = root.find("eplb_expert_map_file"); map && map->is(JsonKind::string)) {
            config.map_file = map->as_string();
        }
        return config;
    } catch (const Error& error) {
        throw error.inside(path);
    }
}

// The layout of the collection, where the configuration names one that can be found: at its path, or beside it.
std::optional<SlotMap> map_of(const SplitConfig& config, std::string_view count_file) {
    if (config.map_file.empty()) return std::nullopt;
    std::string path = neighbour_of(config.map_file, base_name_of(config.map_file));
    if (path.empty()) path = neighbour_of(count_file, base_name_of(config.map_file));
    if (path.empty()) {
        fail_input("LAYOUT_NEEDED", "",
                   fmt::format("{} says that the layout {} was in force", config_name, config.map_file),
                   "bring it beside the counts, or give it with --recorded-layout");
    }
    return read_recorded_layout(path, config.experts);
}

// Totals since the start to counts of each block: [blocks, layers, slots].
Tensor differenced(const NumberTable& table, int layers, std::int64_t blocks) {
    const std::int64_t block = layers * table.columns;
    const std::vector<std::int64_t>& totals = table.cells.integers();
    std::vector<std::int64_t> counts(totals.begin(), totals.begin() + blocks * block);
    for (std::int64_t cell = blocks * block; cell-- > block;) {
        const auto index = static_cast<std::size_t>(cell), before = static_cast<std::size_t>(cell - block);
        if (totals[before] < 0 || totals[index] < totals[before]) {
            fail_input("MALFORMED",
                       fmt::format("{}, column {}", table.place(cell / table.columns), cell % table.columns + 1),
                       fmt::format("the total falls from {} to {}, iteration {}, layer {}", totals[before],
                                   totals[index], cell / block, cell % block / table.columns),
                       "the counter was reset while recording: give the lines of one run only");
        }
        counts[index] = totals[index] - totals[before];
    }
    return tensor_of(std::move(counts), {blocks, layers, table.columns});
}

struct Name {
    std::string phase;  // "decode", "prefill", or empty
    std::optional<int> rank;
};

Name name_of_file(std::string_view path) {
    const std::string name = base_name_of(path);
    for (const std::string phase : {"decode", "prefill"}) {
        if (!name.starts_with(phase + "_")) continue;
        if (name.starts_with(phase + "_topk")) {
            fail_input("NOT_A_COUNT_FILE", "", "holds the experts of sampled tokens, not counts",
                       fmt::format("give {}_<rank>.csv", phase));
        }
        const auto rank = number_in_name(path, phase);
        return {phase, rank ? std::optional(static_cast<int>(*rank)) : std::nullopt};
    }
    return {"", rank_in_name(path)};
}

}  // namespace

bool looks_like_msit_csv(std::span<const std::byte> bytes) {
    return begins_with_numbers(text_of(bytes), ',');
}

DecodedCounts read_msit_counts(const std::shared_ptr<const MappedFile>& file, const CountOptions& options) {
    const Name name = name_of_file(file->path());
    NumberTable table = parse_number_table(file->text(), {});
    DecodedCounts result;
    note_open_end(table, result.findings);
    result.columns = Columns::slots;
    result.slots.rank = name.rank;
    result.slots.window = name.phase;
    result.slots.received = true;
    result.slots.experts = options.experts;
    const std::string config_path = neighbour_of(file->path(), config_name);
    if (config_path.empty()) {
        const std::int64_t rows = table.rows, columns = table.columns;
        result.tensor = std::move(table.cells).tensor({1, rows, columns});
        return result;
    }
    const SplitConfig config = read_config(config_path);
    if (name.rank && config.shared_ranks > 0) {
        if (*name.rank < config.shared_ranks) {
            fail_input(
                "NOT_A_COUNT_FILE", "",
                fmt::format("rank {} is one of the {} that hold shared experts only", *name.rank, config.shared_ranks),
                "leave their files out");
        }
        result.slots.rank = *name.rank - config.shared_ranks;
    }
    if (!table.cells.whole()) fail_input("MALFORMED", "", "totals with a fraction", "record again");
    const std::int64_t blocks = table.rows / config.layers, rest = table.rows % config.layers;
    if (blocks == 0) {
        fail_input("TRUNCATED", "",
                   fmt::format("{} lines are no whole iteration of {} layers", table.rows, config.layers),
                   fmt::format("record longer; num_moe_layers stands in {}", config_name));
    }
    if (rest != 0) {
        result.findings.push_back(
            {Severity::warning, "ROWS_CUT", table.place(blocks * config.layers),
             fmt::format("the last {} lines are no whole iteration of {} layers and were left out", rest,
                         config.layers),
             fmt::format("the server was still writing; else look at num_moe_layers in {}", config_name)});
    }
    result.tensor = differenced(table, config.layers, blocks);
    result.window = WindowFacts{};
    for (std::int64_t block = 0; block < blocks; ++block) result.window->sequence.push_back(block);
    if (!options.experts) result.slots.experts = config.experts;
    if (!options.recorded_layout) result.slots.map = map_of(config, file->path());
    return result;
}

}  // namespace eplb
