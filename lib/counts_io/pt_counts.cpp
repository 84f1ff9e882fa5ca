// Torch files, read without torch: a zip archive with a pickle that describes tensors and a record of bytes for each
// storage. Nothing of the pickle is executed; it may name only what pt_pickle.cpp allows.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <map>

#include "core/error.hpp"
#include "counts_io/count_formats.hpp"
#include "counts_io/fail_input.hpp"
#include "counts_io/layer_stack.hpp"
#include "counts_io/pt_pickle.hpp"
#include "files/zip.hpp"

namespace eplb {
namespace {

constexpr std::string_view pickle_suffix = "/data.pkl";
constexpr std::uint64_t max_pickle = 1 << 26, max_text_record = 64;

// torch.save writes every record under one folder, named after the file.
std::string root_of(const ZipArchive& archive) {
    std::string root;
    for (const ZipMember& member : archive.members()) {
        if (member.name.size() < pickle_suffix.size() || !member.name.ends_with(pickle_suffix)) continue;
        if (!root.empty()) fail_input("MALFORMED", "", "the archive holds two pickles named data.pkl");
        root = member.name.substr(0, member.name.size() - pickle_suffix.size());
    }
    if (!root.empty()) {
        if (archive.find(root + "/constants.pkl") != nullptr) {
            fail_input("NOT_A_COUNT_FILE", "", "is a TorchScript archive, not saved tensors",
                       "save counts with torch.save");
        }
        return root;
    }
    if (archive.find("[Content_Types].xml") != nullptr) {
        fail_input("NOT_A_COUNT_FILE", "", "is an Office document (.xlsx)",
                   "export the sheet as CSV, one line a layer");
    }
    const bool arrays = std::any_of(archive.members().begin(), archive.members().end(),
                                    [](const ZipMember& member) { return member.name.ends_with(".npy"); });
    fail_input("NOT_A_COUNT_FILE", "", "is a zip archive without a data.pkl, so no torch file",
               arrays ? "this is an .npz: save the one array with numpy.save" : "");
}

// Elements of the storage that the tensor's last element needs; throws when the geometry does not fit the storage.
void check_geometry(const PtTensor& tensor) {
    const std::string shape = tensor.describe();
    std::int64_t last = tensor.offset, elements = 1;
    bool empty = false, overflow = false;
    for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
        std::int64_t reach = 0;
        if (tensor.shape[axis] < 0 || tensor.strides[axis] < 0) {
            fail_input("BAD_GEOMETRY", tensor.path, fmt::format("{} has a negative extent or stride", shape));
        }
        empty = empty || tensor.shape[axis] == 0;
        overflow =
            overflow || __builtin_mul_overflow(elements, std::max<std::int64_t>(tensor.shape[axis], 1), &elements);
        if (tensor.shape[axis] == 0) continue;
        overflow = overflow || __builtin_mul_overflow(tensor.shape[axis] - 1, tensor.strides[axis], &reach) ||
                   __builtin_add_overflow(last, reach, &last);
    }
    if (tensor.offset < 0 || overflow) fail_input("BAD_GEOMETRY", tensor.path, fmt::format("{} is absurd", shape));
    if (empty) return;
    if (last >= tensor.storage.elements) {
        fail_input("BAD_GEOMETRY", tensor.path,
                   fmt::format("{} with offset {} and strides [{}] reaches element {} of a storage of {}", shape,
                               tensor.offset, fmt::join(tensor.strides, ", "), last, tensor.storage.elements));
    }
    // A view with overlapping elements could claim any size; counts never overlap.
    if (elements > tensor.storage.elements) {
        fail_input("BAD_GEOMETRY", tensor.path,
                   fmt::format("{} has more elements than its storage of {}", shape, tensor.storage.elements),
                   "save tensor.contiguous()");
    }
}

// The storages of one file. Each record is read, checked and inflated once, however many tensors lie in it.
class Storages {
  public:
    Storages(const ZipArchive& archive, const std::string& root)
        : archive_(archive), root_(root), little_endian_(stored_little_endian()) {}

    Tensor load(const PtTensor& source) {
        check_geometry(source);
        const ZipBytes& record = record_of(source.storage);
        Tensor tensor;
        tensor.dtype = source.dtype;
        tensor.byte_swapped =
            size_of(source.dtype) > 1 && little_endian_ != (std::endian::native == std::endian::little);
        tensor.shape = source.shape;
        tensor.strides = source.strides;
        const bool empty = std::find(source.shape.begin(), source.shape.end(), 0) != source.shape.end();
        tensor.data =
            record.bytes.data() + (empty ? 0 : source.offset * static_cast<std::int64_t>(size_of(source.dtype)));
        tensor.owner = record.owner;
        return tensor;
    }

