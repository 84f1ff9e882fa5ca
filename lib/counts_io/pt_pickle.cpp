#include "counts_io/pt_pickle.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>
#include <string_view>

#include "core/error.hpp"
#include "core/geometry.hpp"
#include "core/printable.hpp"
#include "counts_io/extra_keys.hpp"
#include "counts_io/layer_stack.hpp"

namespace eplb {
namespace {

constexpr std::size_t max_depth = 8, max_visits = 100'000, max_axes = 64;  // 64 axes: torch's own limit
// Of a storage's key ("0") and device ("npu:0"), which every tensor in it repeats.
constexpr std::size_t max_storage_text = 256;

struct NamedType {
    std::string_view name;
    DType dtype;
};
constexpr std::array<NamedType, 10> storage_types = {{{"BoolStorage", DType::boolean},
                                                      {"ByteStorage", DType::uint8},
                                                      {"CharStorage", DType::int8},
                                                      {"ShortStorage", DType::int16},
                                                      {"IntStorage", DType::int32},
                                                      {"LongStorage", DType::int64},
                                                      {"HalfStorage", DType::float16},
                                                      {"BFloat16Storage", DType::bfloat16},
                                                      {"FloatStorage", DType::float32},
                                                      {"DoubleStorage", DType::float64}}};
// torch.<name> as an argument of _rebuild_tensor_v3, for types without a storage class of their own.
constexpr std::array<NamedType, 13> dtype_names = {{{"bool", DType::boolean},
                                                    {"uint8", DType::uint8},
                                                    {"int8", DType::int8},
                                                    {"uint16", DType::uint16},
                                                    {"int16", DType::int16},
                                                    {"uint32", DType::uint32},
                                                    {"int32", DType::int32},
                                                    {"uint64", DType::uint64},
                                                    {"int64", DType::int64},
                                                    {"float16", DType::float16},
                                                    {"bfloat16", DType::bfloat16},
                                                    {"float32", DType::float32},
                                                    {"float64", DType::float64}}};

template <std::size_t N>
std::optional<DType> type_named(const std::array<NamedType, N>& types, std::string_view name) {
    for (const NamedType& type : types) {
        if (type.name == name) return type.dtype;
    }
    return std::nullopt;
}

bool is_torch_npu(std::string_view module) {
    return module == "torch_npu" || module.starts_with("torch_npu.");
}

bool is_untyped_storage(std::string_view module, std::string_view name) {
    return name == "UntypedStorage" && (module == "torch.storage" || module == "torch");
}

// The memory format that torch_npu passes along: an enum, pickled as a call of its class, or of getattr by Python 3.11.
bool is_npu_format(std::string_view module, std::string_view name) {
    return is_torch_npu(module) && name.ends_with("Format");
}
bool is_getattr(std::string_view module, std::string_view name) {
    return name == "getattr" && (module == "builtins" || module == "__builtin__");
}

bool allowed(std::string_view module, std::string_view name) {
    if (module == "torch._utils") {
        return name == "_rebuild_tensor_v2" || name == "_rebuild_tensor_v3" || name == "_rebuild_parameter";
    }
    if (module == "torch" && (type_named(storage_types, name) || type_named(dtype_names, name))) return true;
    if (is_torch_npu(module) && name == "_rebuild_npu_tensor") return true;
    return is_untyped_storage(module, name) || is_npu_format(module, name) || is_getattr(module, name);
}

[[noreturn]] void fail_at(const PickleNode& node, std::string_view finding, std::string what, std::string hint = "") {
    throw Error(ErrorCode::input, fmt::format("byte {}", node.byte), std::move(what), std::move(hint))
        .as_finding(finding);
}

// Reads the nodes as torch's own loader would call them, without calling anything.
class TensorReader {
  public:
    explicit TensorReader(const Pickle& pickle) : pickle_(pickle) {}

