#include "layout_io/manifest.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "files/digest.hpp"
#include "files/json_document.hpp"
#include "files/mapped_file.hpp"
#include "files/read_back.hpp"
#include "layout_io/layout_file.hpp"

namespace eplb {
namespace {

using Json = nlohmann::ordered_json;

// Words that a member may be.
using Words = std::initializer_list<std::string_view>;

// Every section says once which members it has, in the order of the file. The same function writes (Archive = Writer),
// reads (Archive = Reader) and makes the texts fit for JSON (Archive = Texts): a new member is one line here, one in
// the struct and one in the schema. What the reader refuses is what the schema refuses, as far as a schema can say it.

template <typename Archive>
void describe(Archive& archive, Geometry& geometry) {
    archive("layers", geometry.layers, 1, max_layers);
    archive("experts", geometry.experts, 1, max_experts);
    archive("ranks", geometry.ranks, 1, max_ranks);
    archive("slots_per_rank", geometry.slots_per_rank, 1, max_physical_slots / std::max(geometry.ranks, 1));
    int redundant = geometry.redundant_total();
    archive("redundant_total", redundant, redundant, redundant);
}

template <typename Archive>
void describe(Archive& archive, ManifestCountFile& file) {
    archive("name", file.name);
    archive.hash("sha256", file.sha256);
    archive("total", file.total, std::int64_t{0}, std::numeric_limits<std::int64_t>::max());
    archive("record_slots", file.record_slots, 0, std::numeric_limits<int>::max());
    archive.ascending("fitted", file.fitted, file.record_slots);
    archive.ascending("held_out", file.held_out, file.record_slots);
}

template <typename Archive>
void describe(Archive& archive, ManifestScore& score) {
    archive("layout", score.layout);
    archive("dispatch", score.dispatch);
    archive.word("part", score.part, Words{"fit", "holdout", "all"});
    archive("layers_scored", score.layers_scored, 0, max_layers);
    archive("step_mean", score.step_mean);
    archive("step_worst", score.step_worst);
    archive("window_mean", score.window_mean);
    archive("window_worst", score.window_worst);
}

template <typename Archive>
void describe(Archive& archive, ManifestLayer& layer) {
    archive("window", layer.window, 0.0);
    archive("window_lower_bound", layer.window_lower_bound, 0.0);
    archive("step", layer.step, 0.0);
    archive("step_lower_bound", layer.step_lower_bound, 0.0);
    archive("kept", layer.kept);
}

template <typename Archive>
void describe(Archive& archive, ManifestVerdict& verdict) {
    archive.word("decision", verdict.decision, Words{"recommend-trial", "not-now", "insufficient-evidence"});
    archive("against", verdict.against);
    archive("reasons", verdict.reasons);
    archive("gain", verdict.gain);
    archive("gain_spread", verdict.gain_spread);
    archive.distinct("worse_layers", verdict.worse_layers, max_layers);
}

template <typename Archive>
void describe(Archive& archive, ManifestGuard& guard) {
    archive("window_fit", guard.window_fit);
    archive("predictability", guard.predictability);
    archive("noise_level", guard.noise_level);
    archive("replica_exponent", guard.replica_exponent);
    archive("replica_share", guard.replica_share);
    archive("mean_shrink", guard.mean_shrink);
    archive("step_layers", guard.step_layers, 0, max_layers);
    archive("window_layers", guard.window_layers, 0, max_layers);
    archive("expected_holdout", guard.expected_holdout);
    archive("expected_gain", guard.expected_gain);
    archive("expected_gain_error", guard.expected_gain_error);
}

template <typename Archive>
void describe(Archive& archive, Manifest& manifest) {
    int version = manifest_format_version;
    archive("format_version", version, manifest_format_version, manifest_format_version);
    archive.section("layout", [&](Archive& layout) {
        layout.hash("sha256", manifest.layout_sha256);
        layout.hash("map_hash", manifest.map_hash);
        layout("geometry", manifest.geometry);
        layout.hash("dispatch_table_sha256", manifest.dispatch_table_sha256);
    });
    archive.section("counts", [&](Archive& counts) {
        counts("files", manifest.counts);
        counts("reduction", manifest.reduction);
        counts.word("holdout", manifest.holdout, Words{"interleave", "halves", "last", "none"});
        counts("refit_all", manifest.refit_all);
        counts.if_any("accepted", manifest.accepted);
    });
    archive.section("scenario", [&](Archive& scenario) {
        for (auto& [key, value] : manifest.scenario) {
            if (key == "role") {
                scenario.word(key.c_str(), value, Words{"prefill", "decode", "mixed", "not-observed"});
            } else {
                scenario(key.c_str(), value);
            }
        }
    });
    archive.section("fit", [&](Archive& fit) {
        fit("policy", manifest.policy);
        fit("objective", manifest.objective);
        fit("effort", manifest.effort);
        fit("dispatch", manifest.dispatch);
        fit("seed", manifest.seed);
        fit("guard", manifest.guard);
    });
    archive.section("tool", [&](Archive& tool) {
        tool("version", manifest.tool_version);
        tool("commit", manifest.tool_commit);
        tool("command_line", manifest.command_line);
    });
    archive("scores", manifest.scores);
    archive("layers", manifest.layers);
    archive("verdict", manifest.verdict);
    archive("notes", manifest.notes);
}

class Writer {
  public:
    template <typename T, typename... Limits>
    void operator()(const char* key, T&& value, Limits...) {
        object_[key] = json_of(value);
    }
    void hash(const char* key, const std::string& value) { object_[key] = value; }
    void hash(const char* key, const std::optional<std::string>& value) { object_[key] = json_of(value); }
    void word(const char* key, const std::string& value, Words) { object_[key] = value; }
    void ascending(const char* key, const std::vector<int>& values, int) { object_[key] = values; }
    void distinct(const char* key, const std::vector<int>& values, int) { object_[key] = values; }
    // Where there is nothing to list, there is no member.
    template <typename T>
    void if_any(const char* key, const std::vector<T>& values) {
        if (!values.empty()) object_[key] = json_of(values);
    }
    template <typename Describe>
    void section(const char* key, const Describe& describe_section) {
        Writer writer;
        describe_section(writer);
        object_[key] = writer.take();
    }
    Json take() { return std::move(object_); }

