// SGLang's per-pass and per-token dumps: one rank's physical counts, or the physical slots of its tokens, of each pass
// in the order of the passes, with the last layout.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/counts.hpp"
#include "core/error.hpp"
#include "core/geometry.hpp"
#include "counts_io/count_formats.hpp"
#include "counts_io/layer_stack.hpp"
#include "counts_io/pt_pickle.hpp"
#include "files/digest.hpp"

namespace eplb {
namespace {

[[noreturn]] void fail_per_pass(std::string where, std::string what) {
    throw Error(ErrorCode::input, std::move(where), std::move(what)).as_finding("BAD_GEOMETRY");
}

// The elements of a 2-D tensor of whole numbers, row-major.
std::vector<std::int64_t> matrix(const Tensor& tensor, const std::string& where) {
    const bool known = tensor.dtype == DType::int32 || tensor.dtype == DType::int64;
    if (tensor.shape.size() != 2 || !known) {
        fail_per_pass(where, "is no int32 or int64 tensor [layers, physical slots]");
    }
    std::vector<std::int64_t> values;
    values.reserve(static_cast<std::size_t>(tensor.numel()));
    for (std::int64_t row = 0; row < tensor.shape[0]; ++row) {
        for (std::int64_t column = 0; column < tensor.shape[1]; ++column) {
            values.push_back(integer_at(tensor, row * tensor.strides[0] + column * tensor.strides[1]));
        }
    }
    return values;
}

// Loads the counts or ids of all passes, as views.
std::vector<Tensor> load_passes(const PtPerPass& dump, const std::vector<std::int64_t>& shape,
                                const std::function<Tensor(const PtTensor&)>& load) {
    std::vector<Tensor> passes;
    SeparateStorages separate;
    for (const PtRecord& record : dump.records) {
        const std::string where = fmt::format("pass {}", record.pass);
        passes.push_back(load(record.tensor));
        const Tensor& tensor = passes.back();
        if (record.ids && (tensor.shape.size() != 3 || tensor.shape[0] != shape[0] || !is_integer(tensor.dtype))) {
            fail_per_pass(where, fmt::format("{} are no ids [layers, tokens, top-k] of {} layers",
                                             record.tensor.describe(), shape[0]));
        }
        if (!record.ids && tensor.shape != shape) {
            fail_per_pass(where, "the counts have another shape than the layout");
        }
        separate.add(record.tensor, where);
    }
    return passes;
}

// One pass: [layers, physical slots].
std::vector<std::int64_t> slot_counts(const PtRecord& record, const Tensor& tensor, std::size_t slots,
                                      const std::string& where) {
    if (!record.ids) return matrix(tensor, where);
    const std::int64_t layers = tensor.shape[0], tokens = tensor.shape[1], top_k = tensor.shape[2];
    std::vector<std::int64_t> counts(static_cast<std::size_t>(layers) * slots);
    for (std::int64_t layer = 0; layer < layers; ++layer) {
        for (std::int64_t token = 0; token < tokens; ++token) {
            for (std::int64_t choice = 0; choice < top_k; ++choice) {
                const std::int64_t id = integer_at(
                    tensor, layer * tensor.strides[0] + token * tensor.strides[1] + choice * tensor.strides[2]);
                if (id == -1) continue;  // padding, and the columns that a smaller top-k leaves
                if (id < 0 || id >= static_cast<std::int64_t>(slots)) {
                    fail_per_pass(fmt::format("{}, layer {}, token {}", where, layer, token),
                                  fmt::format("{} is none of the {} physical slots", id, slots));
                }
                ++counts[static_cast<std::size_t>(layer) * slots + static_cast<std::size_t>(id)];
            }
        }
    }
    return counts;
}

// A recorder in a mode that its backend does not feed writes -1 everywhere.
void require_ids(const PtPerPass& dump, const std::vector<std::int64_t>& counts) {
    const bool ids = std::all_of(dump.records.begin(), dump.records.end(), [](const PtRecord& r) { return r.ids; });
    if (!ids || dump.records.empty()) return;
    if (std::any_of(counts.begin(), counts.end(), [](std::int64_t count) { return count != 0; })) return;
    throw Error(ErrorCode::input, "",
                fmt::format("a per-token dump of {} passes without global_physical_count, and every id in its "
                            "topk_ids_of_layer is -1: nothing was counted",
                            dump.records.size()),
                "record again with --expert-distribution-recorder-mode stat or per_pass")
        .as_finding("EMPTY_COUNTS");
}

}  // namespace

DecodedCounts fold_per_pass(const PtPerPass& dump, const std::function<Tensor(const PtTensor&)>& load) {
    const Tensor map_tensor = load(dump.map);
    if (map_tensor.shape.size() == 2 &&
        (map_tensor.shape[0] > max_layers || map_tensor.shape[1] > max_physical_slots)) {
        fail_per_pass(dump.map.path, fmt::format("{} layers x {} physical slots are those of no model",
                                                 map_tensor.shape[0], map_tensor.shape[1]));
    }
    const std::vector<std::int64_t> map = matrix(map_tensor, dump.map.path);
    const std::int64_t largest = map.empty() ? -1 : *std::max_element(map.begin(), map.end());
    if (largest < 0 || *std::min_element(map.begin(), map.end()) < 0) {
        fail_per_pass(dump.map.path, "the layout names no expert, or a negative one");
    }
    // Every expert has a slot in every layer, so that the counts of experts take no more room than those of slots.
    if (largest >= map_tensor.shape[1]) {
        fail_per_pass(dump.map.path,
                      fmt::format("the layout names expert {} on {} physical slots, where not every expert has one",
                                  largest, map_tensor.shape[1]));
    }
    const auto layers = static_cast<std::size_t>(map_tensor.shape[0]);
    const auto slots = static_cast<std::size_t>(map_tensor.shape[1]), experts = static_cast<std::size_t>(largest) + 1;
    const std::vector<Tensor> tensors = load_passes(dump, map_tensor.shape, load);
    const std::size_t passes = tensors.size();
    std::int64_t stored = 0;
    for (const Tensor& tensor : tensors) stored += tensor.numel();
    const auto wide = [](std::size_t extent) { return static_cast<std::int64_t>(extent); };
    require_plausible_size(cells_of(wide(passes), wide(layers), wide(experts)), stored,
                           fmt::format("{} passes of {} layers x {} experts", passes, layers, experts));
    std::vector<std::int64_t> counts(passes * layers * experts);
    WindowFacts facts;
    facts.rank = dump.rank;
    for (std::size_t pass = 0; pass < passes; ++pass) {
        const PtRecord& record = dump.records[pass];
        const std::string where = fmt::format("pass {}", record.pass);
        const std::vector<std::int64_t> physical = slot_counts(record, tensors[pass], slots, where);
        std::int64_t* const target = counts.data() + pass * layers * experts;
        for (std::size_t cell = 0; cell < physical.size(); ++cell) {
            std::int64_t& logical = target[cell / slots * experts + static_cast<std::size_t>(map[cell])];
            if (physical[cell] < 0 || __builtin_add_overflow(logical, physical[cell], &logical)) {
                fail_per_pass(fmt::format("{}, layer {}, physical slot {}", where, cell / slots, cell % slots),
                              fmt::format("count {} is negative or absurd", physical[cell]));
            }
        }
        facts.sequence.push_back(record.pass);
    }
    require_ids(dump, counts);
    std::string map_text;
    for (const std::int64_t expert : map) map_text += fmt::format("{} ", expert);
    facts.layouts = {sha256_hex(map_text)};

    DecodedCounts result;
    result.tensor = make_count_tensor(std::move(counts), static_cast<int>(passes), static_cast<int>(layers),
                                      static_cast<int>(experts));
    result.reduction = Reduction::per_rank;
    result.saved_on = dump.map.storage.location;
    result.window = std::move(facts);
    result.columns = Columns::experts;
    return result;
}

}  // namespace eplb