    // nullopt when the node is no tensor.
    std::optional<PtTensor> tensor(const PickleNode& outer) const {
        const PickleNode* node = &outer;
        for (std::size_t depth = 0; depth < max_depth && node->kind == PickleKind::call; ++depth) {
            const PickleNode& function = pickle_.item(*node, 0);
            if (function.name != "_rebuild_parameter") break;
            node = &argument(*node, 0, 3, 3);  // data, requires_grad, hooks
        }
        if (node->kind != PickleKind::call) return std::nullopt;
        const PickleNode& function = pickle_.item(*node, 0);
        if (function.name == "_rebuild_tensor_v2") return rebuilt(*node, 6, 7, std::nullopt);
        if (function.name == "_rebuild_tensor_v3") {
            const PickleNode& type = argument(*node, 6, 7, 8);
            const std::optional<DType> dtype = type.kind == PickleKind::global && type.text == "torch"
                                                   ? type_named(dtype_names, type.name)
                                                   : std::nullopt;
            if (!dtype) fail_at(type, "UNSUPPORTED_TYPE", "the tensor's type is no number type");
            return rebuilt(*node, 7, 8, dtype);
        }
        if (function.name == "_rebuild_npu_tensor") {
            check_npu_format(argument(*node, 6, 7, 7));
            return rebuilt(*node, 7, 7, std::nullopt);
        }
        return std::nullopt;
    }

    static std::int64_t integer(const PickleNode& node, std::string_view what) {
        if (node.kind == PickleKind::big_integer) {
            fail_at(node, "BAD_GEOMETRY", fmt::format("the {} does not fit into 63 bits", what));
        }
        if (node.kind != PickleKind::integer) fail_at(node, "MALFORMED", fmt::format("the {} is no number", what));
        return node.integer;
    }

  private:
    const PickleNode& argument(const PickleNode& call, std::size_t position, std::size_t least,
                               std::size_t most) const {
        const PickleNode &function = pickle_.item(call, 0), &arguments = pickle_.item(call, 1);
        if (arguments.items.size() < least || arguments.items.size() > most) {
            fail_at(call, "MALFORMED", fmt::format("{} has {} arguments", function.name, arguments.items.size()));
        }
        return pickle_.item(arguments, position);
    }
    std::vector<std::int64_t> integers(const PickleNode& node, std::string_view what) const {
        if (node.kind != PickleKind::tuple && node.kind != PickleKind::list) {
            fail_at(node, "MALFORMED", fmt::format("the {} is no tuple", what));
        }
        if (node.items.size() > max_axes) {
            fail_at(node, "BAD_GEOMETRY", fmt::format("a tensor of {} axes is absurd", node.items.size()));
        }
        std::vector<std::int64_t> values;
        for (const std::uint32_t item : node.items) values.push_back(integer(pickle_[item], what));
        return values;
    }
    static std::string_view storage_text(const PickleNode& node, std::string_view what) {
        if (node.kind != PickleKind::text) fail_at(node, "MALFORMED", fmt::format("the {} is no text", what));
        if (node.text.size() > max_storage_text) {
            fail_at(node, "MALFORMED", fmt::format("a {} of {} bytes is absurd", what, node.text.size()));
        }
        return node.text;
    }

    // (storage, offset, size, stride, requires_grad, hooks, ...)
    PtTensor rebuilt(const PickleNode& call, std::size_t least, std::size_t most, std::optional<DType> dtype) const {
        PtTensor result;
        result.storage = storage(argument(call, 0, least, most), dtype);
        result.dtype = *dtype;
        result.offset = integer(argument(call, 1, least, most), "offset");
        result.shape = integers(argument(call, 2, least, most), "shape");
        result.strides = integers(argument(call, 3, least, most), "strides");
        if (result.shape.size() != result.strides.size()) {
            fail_at(call, "BAD_GEOMETRY",
                    fmt::format("a tensor has {} extents and {} strides", result.shape.size(), result.strides.size()));
        }
        return result;
    }

