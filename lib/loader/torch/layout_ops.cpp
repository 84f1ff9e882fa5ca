// The operators of the torch library `eplb` on layouts, tables and files: everything here lives on the CPU.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <cstring>

#include "check/layout.hpp"
#include "core/error.hpp"
#include "core/layout.hpp"
#include "dispatch/model.hpp"
#include "files/output.hpp"
#include "files/safetensors.hpp"
#include "layout_io/expert_map_file.hpp"
#include "layout_io/layout_file.hpp"
#include "layout_io/manifest.hpp"
#include "loader/admission.hpp"
#include "loader/checkpoint.hpp"
#include "loader/legal_layout.hpp"
#include "loader/plan.hpp"

namespace eplb {
namespace {

std::vector<ExpertId> to_experts(at::IntArrayRef values) {
    std::vector<ExpertId> experts;
    experts.reserve(values.size());
    for (const std::int64_t value : values) {
        if (value < 0 || value >= max_experts)
            throw Error(ErrorCode::input, "map", fmt::format("{} is no expert", value));
        experts.push_back(ExpertId{static_cast<std::int32_t>(value)});
    }
    return experts;
}

at::Tensor as_int64(const at::Tensor& tensor) {
    return tensor.to(at::kCPU, at::kLong).contiguous();
}

at::IntArrayRef values_of(const at::Tensor& int64_tensor) {
    return {static_cast<const std::int64_t*>(int64_tensor.data_ptr()), static_cast<std::size_t>(int64_tensor.numel())};
}

Layout layout_of(const at::Tensor& map, std::int64_t experts, std::int64_t ranks) {
    if (map.dim() != 2 || ranks < 1 || ranks > max_ranks || map.size(1) % ranks != 0 ||
        map.size(1) > max_physical_slots || map.size(0) > max_layers || experts < 1 || experts > max_experts) {
        throw Error(ErrorCode::input, "map", fmt::format("it does not fit {} ranks and {} experts", ranks, experts),
                    "a map is [L, R*S]");
    }
    const Geometry geometry{static_cast<int>(map.size(0)), static_cast<int>(experts), static_cast<int>(ranks),
                            static_cast<int>(map.size(1) / ranks)};
    const at::Tensor ids = as_int64(map);
    Layout layout(geometry, to_experts(values_of(ids)));
    require_legal(layout);
    return layout;
}

at::Tensor exchange_plan_op(at::IntArrayRef old_row, at::IntArrayRef new_row, std::int64_t ranks, std::int64_t nodes) {
    const std::vector<SlotMove> moves =
        exchange_plan(to_experts(old_row), to_experts(new_row), static_cast<int>(ranks), static_cast<int>(nodes));
    at::Tensor plan = at::empty({static_cast<std::int64_t>(moves.size()), 4}, at::TensorOptions().dtype(at::kLong));
    auto* cell = static_cast<std::int64_t*>(plan.data_ptr());
    for (const SlotMove& move : moves) {
        for (const int value : {move.source_rank, move.source_slot, move.target_rank, move.target_slot})
            *cell++ = value;
    }
    return plan;
}

at::Tensor tensor_of(const DispatchTable& table) {
    at::Tensor result = at::empty({table.ranks, table.layers, table.experts}, at::TensorOptions().dtype(at::kInt));
    std::memcpy(result.data_ptr(), table.slots.data(), table.slots.size() * sizeof(SlotId));
    return result;
}

at::Tensor dispatch_table_op(const at::Tensor& map, std::int64_t experts, std::int64_t ranks,
                             const std::string& model_name, std::int64_t nodes, std::int64_t tensor_parallel) {
    DispatchContext context;
    if (nodes != 0) context.nodes = static_cast<int>(nodes);
    context.tensor_parallel = static_cast<int>(tensor_parallel);
    return tensor_of(dispatch_table(find_dispatch_model(model_name), layout_of(map, experts, ranks), context));
}

void require_table_op(const at::Tensor& map, std::int64_t experts, std::int64_t ranks, const at::Tensor& table) {
    const Layout layout = layout_of(map, experts, ranks);
    const Geometry& geometry = layout.geometry();
    if (table.dim() != 3 || table.numel() == 0 || table.size(0) > max_ranks || table.size(1) > max_layers ||
        table.size(2) > max_experts) {
        throw Error(ErrorCode::input, "dispatch table", "is not [R, L, E]", "make it for this layout: eplb-load table");
    }
    const at::Tensor slots = as_int64(table);
    const at::IntArrayRef values = values_of(slots);
    DispatchTable checked(static_cast<int>(table.size(0)), static_cast<int>(table.size(1)),
                          static_cast<int>(table.size(2)));
    for (std::size_t index = 0; index < values.size(); ++index) {
        checked.slots[index] = SlotId{values[index] < 0 || values[index] >= geometry.physical_slots()
                                          ? -1
                                          : static_cast<std::int32_t>(values[index])};
    }
    require_table(layout, checked);
}

std::string map_hash_op(const at::Tensor& map, std::int64_t experts, std::int64_t ranks) {
    return map_hash(layout_of(map, experts, ranks));
}

// The map int32 [L, P]; experts, ranks and whether there is a manifest; the file's SHA-256. `ranks` 0 is not given.
std::tuple<at::Tensor, std::vector<std::int64_t>, std::string> read_layout_op(const std::string& path,
                                                                              std::int64_t ranks,
                                                                              bool allow_no_manifest) {
    LayoutDemands demands;
    if (ranks != 0) demands.ranks = static_cast<int>(ranks);
    demands.allow_no_manifest = allow_no_manifest;
    const LegalLayout read = read_legal_layout(path, demands);
    const Geometry& geometry = read.file.layout.geometry();
    at::Tensor map = at::empty({geometry.layers, geometry.physical_slots()}, at::TensorOptions().dtype(at::kInt));
    auto* cell = static_cast<std::int32_t*>(map.data_ptr());
    for (int layer = 0; layer < geometry.layers; ++layer) {
        for (const ExpertId expert : read.file.layout.row(layer)) *cell++ = expert.value;
    }
    return {map, {geometry.experts, geometry.ranks, read.manifest ? 1 : 0}, read.file.sha256};
}

void write_expert_map_op(const std::string& path, const at::Tensor& map, std::int64_t experts, std::int64_t ranks,
                         bool force) {
    OutputSet output(force);
    output.add(path, encode_expert_map(layout_of(map, experts, ranks)));
    output.commit();
}

void require_expert_map_op(const std::string& path, const at::Tensor& map, std::int64_t experts, std::int64_t ranks) {
    require_expert_map_file(path, layout_of(map, experts, ranks));
}

// What eplb-load check does, in the server's process: the JSON of its report, a line for every reason of a refusal, and
// the dispatch table that was judged ([0] where there is none). Empty strings are not given.
std::tuple<std::string, std::vector<std::string>, at::Tensor> admit_op(
    const std::string& path, const std::string& engine, const c10::Dict<std::string, std::string>& facts,
    const std::string& server_args, const std::string& server_args_json, const std::string& model_config,
    const std::string& table, const std::string& current, const std::string& expect, bool allow_no_manifest) {
    const auto given = [](const std::string& text) {
        return text.empty() ? std::nullopt : std::optional<std::string>(text);
    };
    AdmissionRequest request;
    request.layout_path = path;
    request.engine = engine;
    request.table_path = given(table);
    request.current_path = given(current);
    request.expect_path = given(expect);
    request.allow_no_manifest = allow_no_manifest;
    for (const auto& fact : facts) request.facts.add(fact.key(), fact.value(), "caller");
    if (!model_config.empty()) request.facts.add(read_model_config(model_config), model_config);
    if (!server_args.empty()) {
        const auto file = MappedFile::open(server_args);
        read_server_arguments(file->path(), std::string(file->text()), find_engine_profile(engine), request.facts);
    }
    if (!server_args_json.empty()) {
        read_server_arguments("server_args", server_args_json, find_engine_profile(engine), request.facts);
    }
    const AdmissionReport report = admit(request);
    std::vector<std::string> reasons;
    for (const Finding& finding : report.findings) {
        if (finding.severity == Severity::error) reasons.push_back(line_of(finding));
    }
    return {encode_admission(report), reasons,
            report.table ? tensor_of(*report.table) : at::empty({0}, at::TensorOptions().dtype(at::kInt))};
}

// A tensor on the mapped bytes of a file: read-only memory, a source for copies. Types that this PyTorch does not know
// come as bytes.
at::Tensor mapped_tensor(std::shared_ptr<const MappedFile> file, std::span<const std::byte> bytes,
                         std::string_view dtype, std::vector<std::int64_t> shape) {
    constexpr std::pair<std::string_view, at::ScalarType> types[] = {
        {"BOOL", at::kBool},     {"U8", at::kByte}, {"I8", at::kChar},   {"I16", at::kShort}, {"F16", at::kHalf},
        {"BF16", at::kBFloat16}, {"I32", at::kInt}, {"F32", at::kFloat}, {"I64", at::kLong},  {"F64", at::kDouble},
    };
    at::ScalarType type = at::kByte;
    bool known = false;
    for (const auto& [name, scalar_type] : types) {
        if (name == dtype) type = scalar_type, known = true;
    }
    if (!known && safetensors_bits(dtype) != 8) shape = {static_cast<std::int64_t>(bytes.size())};
    if (bytes.empty()) return at::empty(shape, at::TensorOptions().dtype(type));
    return at::from_blob(
        const_cast<std::byte*>(bytes.data()), shape, [file](void*) {}, at::TensorOptions().dtype(type));
}

std::vector<at::Tensor> safetensors_read_op(const std::string& path, const c10::List<std::string>& names) {
    const SafetensorsFile file = SafetensorsFile::open(path);
    std::vector<at::Tensor> tensors;
    for (const std::string& name : names.vec()) {
        const SafetensorsEntry* entry = file.find(name);
        if (entry == nullptr) throw Error(ErrorCode::input, path, fmt::format("holds no tensor {}", name));
        tensors.push_back(mapped_tensor(file.file(), file.bytes(*entry), entry->dtype, entry->shape));
    }
    return tensors;
}

std::vector<std::string> safetensors_names_op(const std::string& path) {
    const SafetensorsFile file = SafetensorsFile::open(path);
    std::vector<std::string> names;
    for (const SafetensorsEntry& entry : file.entries()) names.push_back(entry.name);
    return names;
}

c10::Dict<std::string, std::string> safetensors_metadata_op(const std::string& path) {
    const SafetensorsFile file = SafetensorsFile::open(path);
    c10::Dict<std::string, std::string> metadata;
    for (const auto& [key, value] : file.metadata()) metadata.insert(key, value);
    return metadata;
}

// A checkpoint folder with its experts found, so that the headers of its shards are read once.
struct ExpertSource : torch::CustomClassHolder {
    ExpertSource(const std::string& folder, const std::string& family_name, std::int64_t layers, std::int64_t experts)
        : checkpoint(Checkpoint::open(folder)) {
        const ModelFamily* family = family_name.empty() ? family_of_model_type(checkpoint.config().model_type)
                                                        : &find_model_family(family_name);
        if (family == nullptr) {
            throw Error(
                ErrorCode::input, folder,
                fmt::format("config.json's model_type '{}' is of no known family", checkpoint.config().model_type),
                "name the family");
        }
        index = index_experts(checkpoint, *family, {static_cast<int>(layers), static_cast<int>(experts), 1, 1});
    }

