#include "files/hdf5.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/tensor_view.hpp"
#include "files/child_process.hpp"
#include "files/inflation.hpp"

#ifdef EPLB_HAVE_HDF5
#include <hdf5.h>
#endif

namespace eplb {

bool looks_like_hdf5(std::span<const std::byte> bytes) {
    constexpr std::string_view signature("\x89HDF\r\n\x1a\n", 8);
    // At byte 0, or behind a user block of 512 bytes or any larger power of two (HDF5 file format, II.A).
    for (std::size_t at = 0; at + signature.size() <= bytes.size() && at <= (std::size_t{1} << 20);
         at = at == 0 ? 512 : at * 2) {
        if (std::memcmp(bytes.data() + at, signature.data(), signature.size()) == 0) return true;
    }
    return false;
}

#ifdef EPLB_HAVE_HDF5
namespace {

constexpr char separator = '\x1f';  // between the fields of the child's answer

// Closes an HDF5 identifier on every way out.
class Handle {
  public:
    Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
    ~Handle() {
        if (id_ >= 0) close_(id_);
    }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    operator hid_t() const { return id_; }

  private:
    hid_t id_;
    herr_t (*close_)(hid_t);
};

// The library's own words for its last failure: the innermost description.
std::string library_reason() {
    std::string reason;
    H5Ewalk2(
        H5E_DEFAULT, H5E_WALK_DOWNWARD,
        [](unsigned, const H5E_error2_t* error, void* into) -> herr_t {
            if (error->desc != nullptr) *static_cast<std::string*>(into) = error->desc;
            return 0;
        },
        &reason);
    H5Eclear2(H5E_DEFAULT);
    return reason.empty() ? "no reason given" : reason;
}

[[noreturn]] void fail_hdf5(std::string_view finding, std::string where, std::string what, std::string hint = "") {
    throw Error(ErrorCode::input, std::move(where), std::move(what), std::move(hint)).as_finding(finding);
}

[[noreturn]] void fail_library(std::string where, std::string_view what) {
    const std::string reason = library_reason();
    const bool cut = reason.find("truncated") != std::string::npos;
    const bool checksum = reason.find("Fletcher32") != std::string::npos;
    fail_hdf5(cut        ? "TRUNCATED"
              : checksum ? "CRC_MISMATCH"
                         : "MALFORMED",
              std::move(where), fmt::format("{}: {}", what, reason), "dump or copy the file again");
}

struct Candidate {
    std::string path;
    H5T_class_t type;
    int axes;
};

// A link that leads away from where it stands, in words: "external link to /x in b.h5".
struct Link {
    std::string path, what, hint;
};

struct Contents {
    std::vector<Candidate> data_sets;
    std::vector<Link> links;
};

constexpr std::size_t most_objects = 10'000, longest_link = 4096;

herr_t note_data_set(hid_t root, const char* name, const H5O_info_t* info, void* into) {
    auto& list = static_cast<Contents*>(into)->data_sets;
    if (info->type != H5O_TYPE_DATASET) return 0;
    if (list.size() == most_objects) return -1;
    const Handle data_set(H5Dopen2(root, name, H5P_DEFAULT), H5Dclose);
    if (data_set < 0) return -1;
    const Handle type(H5Dget_type(data_set), H5Tclose), space(H5Dget_space(data_set), H5Sclose);
    list.push_back({fmt::format("/{}", name), H5Tget_class(type), H5Sget_simple_extent_ndims(space)});
    return 0;
}

herr_t note_link(hid_t root, const char* name, const H5L_info_t* info, void* into) {
    auto& list = static_cast<Contents*>(into)->links;
    if (info->type != H5L_TYPE_SOFT && info->type != H5L_TYPE_EXTERNAL) return 0;
    if (list.size() == most_objects || info->u.val_size > longest_link) return -1;
    std::string value(info->u.val_size + 1, '\0');
    if (H5Lget_val(root, name, value.data(), value.size(), H5P_DEFAULT) < 0) return -1;
    if (info->type == H5L_TYPE_SOFT) {
        const std::string target(value.c_str());
        list.push_back({fmt::format("/{}", name), fmt::format("soft link to {}", target),
                        fmt::format("--dataset {} names the data set itself", target)});
        return 0;
    }
    const char *file = nullptr, *target = nullptr;
    unsigned flags = 0;
    if (H5Lunpack_elink_val(value.data(), info->u.val_size, &flags, &file, &target) < 0) return -1;
    list.push_back({fmt::format("/{}", name), fmt::format("link to {} in another file, {}", target, file),
                    "name that file, or copy the data set into this one with h5copy -f ext"});
    return 0;
}

// Visits hard links only: a soft or external link cannot lead into another file.
Contents list_contents(hid_t file) {
    Contents contents;
    if (H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, note_data_set, &contents, H5O_INFO_BASIC) < 0 ||
        H5Lvisit(file, H5_INDEX_NAME, H5_ITER_INC, note_link, &contents) < 0) {
        if (std::max(contents.data_sets.size(), contents.links.size()) == most_objects) {
            fail_hdf5("NOT_A_COUNT_FILE", "", fmt::format("holds more than {} data sets or links", most_objects));
        }
        fail_library("", "its objects cannot be listed");
    }
    return contents;
}

// "/layers/N/counts" of "/layers/17/counts", "/layer_N" of "/layer_3": the path without the number that names a layer;
// empty where there is none.
std::string layer_pattern(const std::string& path) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    for (std::size_t end = path.size(); end > 0;) {
        const std::size_t slash = path.rfind('/', end - 1);
        const std::size_t begin = slash == std::string::npos ? 0 : slash + 1;
        std::size_t digits = end;
        while (digits > begin && is_digit(path[digits - 1])) --digits;
        std::string word = path.substr(begin, digits - begin);
        std::transform(word.begin(), word.end(), word.begin(),
                       [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
        if (digits < end && (word.empty() || word.starts_with("layer"))) {
            return fmt::format("{}N{}", path.substr(0, digits), path.substr(end));
        }
        end = slash == std::string::npos ? 0 : slash;
    }
    return "";
}

// The pattern of a data set that is one of several, a layer each.
std::string shared_pattern(const Contents& contents, const std::string& path) {
    const std::string pattern = layer_pattern(path);
    if (pattern.empty()) return "";
    const auto members = std::count_if(contents.data_sets.begin(), contents.data_sets.end(),
                                       [&](const Candidate& other) { return layer_pattern(other.path) == pattern; });
    return members > 1 ? pattern : "";
}

constexpr const char* how_to_stack =
    "stack them along a second axis with numpy.stack(..., axis=1) into one data set [record slots, layers, experts]";

const Link* find_link(const Contents& contents, const std::string& path) {
    const auto found =
        std::find_if(contents.links.begin(), contents.links.end(), [&](const Link& link) { return link.path == path; });
    return found == contents.links.end() ? nullptr : &*found;
}

[[noreturn]] void fail_link(const Link& link) {
    fail_hdf5("UNSUPPORTED_FILE", link.path, fmt::format("is a {}", link.what), link.hint);
}

std::string choose(const Contents& contents, const std::optional<std::string>& wanted, const std::string& preferred) {
    const auto find = [&](const std::string& path) {
        return std::find_if(contents.data_sets.begin(), contents.data_sets.end(),
                            [&](const Candidate& candidate) { return candidate.path == path; });
    };
    const auto none = contents.data_sets.end();
    std::vector<std::string> all, fitting;
    for (const Candidate& candidate : contents.data_sets) {
        all.push_back(candidate.path);
        if (candidate.type == H5T_INTEGER && candidate.axes == 3) fitting.push_back(candidate.path);
    }
    const std::string has = all.empty() ? "it has none" : fmt::format("it has: {}", first_few(all));
    if (wanted) {
        const std::string path = wanted->starts_with('/') ? *wanted : "/" + *wanted;
        const auto found = find(path);
        const Link* link = find_link(contents, path);
        if (found == none && link != nullptr) fail_link(*link);
        if (found == none) fail_hdf5("NOT_A_COUNT_FILE", "", fmt::format("has no data set {}", path), has);
        if (const std::string pattern = shared_pattern(contents, path); found->axes < 3 && !pattern.empty()) {
            fail_hdf5("UNSUPPORTED_FILE", path, fmt::format("is one layer of {}, not counts of all layers", pattern),
                      how_to_stack);
        }
        return path;
    }
    if (find(preferred) != none) return preferred;
    if (const Link* link = find_link(contents, preferred)) fail_link(*link);
    for (const Candidate& candidate : contents.data_sets) {
        const bool alone = fitting.size() == 1 && shared_pattern(contents, fitting[0]).empty();
        const std::string pattern = alone ? "" : shared_pattern(contents, candidate.path);
        if (pattern.empty()) continue;
        fail_hdf5("UNSUPPORTED_FILE", candidate.path, fmt::format("has a data set for each layer, {}", pattern),
                  how_to_stack);
    }
    if (fitting.size() == 1) return fitting[0];
    if (all.empty() && !contents.links.empty()) fail_link(contents.links.front());
    fail_hdf5("NOT_A_COUNT_FILE", "",
              fitting.empty() ? fmt::format("has neither {} nor an integer data set with three axes", preferred)
                              : fmt::format("has {} integer data sets with three axes", fitting.size()),
              fmt::format("--dataset KEY names one; {}", has));
}

struct MemoryType {
    DType dtype;
    hid_t id;
};

MemoryType memory_type(hid_t type, const std::string& path) {
    const std::size_t size = H5Tget_size(type);
    const H5T_class_t kind = H5Tget_class(type);
    if (kind == H5T_INTEGER) {
        const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
        switch (size) {
            case 1:
                return is_signed ? MemoryType{DType::int8, H5T_NATIVE_INT8}
                                 : MemoryType{DType::uint8, H5T_NATIVE_UINT8};
            case 2:
                return is_signed ? MemoryType{DType::int16, H5T_NATIVE_INT16}
                                 : MemoryType{DType::uint16, H5T_NATIVE_UINT16};
            case 4:
                return is_signed ? MemoryType{DType::int32, H5T_NATIVE_INT32}
                                 : MemoryType{DType::uint32, H5T_NATIVE_UINT32};
            case 8:
                return is_signed ? MemoryType{DType::int64, H5T_NATIVE_INT64}
                                 : MemoryType{DType::uint64, H5T_NATIVE_UINT64};
            default:
                break;
        }
    }
    if (kind == H5T_FLOAT && size <= 4) return {DType::float32, H5T_NATIVE_FLOAT};
    if (kind == H5T_FLOAT && size == 8) return {DType::float64, H5T_NATIVE_DOUBLE};
    fail_hdf5("UNSUPPORTED_TYPE", path, fmt::format("its type of {} bytes is no number type", size),
              "save it with .astype(\"int64\")");
}

// Filters that are met in the wild and are no part of the library (registered with The HDF Group).
std::string filter_name(H5Z_filter_t id, std::string_view stored_name) {
    constexpr std::array<std::pair<H5Z_filter_t, std::string_view>, 8> known{{{H5Z_FILTER_SZIP, "SZIP"},
                                                                              {32000, "LZF"},
                                                                              {32001, "Blosc"},
                                                                              {32004, "LZ4"},
                                                                              {32008, "bitshuffle"},
                                                                              {32013, "ZFP"},
                                                                              {32015, "Zstandard"},
                                                                              {32026, "Blosc2"}}};
    for (const auto& [known_id, name] : known) {
        if (known_id == id) return std::string(name);
    }
    return stored_name.empty() ? "an unknown filter" : shortened(stored_name, 40);
}

void check_filters(hid_t creation, const std::string& path) {
    const int filters = H5Pget_nfilters(creation);
    for (int index = 0; index < filters; ++index) {
        std::array<char, 64> name{};
        std::size_t values = 0;
        unsigned flags = 0, config = 0;
        const H5Z_filter_t id = H5Pget_filter2(creation, static_cast<unsigned>(index), &flags, &values, nullptr,
                                               name.size() - 1, name.data(), nullptr);
        const bool decodes = H5Zfilter_avail(id) > 0 && H5Zget_filter_info(id, &config) >= 0 &&
                             (config & H5Z_FILTER_CONFIG_DECODE_ENABLED) != 0;
        if (decodes) continue;
        fail_hdf5(
            "UNSUPPORTED_FILE", path,
            fmt::format("is compressed with {} (HDF5 filter {}), which is not read here", filter_name(id, name.data()),
                        static_cast<int>(id)),
            "write it with gzip: compression=\"gzip\" in h5py, or h5repack -f GZIP=4 where the filter is installed");
    }
}

// Values that the library would fetch from other files, which nobody named.
void check_within_file(hid_t creation, const std::string& path) {
    constexpr const char* hint = "copy them into one file: h5repack where the others are";
    std::array<char, 256> name{};
    if (H5Pget_external_count(creation) > 0) {
        H5Pget_external(creation, 0, name.size() - 1, name.data(), nullptr, nullptr);
        fail_hdf5("UNSUPPORTED_FILE", path, fmt::format("keeps its values in another file, {}", name.data()), hint);
    }
    if (H5Pget_layout(creation) == H5D_VIRTUAL) {
        H5Pget_virtual_filename(creation, 0, name.data(), name.size() - 1);
        fail_hdf5("UNSUPPORTED_FILE", path, fmt::format("is a virtual data set over other files, {}", name.data()),
                  hint);
    }
}

// A data set may claim any size: the file bounds what is worth reading.
std::size_t checked_size(hid_t data_set, const std::vector<std::int64_t>& shape, DType dtype, std::uint64_t file_bytes,
                         const std::string& path) {
    Tensor tensor;
    tensor.shape = shape;
    std::int64_t size = 0;
    if (__builtin_mul_overflow(tensor.numel(), static_cast<std::int64_t>(size_of(dtype)), &size)) {
        fail_hdf5("BAD_GEOMETRY", path, fmt::format("shape [{}] is absurd", fmt::join(shape, ", ")));
    }
    const std::uint64_t stored = H5Dget_storage_size(data_set);
    if (stored > file_bytes) {
        fail_hdf5("BAD_GEOMETRY", path,
                  fmt::format("claims {} stored bytes in a file of {}: its chunks overlap", stored, file_bytes));
    }
    if (static_cast<std::uint64_t>(size) > max_inflated(file_bytes)) {
        fail_hdf5("BAD_GEOMETRY", path,
                  fmt::format("shape [{}] takes {} bytes, absurd for {} stored ones in a file of {}",
                              fmt::join(shape, ", "), size, stored, file_bytes),
                  "if it is real, h5repack -f NONE stores it without compression");
    }
    return static_cast<std::size_t>(size);
}

// In the child: reads into `memory` and says what it read.
std::string read_in_child(const MappedFile& source, const std::optional<std::string>& wanted,
                          const std::string& preferred, SharedMemory& memory) {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
    H5Pset_file_locking(access, false, true);  // locks fail on many network file systems, and inputs are only read
    std::string path_to_open = source.reopen_path();
    if (source.is_anonymous()) {  // the library insists on a real path
        path_to_open = "memory";
        const std::span<const std::byte> image = source.bytes();
        H5Pset_fapl_core(access, std::size_t{1} << 20, false);
        H5Pset_file_image(access, const_cast<std::byte*>(image.data()), image.size());  // copies
    }
    const Handle file(H5Fopen(path_to_open.c_str(), H5F_ACC_RDONLY, access), H5Fclose);
    if (file < 0) fail_library("", "cannot be opened as HDF5");
    const std::string path = choose(list_contents(file), wanted, preferred);
    const Handle data_set(H5Dopen2(file, path.c_str(), H5P_DEFAULT), H5Dclose);
    if (data_set < 0) fail_library(path, "cannot be opened");
    const Handle creation(H5Dget_create_plist(data_set), H5Pclose);
    check_within_file(creation, path);
    check_filters(creation, path);
    const Handle type(H5Dget_type(data_set), H5Tclose), space(H5Dget_space(data_set), H5Sclose);
    const MemoryType in_memory = memory_type(type, path);
    std::array<hsize_t, H5S_MAX_RANK> extents{};
    const int axes = H5Sget_simple_extent_dims(space, extents.data(), nullptr);
    if (axes < 0) fail_library(path, "its shape cannot be read");
    std::vector<std::int64_t> shape;
    for (int axis = 0; axis < axes; ++axis) {
        shape.push_back(
            static_cast<std::int64_t>(std::min<hsize_t>(extents[static_cast<std::size_t>(axis)], INT64_MAX)));
    }
    const std::size_t size = checked_size(data_set, shape, in_memory.dtype, source.bytes().size(), path);
    constexpr std::size_t slack = std::size_t{1} << 28;  // chunk cache and filters
    limit_address_space(size + slack);
    if (size > 0 && H5Dread(data_set, in_memory.id, H5S_ALL, H5S_ALL, H5P_DEFAULT, memory.resize(size)) < 0) {
        fail_library(path, "cannot be read");
    }
    return fmt::format("data{0}{1}{0}{2}{0}{3}", separator, path, static_cast<int>(in_memory.dtype),
                       fmt::join(shape, ","));
}

std::vector<std::string> split(const std::string& text, char at) {
    std::vector<std::string> parts(1);
    for (const char c : text) {
        if (c == at) {
            parts.emplace_back();
        } else {
            parts.back() += c;
        }
    }
    return parts;
}

}  // namespace

Hdf5DataSet read_hdf5(const std::shared_ptr<const MappedFile>& file, const std::optional<std::string>& wanted,
                      const std::string& preferred) {
    constexpr std::size_t smallest_superblock = 48;
    if (file->bytes().size() < smallest_superblock) {
        fail_hdf5("TRUNCATED", "",
                  fmt::format("the file has {} bytes and ends inside its superblock", file->bytes().size()),
                  "dump or copy the file again");
    }
    const auto memory = std::make_shared<SharedMemory>();
    ChildLimits limits;
    if (file->is_anonymous()) limits.memory += file->bytes().size();
    // Decompression and checksums take a second for some hundred megabytes; a damaged file may have no end.
    constexpr std::size_t bytes_a_second = std::size_t{1} << 22;
    limits.cpu_seconds = 10 + static_cast<int>(file->bytes().size() / bytes_a_second);
    const ChildResult result = run_in_child(limits, [&]() -> std::string {
        try {
            return read_in_child(*file, wanted, preferred, *memory);
        } catch (const Error& error) {
            return fmt::format("error{0}{1}{0}{2}{0}{3}{0}{4}", separator, error.finding_code(), error.where(),
                               error.message(), error.hint());
        }
    });
    const std::vector<std::string> parts = split(result.answer, separator);
    if (result.finished && parts.size() == 5 && parts[0] == "error") {
        fail_hdf5(parts[1].empty() ? "MALFORMED" : parts[1], parts[2], parts[3], parts[4]);
    }
    if (!result.finished || parts.size() != 4 || parts[0] != "data") {
        fail_hdf5("MALFORMED", "",
                  result.signal ? fmt::format("the HDF5 library died of signal {} reading it", result.signal)
                                : "the HDF5 library gave up reading it",
                  "the file is damaged: dump or copy it again");
    }
    Hdf5DataSet data_set{parts[1], {}};
    Tensor& tensor = data_set.tensor;
    tensor.dtype = static_cast<DType>(std::stoi(parts[2]));
    if (!parts[3].empty()) {
        for (const std::string& extent : split(parts[3], ',')) tensor.shape.push_back(std::stoll(extent));
    }
    tensor.strides = tensor.contiguous_strides();
    const auto size = static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype);
    tensor.data = memory->map(size);
    if (tensor.data == nullptr && size > 0) throw Error(ErrorCode::internal, "", "the HDF5 child lost its data");
    tensor.owner = memory;
    return data_set;
}

