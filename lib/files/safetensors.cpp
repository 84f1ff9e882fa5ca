#include "files/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>

#include "core/error.hpp"
#include "files/json_document.hpp"

namespace eplb {
namespace {

constexpr std::uint64_t length_bytes = 8;
constexpr std::uint64_t max_header_bytes = 100'000'000;  // the reference reader's limit
constexpr std::size_t max_tensor_axes = 64;

struct ElementType {
    std::string_view name;
    int bits;
};
constexpr std::array element_types{
    ElementType{"BOOL", 8},    ElementType{"U8", 8},      ElementType{"I8", 8},      ElementType{"F8_E4M3", 8},
    ElementType{"F8_E5M2", 8}, ElementType{"F8_E8M0", 8}, ElementType{"I16", 16},    ElementType{"U16", 16},
    ElementType{"F16", 16},    ElementType{"BF16", 16},   ElementType{"I32", 32},    ElementType{"U32", 32},
    ElementType{"F32", 32},    ElementType{"I64", 64},    ElementType{"U64", 64},    ElementType{"F64", 64},
    ElementType{"C64", 64},    ElementType{"F4", 4},      ElementType{"F6_E2M3", 6}, ElementType{"F6_E3M2", 6},
};

[[noreturn]] void malformed(std::string where, std::string what) {
    throw Error(ErrorCode::input, std::move(where), std::move(what)).as_finding("MALFORMED");
}

SafetensorsEntry read_entry(std::string_view name, const JsonValue& value) {
    constexpr std::array<std::string_view, 3> keys{"dtype", "shape", "data_offsets"};
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    value.allow_keys(keys);
    SafetensorsEntry entry{std::string(name), std::string(value.at("dtype").as_string()), {}, 0, 0};
    const JsonValue shape = value.at("shape"), offsets = value.at("data_offsets");
    if (shape.size() > max_tensor_axes) malformed(shape.path(), fmt::format("{} axes", shape.size()));
    for (const JsonValue extent : shape.elements()) entry.shape.push_back(extent.as_integer(0, most));
    std::vector<std::uint64_t> ends;
    if (offsets.size() != 2) malformed(offsets.path(), "is not a begin and an end");
    for (const JsonValue offset : offsets.elements())
        ends.push_back(static_cast<std::uint64_t>(offset.as_integer(0, most)));
    entry.begin = ends[0];
    entry.end = ends[1];
    const std::uint64_t bytes = safetensors_bytes(entry.dtype, entry.shape);
    if (entry.end < entry.begin || entry.bytes() != bytes) {
        malformed(value.path(), fmt::format("bytes {} to {} do not hold {} [{}], which takes {}", entry.begin,
                                            entry.end, entry.dtype, fmt::join(entry.shape, ", "), bytes));
    }
    return entry;
}

}  // namespace

std::optional<int> safetensors_bits(std::string_view dtype) {
    for (const ElementType& type : element_types) {
        if (type.name == dtype) return type.bits;
    }
    return std::nullopt;
}

std::uint64_t safetensors_bytes(std::string_view dtype, std::span<const std::int64_t> shape) {
    const std::optional<int> bits = safetensors_bits(dtype);
    if (!bits) malformed("", fmt::format("'{}' is no element type", dtype));
    std::int64_t total = *bits;
    bool empty = false;
    for (const std::int64_t extent : shape) {
        if (extent < 0) malformed("", fmt::format("extent {} is negative", extent));
        if (extent == 0) {
            empty = true;
        } else if (__builtin_mul_overflow(total, extent, &total)) {
            malformed("", fmt::format("{} [{}] is larger than any file", dtype, fmt::join(shape, ", ")));
        }
    }
    if (empty) return 0;
    if (total % 8 != 0) malformed("", fmt::format("{} [{}] ends inside a byte", dtype, fmt::join(shape, ", ")));
    return static_cast<std::uint64_t>(total / 8);
}

SafetensorsFile SafetensorsFile::open(const std::string& path) {
    return parse(MappedFile::open(path));
}

SafetensorsFile SafetensorsFile::parse(std::shared_ptr<const MappedFile> file) {
    SafetensorsFile result;
    result.file_ = std::move(file);
    try {
        const std::string_view text = result.file_->text();
        if (text.size() < length_bytes) {
            throw Error(ErrorCode::input, "", fmt::format("{} bytes are no safetensors file", text.size()))
                .as_finding("TRUNCATED");
        }
        std::uint64_t header_bytes = 0;
        for (std::uint64_t index = length_bytes; index-- > 0;) {
            header_bytes = header_bytes << 8 | static_cast<unsigned char>(text[index]);
        }
        if (header_bytes > max_header_bytes) malformed("byte 0", fmt::format("a header of {} bytes", header_bytes));
        if (header_bytes > text.size() - length_bytes) {
            throw Error(ErrorCode::input, "",
                        fmt::format("{} bytes, the header alone has {}", text.size(), length_bytes + header_bytes),
                        "copy the file again")
                .as_finding("TRUNCATED");
        }
        const JsonDocument document = JsonDocument::parse(text.substr(length_bytes, header_bytes));
        for (const auto [name, value] : document.root().members()) {
            if (name != "__metadata__") {
                result.entries_.push_back(read_entry(name, value));
                continue;
            }
            for (const auto [key, entry] : value.members()) {
                result.metadata_.emplace_back(key, entry.as_string());
            }
        }
        result.data_offset_ = length_bytes + header_bytes;
        std::sort(result.entries_.begin(), result.entries_.end(), [](const auto& a, const auto& b) {
            return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
        });
        std::uint64_t end = 0;
        for (const SafetensorsEntry& entry : result.entries_) {
            if (entry.begin != end) {
                malformed(entry.name, fmt::format("starts at byte {} of the data, the tensor before it ends at {}",
                                                  entry.begin, end));
            }
            end = entry.end;
        }
        const std::uint64_t data_bytes = text.size() - result.data_offset_;
        if (data_bytes < end) {
            throw Error(ErrorCode::input, "", fmt::format("{} bytes of data, the tensors need {}", data_bytes, end),
                        "copy the file again")
                .as_finding("TRUNCATED");
        }
        if (data_bytes > end) malformed("", fmt::format("{} bytes after the last tensor", data_bytes - end));
    } catch (...) {
        rethrow_inside(result.file_->path());
    }
    result.by_name_.resize(result.entries_.size());
    std::iota(result.by_name_.begin(), result.by_name_.end(), std::size_t{0});
    std::sort(result.by_name_.begin(), result.by_name_.end(),
              [&](std::size_t a, std::size_t b) { return result.entries_[a].name < result.entries_[b].name; });
    return result;
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
    const auto found = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                        [&](std::size_t index, auto wanted) { return entries_[index].name < wanted; });
    return found != by_name_.end() && entries_[*found].name == name ? &entries_[*found] : nullptr;
}