    // One kind of tensor of the given experts of a model layer, mapped.
    std::vector<at::Tensor> read(std::int64_t layer, const std::string& suffix,
                                 std::vector<std::int64_t> experts) const {
        const auto kinds = index.by_layer.find(static_cast<int>(layer));
        if (kinds == index.by_layer.end()) {
            throw Error(ErrorCode::input, checkpoint.folder(), fmt::format("layer {} has no experts", layer));
        }
        for (const ExpertTensors& tensors : kinds->second) {
            if (tensors.suffix != suffix) continue;
            std::vector<at::Tensor> result;
            for (const std::int64_t expert : experts) {
                const TensorBytes& bytes = tensors.experts.at(static_cast<std::size_t>(expert));
                const SafetensorsFile& shard = checkpoint.shards()[bytes.shard];
                const auto range = shard.file()->bytes().subspan(shard.data_offset() + bytes.begin, bytes.size);
                result.push_back(mapped_tensor(shard.file(), range, tensors.dtype, tensors.shape));
            }
            return result;
        }
        throw Error(ErrorCode::input, checkpoint.folder(),
                    fmt::format("experts of layer {} have no {}", layer, suffix));
    }

    Checkpoint checkpoint;
    ExpertIndex index;
};

}  // namespace
}  // namespace eplb