std::vector<std::byte> encode_hdf5(const std::string& path, const Tensor& values) {
    const auto require = [](bool done) {
        if (!done) throw Error(ErrorCode::internal, "", fmt::format("HDF5 cannot be written: {}", library_reason()));
    };
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    std::vector<hsize_t> extents(values.shape.begin(), values.shape.end()), chunk = extents;
    // About 1 MiB a chunk, whole along all axes but the first.
    hsize_t row = size_of(values.dtype);
    for (std::size_t axis = 1; axis < chunk.size(); ++axis) row *= std::max<hsize_t>(chunk[axis], 1);
    chunk.at(0) = std::clamp<hsize_t>((hsize_t{1} << 20) / row, 1, std::max<hsize_t>(chunk[0], 1));
    for (hsize_t& extent : chunk) extent = std::max<hsize_t>(extent, 1);

    const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose), creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    require(H5Pset_fapl_core(access, std::size_t{1} << 20, false) >= 0);
    require(H5Pset_obj_track_times(creation, false) >= 0 && H5Pset_obj_track_times(properties, false) >= 0);
    require(H5Pset_chunk(properties, static_cast<int>(chunk.size()), chunk.data()) >= 0);
    require(H5Pset_fletcher32(properties) >= 0);
    const Handle file(H5Fcreate("counts.h5", H5F_ACC_TRUNC, creation, access), H5Fclose);  // in memory only
    require(file >= 0);
    const bool wide = values.dtype == DType::int64;
    {
        const Handle space(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), H5Sclose);
        const Handle data_set(H5Dcreate2(file, path.c_str(), wide ? H5T_STD_I64LE : H5T_STD_I32LE, space, H5P_DEFAULT,
                                         properties, H5P_DEFAULT),
                              H5Dclose);
        require(space >= 0 && data_set >= 0);
        if (values.numel() > 0) {
            const hid_t type = wide ? H5T_NATIVE_INT64 : H5T_NATIVE_INT32;
            require(H5Dwrite(data_set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes_of(values).data()) >= 0);
        }
    }
    require(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0);
    const ssize_t size = H5Fget_file_image(file, nullptr, 0);
    require(size > 0);
    std::vector<std::byte> bytes(static_cast<std::size_t>(size));
    require(H5Fget_file_image(file, bytes.data(), bytes.size()) == size);
    return bytes;
}

#else

Hdf5DataSet read_hdf5(const std::shared_ptr<const MappedFile>&, const std::optional<std::string>&, const std::string&) {
    throw Error(ErrorCode::input, "", "is an HDF5 file, and this build reads none", "build with EPLB_HDF5=ON")
        .as_finding("UNSUPPORTED_FILE");
}

std::vector<std::byte> encode_hdf5(const std::string&, const Tensor&) {
    throw Error(ErrorCode::usage, "", "this build writes no HDF5", "build with EPLB_HDF5=ON");
}

#endif

}  // namespace eplb