    // ("storage", type, key, location, size); sets `dtype` where the storage's type tells it.
    PtStorage storage(const PickleNode& reference, std::optional<DType>& dtype) const {
        const PickleNode* parts = reference.kind == PickleKind::persistent ? &pickle_.item(reference, 0) : nullptr;
        if (parts == nullptr || parts->kind != PickleKind::tuple || parts->items.size() != 5 ||
            storage_text(pickle_.item(*parts, 0), "storage tag") != "storage") {
            fail_at(reference, "MALFORMED", "a tensor's storage is no (\"storage\", type, key, location, size)");
        }
        const PickleNode& type = pickle_.item(*parts, 1);
        PtStorage result;
        result.key = storage_text(pickle_.item(*parts, 2), "storage key");
        result.location = storage_text(pickle_.item(*parts, 3), "storage location");
        std::int64_t size = integer(pickle_.item(*parts, 4), "storage size");
        const bool untyped = type.kind == PickleKind::global && is_untyped_storage(type.text, type.name);
        const std::optional<DType> own = type.kind == PickleKind::global && type.text == "torch"
                                             ? type_named(storage_types, type.name)
                                             : std::nullopt;
        if (!untyped && !own) fail_at(type, "MALFORMED", "a storage's type is no storage class");
        std::int64_t bytes = size;  // of an untyped storage
        if (own && __builtin_mul_overflow(size, static_cast<std::int64_t>(size_of(*own)), &bytes)) bytes = -1;
        if (size < 0 || bytes < 0)
            fail_at(*parts, "BAD_GEOMETRY", fmt::format("a storage of {} elements is absurd", size));
        if (!dtype) dtype = own;
        if (!dtype) fail_at(type, "MALFORMED", "nothing tells the type of a tensor with an untyped storage");
        result.element_size = size_of(*dtype);
        if (bytes % static_cast<std::int64_t>(result.element_size) != 0) {
            fail_at(*parts, "BAD_GEOMETRY",
                    fmt::format("a storage of {} bytes holds no whole number of elements", bytes));
        }
        result.elements = bytes / static_cast<std::int64_t>(result.element_size);
        return result;
    }

    // A bool, a number, or a member of torch_npu's Format; it says how the device laid the bytes out, which does not
    // matter for what was copied back to the file.
    void check_npu_format(const PickleNode& node) const {
        if (node.kind == PickleKind::boolean || node.kind == PickleKind::integer) return;
        if (node.kind == PickleKind::call) {
            const PickleNode& function = pickle_.item(node, 0);
            if (is_npu_format(function.text, function.name)) return;
            if (is_getattr(function.text, function.name)) {
                const PickleNode& target = argument(node, 0, 2, 2);
                if (target.kind == PickleKind::global && is_npu_format(target.text, target.name)) return;
            }
        }
        fail_at(node, "MALFORMED", "the memory format of an NPU tensor is no bool, number or Format");
    }

    const Pickle& pickle_;
};

// The tensors with two or three axes in the containers, with their paths: the first few, and how many there are.
class TensorSearch {
  public:
    explicit TensorSearch(const Pickle& pickle) : pickle_(pickle), reader_(pickle) { walk(pickle[pickle.root], "", 0); }

    static constexpr std::size_t most_kept = 4;
    std::vector<PtTensor> first;
    std::size_t count = 0;

