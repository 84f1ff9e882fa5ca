#include "counts_io/count_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "core/error.hpp"
#include "core/geometry.hpp"
#include "core/printable.hpp"
#include "counts_io/count_formats.hpp"
#include "counts_io/libtorch_reader.hpp"
#include "counts_io/window_sidecar.hpp"
#include "files/digest.hpp"
#include "files/hdf5.hpp"
#include "files/npy.hpp"

namespace eplb {
namespace {

using Bytes = std::span<const std::byte>;

struct CountFormat {
    std::string_view name;
    std::string_view magic;  // first bytes, for telling a file that ends inside them
    bool (*looks_like)(Bytes bytes);
    DecodedCounts (*read)(const std::shared_ptr<const MappedFile>& file, const CountOptions& options);
    std::vector<std::byte> (*encode)(const Tensor& counts, int rank);  // nullptr: this format is read only
};

DecodedCounts read_pt_by_choice(const std::shared_ptr<const MappedFile>& file, const CountOptions& options) {
    return options.pt_reader == PtReader::libtorch ? read_pt_with_libtorch(file, options)
                                                   : read_pt_counts(file, options);
}

// For formats that are a meaning of an array: only --format names them.
bool never(Bytes) {
    return false;
}

// In the order in which content is sniffed.
constexpr std::array<CountFormat, 11> formats = {{
    {"pt", "PK\x03\x04", looks_like_pt, read_pt_by_choice, encode_pt_counts},
    {"npy", "\x93NUMPY", looks_like_npy, read_npy_counts, encode_npy_counts},
    {"h5", "\x89HDF\r\n\x1a\n", looks_like_hdf5, read_hdf5_counts, encode_hdf5_counts},
    {"trtllm", "", looks_like_safetensors, read_trtllm_counts, nullptr},
    {"jsonl", "", looks_like_json_lines, read_json_lines_counts, nullptr},
    {"json", "{\"", looks_like_json, read_json_counts, nullptr},
    {"sglang-csv", "", looks_like_sglang_csv, read_sglang_csv_counts, nullptr},
    {"omni-txt", "", looks_like_omni_text, read_omni_counts, nullptr},
    {"msit-csv", "", looks_like_msit_csv, read_msit_counts, nullptr},
    {"routed-ids", "", never, read_routed_ids, nullptr},
    {"xllm-prefix", "", never, read_xllm_counts, nullptr},
}};

// Files that are taken for counts now and then, named so that nobody has to guess.
struct Stranger {
    std::string_view magic, what, hint;
};
constexpr std::array<Stranger, 10> strangers = {{
    {"version https://git-lfs", "is a Git LFS pointer, not the file itself", "run git lfs pull"},
    {"\x1f\x8b", "is compressed with gzip", "gunzip it first"},
    {"\x28\xb5\x2f\xfd", "is compressed with zstd", "unzstd it first"},
    {"\xfd"
     "7zXZ",
     "is compressed with xz", "unxz it first"},
    {"BZh", "is compressed with bzip2", "bunzip2 it first"},
    {"\x04\x22\x4d\x18", "is compressed with lz4", "unlz4 it first"},
    {"PAR1", "is a Parquet file", "save the counts as an array: numpy.save(\"counts.npy\", array)"},
    {"ARROW1", "is an Arrow file", "save the counts as an array: numpy.save(\"counts.npy\", array)"},
    {"SQLite format 3", "is an SQLite database", "save the counts as an array: numpy.save(\"counts.npy\", array)"},
    {"num_slots:", "is a layout of TensorRT-LLM, not counts", "its counts are rank<r>.safetensors"},
}};

[[noreturn]] void refuse(std::string_view finding, std::string what, std::string hint) {
    throw Error(ErrorCode::input, "", std::move(what), std::move(hint)).as_finding(finding);
}

bool begins_with(Bytes bytes, std::string_view magic) {
    return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

[[noreturn]] void fail_unknown(Bytes bytes) {
    for (const CountFormat& format : formats) {
        if (bytes.size() < format.magic.size() && std::memcmp(bytes.data(), format.magic.data(), bytes.size()) == 0) {
            refuse("TRUNCATED", fmt::format("the file has {} bytes, too few for any format", bytes.size()),
                   "dump or copy it again");
        }
    }
    for (const Stranger& stranger : strangers) {
        if (begins_with(bytes, stranger.magic)) {
            refuse("NOT_A_COUNT_FILE", std::string(stranger.what), std::string(stranger.hint));
        }
    }
    if (std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; })) {
        refuse("TRUNCATED", fmt::format("all {} bytes are zero", bytes.size()),
               "the file was reserved but never written, as on a full disk: dump or copy it again");
    }
    refuse("NOT_A_COUNT_FILE", "is no count file: its content is that of none of the formats read",
           fmt::format("read are {}; --format NAME insists on one", fmt::join(count_format_names(), ", ")));
}

const CountFormat& format_of(Bytes bytes, const std::optional<std::string>& wanted) {
    if (wanted) {
        const auto found = std::find_if(formats.begin(), formats.end(),
                                        [&](const CountFormat& format) { return format.name == *wanted; });
        if (found == formats.end()) {
            throw Error(ErrorCode::usage, "--format", fmt::format("\"{}\" is no count format", *wanted),
                        fmt::format("known are {}", fmt::join(count_format_names(), ", ")));
        }
        return *found;
    }
    const auto found = std::find_if(formats.begin(), formats.end(),
                                    [&](const CountFormat& format) { return format.looks_like(bytes); });
    if (found == formats.end()) fail_unknown(bytes);
    return *found;
}

// [L, E] is one record slot of [1, L, E].
void make_three_dimensional(Tensor& tensor) {
    if (tensor.shape.size() == 2) {
        const std::int64_t stride = tensor.contiguous_strides().at(0) * std::max<std::int64_t>(tensor.shape[0], 1);
        tensor.shape.insert(tensor.shape.begin(), 1);
        tensor.strides.insert(tensor.strides.begin(), stride);
    }
    const std::string shape = fmt::format("[{}]", fmt::join(tensor.shape, ", "));
    if (tensor.shape.size() != 3) {
        refuse("BAD_GEOMETRY", fmt::format("a tensor of shape {} is no count tensor", shape),
               "counts are [record slots, layers, experts], or [layers, experts] for one record slot");
    }
    // Where there are elements their number is bounded by the file; an empty tensor can claim any size, and work would
    // be done for every row of it.
    constexpr std::int64_t max_rows = std::int64_t{1} << 24;
    const bool empty = tensor.numel() == 0;
    if (tensor.shape[1] > max_layers || tensor.shape[2] > max_experts || (empty && tensor.shape[0] > max_rows)) {
        refuse("BAD_GEOMETRY", fmt::format("shape {} is that of no model", shape),
               fmt::format("at most {} layers and {} experts are read", max_layers, max_experts));
    }
}

[[noreturn]] void refuse_axes(std::string_view who) {
    throw Error(ErrorCode::usage, "--axes", fmt::format("{} says what the axes are", who), "drop the flag");
}

void put_in_order(DecodedCounts& decoded, const CountAxes& axes) {
    if (decoded.window || decoded.columns == Columns::slots) refuse_axes("this format");
    decoded.tensor = in_order(std::move(decoded.tensor), axes);
}

// The sidecar that a recorder leaves beside its file, where there is one.
void apply_sidecar(CountFile& file, const CountOptions& options) {
    const std::string path = window_sidecar_path(file.path);
    std::error_code ignored;
    if (file.path == "-" || !std::filesystem::exists(path, ignored)) return;
    if (options.axes) refuse_axes("the sidecar " + path);
    constexpr const char* way_out =
        "bring the sidecar that was written with this file, or move this one away to read the counts without it";
    std::optional<WindowSidecar> sidecar;
    try {
        sidecar = decode_window_sidecar(MappedFile::open(path)->text());
    } catch (const Error& error) {
        refuse("SIDECAR_MISMATCH", fmt::format("the sidecar {} cannot be read: {}", path, error.what()), way_out);
    }
    if (sidecar->sha256 != file.sha256 || sidecar->shape != file.tensor.shape) {
        refuse("SIDECAR_MISMATCH",
               fmt::format("{} belongs to another count file: it names sha256 {}..., this file has {}...", path,
                           sidecar->sha256.substr(0, 12), file.sha256.substr(0, 12)),
               way_out);
    }
    file.reduction = sidecar->reduction;
    file.window = facts_of(*sidecar);
}

}  // namespace

