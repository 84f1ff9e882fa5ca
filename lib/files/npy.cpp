#include "files/npy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "core/printable.hpp"

namespace eplb {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t max_header = 1 << 16;  // numpy itself writes at most a few hundred bytes
constexpr std::size_t max_axes = 32;         // numpy's own limit

[[noreturn]] void fail_npy(std::string_view finding, std::size_t byte, std::string what, std::string hint = "") {
    throw Error(ErrorCode::input, fmt::format("byte {}", byte), std::move(what), std::move(hint)).as_finding(finding);
}

struct Header {
    std::string_view descr;
    bool fortran_order = false;
    std::vector<std::int64_t> shape;
};

// The header is the text of a Python dict with exactly three keys; this reads that form and no other.
class HeaderParser {
  public:
    HeaderParser(std::string_view text, std::size_t offset) : text_(text), offset_(offset) {}

    Header parse() {
        Header header;
        bool has_descr = false, has_order = false, has_shape = false;
        expect('{');
        while (!accept('}')) {
            const std::string_view key = string();
            expect(':');
            if (key == "descr" && !has_descr) {
                has_descr = true;
                if (peek() == '[') fail_here("UNSUPPORTED_TYPE", "a structured array is no count array");
                header.descr = string();
            } else if (key == "fortran_order" && !has_order) {
                has_order = true;
                header.fortran_order = boolean();
            } else if (key == "shape" && !has_shape) {
                has_shape = true;
                header.shape = shape();
            } else {
                fail_here("MALFORMED", fmt::format("unexpected or repeated key \"{}\"", shortened(key, 80)));
            }
            if (!accept(',')) {
                expect('}');
                break;
            }
        }
        if (peek() != '\0') fail_here("MALFORMED", "text after the header's dict");
        if (!has_descr || !has_order || !has_shape) {
            fail_here("MALFORMED", "the header lacks descr, fortran_order or shape");
        }
        return header;
    }

  private:
    [[noreturn]] void fail_here(std::string_view finding, std::string what) {
        fail_npy(finding, offset_ + position_, std::move(what));
    }
    char peek() {
        while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n')) ++position_;
        return position_ < text_.size() ? text_[position_] : '\0';
    }
    bool accept(char wanted) {
        if (peek() != wanted || position_ == text_.size()) return false;
        ++position_;
        return true;
    }
    void expect(char wanted) {
        if (!accept(wanted)) fail_here("MALFORMED", fmt::format("expected '{}' in the header", wanted));
    }
    std::string_view string() {
        const char quote = peek();
        if (quote != '\'' && quote != '"') fail_here("MALFORMED", "expected a string in the header");
        const std::size_t first = position_ + 1, last = text_.find(quote, first);
        if (last == std::string_view::npos) fail_here("MALFORMED", "a string in the header has no end");
        position_ = last + 1;
        return text_.substr(first, last - first);
    }
    bool boolean() {
        peek();
        for (const bool value : {true, false}) {
            const std::string_view word = value ? "True" : "False";
            if (text_.substr(position_, word.size()) == word) {
                position_ += word.size();
                return value;
            }
        }
        fail_here("MALFORMED", "fortran_order is neither True nor False");
    }
    std::vector<std::int64_t> shape() {
        std::vector<std::int64_t> extents;
        expect('(');
        while (!accept(')')) {
            peek();
            std::int64_t extent = 0;
            const char* const first = text_.data() + position_;
            const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), extent);
            if (error != std::errc() || extent < 0) fail_here("MALFORMED", "the shape holds no plain number");
            if (extents.size() == max_axes) fail_here("BAD_GEOMETRY", "the shape has more than 32 axes");
            position_ += static_cast<std::size_t>(end - first);
            extents.push_back(extent);
            if (!accept(',')) {
                expect(')');
                break;
            }
        }
        return extents;
    }

    std::string_view text_;
    std::size_t offset_, position_ = 0;
};

struct TypeName {
    std::string_view name;  // NumPy's, without the byte order
    DType dtype;
};
constexpr std::array<TypeName, 12> type_names = {{{"b1", DType::boolean},
                                                  {"u1", DType::uint8},
                                                  {"i1", DType::int8},
                                                  {"u2", DType::uint16},
                                                  {"i2", DType::int16},
                                                  {"u4", DType::uint32},
                                                  {"i4", DType::int32},
                                                  {"u8", DType::uint64},
                                                  {"i8", DType::int64},
                                                  {"f2", DType::float16},
                                                  {"f4", DType::float32},
                                                  {"f8", DType::float64}}};

