#include "counts_io/physical_slots.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "core/counts.hpp"
#include "core/error.hpp"
#include "core/geometry.hpp"
#include "counts_io/count_formats.hpp"
#include "counts_io/recorded_layout.hpp"
#include "files/digest.hpp"
#include "files/number_list.hpp"

namespace eplb {
namespace {

[[noreturn]] void fail_fold(std::string_view finding, std::string what, std::string hint) {
    throw Error(ErrorCode::input, "", std::move(what), std::move(hint)).as_finding(finding);
}

// How the axes of counted slots go with a map.
struct SlotAxes {
    std::string_view name;
    Tensor view;                     // [record slots, layers, ranks, slots of a rank]
    std::optional<int> rank, ranks;  // of a share: only this rank's slots are there
};

Tensor permuted(const Tensor& tensor, std::initializer_list<int> axes) {
    Tensor view = tensor;
    view.shape.clear();
    view.strides.clear();
    for (const int axis : axes) {  // -1: an axis of one
        view.shape.push_back(axis < 0 ? 1 : tensor.shape[static_cast<std::size_t>(axis)]);
        view.strides.push_back(axis < 0 ? 0 : tensor.strides[static_cast<std::size_t>(axis)]);
    }
    return view;
}

// Every reading of the axes that the map allows. Axes of ranks are looked for only in bare arrays.
std::vector<SlotAxes> readings(const Tensor& tensor, const SlotMap& map, const std::optional<PhysicalSlots>& known) {
    std::vector<SlotAxes> found;
    const auto offer = [&](std::string_view name, std::initializer_list<int> axes) {
        const Tensor view = permuted(tensor, axes);
        const std::int64_t slots = view.shape[2] * view.shape[3];
        if (view.shape[1] != map.layers || slots <= 0) return;
        if (slots == map.slots) {
            found.push_back({name, view, std::nullopt, std::nullopt});
        } else if (known && known->rank && map.slots % slots == 0 && *known->rank < map.slots / slots) {
            found.push_back({name, view, known->rank, static_cast<int>(map.slots / slots)});
        }
    };
    if (tensor.shape.size() == 2) offer("[layers, slots]", {-1, 0, -1, 1});
    if (tensor.shape.size() == 3) offer("[record slots, layers, slots]", {0, 1, -1, 2});
    if (known && known->received && tensor.shape.size() == 4) {
        offer("[record slots, layers, ranks, slots]", {0, 1, 2, 3});
    }
    if (known) return found;
    if (tensor.shape.size() == 3) {
        offer("[ranks, layers, slots]", {-1, 1, 0, 2});
        offer("[layers, ranks, slots]", {-1, 0, 1, 2});
    }
    if (tensor.shape.size() == 4) {
        offer("[record slots, layers, ranks, slots]", {0, 1, 2, 3});
        offer("[record slots, ranks, layers, slots]", {0, 2, 1, 3});
    }
    return found;
}

std::string shape_text(const Tensor& tensor) {
    return fmt::format("[{}]", fmt::join(tensor.shape, ", "));
}

SlotAxes only_reading(const Tensor& tensor, const SlotMap& map, const std::optional<PhysicalSlots>& known,
                      std::string_view layout) {
    std::vector<SlotAxes> found = readings(tensor, map, known);
    if (found.empty()) {
        const bool share = known && known->rank;
        fail_fold("LAYOUT_MISMATCH",
                  fmt::format("counts {} do not go with {}, {} layers x {} physical slots", shape_text(tensor), layout,
                              map.layers, map.slots),
                  share || !known ? "give the layout that was in force while they were recorded, with a row for every "
                                    "counted layer"
                                  : "a file of one rank's slots needs the rank in its name");
    }
    if (found.size() > 1) {
        fail_fold("LAYOUT_MISMATCH",
                  fmt::format("counts {} go with {} as {} and as {}", shape_text(tensor), layout, found[0].name,
                              found[1].name),
                  "save them as [record slots, layers, slots]");
    }
    return std::move(found.front());
}

[[noreturn]] void fail_value(int record_slot, int layer, std::int64_t slot, std::string_view finding,
                             std::string what) {
    throw Error(ErrorCode::input, fmt::format("record slot {}, layer {}, physical slot {}", record_slot, layer, slot),
                std::move(what), "counts are whole numbers from 0, and their sum is below 2^63")
        .as_finding(finding);
}

// One row of `block`, whose tensor is `slots`; `first`: number of its first slot. An error names the physical slot.
void read_slots(const Counts& block, const Tensor& slots, int record_slot, int layer, std::int64_t first,
                std::vector<std::int64_t>& row) {
    try {
        block.read_row(record_slot, layer, row);
    } catch (const Error&) {
        for (std::int64_t place = 0; place < slots.shape[2]; ++place) {
            Tensor cell = slots;
            cell.shape[2] = 1;
            cell.data += place * slots.strides[2] * static_cast<std::int64_t>(size_of(slots.dtype));
            try {
                Counts({cell}).read_row(record_slot, layer, std::span(row).first(1));
            } catch (const Error& error) {
                fail_value(record_slot, layer, first + place, "MALFORMED", error.message());
            }
        }
        throw;
    }
}

// [record slots, layers, experts]: each slot's counts are added to its expert's.
Tensor folded(const SlotAxes& axes, const SlotMap& map) {
    const Tensor& view = axes.view;
    const std::int64_t record_slots = view.shape[0], ranks = view.shape[2], width = view.shape[3];
    std::int64_t cells = 0;
    constexpr std::int64_t max_cells = std::int64_t{1} << 31;
    if (__builtin_mul_overflow(record_slots, std::int64_t{map.layers} * map.experts, &cells) || cells > max_cells) {
        fail_fold(
            "BAD_GEOMETRY",
            fmt::format("{} record slots of {} layers x {} experts are absurd", record_slots, map.layers, map.experts),
            "record a shorter window");
    }
    std::vector<std::int64_t> counts(static_cast<std::size_t>(cells)), row(static_cast<std::size_t>(width));
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
        Tensor slots_of_rank = view;
        slots_of_rank.shape = {record_slots, map.layers, width};
        slots_of_rank.strides = {view.strides[0], view.strides[1], view.strides[3]};
        slots_of_rank.data += rank * view.strides[2] * static_cast<std::int64_t>(size_of(view.dtype));
        const Counts block({slots_of_rank});
        const std::int64_t first = (axes.rank ? *axes.rank : rank) * width;
        for (int slot = 0; slot < block.record_slots(); ++slot) {
            for (int layer = 0; layer < map.layers; ++layer) {
                read_slots(block, slots_of_rank, slot, layer, first, row);
                const std::int32_t* const expert = map.expert_of_slot.data() + std::int64_t{layer} * map.slots + first;
                std::int64_t* const target =
                    counts.data() + (std::int64_t{slot} * map.layers + layer) * std::int64_t{map.experts};
                for (std::int64_t place = 0; place < width; ++place) {
                    std::int64_t& count = target[expert[place]];
                    if (__builtin_add_overflow(count, row[static_cast<std::size_t>(place)], &count)) {
                        fail_value(slot, layer, first + place, "SUM_TOO_LARGE",
                                   fmt::format("the counts of expert {} sum to more than 2^63 - 1", expert[place]));
                    }
                }
            }
        }
    }
    return tensor_of(std::move(counts), {record_slots, map.layers, map.experts});
}

// Where as many slots as experts are stated, each slot is an expert.
SlotMap identity(int layers, int experts) {
    SlotMap map{layers, experts, experts, {}};
    map.expert_of_slot.resize(static_cast<std::size_t>(layers) * static_cast<std::size_t>(experts));
    for (std::size_t cell = 0; cell < map.expert_of_slot.size(); ++cell) {
        map.expert_of_slot[cell] = static_cast<std::int32_t>(cell % static_cast<std::size_t>(experts));
    }
    return map;
}

[[noreturn]] void ask_for_layout(const DecodedCounts& counts, std::optional<int> experts) {
    const std::int64_t columns = counts.tensor.shape.back();
    std::string what =
        fmt::format("{} columns are counts of physical slots, and nothing tells what the slots held", columns);
    if (experts) what += fmt::format(": they are no {} experts", *experts);
    fail_fold("LAYOUT_NEEDED", what,
              "give --recorded-layout FILE; or, where no expert had a second slot, --experts E (slots of all ranks)");
}

}  // namespace

