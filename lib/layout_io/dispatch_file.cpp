#include "layout_io/dispatch_file.hpp"

#include <array>
#include <filesystem>

#include "core/error.hpp"
#include "core/geometry.hpp"
#include "files/digest.hpp"
#include "files/mapped_file.hpp"
#include "files/npy.hpp"

namespace eplb {

DispatchFile read_dispatch_table(const std::string& path) {
    const auto file = MappedFile::open(path);
    try {
        const Tensor tensor = read_npy(file);
        if (tensor.shape.size() != 3 || !is_integer(tensor.dtype)) {
            throw Error(ErrorCode::input, "", "is no dispatch table, which holds whole numbers [R, L, E]");
        }
        const auto [ranks, layers, experts] = std::array{tensor.shape[0], tensor.shape[1], tensor.shape[2]};
        if (ranks < 1 || ranks > max_ranks || layers < 1 || layers > max_layers || experts < 1 ||
            experts > max_experts) {
            throw Error(ErrorCode::input, "", "has extents that no deployment has");
        }
        DispatchFile read{path,
                          sha256_hex(file->bytes()),
                          {static_cast<int>(ranks), static_cast<int>(layers), static_cast<int>(experts)}};
        std::size_t index = 0;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
            for (std::int64_t layer = 0; layer < layers; ++layer) {
                const std::int64_t row = rank * tensor.strides[0] + layer * tensor.strides[1];
                for (std::int64_t expert = 0; expert < experts; ++expert) {
                    const std::int64_t slot = integer_at(tensor, row + expert * tensor.strides[2]);
                    const bool possible = slot >= 0 && slot < max_physical_slots;
                    read.table.slots[index++] = SlotId{possible ? static_cast<std::int32_t>(slot) : -1};
                }
            }
        }
        return read;
    } catch (const Error& error) {
        throw error.inside(path);
    }
}

std::vector<std::byte> encode_dispatch_table(const DispatchTable& table) {
    std::vector<std::int32_t> values;
    values.reserve(table.slots.size());
    for (const SlotId slot : table.slots) values.push_back(slot.value);
    const std::array<std::int64_t, 3> shape{table.ranks, table.layers, table.experts};
    return encode_npy(values, shape);
}

std::string dispatch_table_path(const std::string& layout_path) {
    return std::filesystem::path(layout_path).replace_extension(".dispatch.npy").string();
}

}  // namespace eplb
