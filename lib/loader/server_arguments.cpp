#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "files/json_document.hpp"
#include "loader/server_facts.hpp"

namespace eplb {
namespace {

std::string with_dashes(std::string_view name) {
    std::string result(name);
    std::replace(result.begin(), result.end(), '_', '-');
    return result;
}

// What a shell would make of the text: quotes hold words together, a backslash escapes, a '#' before a word starts a
// comment. Nothing is expanded.
std::vector<std::string> split_words(const std::string& name, std::string_view text) {
    std::vector<std::string> words;
    std::string word;
    bool in_word = false;
    char quote = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char c = text[at];
        if (quote != 0) {
            if (c == quote) {
                quote = 0;
            } else if (c == '\\' && quote == '"' && at + 1 < text.size()) {
                word += text[++at];
            } else {
                word += c;
            }
        } else if (c == '\'' || c == '"') {
            quote = c;
            in_word = true;
        } else if (c == '\\' && at + 1 < text.size()) {
            if (text[++at] != '\n') {
                word += text[at];
                in_word = true;
            }
        } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
            if (in_word) words.push_back(std::exchange(word, {}));
            in_word = false;
        } else if (c == '#' && !in_word) {
            while (at + 1 < text.size() && text[at + 1] != '\n') ++at;
        } else {
            word += c;
            in_word = true;
        }
    }
    if (quote != 0) throw Error(ErrorCode::input, name, "a quote does not close");
    if (in_word) words.push_back(word);
    return words;
}

class ArgumentReader {
  public:
    ArgumentReader(const std::string& name, const EngineProfile& profile, ServerFacts& facts)
        : name_(name), profile_(profile), facts_(facts) {}

    void read_object(const JsonValue& object, const std::string& prefix) {
        for (const auto [key, value] : object.members()) {
            const std::string argument = prefix + with_dashes(key);
            switch (value.kind()) {
                case JsonKind::object:
                    read_object(value, argument + ".");
                    break;
                case JsonKind::boolean:
                    take(argument, value.as_boolean() ? "true" : "false");
                    break;
                case JsonKind::integer:
                    take(argument, fmt::to_string(value.as_integer()));
                    break;
                case JsonKind::string:
                    take(argument, std::string(value.as_string()));
                    break;
                default:
                    break;  // null is "not given"; lists and fractions are none of our facts
            }
        }
    }

    void read_words(const std::vector<std::string>& words) {
        for (std::size_t at = 0; at < words.size(); ++at) {
            if (!is_argument(words[at])) continue;  // the program, or a value of an argument nobody reads
            const bool is_short = !words[at].starts_with("--");
            std::string argument = words[at].substr(is_short ? 1 : 2), value = "true";
            const std::size_t equals = argument.find('=');
            if (equals != std::string::npos) {
                value = argument.substr(equals + 1);
                argument.resize(equals);
            }
            argument = with_dashes(argument);
            if (is_short && find(argument) == nullptr) continue;  // may be the interpreter's
            if (equals == std::string::npos && at + 1 < words.size() && takes_next(argument, words[at + 1])) {
                value = words[++at];
            }
            if (value.starts_with('{')) {
                read_object(JsonDocument::parse(value).root(), argument + ".");
            } else {
                take(argument, value);
            }
        }
    }

    void finish() {
        facts_.set_arguments_read();
        if (!unread_.empty()) {
            facts_.note(fmt::format("{}: {} arguments not read: {}", name_, unread_.size(), first_few(unread_, 32)));
        }
    }

  private:
    const EngineProfile::Argument* find(const std::string& argument) const {
        for (const EngineProfile::Argument& entry : profile_.arguments) {
            if (entry.name == argument) return &entry;
        }
        return nullptr;
    }

    // A switch has no value unless the next word is one.
    bool takes_next(const std::string& argument, const std::string& next) const {
        const EngineProfile::Argument* known = find(argument);
        if (known != nullptr && find_fact_name(known->fact).kind == FactKind::toggle) {
            return next == "true" || next == "false" || next == "True" || next == "False";
        }
        return !is_argument(next);
    }

    // "--name" or "-n"; "-1" is a value.
    static bool is_argument(const std::string& word) {
        return word.starts_with("--") ||
               (word.size() > 1 && word[0] == '-' && std::isalpha(static_cast<unsigned char>(word[1])) != 0);
    }

    void take(const std::string& argument, const std::string& value) {
        const EngineProfile::Argument* known = find(argument);
        if (known == nullptr) {
            unread_.push_back(argument);
            return;
        }
        const std::string source = fmt::format("{}, --{}", name_, argument);
        if (known->fact == "shared-fusion" && argument.starts_with("disable-")) {
            // Not disabled is not yet fused: the engine decides by model and backend.
            if (value == "true") facts_.add(known->fact, "false", source);
        } else if (known->fact == "role") {
            facts_.add(known->fact, role_of(value), source);
        } else if (known->fact == "quant" && !names_a_scheme(value)) {
            facts_.note(fmt::format("{} is '{}', which does not say what the experts are: give --quant", source,
                                    shortened(value, 80)));
        } else {
            facts_.add(known->fact, value, source);
        }
    }

    // "modelslim" or "ascend" only says that some description lies beside the weights.
    bool names_a_scheme(const std::string& value) const {
        return std::any_of(profile_.quantisations.begin(), profile_.quantisations.end(),
                           [&](const EngineProfile::Quantisation& scheme) { return scheme.name == value; });
    }

    // What the engines call the two halves of a disaggregated deployment.
    static std::string role_of(std::string_view value) {
        if (value == "kv_producer") return "prefill";
        if (value == "kv_consumer") return "decode";
        if (value == "null" || value == "kv_both") return "mixed";
        return std::string(value);
    }

    const std::string& name_;
    const EngineProfile& profile_;
    ServerFacts& facts_;
    std::vector<std::string> unread_;
};

}  // namespace

void read_server_arguments(const std::string& name, const std::string& text, const EngineProfile& profile,
                           ServerFacts& facts) {
    ArgumentReader reader(name, profile, facts);
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    try {
        if (first != std::string::npos && text[first] == '{') {
            const JsonDocument document = JsonDocument::parse(text);
            reader.read_object(document.root(), "");
        } else {
            reader.read_words(split_words(name, text));
        }
    } catch (const Error& error) {
        if (error.where().starts_with(name)) throw;
        rethrow_inside(name);
    } catch (...) {
        rethrow_inside(name);
    }
    reader.finish();
}

}  // namespace eplb