  private:
    void walk(const PickleNode& node, const std::string& path, std::size_t depth) {
        if (++visits_ > max_visits || depth > max_depth) {
            fail_at(node, "MALFORMED", "the file's containers are nested too deep or hold too much");
        }
        if (std::optional<PtTensor> tensor = reader_.tensor(node)) {
            if (tensor->shape.size() != 2 && tensor->shape.size() != 3) return;
            if (++count > most_kept) return;
            tensor->path = path;
            first.push_back(std::move(*tensor));
        } else if (node.kind == PickleKind::list || node.kind == PickleKind::tuple) {
            for (std::size_t position = 0; position < node.items.size(); ++position) {
                walk(pickle_.item(node, position), fmt::format("{}[{}]", path, position), depth + 1);
            }
        } else if (node.kind == PickleKind::dict) {
            for (std::size_t position = 0; position + 1 < node.items.size(); position += 2) {
                walk(pickle_.item(node, position + 1), path + key_text(pickle_.item(node, position)), depth + 1);
            }
        }
    }
    static std::string key_text(const PickleNode& key) {
        if (key.kind == PickleKind::text) return fmt::format("['{}']", shortened(key.text, 80));
        if (key.kind == PickleKind::integer) return fmt::format("[{}]", key.integer);
        return "[?]";
    }

