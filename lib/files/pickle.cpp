#include "files/pickle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include "core/error.hpp"
#include "core/printable.hpp"

namespace eplb {
namespace {

constexpr std::size_t max_key_bytes = 1 << 10;  // a key may be recalled for every dict, and each time be compared

enum Opcode : std::uint8_t {  // Python's pickletools names
    op_mark = '(',
    op_stop = '.',
    op_pop = '0',
    op_pop_mark = '1',
    op_dup = '2',
    op_binfloat = 'G',
    op_binint = 'J',
    op_binint1 = 'K',
    op_binint2 = 'M',
    op_none = 'N',
    op_binpersid = 'Q',
    op_reduce = 'R',
    op_binunicode = 'X',
    op_append = 'a',
    op_build = 'b',
    op_global = 'c',
    op_dict = 'd',
    op_empty_dict = '}',
    op_appends = 'e',
    op_binget = 'h',
    op_long_binget = 'j',
    op_list = 'l',
    op_empty_list = ']',
    op_binput = 'q',
    op_long_binput = 'r',
    op_setitem = 's',
    op_setitems = 'u',
    op_tuple = 't',
    op_empty_tuple = ')',
    op_binbytes = 'B',
    op_short_binbytes = 'C',
    op_proto = 0x80,
    op_newobj = 0x81,
    op_tuple1 = 0x85,
    op_tuple2 = 0x86,
    op_tuple3 = 0x87,
    op_newtrue = 0x88,
    op_newfalse = 0x89,
    op_long1 = 0x8a,
    op_long4 = 0x8b,
    op_short_binunicode = 0x8c,
    op_binunicode8 = 0x8d,
    op_binbytes8 = 0x8e,
    op_empty_set = 0x8f,
    op_additems = 0x90,
    op_frozenset = 0x91,
    op_stack_global = 0x93,
    op_memoize = 0x94,
    op_frame = 0x95,
    op_bytearray8 = 0x96
};

class Machine {
  public:
    Machine(std::span<const std::byte> bytes, const AllowGlobal& allow, std::size_t max_opcodes)
        : bytes_(bytes), allow_(allow), max_opcodes_(max_opcodes) {}

    Pickle run() {
        if (bytes_.empty() || std::to_integer<int>(bytes_[0]) != op_proto) {
            fail("UNSUPPORTED_FILE", "no pickle of protocol 2 to 5 begins here");
        }
        for (std::size_t count = 0;; ++count) {
            if (count == max_opcodes_)
                fail("MALFORMED", fmt::format("the pickle has more than {} opcodes", max_opcodes_));
            opcode_at_ = position_;
            const auto opcode = static_cast<std::uint8_t>(take_number(1));
            if (opcode == op_stop) break;
            step(opcode);
        }
        if (stack_.size() != 1 || !marks_.empty()) fail("MALFORMED", "the pickle ends with values left over");
        pickle_.root = stack_[0];
        pickle_.size = position_;
        for (PickleNode& node : pickle_.nodes) {
            if (node.kind == PickleKind::dict) index_keys(node);
        }
        return std::move(pickle_);
    }

  private:
    [[noreturn]] void fail(std::string_view finding, std::string what, std::string hint = "") const {
        throw Error(ErrorCode::input, fmt::format("byte {}", opcode_at_), std::move(what), std::move(hint))
            .as_finding(finding);
    }