std::span<const std::byte> SafetensorsFile::bytes(const SafetensorsEntry& entry) const {
    return file_->bytes().subspan(data_offset_ + entry.begin, entry.bytes());
}

void place_back_to_back(std::vector<SafetensorsEntry>& entries) {
    std::uint64_t end = 0;
    for (SafetensorsEntry& entry : entries) {
        entry.begin = end;
        end = entry.end = end + safetensors_bytes(entry.dtype, entry.shape);
    }
}

std::string encode_safetensors_header(std::span<const SafetensorsEntry> entries, const SafetensorsMetadata& metadata) {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    for (const auto& [key, value] : metadata) header["__metadata__"][key] = value;
    std::string text = header.dump();
    text.pop_back();  // entries follow one by one: an ordered object would look up every name in a list
    for (const SafetensorsEntry& entry : entries) {
        if (text.size() > 1) text += ',';
        text +=
            fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", nlohmann::json(entry.name).dump(),
                        entry.dtype, fmt::join(entry.shape, ","), entry.begin, entry.end);
    }
    text += '}';
    text.resize((text.size() + length_bytes - 1) / length_bytes * length_bytes, ' ');
    std::string length(length_bytes, '\0');
    for (std::size_t index = 0; index < length_bytes; ++index) {
        length[index] = static_cast<char>(text.size() >> (8 * index) & 0xff);
    }
    return length + text;
}

}  // namespace eplb
