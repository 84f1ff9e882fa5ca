// Python pickles, protocols 2 to 5, read as data: nothing is imported, called or constructed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace eplb {

enum class PickleKind : std::uint8_t {
    none,
    boolean,
    integer,      // inside int64
    big_integer,  // more than 8 bytes: its value is not kept
    real,
    text,
    bytes,
    list,
    tuple,
    set,
    dict,       // items: key, value, key, value, ...
    global,     // a named class or function: text is its module, name its name
    call,       // items: the global, and the tuple of its arguments
    persistent  // items: the one value that stands for an object stored elsewhere
};

struct PickleNode {
    PickleKind kind = PickleKind::none;
    std::size_t byte = 0;  // of the opcode that made it
    std::int64_t integer = 0;
    double real = 0;
    std::string_view text, name;        // inside the pickled bytes
    std::vector<std::uint32_t> items;   // indices of nodes; containers may contain themselves, so walks need a limit
    std::vector<std::uint32_t> by_key;  // of a dict: positions in items of its text keys, ascending by text
};

struct Pickle {
    std::deque<PickleNode> nodes;
    std::uint32_t root = 0;
    std::size_t size = 0;  // bytes up to and with the STOP opcode

    const PickleNode& operator[](std::uint32_t index) const { return nodes[index]; }
    const PickleNode& item(const PickleNode& node, std::size_t position) const { return nodes[node.items[position]]; }
    // Value of a text key; nullptr when absent. No key stands twice. O(log keys).
    const PickleNode* find(const PickleNode& dict, std::string_view key) const;
};

// Whether a pickle may name module.name. What it may not name ends the reading.
using AllowGlobal = std::function<bool(std::string_view module, std::string_view name)>;

// A count file needs some sixty opcodes, a per-pass dump some fifty for each pass.
inline constexpr std::size_t few_opcodes = 1 << 18;

// Runs the pickle in `bytes`, which may go on after it. collections.OrderedDict is known and becomes a dict. Throws
// Error{input} with the byte; finding codes UNKNOWN_GLOBAL, UNSUPPORTED_FILE (an opcode of other protocols, object
// state) and MALFORMED (a text key twice in one dict too, which Python never writes). Time and memory are bounded by
// `max_opcodes`, about 150 bytes each, whatever sizes the pickle claims.
Pickle read_pickle(std::span<const std::byte> bytes, const AllowGlobal& allow, std::size_t max_opcodes = few_opcodes);

}  // namespace eplb
