#include "layout_io/expert_map_file.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "files/json_document.hpp"
#include "files/mapped_file.hpp"

namespace eplb {
namespace {

void require_size(const JsonValue& list, int wanted, std::string_view what) {
    if (list.size() == static_cast<std::size_t>(wanted)) return;
    list.fail("EXPERT_MAP_DIFFERS", fmt::format("has {} {}, the layout has {}", list.size(), what, wanted),
              "write the file from this layout");
}

void require_device(const JsonValue& experts, std::span<const ExpertId> slots) {
    require_size(experts, static_cast<int>(slots.size()), "slots");
    std::size_t slot = 0;
    for (const JsonValue expert : experts.elements()) {
        if (expert.as_integer() != slots[slot].value) {
            expert.fail(
                "EXPERT_MAP_DIFFERS",
                fmt::format("is expert {}, the layout has expert {} there", expert.as_integer(), slots[slot].value),
                "write the file from this layout");
        }
        ++slot;
    }
}

}  // namespace

std::string encode_expert_map(const Layout& layout) {
    const Geometry& geometry = layout.geometry();
    std::string text = fmt::format("{{\"moe_layer_count\": {}, \"layer_list\": [", geometry.layers);
    for (int layer = 0; layer < geometry.layers; ++layer) {
        text += fmt::format("{}\n {{\"layer_id\": {}, \"device_count\": {}, \"device_list\": [", layer == 0 ? "" : ",",
                            layer, geometry.ranks);
        for (int rank = 0; rank < geometry.ranks; ++rank) {
            const auto slots = layout.row(layer).subspan(static_cast<std::size_t>(rank * geometry.slots_per_rank),
                                                         static_cast<std::size_t>(geometry.slots_per_rank));
            std::string experts;
            for (const ExpertId expert : slots)
                experts += fmt::format("{}{}", experts.empty() ? "" : ", ", expert.value);
            text += fmt::format("{}\n  {{\"device_id\": {}, \"device_expert\": [{}]}}", rank == 0 ? "" : ",", rank,
                                experts);
        }
        text += "]}";
    }
    text += "]}\n";
    try {
        require_expert_map(text, layout);
    } catch (const Error& error) {
        throw Error(ErrorCode::internal, "expert map", fmt::format("does not read back: {}", error.what()));
    }
    return text;
}

void require_expert_map(std::string_view text, const Layout& layout) {
    const Geometry& geometry = layout.geometry();
    const JsonDocument document = JsonDocument::parse(text);
    const JsonValue root = document.root();
    if (root.is(JsonKind::object) && root.find("physical_to_logical_map")) {
        root.fail("EXPERT_MAP_DIFFERS", "has physical_to_logical_map, the form of SGLang's layout",
                  "write an expert map from it");
    }
    const JsonValue count = root.at("moe_layer_count");
    if (count.as_integer() != geometry.layers) {
        count.fail("EXPERT_MAP_DIFFERS",
                   fmt::format("is {}, the layout has {} rows", count.as_integer(), geometry.layers),
                   "write the file from this layout");
    }
    const JsonValue layers = root.at("layer_list");
    require_size(layers, geometry.layers, "layers");
    int row = 0;
    for (const JsonValue layer : layers.elements()) {
        const JsonValue devices = layer.at("device_list");
        require_size(devices, geometry.ranks, "devices");
        std::size_t first = 0;
        for (const JsonValue device : devices.elements()) {
            const auto slots = static_cast<std::size_t>(geometry.slots_per_rank);
            require_device(device.at("device_expert"), layout.row(row).subspan(first, slots));
            first += slots;
        }
        ++row;
    }
}

void require_expert_map_file(const std::string& path, const Layout& layout) {
    const auto file = MappedFile::open(path);
    try {
        require_expert_map(file->text(), layout);
    } catch (...) {
        rethrow_inside(path);
    }
}

}  // namespace eplb