TORCH_LIBRARY_FRAGMENT(eplb, library) {
    library.def("exchange_plan(int[] old_row, int[] new_row, int ranks, int nodes=1) -> Tensor",
                TORCH_FN(eplb::exchange_plan_op));
    library.def("require_table(Tensor map, int experts, int ranks, Tensor table) -> ()",
                TORCH_FN(eplb::require_table_op));
    library.def("map_hash(Tensor map, int experts, int ranks) -> str", TORCH_FN(eplb::map_hash_op));
    library.def(
        "dispatch_table(Tensor map, int experts, int ranks, str model, int nodes=0, int tensor_parallel=1) -> "
        "Tensor",
        TORCH_FN(eplb::dispatch_table_op));
    library.def("read_layout(str path, int ranks, bool allow_no_manifest) -> (Tensor, int[], str)",
                TORCH_FN(eplb::read_layout_op));
    library.def("write_expert_map(str path, Tensor map, int experts, int ranks, bool force) -> ()",
                TORCH_FN(eplb::write_expert_map_op));
    library.def("require_expert_map(str path, Tensor map, int experts, int ranks) -> ()",
                TORCH_FN(eplb::require_expert_map_op));
    library.def(
        "admit(str layout, str engine, Dict(str, str) facts, str server_args=\"\", str server_args_json=\"\", "
        "str model_config=\"\", str table=\"\", str current=\"\", str expect=\"\", bool allow_no_manifest=False) -> "
        "(str, str[], Tensor)",
        TORCH_FN(eplb::admit_op));
    library.def("safetensors_read(str path, str[] names) -> Tensor[]", TORCH_FN(eplb::safetensors_read_op));
    library.def("safetensors_names(str path) -> str[]", TORCH_FN(eplb::safetensors_names_op));
    library.def("safetensors_metadata(str path) -> Dict(str, str)", TORCH_FN(eplb::safetensors_metadata_op));
    library.class_<eplb::ExpertSource>("ExpertSource")
        .def(torch::init<const std::string&, const std::string&, std::int64_t, std::int64_t>())
        .def("read", &eplb::ExpertSource::read);
}