  private:
    static Json json_of(bool value) { return value; }
    static Json json_of(int value) { return value; }
    static Json json_of(std::int64_t value) { return value; }
    static Json json_of(std::uint64_t value) { return value; }
    static Json json_of(const std::string& value) { return value; }
    static Json json_of(Reduction value) { return name_of(value); }
    static Json json_of(double value) {
        if (!std::isfinite(value)) throw Error(ErrorCode::internal, "", "a manifest figure is not finite");
        return value;
    }
    template <typename T>
    static Json json_of(const std::optional<T>& value) {
        return value ? json_of(*value) : Json();
    }
    template <typename T>
    static Json json_of(const std::vector<T>& values) {
        Json array = Json::array();
        for (const T& value : values) array.push_back(json_of(value));
        return array;
    }
    template <typename T>
    requires std::is_class_v<T>
    static Json json_of(const T& section) {
        Writer writer;
        T copy = section;  // describe() takes the section as a reader needs it
        describe(writer, copy);
        return writer.take();
    }

    Json object_ = Json::object();
};

class Reader {
  public:
    explicit Reader(JsonValue object) : object_(object) {}

    template <typename T>
    void operator()(const char* key, T&& value) {
        read(member(key), value);
    }
    template <std::integral T>
    void operator()(const char* key, T& value, T least, T most) {
        value = static_cast<T>(member(key).as_integer(least, most));
    }
    void operator()(const char* key, double& value, double least) { value = member(key).as_number(least); }
    void operator()(const char* key, std::optional<double>& value, double least) {
        const JsonValue given = member(key);
        value = given.is(JsonKind::null) ? std::nullopt : std::optional(given.as_number(least));
    }
    void hash(const char* key, std::string& value) { value = member(key).as_sha256(); }
    void hash(const char* key, std::optional<std::string>& value) {
        const JsonValue given = member(key);
        value = given.is(JsonKind::null) ? std::nullopt : std::optional(given.as_sha256());
    }
    void word(const char* key, std::string& value, Words known) {
        const JsonValue given = member(key);
        value = given.as_string();
        if (std::find(known.begin(), known.end(), value) == known.end()) {
            given.fail("MALFORMED", fmt::format("'{}' is none of {}", value, fmt::join(known, ", ")));
        }
    }
    // Ascending whole numbers below `limit`.
    void ascending(const char* key, std::vector<int>& values, int limit) {
        values.clear();
        for (const JsonValue value : member(key).elements()) {
            const int least = values.empty() ? 0 : values.back() + 1;
            values.push_back(static_cast<int>(value.as_integer(least, limit - 1)));
        }
    }
    // Whole numbers below `limit`, each once, in an order that means something.
    void distinct(const char* key, std::vector<int>& values, int limit) {
        values.clear();
        std::vector<bool> seen(static_cast<std::size_t>(limit));
        for (const JsonValue value : member(key).elements()) {
            values.push_back(static_cast<int>(value.as_integer(0, limit - 1)));
            if (seen[static_cast<std::size_t>(values.back())]) value.fail("MALFORMED", "stands there twice");
            seen[static_cast<std::size_t>(values.back())] = true;
        }
    }
    template <typename T>
    void if_any(const char* key, std::vector<T>& values) {
        keys_.push_back(key);
        values.clear();
        const auto given = object_.find(key);
        if (!given) return;
        read(*given, values);
        if (values.empty()) given->fail("MALFORMED", "is empty", "leave the member out");
    }
    template <typename Describe>
    void section(const char* key, const Describe& describe_section) {
        Reader reader(member(key));
        describe_section(reader);
        reader.finish();
    }
    // Throws when the object has a member that describe() did not ask for.
    void finish() const { object_.allow_keys(keys_); }