std::string SlotMap::digest() const {
    std::string text;
    for (const std::int32_t expert : expert_of_slot) text += fmt::format("{} ", expert);
    return sha256_hex(text);
}

SlotMap slot_map_of(const Tensor& ids, std::optional<int> experts, const std::string& where) {
    const auto fail_map = [&](const std::string& place, std::string what, std::string hint = "") {
        const char* const comma = where.empty() || place.empty() ? "" : " ";
        throw Error(ErrorCode::input, where + comma + place, std::move(what), std::move(hint))
            .as_finding("BAD_GEOMETRY");
    };
    if (ids.shape.size() != 2 || !is_integer(ids.dtype)) {
        fail_map("", fmt::format("{} {} is no layout", name_of(ids.dtype), shape_text(ids)),
                 "a layout holds ids of experts [layers, physical slots]");
    }
    if (ids.shape[0] > max_layers || ids.shape[1] > max_physical_slots || ids.numel() == 0) {
        fail_map("", fmt::format("a layout {} is that of no model", shape_text(ids)));
    }
    SlotMap map{static_cast<int>(ids.shape[0]), static_cast<int>(ids.shape[1]), 0, {}};
    map.expert_of_slot.reserve(static_cast<std::size_t>(ids.numel()));
    std::int64_t largest = 0;
    for (std::int64_t layer = 0; layer < ids.shape[0]; ++layer) {
        for (std::int64_t slot = 0; slot < ids.shape[1]; ++slot) {
            const std::int64_t id = integer_at(ids, layer * ids.strides[0] + slot * ids.strides[1]);
            if (id < 0 || id >= experts.value_or(max_experts)) {
                fail_map(fmt::format("layer {}, slot {}", layer, slot),
                         fmt::format("expert {} is negative or outside 0..{}", id, experts.value_or(max_experts) - 1),
                         "the layout is one of another model, or damaged");
            }
            largest = std::max(largest, id);
            map.expert_of_slot.push_back(static_cast<std::int32_t>(id));
        }
    }
    map.experts = experts.value_or(static_cast<int>(largest) + 1);
    // Every expert has a slot in every layer, so that the counts of experts take no more room than those of slots.
    if (map.experts > map.slots) {
        fail_map("",
                 fmt::format("{} experts on {} physical slots, where not every expert has one", map.experts, map.slots),
                 "the layout is one of another model, or damaged");
    }
    return map;
}

