#include "files/hdf5.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "core/error.hpp"
#include "core/tensor_view.hpp"
#include "files/child_process.hpp"

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

constexpr std::size_t max_data_sets = 10'000;

std::vector<Candidate> list_data_sets(hid_t file) {
    std::vector<Candidate> found;
    const auto visit = [](hid_t root, const char* name, const H5O_info_t* info, void* into) -> herr_t {
        auto& list = *static_cast<std::vector<Candidate>*>(into);
        if (info->type != H5O_TYPE_DATASET) return 0;
        if (list.size() == max_data_sets) return -1;
        const Handle data_set(H5Dopen2(root, name, H5P_DEFAULT), H5Dclose);
        if (data_set < 0) return -1;
        const Handle type(H5Dget_type(data_set), H5Tclose), space(H5Dget_space(data_set), H5Sclose);
        list.push_back({fmt::format("/{}", name), H5Tget_class(type), H5Sget_simple_extent_ndims(space)});
        return 0;
    };
    // Visits hard links only: a soft or external link cannot lead into another file.
    if (H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, visit, &found, H5O_INFO_BASIC) < 0) {
        fail_library("", "its objects cannot be listed");
    }
    return found;
}

std::string choose(const std::vector<Candidate>& candidates, const std::optional<std::string>& wanted,
                   const std::string& preferred) {
    const auto listed = [&](const std::string& path) {
        return std::any_of(candidates.begin(), candidates.end(),
                           [&](const Candidate& candidate) { return candidate.path == path; });
    };
    std::vector<std::string> all, fitting;
    for (const Candidate& candidate : candidates) {
        all.push_back(candidate.path);
        if (candidate.type == H5T_INTEGER && candidate.axes == 3) fitting.push_back(candidate.path);
    }
    if (all.size() > 8) all.resize(8);
    if (wanted) {
        const std::string path = wanted->starts_with('/') ? *wanted : "/" + *wanted;
        if (listed(path)) return path;
        fail_hdf5("NOT_A_COUNT_FILE", "", fmt::format("has no data set {}", path),
                  fmt::format("it has: {}", fmt::join(all, ", ")));
    }
    if (listed(preferred)) return preferred;
    if (fitting.size() == 1) return fitting[0];
    fail_hdf5("NOT_A_COUNT_FILE", "",
              fitting.empty() ? fmt::format("has neither {} nor an integer data set with three axes", preferred)
                              : fmt::format("has {} integer data sets with three axes", fitting.size()),
              fmt::format("--dataset KEY names one; it has: {}", fmt::join(all, ", ")));
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

// A data set may claim any size: what it stores bounds what is worth reading.
std::size_t checked_size(hid_t data_set, const std::vector<std::int64_t>& shape, DType dtype, const std::string& path) {
    const Handle creation(H5Dget_create_plist(data_set), H5Pclose);
    if (H5Pget_layout(creation) == H5D_VIRTUAL || H5Pget_external_count(creation) > 0) {
        fail_hdf5("UNSUPPORTED_FILE", path, "keeps its values in other files", "copy them into one file with h5repack");
    }
    Tensor tensor;
    tensor.shape = shape;
    std::int64_t size = 0;
    if (__builtin_mul_overflow(tensor.numel(), static_cast<std::int64_t>(size_of(dtype)), &size)) {
        fail_hdf5("BAD_GEOMETRY", path, fmt::format("shape [{}] is absurd", fmt::join(shape, ", ")));
    }
    constexpr std::uint64_t max_ratio = 1032, free_size = std::uint64_t{1} << 26;  // deflate's limit; small data sets
    const std::uint64_t stored = H5Dget_storage_size(data_set);
    if (static_cast<std::uint64_t>(size) > free_size && static_cast<std::uint64_t>(size) / max_ratio > stored) {
        fail_hdf5("BAD_GEOMETRY", path,
                  fmt::format("{} stored bytes cannot hold shape [{}]", stored, fmt::join(shape, ", ")));
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
    const std::string path = choose(list_data_sets(file), wanted, preferred);
    const Handle data_set(H5Dopen2(file, path.c_str(), H5P_DEFAULT), H5Dclose);
    if (data_set < 0) fail_library(path, "cannot be opened");
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
    const std::size_t size = checked_size(data_set, shape, in_memory.dtype, path);
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
