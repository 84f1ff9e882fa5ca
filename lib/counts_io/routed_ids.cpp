// Routed expert ids [tokens, layers, top-k], which engines can return with every request: counted, so many tokens to a
// record slot. -1 is no expert. Only --format routed-ids reads them: nothing in an array says that it holds ids.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/geometry.hpp"
#include "counts_io/count_formats.hpp"
#include "counts_io/fail_input.hpp"
#include "counts_io/layer_stack.hpp"
#include "counts_io/recorded_layout.hpp"
#include "files/number_list.hpp"

namespace eplb {
namespace {

constexpr std::int64_t default_tokens_per_slot = 256;

class RoutedIds {
  public:
    explicit RoutedIds(const Tensor& tensor) : tensor_(tensor) {
        if (tensor.shape.size() != 3 || !is_integer(tensor.dtype)) {
            fail_input("BAD_GEOMETRY", "",
                       fmt::format("{} [{}] are no routed ids", name_of(tensor.dtype), fmt::join(tensor.shape, ", ")),
                       "ids are whole numbers [tokens, layers, top-k]");
        }
        if (layers() > max_layers || top_k() > max_top_k) {
            fail_input("BAD_GEOMETRY", "", fmt::format("{} layers and top-{} are those of no model", layers(), top_k()),
                       "ids are [tokens, layers, top-k]");
        }
    }
    std::int64_t tokens() const { return tensor_.shape[0]; }
    std::int64_t layers() const { return tensor_.shape[1]; }
    std::int64_t top_k() const { return tensor_.shape[2]; }
    std::int64_t id(std::int64_t token, std::int64_t layer, std::int64_t choice) const {
        return integer_at(tensor_,
                          token * tensor_.strides[0] + layer * tensor_.strides[1] + choice * tensor_.strides[2]);
    }

    std::int64_t largest() const {
        std::int64_t most = -1;
        for (std::int64_t token = 0; token < tokens(); ++token) {
            for (std::int64_t layer = 0; layer < layers(); ++layer) {
                for (std::int64_t choice = 0; choice < top_k(); ++choice) {
                    most = std::max(most, id(token, layer, choice));
                }
            }
        }
        return most;
    }

    // [record slots, layers, width], `tokens_per_slot` tokens each, the last one the rest.
    std::vector<std::int64_t> counts(std::int64_t tokens_per_slot, std::int64_t width) const {
        const std::int64_t slots = (tokens() - 1) / tokens_per_slot + 1;
        std::vector<std::int64_t> counts(static_cast<std::size_t>(slots * layers() * width));
        for (std::int64_t token = 0; token < tokens(); ++token) {
            for (std::int64_t layer = 0; layer < layers(); ++layer) {
                std::int64_t* const row = counts.data() + (token / tokens_per_slot * layers() + layer) * width;
                for (std::int64_t choice = 0; choice < top_k(); ++choice) {
                    const std::int64_t expert = id(token, layer, choice);
                    if (expert == -1) continue;
                    check(token, layer, choice, expert, width);
                    ++row[expert];
                }
            }
        }
        return counts;
    }

  private:
    static constexpr std::int64_t max_top_k = 1024;

    void check(std::int64_t token, std::int64_t layer, std::int64_t choice, std::int64_t expert,
               std::int64_t width) const {
        const std::string where = fmt::format("token {}, layer {}, choice {}", token, layer, choice);
        if (expert < 0 || expert >= width) {
            fail_input("BAD_GEOMETRY", where, fmt::format("id {} is none of 0..{}", expert, width - 1),
                       "--experts is the number of logical experts; -1 alone is no expert");
        }
        for (std::int64_t before = 0; before < choice; ++before) {
            if (id(token, layer, before) == expert) {
                fail_input("MALFORMED", where, fmt::format("expert {} is chosen twice for one token", expert),
                           "these are no routed ids [tokens, layers, top-k]; padding is -1");
            }
        }
    }

    const Tensor& tensor_;
};

}  // namespace

DecodedCounts read_routed_ids(const std::shared_ptr<const MappedFile>& file, const CountOptions& options) {
    const DecodedCounts array = read_array(file, options);
    const RoutedIds ids(array.tensor);
    const std::int64_t tokens_per_slot = options.tokens_per_slot.value_or(default_tokens_per_slot);
    const std::int64_t largest = ids.largest();
    if (largest < 0) {
        fail_input("EMPTY_COUNTS", "", "no id names an expert: all are -1, or there is none",
                   "record the routing again");
    }
    DecodedCounts result;
    std::int64_t width = largest + 1;
    if (options.recorded_layout) {  // ids of physical slots
        width = read_recorded_layout(*options.recorded_layout, options.experts).slots;
        result.columns = Columns::slots;
    } else {
        if (options.experts) width = *options.experts;
        result.columns = Columns::experts;
    }
    if (width > max_physical_slots) {
        fail_input("BAD_GEOMETRY", "", fmt::format("id {} is that of no model", largest), "-1 alone is no expert");
    }
    const std::int64_t slots = (ids.tokens() - 1) / tokens_per_slot + 1;
    require_plausible_size(cells_of(slots, ids.layers(), width), array.tensor.numel(),
                           fmt::format("{} record slots of {} layers x {} experts", slots, ids.layers(), width));
    result.tensor = tensor_of(ids.counts(tokens_per_slot, width), {slots, ids.layers(), width});
    result.reduction = Reduction::reduced;  // a token's experts stand together, whoever serves them
    result.saved_on = array.saved_on;
    result.findings = array.findings;
    if (!options.experts && !options.recorded_layout) result.findings.push_back(experts_not_stated(width));
    result.findings.push_back(
        {Severity::info, "IDS_COUNTED", "",
         fmt::format("{} tokens with top-{} ids were counted, {} tokens to a record slot", ids.tokens(), ids.top_k(),
                     tokens_per_slot),
         "--tokens-per-slot N: the tokens of one forward pass, over all ranks, make a record slot like a step"});
    return result;
}

}  // namespace eplb
