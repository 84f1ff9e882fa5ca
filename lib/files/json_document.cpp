#include "files/json_document.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.hpp"
#include "core/printable.hpp"

namespace eplb {
namespace {

constexpr std::size_t max_nodes = std::numeric_limits<std::uint32_t>::max() / 2;

const char* name_of(JsonKind kind) {
    switch (kind) {
        case JsonKind::null:
            return "null";
        case JsonKind::boolean:
            return "true or false";
        case JsonKind::integer:
            return "a whole number";
        case JsonKind::real:
            return "a number with a fraction, an exponent or more than 63 bits";
        case JsonKind::string:
            return "a string";
        case JsonKind::array:
            return "an array";
        case JsonKind::object:
            return "an object";
    }
    return "a value";
}

}  // namespace

// Preorder. An object's children alternate: a string node for the key, then the value.
struct JsonDocument::Nodes {
    struct Span {
        std::uint32_t first, size;  // of a string: its place in the arena; of a container: end node, child count
    };

    struct Node {
        union {
            std::int64_t integer;
            double real;
            Span span;
        };
        JsonKind kind = JsonKind::null;
    };
    static_assert(sizeof(Node) == 16);

    std::vector<Node> nodes;
    std::string arena;  // the characters of all strings

    const Node& operator[](std::size_t index) const { return nodes[index]; }
    std::string_view string(std::size_t index) const {
        return std::string_view(arena).substr(nodes[index].span.first, nodes[index].span.size);
    }
    bool is_container(std::size_t index) const {
        return nodes[index].kind == JsonKind::array || nodes[index].kind == JsonKind::object;
    }
    std::size_t after(std::size_t index) const { return is_container(index) ? nodes[index].span.first : index + 1; }
};

namespace {

// Fills the nodes from nlohmann's SAX parser, which keeps its own stack on the heap.
template <typename Nodes>
class Builder {
  public:
    Builder(Nodes& nodes, std::string_view text, int max_depth) : nodes_(nodes), text_(text), max_depth_(max_depth) {}

    bool null() { return add(JsonKind::null), true; }
    bool boolean(bool value) { return add(JsonKind::boolean).integer = value, true; }
    bool number_integer(std::int64_t value) { return add(JsonKind::integer).integer = value, true; }
    bool number_unsigned(std::uint64_t value) {
        if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
            return number_integer(static_cast<std::int64_t>(value));
        }
        return number_float(static_cast<double>(value), {});
    }
    bool number_float(double value, const std::string&) { return add(JsonKind::real).real = value, true; }
    bool string(const std::string& value) { return add_string(value), true; }
    bool binary(const std::vector<std::uint8_t>&) { return false; }  // JSON text has none

    bool start_object(std::size_t) { return open(JsonKind::object); }
    bool start_array(std::size_t) { return open(JsonKind::array); }
    bool end_object() { return close(); }
    bool end_array() { return close(); }
    bool key(const std::string& value) {
        add_string(value);
        return true;
    }

    bool parse_error(std::size_t byte, const std::string&, const nlohmann::json::exception& error) {
        std::string_view what = error.what();
        const std::size_t bracket = what.find("] ");
        if (bracket != std::string_view::npos) what.remove_prefix(bracket + 2);
        std::string line(what);
        std::replace(line.begin(), line.end(), '\n', ' ');
        const bool cut = byte > text_.size() || text_.empty();
        std::string hint = cut ? "the text ends too early: copy or write it again" : "";
        if (!cut && near(byte, "NaN", "Infinity")) hint = "NaN and Infinity are no JSON";
        throw Error(ErrorCode::input, fmt::format("byte {}", byte), shortened(line, 240), std::move(hint))
            .as_finding(cut ? "TRUNCATED" : "MALFORMED");
    }

  private:
    bool near(std::size_t byte, std::string_view first, std::string_view second) const {
        const std::size_t from = byte < 12 ? 0 : byte - 12;
        const std::string_view around = text_.substr(from, 24);
        return around.find(first) != std::string_view::npos || around.find(second) != std::string_view::npos;
    }
    typename Nodes::Node& add(JsonKind kind) {
        if (nodes_.nodes.size() >= max_nodes) {
            throw Error(ErrorCode::input, "", fmt::format("the document has more than {} values", max_nodes))
                .as_finding("MALFORMED");
        }
        if (!open_.empty()) ++nodes_.nodes[open_.back()].span.size;
        typename Nodes::Node node;
        node.integer = 0;
        node.kind = kind;
        return nodes_.nodes.emplace_back(node);
    }
    void add_string(const std::string& value) {
        if (nodes_.arena.size() + value.size() > max_nodes) {
            throw Error(ErrorCode::input, "", "the document's strings are too long").as_finding("MALFORMED");
        }
        add(JsonKind::string).span = {static_cast<std::uint32_t>(nodes_.arena.size()),
                                      static_cast<std::uint32_t>(value.size())};
        nodes_.arena += value;
    }
    bool open(JsonKind kind) {
        if (open_.size() >= static_cast<std::size_t>(max_depth_)) {
            throw Error(ErrorCode::input, "", fmt::format("values are nested deeper than {}", max_depth_))
                .as_finding("MALFORMED");
        }
        add(kind);
        open_.push_back(nodes_.nodes.size() - 1);
        return true;
    }
    bool close() {
        nodes_.nodes[open_.back()].span.first = static_cast<std::uint32_t>(nodes_.nodes.size());
        open_.pop_back();
        return true;
    }

    Nodes& nodes_;
    std::string_view text_;
    int max_depth_;
    std::vector<std::size_t> open_;  // the containers around the next value
};

}  // namespace

JsonDocument::JsonDocument(std::unique_ptr<Nodes> nodes) : nodes_(std::move(nodes)) {}
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