void fold_to_experts(DecodedCounts& counts, const CountOptions& options) {
    if (counts.columns == Columns::experts) {
        if (!options.recorded_layout) return;
        fail_fold("LAYOUT_MISMATCH", "the counts are those of logical experts already",
                  "leave --recorded-layout out: it is for counts of physical slots");
    }
    if (counts.columns == Columns::unknown && !options.recorded_layout) return;

    const std::optional<PhysicalSlots> known =
        counts.columns == Columns::slots ? std::optional(counts.slots) : std::nullopt;
    std::string layout;
    std::optional<SlotMap> map;
    if (options.recorded_layout) {
        map = read_recorded_layout(*options.recorded_layout, options.experts);
        layout = "the layout " + *options.recorded_layout;
        if (known && known->map && known->map->expert_of_slot != map->expert_of_slot) {
            fail_fold("LAYOUT_MISMATCH", fmt::format("the file's own layout is another one than {}", layout),
                      "leave --recorded-layout out");
        }
    } else if (known->map) {
        map = known->map;
        layout = "the layout in the file";
    } else {
        const bool by_rank = counts.tensor.shape.size() == 4;
        const std::int64_t columns = counts.tensor.shape.back() * (by_rank ? counts.tensor.shape[2] : 1);
        const std::optional<int> experts = known->experts;
        const bool whole = experts && columns == *experts;
        const bool share = experts && columns > 0 && *experts % columns == 0 && known->rank;
        if (!whole && !share) ask_for_layout(counts, experts);
        const std::int64_t layers = counts.tensor.shape[by_rank ? 1 : counts.tensor.shape.size() - 2];
        if (layers > max_layers) fail_fold("BAD_GEOMETRY", fmt::format("{} layers are those of no model", layers), "");
        map = identity(static_cast<int>(layers), *experts);
        layout = "the experts in their order, one slot each";
    }
    const SlotAxes axes = only_reading(counts.tensor, *map, known, layout);
    counts.tensor = folded(axes, *map);
    counts.columns = Columns::experts;
    counts.findings.push_back(
        {Severity::info, "SLOTS_FOLDED", "",
         fmt::format("{} physical slots a layer were folded to {} experts by {}{}", map->slots, map->experts, layout,
                     axes.rank ? fmt::format("; the file has those of rank {} of {}", *axes.rank, *axes.ranks) : ""),
         "see that it is the layout that was in force while the counts were recorded"});
    if (axes.rank) {
        WindowFacts facts = counts.window.value_or(WindowFacts{});
        facts.name = known->window;
        facts.rank = axes.rank;
        facts.members.resize(static_cast<std::size_t>(*axes.ranks));
        std::iota(facts.members.begin(), facts.members.end(), 0);
        facts.layouts = {map->digest()};
        counts.window = std::move(facts);
        counts.reduction = Reduction::per_rank;
    } else if (axes.view.shape[2] > 1 || (known && known->received)) {
        counts.reduction = Reduction::reduced;  // the slots of all ranks are there, each counted where it was served
    }
}

}  // namespace eplb