  private:
    JsonValue member(const char* key) {
        keys_.push_back(key);
        return object_.at(key);
    }
    static void read(JsonValue given, bool& value) { value = given.as_boolean(); }
    static void read(JsonValue given, std::uint64_t& value) {
        value = static_cast<std::uint64_t>(given.as_integer(0, std::numeric_limits<std::int64_t>::max()));
    }
    static void read(JsonValue given, double& value) { value = given.as_number(); }
    static void read(JsonValue given, std::string& value) { value = given.as_string(); }
    static void read(JsonValue given, Reduction& value) {
        for (const Reduction reduction : {Reduction::unknown, Reduction::reduced, Reduction::per_rank}) {
            if (given.as_string() != name_of(reduction)) continue;
            value = reduction;
            return;
        }
        given.fail("MALFORMED", fmt::format("'{}' is not unknown, reduced or per-rank", given.as_string()));
    }
    template <typename T>
    static void read(JsonValue given, std::optional<T>& value) {
        value.reset();
        if (!given.is(JsonKind::null)) read(given, value.emplace());
    }
    template <typename T>
    static void read(JsonValue given, std::vector<T>& values) {
        values.clear();
        for (const JsonValue element : given.elements()) read(element, values.emplace_back());
    }
    template <typename T>
    requires std::is_class_v<T>
    static void read(JsonValue given, T& section) {
        Reader reader(given);
        describe(reader, section);
        reader.finish();
    }

    JsonValue object_;
    std::vector<std::string_view> keys_;
};

// Makes every text one that JSON can hold.
class Texts {
  public:
    template <typename T, typename... Limits>
    void operator()(const char*, T& value, Limits...) {
        clean(value);
    }
    template <typename T>
    void hash(const char*, T& value) {
        clean(value);
    }
    void word(const char*, std::string& value, Words) { clean(value); }
    void ascending(const char*, std::vector<int>&, int) {}
    void distinct(const char*, std::vector<int>&, int) {}
    template <typename T>
    void if_any(const char*, std::vector<T>& values) {
        clean(values);
    }
    template <typename Describe>
    void section(const char*, const Describe& describe_section) {
        describe_section(*this);
    }