    const Pickle& pickle_;
    TensorReader reader_;
    std::size_t visits_ = 0;
};

constexpr std::array<std::string_view, 3> recorder_keys = {"rank", "logical_count",
                                                           "average_utilization_rate_over_window"};

void note_extra_keys(const Pickle& pickle, std::string_view chosen, std::vector<Finding>& findings) {
    const PickleNode& root = pickle[pickle.root];
    ExtraKeys extra;
    for (std::size_t position = 0; position + 1 < root.items.size(); position += 2) {
        const PickleNode& key = pickle.item(root, position);
        if (key.kind == PickleKind::text && (key.text == chosen || std::find(recorder_keys.begin(), recorder_keys.end(),
                                                                             key.text) != recorder_keys.end())) {
            continue;
        }
        extra.add("", key.kind == PickleKind::text ? fmt::format("key \"{}\"", shortened(key.text, 80))
                                                   : "a key that is no text");
    }
    extra.move_to(findings);
}

constexpr std::string_view map_key = "physical_to_logical_map";

std::optional<std::int64_t> layer_of_node(const PickleNode& key) {
    if (key.kind == PickleKind::text) return layer_of_key(key.text);
    if (key.kind != PickleKind::integer || key.integer < 0 || key.integer >= max_layers) return std::nullopt;
    return key.integer;
}

// A tensor for each layer: in a dict under the layers' numbers, or one-axis tensors in a list. Empty where the root is
// neither.
std::vector<PtLayer> layers_of(const Pickle& pickle, const TensorReader& reader) {
    const PickleNode& root = pickle[pickle.root];
    std::vector<PtLayer> layers;
    if (root.kind == PickleKind::dict) {
        const PickleNode* stranger = nullptr;  // a tensor under another key
        for (std::size_t position = 0; position + 1 < root.items.size(); position += 2) {
            std::optional<PtTensor> tensor = reader.tensor(pickle.item(root, position + 1));
            if (!tensor) continue;
            const std::optional<std::int64_t> layer = layer_of_node(pickle.item(root, position));
            if (layer) {
                tensor->path = fmt::format("layer {}", *layer);
                layers.push_back({*layer, std::move(*tensor)});
            } else if (stranger == nullptr) {
                stranger = &pickle.item(root, position);
            }
        }
        if (!layers.empty() && stranger != nullptr) {
            fail_at(*stranger, "NOT_A_COUNT_FILE", "a tensor stands under another key than those of layers",
                    "a key for each layer is its number, alone or behind \"layer_\"");
        }
        return layers;
    }
    if (root.kind != PickleKind::list && root.kind != PickleKind::tuple) return {};
    for (std::size_t position = 0; position < root.items.size(); ++position) {
        std::optional<PtTensor> tensor = reader.tensor(pickle.item(root, position));
        if (!tensor || tensor->shape.size() != 1) return {};
        tensor->path = fmt::format("[{}]", position);
        layers.push_back({static_cast<std::int64_t>(position), std::move(*tensor)});
    }
    return layers;
}

// lmdeploy's recorder: a total since the start, summed over all ranks before it is written.
bool is_of_lmdeploy(const Pickle& pickle) {
    const PickleNode& root = pickle[pickle.root];
    const auto has = [&](std::string_view key) { return pickle.find(root, key) != nullptr; };
    return root.kind == PickleKind::dict && has("counts") && has("balancedness") && has("total_tokens");
}

[[noreturn]] void fail_choice(const PickleNode& root, const TensorSearch& search) {
    std::vector<std::string> names;
    for (const PtTensor& tensor : search.first) names.push_back(fmt::format("{} {}", tensor.path, tensor.describe()));
    fail_at(root, "NOT_A_COUNT_FILE",
            fmt::format("holds {} tensors that could be the counts: {}{}", search.count, fmt::join(names, ", "),
                        search.count > names.size() ? ", ..." : ""),
            "--dataset KEY names the one");
}

// Counts of physical slots beside the layout that was in force.
PtChoice choose_slots(const Pickle& pickle, const PickleNode& map, TensorSearch& search) {
    const PickleNode& root = pickle[pickle.root];
    PtChoice choice;
    choice.map = TensorReader(pickle).tensor(map);
    if (!choice.map) fail_at(map, "NOT_A_COUNT_FILE", fmt::format("the value under \"{}\" is no tensor", map_key));
    choice.map->path = fmt::format("['{}']", map_key);
    if (search.count < 2) {
        fail_at(root, "NOT_A_COUNT_FILE", fmt::format("this is a layout (key \"{}\"), not counts", map_key));
    }
    if (search.count > 2) fail_choice(root, search);
    choice.tensor = std::move(search.first[search.first[0].path == choice.map->path ? 1 : 0]);
    choice.columns = Columns::slots;
    return choice;
}

}  // namespace

void SeparateStorages::add(const PtTensor& tensor, const std::string& where) {
    if (storages_.insert(tensor.storage.key).second) elements_ += tensor.storage.elements;
    std::int64_t elements = 1;
    for (const std::int64_t extent : tensor.shape) {
        if (__builtin_mul_overflow(elements, extent, &elements)) elements = std::numeric_limits<std::int64_t>::max();
    }
    elements_ -= std::min(elements, elements_ + 1);
    if (elements_ < 0) {
        throw Error(ErrorCode::input, where, "its values share a storage with those of its neighbours",
                    "save each tensor with .clone()")
            .as_finding("BAD_GEOMETRY");
    }
}

std::string PtTensor::describe() const {
    return fmt::format("{} [{}]", name_of(dtype), fmt::join(shape, ", "));
}

Pickle read_pt_pickle(std::span<const std::byte> bytes, std::uint64_t file_bytes) {
    constexpr std::uint64_t bytes_per_opcode = 64;  // a pass has some fifty opcodes, and counts of many kilobytes
    return read_pickle(bytes, allowed, few_opcodes + static_cast<std::size_t>(file_bytes / bytes_per_opcode));
}

PtChoice choose_counts(const Pickle& pickle, const CountOptions& options) {
    const PickleNode& root = pickle[pickle.root];
    const std::string_view key = options.dataset ? std::string_view(*options.dataset) : "logical_count";
    if (root.kind == PickleKind::dict) {
        if (const PickleNode* value = pickle.find(root, key)) {
            PtChoice choice;
            std::optional<PtTensor> tensor = TensorReader(pickle).tensor(*value);
            if (!tensor) fail_at(*value, "NOT_A_COUNT_FILE", fmt::format("the value under \"{}\" is no tensor", key));
            choice.tensor = std::move(*tensor);
            choice.tensor.path = fmt::format("['{}']", key);
            if (key == "logical_count") {
                choice.reduction = Reduction::reduced;  // SGLang sums over all ranks first
                choice.columns = Columns::experts;
            }
            note_extra_keys(pickle, key, choice.findings);
            return choice;
        }
    }
    if (options.dataset) fail_at(root, "NOT_A_COUNT_FILE", fmt::format("has no key \"{}\"", key));

    TensorSearch search(pickle);
    if (root.kind == PickleKind::dict) {
        if (const PickleNode* map = pickle.find(root, map_key)) return choose_slots(pickle, *map, search);
    }
    if (std::vector<PtLayer> layers = layers_of(pickle, TensorReader(pickle)); !layers.empty()) {
        PtChoice choice;
        choice.layers = std::move(layers);
        return choice;
    }
    if (search.count == 0) {
        fail_at(root, "NOT_A_COUNT_FILE", "holds no \"logical_count\" and no tensor with two or three axes");
    }
    if (search.count > 1) fail_choice(root, search);
    PtChoice choice;
    choice.tensor = std::move(search.first.front());
    if (choice.tensor.path.ends_with("['logical_count']")) {
        choice.reduction = Reduction::reduced;
        choice.columns = Columns::experts;
    }
    if (is_of_lmdeploy(pickle)) {
        choice.reduction = Reduction::reduced;
        choice.columns = Columns::experts;
    } else if (!choice.tensor.path.empty()) {
        choice.findings.push_back({Severity::info, "TENSOR_CHOSEN", choice.tensor.path,
                                   fmt::format("the only tensor with two or three axes, {}, is taken as the counts",
                                               choice.tensor.describe()),
                                   ""});
    }
    return choice;
}

std::optional<PtPerPass> find_per_pass(const Pickle& pickle) {
    const PickleNode& root = pickle[pickle.root];
    if (root.kind != PickleKind::dict) return std::nullopt;
    const PickleNode* records = pickle.find(root, "records");
    if (records == nullptr || records->kind != PickleKind::list) return std::nullopt;

    const TensorReader reader(pickle);
    const auto field = [&](const PickleNode& dict, std::string_view key) -> const PickleNode& {
        const PickleNode* value = dict.kind == PickleKind::dict ? pickle.find(dict, key) : nullptr;
        if (value == nullptr) fail_at(dict, "MALFORMED", fmt::format("a per-pass dump without \"{}\"", key));
        return *value;
    };
    const auto tensor = [&](const PickleNode& dict, std::string_view key) {
        std::optional<PtTensor> found = reader.tensor(field(dict, key));
        if (!found) fail_at(dict, "MALFORMED", fmt::format("the value under \"{}\" is no tensor", key));
        found->path = fmt::format("['{}']", key);
        return std::move(*found);
    };
    PtPerPass dump;
    dump.map = tensor(root, "last_physical_to_logical_map");
    std::set<std::int64_t> passes;
    for (std::size_t position = 0; position < records->items.size(); ++position) {
        const PickleNode& record = pickle.item(*records, position);
        const std::int64_t rank = TensorReader::integer(field(record, "rank"), "rank");
        if (position == 0)
            dump.rank = static_cast<int>(std::clamp<std::int64_t>(rank, 0, std::numeric_limits<int>::max()));
        if (rank != dump.rank) {
            fail_at(record, "MALFORMED", fmt::format("a pass of rank {} in the dump of rank {}", rank, dump.rank));
        }
        const PickleNode& key = field(record, "gatherer_key");
        if (key.kind != PickleKind::text || key.text != "primary") {
            fail_at(key, "MALFORMED", "passes of several gatherers (two-batch overlap) are not read",
                    "record with one gatherer");
        }
        const std::int64_t pass = TensorReader::integer(field(record, "forward_pass_id"), "forward_pass_id");
        if (!passes.insert(pass).second) {
            fail_at(*records, "MALFORMED", fmt::format("pass {} is recorded twice", pass));
        }
        const bool ids = pickle.find(record, "global_physical_count") == nullptr &&
                         pickle.find(record, "topk_ids_of_layer") != nullptr;
        dump.records.push_back({pass, tensor(record, ids ? "topk_ids_of_layer" : "global_physical_count"), ids});
    }
    std::sort(dump.records.begin(), dump.records.end(),
              [](const PtRecord& a, const PtRecord& b) { return a.pass < b.pass; });
    return dump;
}

}  // namespace eplb
