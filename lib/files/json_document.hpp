// JSON read strictly: duplicate keys, NaN and deep nesting are errors, and whoever asks a value for what it is not gets
// an error with the value's JSON path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eplb {

class JsonDocument;

enum class JsonKind : std::uint8_t { null, boolean, integer, real, string, array, object };

// One value of a document: a cheap handle, valid as long as the document lives. Every as_*() throws Error{input} whose
// place is path() when the value is of another kind.
class JsonValue {
  public:
    JsonKind kind() const;
    bool is(JsonKind wanted) const { return kind() == wanted; }
    std::string path() const;  // "$.layers[3].name"

    bool as_boolean() const;
    std::int64_t as_integer() const;  // a literal without fraction and exponent, inside int64
    // An integer inside [least, most]; for ids, extents and counts.
    std::int64_t as_integer(std::int64_t least, std::int64_t most) const;
    double as_number() const;              // integer or real, finite
    double as_number(double least) const;  // not below `least`
    std::string_view as_string() const;
    std::string as_sha256() const;  // 64 lower-case hex digits

    std::size_t size() const;  // of an array or object
    // Walks an array: for (JsonValue row : value.elements()).
    class Elements;
    Elements elements() const;
    // Walks an object in file order: for (auto [key, member] : value.members()).
    class Members;
    Members members() const;

    std::optional<JsonValue> find(std::string_view key) const;  // member of an object
    JsonValue at(std::string_view key) const;                   // throws when it is missing
    // For our own files: throws when a key is none of `allowed`, naming it and the allowed ones.
    void allow_keys(std::span<const std::string_view> allowed) const;

    // An error about this value: Error{input} at path().
    [[noreturn]] void fail(std::string_view finding_code, std::string what, std::string hint = "") const;

  private:
    friend class JsonDocument;
    JsonValue(const JsonDocument& document, std::size_t index) : document_(&document), index_(index) {}
    void require(JsonKind wanted) const;

    const JsonDocument* document_;
    std::size_t index_;
};

// A parsed document: one flat array of 16-byte nodes, so that neither parsing nor destruction recurses.
class JsonDocument {
  public:
    // Throws Error{input} with the byte; finding codes TRUNCATED (the text ends too early) and MALFORMED.
    static JsonDocument parse(std::string_view text, int max_depth = 64);

    JsonDocument(JsonDocument&&) noexcept;
    JsonDocument& operator=(JsonDocument&&) noexcept;
    ~JsonDocument();

    JsonValue root() const { return {*this, 0}; }

  private:
    friend class JsonValue;
    struct Nodes;
    explicit JsonDocument(std::unique_ptr<Nodes> nodes);
    void refuse_repeated_keys() const;
    std::unique_ptr<Nodes> nodes_;
};

class JsonValue::Elements {
  public:
    class Iterator {
      public:
        JsonValue operator*() const { return {*document_, index_}; }
        Iterator& operator++();
        bool operator==(const Iterator& other) const { return index_ == other.index_; }

      private:
        friend class Elements;
        Iterator(const JsonDocument& document, std::size_t index) : document_(&document), index_(index) {}
        const JsonDocument* document_;
        std::size_t index_;
    };
    Iterator begin() const { return {*document_, first_}; }
    Iterator end() const { return {*document_, end_}; }

  private:
    friend class JsonValue;
    Elements(const JsonDocument& document, std::size_t first, std::size_t end)
        : document_(&document), first_(first), end_(end) {}
    const JsonDocument* document_;
    std::size_t first_, end_;
};

class JsonValue::Members {
  public:
    struct Member {
        std::string_view key;
        JsonValue value;
    };
    class Iterator {
      public:
        Member operator*() const;
        Iterator& operator++();
        bool operator==(const Iterator& other) const { return index_ == other.index_; }

      private:
        friend class Members;
        Iterator(const JsonDocument& document, std::size_t index) : document_(&document), index_(index) {}
        const JsonDocument* document_;
        std::size_t index_;  // of the key's node; the value follows it
    };
    Iterator begin() const { return {*document_, first_}; }
    Iterator end() const { return {*document_, end_}; }

  private:
    friend class JsonValue;
    Members(const JsonDocument& document, std::size_t first, std::size_t end)
        : document_(&document), first_(first), end_(end) {}
    const JsonDocument* document_;
    std::size_t first_, end_;
};

}  // namespace eplb