  private:
    static void clean(std::string& text) { text = printable(text); }
    template <typename T>
    requires(!std::is_class_v<T>) static void clean(T&) {}
    template <typename T>
    static void clean(std::optional<T>& value) {
        if (value) clean(*value);
    }
    template <typename T>
    static void clean(std::vector<T>& values) {
        for (T& value : values) clean(value);
    }
    template <typename T>
    requires std::is_class_v<T>
    static void clean(T& section) {
        Texts texts;
        describe(texts, section);
    }
};

// Two spaces a level. What holds no container stands on one line, unless it is an object too long for that.
void write(std::string& text, const Json& value, std::size_t indent) {
    constexpr std::size_t longest_object = 240;
    const bool nested = value.is_structured() && std::any_of(value.begin(), value.end(), [](const Json& inner) {
                            return inner.is_structured() && !inner.empty();
                        });
    const std::string one_line = nested ? std::string() : value.dump();
    if (!nested && (!value.is_object() || one_line.size() <= longest_object)) {
        text += one_line;
        return;
    }
    text += value.is_object() ? "{\n" : "[\n";
    const std::string inner_indent(indent + 2, ' ');
    bool first = true;
    for (const auto& [key, inner] : value.items()) {
        if (!first) text += ",\n";
        first = false;
        text += inner_indent;
        if (value.is_object()) text += Json(key).dump() + ": ";
        write(text, inner, indent + 2);
    }
    text += "\n" + std::string(indent, ' ') + (value.is_object() ? "}" : "]");
}

void append_int32(std::string& bytes, std::int32_t value) {
    for (int shift = 0; shift < 32; shift += 8) {
        bytes.push_back(static_cast<char>((static_cast<std::uint32_t>(value) >> shift) & 0xff));
    }
}

}  // namespace

std::string encode_manifest(const Manifest& manifest) {
    Manifest meant = manifest;
    Texts texts;
    describe(texts, meant);
    Writer writer;
    describe(writer, meant);
    std::string text;
    write(text, writer.take(), 0);
    return require_reads_back("the manifest", text + "\n", meant, decode_manifest);
}

Manifest decode_manifest(std::string_view text) {
    const JsonDocument document = JsonDocument::parse(text);
    Manifest manifest;
    Reader reader(document.root());
    describe(reader, manifest);
    reader.finish();
    return manifest;
}

Manifest read_manifest(const std::string& path) {
    const auto file = MappedFile::open(path);
    try {
        return decode_manifest(file->text());
    } catch (...) {
        rethrow_inside(path);
    }
}

std::optional<Manifest> find_manifest(const std::string& layout_path, const std::string& layout_sha256) {
    const std::string path = manifest_path(layout_path);
    std::error_code ignored;
    if (layout_path == "-" || !std::filesystem::exists(path, ignored)) return std::nullopt;
    Manifest manifest = read_manifest(path);
    if (manifest.layout_sha256 != layout_sha256) {
        throw Error(
            ErrorCode::input, path,
            fmt::format("belongs to another layout file: sha256 {} there, {} here", manifest.layout_sha256,
                        layout_sha256),
            "one of the two was edited or copied alone, or a run was ended between the two: fit again, or remove the "
            "manifest")
            .as_finding("MANIFEST_MISMATCH");
    }
    return manifest;
}

std::string map_hash(const Layout& layout) {
    const Geometry& geometry = layout.geometry();
    std::string bytes;
    for (const int extent : {geometry.experts, geometry.ranks, geometry.slots_per_rank}) append_int32(bytes, extent);
    for (int layer = 0; layer < geometry.layers; ++layer) {
        for (const ExpertId expert : layout.row(layer)) append_int32(bytes, expert.value);
    }
    return sha256_hex(bytes);
}

}  // namespace eplb