    // A dict may be recalled any number of times, so that a search along its keys would be quadratic in the pickle.
    void index_keys(PickleNode& dict) {
        const auto key = [&](std::uint32_t position) { return pickle_.item(dict, position).text; };
        for (std::uint32_t position = 0; position < dict.items.size(); position += 2) {
            const PickleNode& node = pickle_.item(dict, position);
            if (node.kind != PickleKind::text) continue;
            opcode_at_ = node.byte;
            if (node.text.size() > max_key_bytes) {
                fail("MALFORMED", fmt::format("a key of {} bytes is absurd", node.text.size()));
            }
            dict.by_key.push_back(position);
        }
        std::sort(dict.by_key.begin(), dict.by_key.end(),
                  [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
        const auto twice = std::adjacent_find(dict.by_key.begin(), dict.by_key.end(),
                                              [&](std::uint32_t a, std::uint32_t b) { return key(a) == key(b); });
        if (twice == dict.by_key.end()) return;
        opcode_at_ = dict.byte;
        fail("MALFORMED", fmt::format("key \"{}\" stands twice in one dict", shortened(key(*twice), 80)));
    }

    // Bytes of the pickle.
    std::string_view take(std::uint64_t size) {
        if (size > bytes_.size() - position_) {
            fail("MALFORMED", fmt::format("the pickle ends inside a value of {} bytes", size));
        }
        const std::string_view taken(reinterpret_cast<const char*>(bytes_.data()) + position_,
                                     static_cast<std::size_t>(size));
        position_ += static_cast<std::size_t>(size);
        return taken;
    }
    std::uint64_t take_number(std::size_t size) {
        const std::string_view taken = take(size);
        std::uint64_t value = 0;
        for (std::size_t index = size; index-- > 0;) value = value << 8 | static_cast<unsigned char>(taken[index]);
        return value;
    }
    std::string_view take_line() {
        const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + position_,
                                    bytes_.size() - position_);
        const std::size_t end = rest.find('\n');
        if (end == std::string_view::npos) fail("MALFORMED", "the pickle ends inside a name");
        position_ += end + 1;
        return rest.substr(0, end);
    }

    // The stack. Values under the last mark are out of reach until the mark is popped.
    std::size_t reachable() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }
    std::uint32_t pop() {
        if (reachable() == 0) fail("MALFORMED", "the pickle takes a value from an empty stack");
        const std::uint32_t top = stack_.back();
        stack_.pop_back();
        return top;
    }
    std::uint32_t top() {
        if (reachable() == 0) fail("MALFORMED", "the pickle looks at an empty stack");
        return stack_.back();
    }
    std::vector<std::uint32_t> pop_to_mark() {
        if (marks_.empty()) fail("MALFORMED", "the pickle pops a mark that it did not set");
        const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
        std::vector<std::uint32_t> values(first, stack_.end());
        stack_.erase(first, stack_.end());
        marks_.pop_back();
        return values;
    }
    PickleNode& push(PickleKind kind) {
        stack_.push_back(static_cast<std::uint32_t>(pickle_.nodes.size()));
        PickleNode& node = pickle_.nodes.emplace_back();
        node.kind = kind;
        node.byte = opcode_at_;
        return node;
    }
    void push_tuple(std::size_t size) {
        std::vector<std::uint32_t> items(size);
        for (std::size_t index = size; index-- > 0;) items[index] = pop();
        push(PickleKind::tuple).items = std::move(items);
    }
    PickleNode& container(PickleKind kind, const char* what) {
        PickleNode& node = pickle_.nodes[top()];
        if (node.kind != kind) fail("MALFORMED", fmt::format("the pickle adds to something that is no {}", what));
        return node;
    }
    void append(PickleKind kind, const char* what, const std::vector<std::uint32_t>& values) {
        PickleNode& node = container(kind, what);
        node.items.insert(node.items.end(), values.begin(), values.end());
    }