JsonDocument JsonDocument::parse(std::string_view text, int max_depth) {
    auto nodes = std::make_unique<Nodes>();
    Builder<Nodes> builder(*nodes, text, max_depth);
    if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
        throw Error(ErrorCode::internal, "", "the JSON parser stopped without saying why");
    }
    JsonDocument document(std::move(nodes));
    document.refuse_repeated_keys();
    return document;
}

// By sorting: a million keys, or keys chosen to fall into one bucket of a hash table, cost no more than reading them.
void JsonDocument::refuse_repeated_keys() const {
    std::vector<std::pair<std::string_view, std::size_t>> keys;  // with the node of the value
    for (std::size_t index = 0; index < nodes_->nodes.size(); ++index) {
        if ((*nodes_)[index].kind != JsonKind::object || (*nodes_)[index].span.size <= 2) continue;
        keys.clear();
        for (std::size_t key = index + 1; key != nodes_->after(index); key = nodes_->after(key + 1)) {
            keys.emplace_back(nodes_->string(key), key + 1);
        }
        std::sort(keys.begin(), keys.end());
        const auto twice = std::adjacent_find(keys.begin(), keys.end(),
                                              [](const auto& a, const auto& b) { return a.first == b.first; });
        if (twice == keys.end()) continue;
        const std::string shown = shortened(twice->first, 80);
        JsonValue(*this, index).fail("MALFORMED", fmt::format("key \"{}\" stands twice in one object", shown));
    }
}

JsonKind JsonValue::kind() const {
    return (*document_->nodes_)[index_].kind;
}

std::string JsonValue::path() const {
    const JsonDocument::Nodes& nodes = *document_->nodes_;
    std::string path = "$";
    std::size_t at = 0;
    while (at != index_) {
        const bool object = nodes[at].kind == JsonKind::object;
        std::size_t child = at + 1, position = 0;
        for (;; ++position) {
            const std::size_t value = object ? child + 1 : child;
            if (index_ < nodes.after(value)) {
                path += object ? "." + shortened(nodes.string(child), 80) : fmt::format("[{}]", position);
                at = value;
                break;
            }
            child = nodes.after(value);
        }
    }
    return path;
}

void JsonValue::fail(std::string_view finding_code, std::string what, std::string hint) const {
    throw Error(ErrorCode::input, path(), std::move(what), std::move(hint)).as_finding(finding_code);
}

void JsonValue::require(JsonKind wanted) const {
    if (kind() != wanted) fail("MALFORMED", fmt::format("is {}, expected {}", name_of(kind()), name_of(wanted)));
}

bool JsonValue::as_boolean() const {
    require(JsonKind::boolean);
    return (*document_->nodes_)[index_].integer != 0;
}

std::int64_t JsonValue::as_integer() const {
    require(JsonKind::integer);
    return (*document_->nodes_)[index_].integer;
}

std::int64_t JsonValue::as_integer(std::int64_t least, std::int64_t most) const {
    const std::int64_t value = as_integer();
    if (value < least || value > most) {
        fail("MALFORMED", fmt::format("{} is outside {} to {}", value, least, most));
    }
    return value;
}

double JsonValue::as_number() const {
    if (is(JsonKind::integer)) return static_cast<double>(as_integer());
    if (!is(JsonKind::real)) fail("MALFORMED", fmt::format("is {}, expected a number", name_of(kind())));
    return (*document_->nodes_)[index_].real;
}

std::string_view JsonValue::as_string() const {
    require(JsonKind::string);
    return document_->nodes_->string(index_);
}

std::string JsonValue::as_sha256() const {
    const std::string_view digest = as_string();
    if (digest.size() != 64 || digest.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
        fail("MALFORMED", "is no SHA-256 of 64 lower-case hex digits");
    }
    return std::string(digest);
}

double JsonValue::as_number(double least) const {
    const double value = as_number();
    if (!(value >= least)) fail("MALFORMED", fmt::format("{} is below {}", value, least));
    return value;
}

std::size_t JsonValue::size() const {
    const JsonDocument::Nodes& nodes = *document_->nodes_;
    if (is(JsonKind::object)) return nodes[index_].span.size / 2;
    require(JsonKind::array);
    return nodes[index_].span.size;
}

JsonValue::Elements JsonValue::elements() const {
    require(JsonKind::array);
    return {*document_, index_ + 1, document_->nodes_->after(index_)};
}

JsonValue::Members JsonValue::members() const {
    require(JsonKind::object);
    return {*document_, index_ + 1, document_->nodes_->after(index_)};
}

JsonValue::Elements::Iterator& JsonValue::Elements::Iterator::operator++() {
    index_ = document_->nodes_->after(index_);
    return *this;
}

JsonValue::Members::Member JsonValue::Members::Iterator::operator*() const {
    return {document_->nodes_->string(index_), {*document_, index_ + 1}};
}

JsonValue::Members::Iterator& JsonValue::Members::Iterator::operator++() {
    index_ = document_->nodes_->after(index_ + 1);
    return *this;
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
    for (const auto [name, value] : members()) {
        if (name == key) return value;
    }
    return std::nullopt;
}

JsonValue JsonValue::at(std::string_view key) const {
    if (const std::optional<JsonValue> value = find(key)) return *value;
    fail("MALFORMED", fmt::format("lacks the key \"{}\"", key));
}

void JsonValue::allow_keys(std::span<const std::string_view> allowed) const {
    for (const auto [name, value] : members()) {
        if (std::find(allowed.begin(), allowed.end(), name) == allowed.end()) {
            value.fail("MALFORMED", "is an unknown key", fmt::format("known here: {}", fmt::join(allowed, ", ")));
        }
    }
}

}  // namespace eplb