DecodedCounts read_array(const std::shared_ptr<const MappedFile>& file, const CountOptions& options) {
    constexpr std::array<std::string_view, 4> containers{"pt", "npy", "h5", "json"};
    const CountFormat& format = format_of(file->bytes(), std::nullopt);
    if (std::find(containers.begin(), containers.end(), format.name) == containers.end()) {
        refuse("NOT_A_COUNT_FILE", fmt::format("is {}, which holds no array", format.name),
               "give the array as .npy, .pt, HDF5 or JSON");
    }
    CountOptions of_array = options;
    of_array.format = std::string(format.name);  // a list of ids may well look like a layout
    return format.read(file, of_array);
}

CountFile decode_count_file(const std::shared_ptr<const MappedFile>& file, const CountOptions& options) {
    const Bytes bytes = file->bytes();
    try {
        if (bytes.empty()) {
            refuse("EMPTY_FILE", "the file is empty",
                   "nothing was written: was the recorder started and dumped, and is there room on the disk?");
        }
        const CountFormat& format = format_of(bytes, options.format);
        if (options.tokens_per_slot && format.name != "routed-ids") {
            throw Error(ErrorCode::usage, "--tokens-per-slot", "only routed ids are cut into record slots",
                        "say --format routed-ids too");
        }
        DecodedCounts decoded = format.read(file, options);
        if (options.axes) put_in_order(decoded, *options.axes);
        fold_to_experts(decoded, options);
        make_three_dimensional(decoded.tensor);
        CountFile result;
        result.path = file->path();
        result.format = format.name;
        result.sha256 = sha256_hex(bytes);
        result.bytes = static_cast<std::int64_t>(bytes.size());
        result.tensor = std::move(decoded.tensor);
        result.reduction = decoded.reduction;
        if (decoded.saved_on) result.saved_on = printable(*decoded.saved_on);
        for (const Finding& finding : decoded.findings) {
            result.findings.push_back({finding.severity, finding.code, printable(finding.where),
                                       printable(finding.message), printable(finding.hint)});
        }
        result.source = file;
        result.window = std::move(decoded.window);
        apply_sidecar(result, options);
        return result;
    } catch (...) {
        rethrow_inside(file->path());
    }
}

