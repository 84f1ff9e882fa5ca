// Torch files assembled opcode by opcode, so that tests can make every file that torch would and many that it would
// not.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace eplb {

inline std::string little_endian(std::uint64_t value, std::size_t size) {
    std::string bytes;
    for (std::size_t index = 0; index < size; ++index) {
        bytes += static_cast<char>(index < 8 ? value >> 8 * index & 0xff : 0);
    }
    return bytes;
}

template <typename T>
std::string raw_bytes(const std::vector<T>& values) {
    std::string bytes(values.size() * sizeof(T), '\0');
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

// Pickle opcodes.
inline std::string pickled(std::int64_t value) {
    if (value >= 0 && value < 256) return "K" + little_endian(static_cast<std::uint64_t>(value), 1);
    return "\x8a\x08" + little_endian(static_cast<std::uint64_t>(value), 8);  // LONG1
}
inline std::string pickled(std::string_view text) {
    return "X" + little_endian(text.size(), 4) + std::string(text);
}
inline std::string pickled(const char* text) {
    return pickled(std::string_view(text));
}
inline std::string pickled(const std::vector<std::int64_t>& values) {
    std::string opcodes = "(";
    for (const std::int64_t value : values) opcodes += pickled(value);
    return opcodes + "t";
}
inline std::string global(std::string_view module, std::string_view name) {
    return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}
inline std::string pickle(const std::string& body, int protocol = 2) {
    return std::string("\x80") + static_cast<char>(protocol) + body + ".";
}
inline std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {  // text key, opcodes
    std::string opcodes = "}(";
    for (const auto& [key, value] : items) opcodes += pickled(key) + value;
    return opcodes + "u";
}

inline const std::string ordered_dict = global("collections", "OrderedDict") + ")R";

struct TensorSpec {
    std::vector<std::int64_t> shape, strides;
    std::int64_t elements = 0, offset = 0;  // of the storage; into it
    std::string storage = global("torch", "IntStorage"), key = "0", location = "cpu";
    std::string constructor = global("torch._utils", "_rebuild_tensor_v2");
    std::string more_arguments;  // opcodes after the hooks: what torch_npu and _rebuild_tensor_v3 append

    // A contiguous tensor over a storage of its own.
    static TensorSpec of(std::vector<std::int64_t> shape) {
        TensorSpec spec;
        spec.elements = 1;
        spec.strides.resize(shape.size());
        for (std::size_t axis = shape.size(); axis-- > 0;) {
            spec.strides[axis] = spec.elements;
            spec.elements *= shape[axis];
        }
        spec.shape = std::move(shape);
        return spec;
    }
    std::string opcodes() const {
        const std::string reference =
            "(" + pickled("storage") + storage + pickled(key) + pickled(location) + pickled(elements) + "tQ";
        return constructor + "(" + reference + pickled(offset) + pickled(shape) + pickled(strides) + "\x89" +
               ordered_dict + more_arguments + "tR";
    }
};

struct TestMember {
    std::string name, content;
    bool deflated = false;
    std::int64_t claimed_size = -1;  // what the directory says; -1: the truth
};

inline std::string deflate(const std::string& content) {
    z_stream stream{};
    if (::deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        throw std::runtime_error("deflateInit2");
    }
    std::string out(::deflateBound(&stream, content.size()), '\0');
    stream.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(content.data()));
    stream.avail_in = static_cast<unsigned>(content.size());
    stream.next_out = reinterpret_cast<unsigned char*>(out.data());
    stream.avail_out = static_cast<unsigned>(out.size());
    const int result = ::deflate(&stream, Z_FINISH);
    out.resize(stream.total_out);
    ::deflateEnd(&stream);
    if (result != Z_STREAM_END) throw std::runtime_error("deflate");
    return out;
}

// An archive as torch's streaming writer leaves it: sizes only in the directory; with `zip64`, sizes and places only in
// zip64 records.
inline std::string zip_of(const std::vector<TestMember>& members, bool zip64 = false) {
    std::string file, directory;
    for (const TestMember& member : members) {
        const std::string stored = member.deflated ? deflate(member.content) : member.content;
        const auto crc =
            static_cast<std::uint32_t>(::crc32(0, reinterpret_cast<const unsigned char*>(member.content.data()),
                                               static_cast<unsigned>(member.content.size())));
        const std::uint64_t size =
            member.claimed_size < 0 ? member.content.size() : static_cast<std::uint64_t>(member.claimed_size);
        const std::uint64_t compressed = member.claimed_size < 0 || member.deflated ? stored.size() : size;
        const std::string method = little_endian(member.deflated ? 8 : 0, 2),
                          name_size = little_endian(member.name.size(), 2);
        const std::string front = little_endian(0, 2) + little_endian(0x0808, 2) + method + little_endian(0, 4);
        const std::string extra = zip64 ? little_endian(1, 2) + little_endian(24, 2) + little_endian(size, 8) +
                                              little_endian(compressed, 8) + little_endian(file.size(), 8)
                                        : "";
        const auto narrow = [&](std::uint64_t value) { return little_endian(zip64 ? 0xffffffff : value, 4); };
        directory += "PK\1\2" + little_endian(0, 2) + front + little_endian(crc, 4) + narrow(compressed) +
                     narrow(size) + name_size + little_endian(extra.size(), 2) + little_endian(0, 10) +
                     narrow(file.size()) + member.name + extra;
        file += "PK\3\4" + front + little_endian(0, 12) + name_size + little_endian(0, 2) + member.name + stored;
        file += "PK\7\10" + little_endian(crc, 4) + little_endian(stored.size(), 4) + little_endian(size, 4);
    }
    const std::uint64_t at = file.size();
    file += directory;
    const std::uint64_t end64 = file.size(), count = members.size();
    if (zip64) {
        file += "PK\6\6" + little_endian(44, 8) + little_endian(45, 2) + little_endian(45, 2) + little_endian(0, 8) +
                little_endian(count, 8) + little_endian(count, 8) + little_endian(directory.size(), 8) +
                little_endian(at, 8);
        file += "PK\6\7" + little_endian(0, 4) + little_endian(end64, 8) + little_endian(1, 4);
    }
    return file + "PK\5\6" + little_endian(0, 4) + little_endian(zip64 ? 0xffff : count, 2) +
           little_endian(zip64 ? 0xffff : count, 2) + little_endian(zip64 ? 0xffffffff : directory.size(), 4) +
           little_endian(zip64 ? 0xffffffff : at, 4) + little_endian(0, 2);
}

// The file of one pickle and one storage.
inline std::string torch_file(const std::string& pickle_text, const std::string& storage_bytes) {
    return zip_of({{"counts/data.pkl", pickle_text},
                   {"counts/byteorder", "little"},
                   {"counts/data/0", storage_bytes},
                   {"counts/version", "3\n"}});
}

// SGLang's recorder dictionary around one tensor.
inline std::string recorder_dict(const std::string& tensor) {
    return dict(
        {{"rank", pickled(std::int64_t{0})}, {"logical_count", tensor}, {"average_utilization_rate_over_window", "N"}});
}

}  // namespace eplb