void set_type(Tensor& tensor, std::string_view descr, std::size_t byte) {
    if (descr.size() >= 2 && std::string_view("<>|=").find(descr[0]) != std::string_view::npos) {
        for (const TypeName& type : type_names) {
            if (type.name != descr.substr(1)) continue;
            tensor.dtype = type.dtype;
            const bool little = std::endian::native == std::endian::little;
            tensor.byte_swapped = size_of(type.dtype) > 1 && (descr[0] == '<' ? !little : descr[0] == '>' && little);
            return;
        }
    }
    const bool object = descr.find('O') != std::string_view::npos;
    fail_npy(
        "UNSUPPORTED_TYPE", byte, fmt::format("type \"{}\" is no number type", shortened(descr, 80)),
        object ? "an object array is a pickle: save it with .astype(\"int64\")" : "save it with .astype(\"int64\")");
}

std::size_t read_little(std::span<const std::byte> bytes) {
    std::size_t value = 0;
    for (std::size_t index = bytes.size(); index-- > 0;)
        value = value << 8 | std::to_integer<std::size_t>(bytes[index]);
    return value;
}

template <typename T>
std::vector<std::byte> encode(std::string_view descr, std::span<const T> values, std::span<const std::int64_t> shape) {
    const std::string extents = shape.size() == 1 ? fmt::format("({},)", shape[0])
                                                  : fmt::format("({})", fmt::join(shape.begin(), shape.end(), ", "));
    std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, extents);
    const std::size_t fixed = magic.size() + 4;
    header.append(63 - (fixed + header.size()) % 64, ' ');
    header += '\n';
    std::string front(magic);
    front += {'\x01', '\x00', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
    front += header;
    std::vector<std::byte> bytes(front.size() + values.size_bytes());
    std::memcpy(bytes.data(), front.data(), front.size());
    std::byte* out = bytes.data() + front.size();
    if constexpr (std::endian::native == std::endian::little) {
        if (!values.empty()) std::memcpy(out, values.data(), values.size_bytes());
    } else {
        for (const T value : values) {
            for (std::size_t index = 0; index < sizeof(T); ++index) *out++ = static_cast<std::byte>(value >> 8 * index);
        }
    }
    return bytes;
}

}  // namespace

bool looks_like_npy(std::span<const std::byte> bytes) {
    return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

Tensor read_npy(const std::shared_ptr<const MappedFile>& file) {
    const std::span<const std::byte> bytes = file->bytes();
    if (!looks_like_npy(bytes)) fail_npy("MALFORMED", 0, "does not begin as a .npy file");
    if (bytes.size() < 12) fail_npy("TRUNCATED", bytes.size(), "the file ends inside the .npy header");
    const int version = std::to_integer<int>(bytes[6]);
    if (version < 1 || version > 3) fail_npy("MALFORMED", 6, fmt::format("unknown .npy version {}", version));
    const std::size_t length_bytes = version == 1 ? 2 : 4, header_at = 8 + length_bytes;
    const std::size_t length = read_little(bytes.subspan(8, length_bytes));
    if (length > max_header) fail_npy("MALFORMED", 8, fmt::format("a header of {} bytes is absurd", length));
    if (bytes.size() - header_at < length) {
        fail_npy("TRUNCATED", bytes.size(), fmt::format("the file ends inside its header of {} bytes", length));
    }
    const Header header = HeaderParser(file->text().substr(header_at, length), header_at).parse();

    Tensor tensor;
    set_type(tensor, header.descr, header_at);
    tensor.shape = header.shape;
    std::int64_t size = 0;
    if (__builtin_mul_overflow(tensor.numel(), static_cast<std::int64_t>(size_of(tensor.dtype)), &size)) {
        fail_npy("BAD_GEOMETRY", header_at, fmt::format("shape [{}] is absurd", fmt::join(tensor.shape, ", ")));
    }
    const std::size_t data_at = header_at + length, held = bytes.size() - data_at;
    const auto needed = static_cast<std::size_t>(size);
    if (held < needed) {
        fail_npy("TRUNCATED", bytes.size(),
                 fmt::format("the file has {} bytes, {} [{}] needs {}", bytes.size(), name_of(tensor.dtype),
                             fmt::join(tensor.shape, ", "), data_at + needed),
                 "copy or save it again");
    }
    if (held > needed) {
        fail_npy("BAD_GEOMETRY", data_at + needed, fmt::format("{} bytes follow the array", held - needed),
                 "a .npy file holds one array: save each into its own file");
    }
    tensor.strides = tensor.contiguous_strides();
    if (header.fortran_order) {
        std::reverse(tensor.shape.begin(), tensor.shape.end());
        tensor.strides = tensor.contiguous_strides();
        std::reverse(tensor.shape.begin(), tensor.shape.end());
        std::reverse(tensor.strides.begin(), tensor.strides.end());
    }
    tensor.data = bytes.data() + data_at;
    tensor.owner = file;
    return tensor;
}

std::vector<std::byte> encode_npy(std::span<const std::int32_t> values, std::span<const std::int64_t> shape) {
    return encode("<i4", values, shape);
}

std::vector<std::byte> encode_npy(std::span<const std::int64_t> values, std::span<const std::int64_t> shape) {
    return encode("<i8", values, shape);
}

}  // namespace eplb