    void push_long(std::string_view bytes) {
        if (bytes.size() > 8) {
            push(PickleKind::big_integer);
            return;
        }
        std::uint64_t value = !bytes.empty() && (bytes.back() & 0x80) ? ~std::uint64_t{0} : 0;  // two's complement
        for (std::size_t index = bytes.size(); index-- > 0;) {
            value = value << 8 | static_cast<unsigned char>(bytes[index]);
        }
        push(PickleKind::integer).integer = static_cast<std::int64_t>(value);
    }
    void push_real() {
        std::uint64_t bits = 0;  // the one big-endian number of a pickle
        for (const char byte : take(8)) bits = bits << 8 | static_cast<unsigned char>(byte);
        push(PickleKind::real).real = std::bit_cast<double>(bits);
    }
    void push_global(std::string_view module, std::string_view name) {
        if (!allow_(module, name) && !is_ordered_dict(module, name)) {
            fail("UNKNOWN_GLOBAL",
                 fmt::format("names {}.{}, which no count file needs; nothing was run", shortened(module, 80),
                             shortened(name, 80)),
                 "do not load this file elsewhere unless you trust it; save counts as a plain tensor");
        }
        PickleNode& node = push(PickleKind::global);
        node.text = module;
        node.name = name;
    }
    void call() {
        const std::uint32_t arguments = pop(), callable = pop();
        const PickleNode& function = pickle_.nodes[callable];
        if (function.kind != PickleKind::global || pickle_.nodes[arguments].kind != PickleKind::tuple) {
            fail("MALFORMED", "the pickle calls something that is no named function");
        }
        if (is_ordered_dict(function.text, function.name)) {
            if (!pickle_.nodes[arguments].items.empty())
                fail("UNSUPPORTED_FILE", "an OrderedDict with arguments is not read");
            push(PickleKind::dict);
            return;
        }
        push(PickleKind::call).items = {callable, arguments};  // no copy: a pickle may recall one long tuple often
    }
    // Python numbers the slots of the memo as it stores; so no honest one is above the number of opcodes.
    void store(std::uint64_t slot) {
        const std::uint32_t value = top();
        if (slot >= max_opcodes_) fail("MALFORMED", fmt::format("the pickle stores value {}, which is absurd", slot));
        if (slot >= memo_.size()) memo_.resize(static_cast<std::size_t>(slot) + 1, never_stored);
        std::uint32_t& entry = memo_[static_cast<std::size_t>(slot)];
        if (entry == never_stored) ++stored_;
        entry = value;
    }
    void load(std::uint64_t slot) {
        if (slot >= memo_.size() || memo_[static_cast<std::size_t>(slot)] == never_stored) {
            fail("MALFORMED", fmt::format("the pickle recalls value {} that it never stored", slot));
        }
        stack_.push_back(memo_[static_cast<std::size_t>(slot)]);
    }

