// TensorRT-LLM's expert statistics: rank<r>.safetensors with a tensor [experts] for each "<iteration>_<layer>", the
// layer being that of the model, counted by that rank alone; meta_info.json beside them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/geometry.hpp"
#include "counts_io/count_formats.hpp"
#include "counts_io/fail_input.hpp"
#include "counts_io/layer_stack.hpp"
#include "counts_io/name_facts.hpp"
#include "files/json_document.hpp"
#include "files/number_list.hpp"
#include "files/safetensors.hpp"

namespace eplb {
namespace {

constexpr std::string_view kept =
    "rank<r>.safetensors of an expert statistic has a tensor [experts] for each "
    "\"<iteration>_<layer>\"";

struct Key {
    std::int64_t iteration = 0, layer = 0;
};

std::optional<Key> key_of(std::string_view name) {
    const std::size_t bar = name.find('_');
    if (bar == std::string_view::npos) return std::nullopt;
    const auto number = [](std::string_view text) -> std::optional<std::int64_t> {
        std::int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
        return value;
    };
    const auto iteration = number(name.substr(0, bar)), layer = number(name.substr(bar + 1));
    if (!iteration || !layer) return std::nullopt;
    return Key{*iteration, *layer};
}

Tensor view_of_entry(const SafetensorsFile& file, const SafetensorsEntry& entry) {
    Tensor view;
    if (entry.dtype == "I32") {
        view.dtype = DType::int32;
    } else if (entry.dtype == "I64") {
        view.dtype = DType::int64;
    } else {
        fail_input("UNSUPPORTED_TYPE", entry.name, fmt::format("is {}", entry.dtype), std::string(kept));
    }
    view.byte_swapped = std::endian::native == std::endian::big;
    view.shape = entry.shape;
    view.strides = view.contiguous_strides();
    view.data = file.bytes(entry).data();
    view.owner = file.file();
    return view;
}

void check_against_meta(const std::string& path, std::int64_t experts) {
    const std::string meta = neighbour_of(path, "meta_info.json");
    if (meta.empty()) return;
    const auto file = MappedFile::open(meta);
    std::int64_t stated = experts;
    try {
        const JsonDocument document = JsonDocument::parse(file->text());
        if (const auto value = document.root().find("num_experts")) stated = value->as_integer();
    } catch (const Error& error) {
        throw error.inside(meta);
    }
    if (stated != experts) {
        fail_input("BAD_GEOMETRY", "", fmt::format("counts {} experts, {} says {}", experts, meta, stated),
                   "give the files of one run");
    }
}

}  // namespace

Finding experts_not_stated(std::int64_t experts) {
    return {Severity::info, "EXPERTS_NOT_STATED", "",
            fmt::format("{} experts: the largest id and the ones below it", experts),
            "say --experts E: experts that were never hit at the end would be missing"};
}

bool looks_like_safetensors(std::span<const std::byte> bytes) {
    constexpr std::size_t length_bytes = 8;
    if (bytes.size() <= length_bytes || bytes[length_bytes] != std::byte{'{'}) return false;
    // No text has a zero among its first eight bytes, and no header is so long that none is there.
    return bytes[length_bytes - 1] == std::byte{0} && bytes[length_bytes - 2] == std::byte{0};
}

DecodedCounts read_trtllm_counts(const std::shared_ptr<const MappedFile>& file, const CountOptions& options) {
    const SafetensorsFile tensors = SafetensorsFile::parse(file);
    std::map<std::int64_t, std::map<std::int64_t, Tensor>> iterations;  // -> layer -> [experts]
    std::set<std::int64_t> layers;
    std::int64_t experts = 0, stored = 0;
    for (const SafetensorsEntry& entry : tensors.entries()) {
        const std::optional<Key> key = key_of(entry.name);
        if (!key || key->layer >= options.layers.value_or(max_layers)) {
            fail_input(
                "NOT_A_COUNT_FILE", entry.name,
                key ? fmt::format("layer {} is none of 0..{}", key->layer, options.layers.value_or(max_layers) - 1)
                    : "the name is no \"<iteration>_<layer>\"",
                key ? "--layers is the number of the model's layers" : std::string(kept));
        }
        if (entry.shape.size() != 1) {
            fail_input("NOT_A_COUNT_FILE", entry.name,
                       fmt::format("{} [{}] are the experts of tokens, or a co-occurrence, not counts", entry.dtype,
                                   fmt::join(entry.shape, ", ")),
                       std::string(kept));
        }
        if (experts == 0) experts = entry.shape[0];
        if (entry.shape[0] != experts || experts == 0 || experts > max_experts) {
            fail_input("BAD_GEOMETRY", entry.name,
                       fmt::format("{} experts, the first tensor has {}", entry.shape[0], experts),
                       "give the files of one run");
        }
        if (!iterations[key->iteration].emplace(key->layer, view_of_entry(tensors, entry)).second) {
            fail_input("MALFORMED", entry.name,
                       fmt::format("iteration {}, layer {} is there twice", key->iteration, key->layer));
        }
        layers.insert(key->layer);
        stored += experts;
    }
    if (iterations.empty()) fail_input("NOT_A_COUNT_FILE", "", "holds no tensor", std::string(kept));
    check_against_meta(file->path(), experts);
    const std::int64_t rows = options.layers ? *options.layers : *layers.rbegin() + 1;
    const auto slots = static_cast<std::int64_t>(iterations.size());
    require_plausible_size(cells_of(slots, rows, experts), stored,
                           fmt::format("{} iterations of layers 0 to {}", slots, rows - 1));
    std::vector<std::int64_t> counts(static_cast<std::size_t>(slots * rows * experts));
    WindowFacts facts;
    facts.rank = rank_in_name(file->path());
    std::int64_t* slot = counts.data();
    for (const auto& [iteration, by_layer] : iterations) {
        facts.sequence.push_back(iteration);
        for (const std::int64_t layer : layers) {
            const auto found = by_layer.find(layer);
            if (found == by_layer.end()) {
                fail_input("MALFORMED", fmt::format("{}_{}", iteration, layer), "is missing",
                           "every iteration has every layer: the file of a run that ended early is not whole");
            }
            for (std::int64_t expert = 0; expert < experts; ++expert) {
                slot[layer * experts + expert] = integer_at(found->second, expert);
            }
        }
        slot += rows * experts;
    }
    DecodedCounts result;
    result.tensor = tensor_of(std::move(counts), {slots, rows, experts});
    result.reduction = Reduction::per_rank;
    result.columns = Columns::experts;
    result.window = std::move(facts);
    return result;
}

}  // namespace eplb
