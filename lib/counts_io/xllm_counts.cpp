// xLLM's expert loads: of each pass and layer the inclusive prefix sums over a worker's slots, [passes, layers, slots],
// or those of all workers, [passes, layers, ranks, slots]. Only --format xllm-prefix reads them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "counts_io/count_formats.hpp"
#include "counts_io/name_facts.hpp"
#include "files/number_list.hpp"

namespace eplb {
namespace {

[[noreturn]] void fail(std::string where, std::string what, std::string hint) {
    throw Error(ErrorCode::input, std::move(where), std::move(what), std::move(hint)).as_finding("MALFORMED");
}

// Position of the element `cell`, row-major, in a strided tensor.
std::int64_t element_of(const Tensor& tensor, std::int64_t cell, std::vector<std::int64_t>& index) {
    std::int64_t element = 0;
    for (std::size_t axis = tensor.shape.size(); axis-- > 0;) {
        index[axis] = cell % tensor.shape[axis];
        cell /= tensor.shape[axis];
        element += index[axis] * tensor.strides[axis];
    }
    return element;
}

}  // namespace

DecodedCounts read_xllm_counts(const std::shared_ptr<const MappedFile>& file, const CountOptions& options) {
    DecodedCounts result = read_array(file, options);
    const Tensor sums = std::move(result.tensor);
    const std::size_t axes = sums.shape.size();
    if (axes < 2 || axes > 4 || !is_integer(sums.dtype) || sums.numel() == 0) {
        fail("", fmt::format("{} [{}] are no prefix sums", name_of(sums.dtype), fmt::join(sums.shape, ", ")),
             "prefix sums are whole numbers [passes, layers, slots] of a worker, or [passes, layers, ranks, slots]");
    }
    std::vector<std::int64_t> counts(static_cast<std::size_t>(sums.numel())), index(axes);
    std::int64_t before = 0;
    for (std::int64_t cell = 0; cell < sums.numel(); ++cell) {
        const std::int64_t sum = integer_at(sums, element_of(sums, cell, index));
        if (index.back() == 0) before = 0;
        if (sum < before) {
            fail(fmt::format("[{}]", fmt::join(index, ", ")), fmt::format("the sum falls from {} to {}", before, sum),
                 "prefix sums over the slots never fall; counts that are no sums are read without --format");
        }
        counts[static_cast<std::size_t>(cell)] = sum - before;
        before = sum;
    }
    result.tensor = tensor_of(std::move(counts), sums.shape);
    result.columns = Columns::slots;
    result.slots = {};
    result.slots.rank = rank_in_name(file->path());
    result.slots.experts = options.experts;
    result.slots.received = true;
    if (axes > 2) {
        result.window = WindowFacts{};
        for (std::int64_t pass = 0; pass < sums.shape[0]; ++pass) result.window->sequence.push_back(pass);
    }
    return result;
}

}  // namespace eplb