  private:
    const ZipBytes& record_of(const PtStorage& storage) {
        const std::string name = fmt::format("{}/data/{}", root_, storage.key);
        const ZipMember* member = archive_.find(name);
        if (member == nullptr) {
            fail_input("MALFORMED", "", fmt::format("the record \"{}\" of the tensor is missing", name));
        }
        const auto bytes = static_cast<std::uint64_t>(storage.bytes());
        if (member->size != bytes) {
            fail_input("BAD_GEOMETRY", name,
                       fmt::format("the record has {} bytes, its storage claims {}", member->size, bytes));
        }
        const auto [record, fresh] = records_.try_emplace(member);
        if (fresh) record->second = archive_.read(*member, bytes);
        return record->second;
    }
    bool stored_little_endian() const {
        const std::string name = root_ + "/byteorder";
        const ZipMember* member = archive_.find(name);
        if (member == nullptr) return true;  // torch wrote it from 2.1 on; before, only little-endian hosts matter
        const ZipBytes record = archive_.read(*member, max_text_record);
        const std::string_view order(reinterpret_cast<const char*>(record.bytes.data()), record.bytes.size());
        if (order != "little" && order != "big") fail_input("MALFORMED", name, "is neither \"little\" nor \"big\"");
        return order == "little";
    }

    const ZipArchive& archive_;
    const std::string& root_;
    bool little_endian_;
    std::map<const ZipMember*, ZipBytes> records_;
};

Tensor load_layers(const std::vector<PtLayer>& layers, Storages& storages, const CountOptions& options) {
    SeparateStorages separate;
    std::vector<LayerCountsOf> parts;
    for (const PtLayer& layer : layers) {
        separate.add(layer.tensor, layer.tensor.path);
        parts.push_back({layer.layer, storages.load(layer.tensor), layer.tensor.path});
    }
    return stack_layers(parts, options.layers);
}

// A cut file has lost its directory, but the pickle stands at its front and tells how large it should be.
[[noreturn]] void fail_truncated(const MappedFile& file, const CountOptions& options, const Error& lost) {
    const ZipLocalHeader first = read_local_header(file.bytes(), 0);
    std::optional<PtChoice> choice;
    if (first.name.ends_with(pickle_suffix)) {
        try {
            choice = choose_counts(read_pt_pickle(file.bytes().subspan(first.data_at), file.bytes().size()), options);
        } catch (const Error&) {
            // The pickle is cut or damaged too: nothing more can be said than `lost` says.
        }
    }
    if (!choice || !choice->layers.empty()) throw lost;
    const std::int64_t needed = choice->tensor.storage.bytes();
    if (static_cast<std::uint64_t>(needed) <= file.bytes().size() - first.data_at) throw lost;
    throw Error(ErrorCode::input, lost.where(),
                fmt::format("the file has {} bytes and no zip end record; its {} alone needs {}", file.bytes().size(),
                            choice->tensor.describe(), needed),
                lost.hint())
        .as_finding("TRUNCATED");
}

// Files before torch 1.6, and torch.save(..., _use_new_zipfile_serialization=False): pickles in a row, the first of
// them the magic number 0x1950a86a20f9469cfc6c.
[[noreturn]] void fail_bare_pickle(std::span<const std::byte> bytes) {
    constexpr std::string_view magic = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    if (bytes.size() >= 2 + magic.size() && std::memcmp(bytes.data() + 2, magic.data(), magic.size()) == 0) {
        fail_input("LEGACY_FORMAT", "byte 2",
                   "is a torch file in the legacy format (before torch 1.6), which is not read",
                   "load it with torch and save it again with torch.save");
    }
    fail_input("NOT_A_COUNT_FILE", "byte 0", "is a bare Python pickle, not a torch file",
               "save counts with torch.save");
}

}  // namespace

bool looks_like_pt(std::span<const std::byte> bytes) {
    const bool pickle =
        bytes.size() >= 2 && bytes[0] == std::byte{0x80} && bytes[1] >= std::byte{2} && bytes[1] <= std::byte{5};
    return looks_like_zip(bytes) || pickle;
}

DecodedCounts read_pt_counts(const std::shared_ptr<const MappedFile>& file, const CountOptions& options) {
    if (!looks_like_zip(file->bytes())) {
        if (looks_like_pt(file->bytes())) fail_bare_pickle(file->bytes());
        fail_input("NOT_A_COUNT_FILE", "byte 0", "does not begin as a torch file, which is a zip archive");
    }
    std::optional<ZipArchive> archive;
    try {
        archive.emplace(file);
    } catch (const Error& error) {
        if (error.finding_code() == "TRUNCATED") fail_truncated(*file, options, error);
        throw;
    }
    const std::string root = root_of(*archive), pickle_name = root + std::string(pickle_suffix);
    const ZipBytes pickled = archive->read(*archive->find(pickle_name), max_pickle);
    std::optional<PtPerPass> per_pass;
    std::optional<PtChoice> choice;
    try {
        const Pickle pickle = read_pt_pickle(pickled.bytes, file->bytes().size());
        per_pass = find_per_pass(pickle);
        if (!per_pass) choice = choose_counts(pickle, options);
    } catch (const Error& error) {
        throw error.inside(pickle_name);
    }
    Storages storages(*archive, root);
    if (per_pass) {
        return fold_per_pass(*per_pass, [&](const PtTensor& tensor) { return storages.load(tensor); });
    }
    DecodedCounts result;
    result.reduction = choice->reduction;
    result.columns = choice->columns;
    result.findings = std::move(choice->findings);
    if (!choice->layers.empty()) {
        result.tensor = load_layers(choice->layers, storages, options);
        result.saved_on = choice->layers.front().tensor.storage.location;
        return result;
    }
    result.tensor = storages.load(choice->tensor);
    result.saved_on = choice->tensor.storage.location;
    if (choice->map) result.slots.map = slot_map_of(storages.load(*choice->map), options.experts, choice->map->path);
    return result;
}

}  // namespace eplb