CountFile read_count_file(const std::string& path, const CountOptions& options) {
    return decode_count_file(MappedFile::open(path), options);
}

Finding finding_of(const Error& error, std::string_view path) {
    const std::string shown_path = printable(path);
    std::string_view where = error.where();
    if (where.substr(0, shown_path.size()) == shown_path) {
        where.remove_prefix(shown_path.size());
        if (where.substr(0, 2) == ": ") where.remove_prefix(2);
    }
    const std::string& code = error.finding_code();
    return {Severity::error, code.empty() ? "UNREADABLE" : code, std::string(where), error.message(), error.hint()};
}

std::span<const std::string_view> undecodable_codes() {
    static constexpr std::array<std::string_view, 16> codes{
        "UNREADABLE",       "EMPTY_FILE",          "TRUNCATED",        "CRC_MISMATCH",
        "NOT_A_COUNT_FILE", "LEGACY_FORMAT",       "UNKNOWN_GLOBAL",   "UNSUPPORTED_FILE",
        "BAD_GEOMETRY",     "UNSUPPORTED_TYPE",    "SIDECAR_MISMATCH", "MALFORMED",
        "READER_CRASHED",   "CROSS_CHECK_DIFFERS", "LAYOUT_NEEDED",    "LAYOUT_MISMATCH"};
    return codes;
}

std::vector<std::string_view> count_format_names() {
    std::vector<std::string_view> names;
    for (const CountFormat& format : formats) names.push_back(format.name);
    return names;
}

std::vector<std::byte> encode_counts(std::string_view format, const Tensor& counts, int rank) {
    if (counts.shape.size() != 3 || (counts.dtype != DType::int32 && counts.dtype != DType::int64)) {
        throw Error(ErrorCode::internal, "", "counts to write are int32 or int64 with three axes");
    }
    for (const CountFormat& known : formats) {
        if (known.name == format && known.encode != nullptr) return known.encode(counts, rank);
    }
    throw Error(ErrorCode::usage, "", fmt::format("counts are not written as \"{}\"", format), "pt, npy and h5 are");
}

}  // namespace eplb