    static bool is_ordered_dict(std::string_view module, std::string_view name) {
        return module == "collections" && name == "OrderedDict";
    }
    void step(std::uint8_t opcode) {
        switch (opcode) {
            case op_proto: {
                const std::uint64_t protocol = take_number(1);
                if (protocol < 2 || protocol > 5) {
                    fail("UNSUPPORTED_FILE", fmt::format("pickle protocol {} is not read; 2 to 5 are", protocol));
                }
                break;
            }
            case op_frame:
                take_number(8);  // a hint for streaming readers
                break;
            case op_mark:
                marks_.push_back(stack_.size());
                break;
            case op_pop:
                // Python lets POP remove a mark too.
                if (reachable() == 0 && !marks_.empty()) {
                    marks_.pop_back();
                } else {
                    pop();
                }
                break;
            case op_pop_mark:
                pop_to_mark();
                break;
            case op_dup:
                stack_.push_back(top());
                break;
            case op_none:
                push(PickleKind::none);
                break;
            case op_newtrue:
            case op_newfalse:
                push(PickleKind::boolean).integer = opcode == op_newtrue;
                break;
            case op_binint:
                push(PickleKind::integer).integer = static_cast<std::int32_t>(take_number(4));
                break;
            case op_binint1:
                push(PickleKind::integer).integer = static_cast<std::int64_t>(take_number(1));
                break;
            case op_binint2:
                push(PickleKind::integer).integer = static_cast<std::int64_t>(take_number(2));
                break;
            case op_long1:
                push_long(take(take_number(1)));
                break;
            case op_long4:
                push_long(take(take_number(4)));
                break;
            case op_binfloat:
                push_real();
                break;
            case op_short_binunicode:
                push_text(PickleKind::text, 1);
                break;
            case op_binunicode:
                push_text(PickleKind::text, 4);
                break;
            case op_binunicode8:
                push_text(PickleKind::text, 8);
                break;
            case op_short_binbytes:
                push_text(PickleKind::bytes, 1);
                break;
            case op_binbytes:
                push_text(PickleKind::bytes, 4);
                break;
            case op_binbytes8:
            case op_bytearray8:
                push_text(PickleKind::bytes, 8);
                break;
            case op_empty_list:
                push(PickleKind::list);
                break;
            case op_empty_tuple:
                push(PickleKind::tuple);
                break;
            case op_empty_dict:
                push(PickleKind::dict);
                break;
            case op_empty_set:
                push(PickleKind::set);
                break;
            case op_tuple1:
                push_tuple(1);
                break;
            case op_tuple2:
                push_tuple(2);
                break;
            case op_tuple3:
                push_tuple(3);
                break;
            case op_tuple:
            case op_list:
            case op_frozenset: {
                std::vector<std::uint32_t> items = pop_to_mark();
                push(opcode == op_tuple  ? PickleKind::tuple
                     : opcode == op_list ? PickleKind::list
                                         : PickleKind::set)
                    .items = std::move(items);
                break;
            }
            case op_dict: {
                std::vector<std::uint32_t> items = pop_to_mark();
                if (items.size() % 2) fail("MALFORMED", "a dict has a key without a value");
                push(PickleKind::dict).items = std::move(items);
                break;
            }
            case op_append: {
                const std::uint32_t value = pop();
                append(PickleKind::list, "list", {value});
                break;
            }
            case op_appends:
                append(PickleKind::list, "list", pop_to_mark());
                break;
            case op_additems:
                append(PickleKind::set, "set", pop_to_mark());
                break;
            case op_setitem: {
                const std::uint32_t value = pop(), key = pop();
                append(PickleKind::dict, "dict", {key, value});
                break;
            }
            case op_setitems: {
                const std::vector<std::uint32_t> items = pop_to_mark();
                if (items.size() % 2) fail("MALFORMED", "a dict has a key without a value");
                append(PickleKind::dict, "dict", items);
                break;
            }
            case op_binput:
                store(take_number(1));
                break;
            case op_long_binput:
                store(take_number(4));
                break;
            case op_memoize:
                store(stored_);
                break;
            case op_binget:
                load(take_number(1));
                break;
            case op_long_binget:
                load(take_number(4));
                break;
            case op_global: {
                const std::string_view module = take_line(), name = take_line();
                push_global(module, name);
                break;
            }
            case op_stack_global: {
                const PickleNode &name = pickle_.nodes[pop()], &module = pickle_.nodes[pop()];
                if (name.kind != PickleKind::text || module.kind != PickleKind::text) {
                    fail("MALFORMED", "the pickle names a global by something that is no text");
                }
                push_global(module.text, name.text);
                break;
            }
            case op_reduce:
            case op_newobj:
                call();
                break;
            case op_binpersid: {
                const std::uint32_t id = pop();
                push(PickleKind::persistent).items = {id};
                break;
            }
            default:
                fail("UNSUPPORTED_FILE",
                     fmt::format("the pickle uses opcode 0x{:02x}{}, which no count file needs", opcode,
                                 opcode == op_build ? " (BUILD: an object with state)" : ""));
        }
    }

    void push_text(PickleKind kind, std::size_t length_bytes) {
        const std::string_view text = take(take_number(length_bytes));
        push(kind).text = text;
    }

    std::span<const std::byte> bytes_;
    const AllowGlobal& allow_;
    Pickle pickle_;
    std::size_t position_ = 0, opcode_at_ = 0;
    std::vector<std::uint32_t> stack_;
    std::vector<std::size_t> marks_;
    static constexpr std::uint32_t never_stored = ~std::uint32_t{0};
    std::vector<std::uint32_t> memo_;
    std::size_t stored_ = 0, max_opcodes_;
};

}  // namespace

const PickleNode* Pickle::find(const PickleNode& dict, std::string_view key) const {
    const auto text = [&](std::uint32_t position) { return item(dict, position).text; };
    const auto found =
        std::lower_bound(dict.by_key.begin(), dict.by_key.end(), key,
                         [&](std::uint32_t position, std::string_view wanted) { return text(position) < wanted; });
    if (found == dict.by_key.end() || text(*found) != key) return nullptr;
    return &item(dict, *found + 1);
}

Pickle read_pickle(std::span<const std::byte> bytes, const AllowGlobal& allow, std::size_t max_opcodes) {
    return Machine(bytes, allow, std::min<std::size_t>(max_opcodes, std::numeric_limits<std::uint32_t>::max() / 2))
        .run();
}

}  // namespace eplb
