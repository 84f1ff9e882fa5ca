// What is known about the server that is to load a layout, and who said it.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loader/model_config.hpp"

namespace eplb {

// Names of the facts: each is a flag of eplb-load check. Numbers are decimal, switches are "true" or "false".
enum class FactKind { number, text, toggle };
struct FactName {
    std::string_view name;
    FactKind kind = FactKind::text;
    std::string_view summary;
};
std::span<const FactName> fact_names();
const FactName& find_fact_name(std::string_view name);  // throws Error{usage}

// Facts from flags, the server's arguments and the model's config.json. Two sources that contradict each other are
// remembered, not settled.
class ServerFacts {
  public:
    // Throws Error{usage} for an unknown name and Error{input} for a number or switch that is none, at `source`.
    void add(std::string_view name, std::string value, std::string source);
    void add(const ModelConfig& config, const std::string& source);
    void note(std::string text) { notes_.push_back(std::move(text)); }

    std::optional<std::string> text(std::string_view name) const;
    std::optional<int> number(std::string_view name) const;
    std::optional<bool> flag(std::string_view name) const;
    const std::string& source(std::string_view name) const;  // of a known fact

    struct Fact {
        std::string value, source;
        int contradictions = 0;  // other values that were given for it
    };
    const std::map<std::string, Fact, std::less<>>& all() const { return facts_; }
    const std::vector<std::string>& contradictions() const { return contradictions_; }
    const std::vector<std::string>& notes() const { return notes_; }
    // Whether the server's arguments are among the sources: what they do not name, the server was not told.
    bool arguments_read() const { return arguments_read_; }
    void set_arguments_read() { arguments_read_ = true; }

  private:
    std::map<std::string, Fact, std::less<>> facts_;
    std::vector<std::string> contradictions_, notes_;
    bool arguments_read_ = false;
};

// What an engine calls the facts, and what it does with a layout.
struct EngineProfile {
    std::string_view name, summary;
    bool model_layer_rows = true;      // a row for every decoder layer, else for those with experts
    bool loads_weights_by_map = true;  // its own loader fills the slots by the map
    bool draws_table_itself = false;   // routes by a static table of its own unless ours is put in its place
    bool needs_a2a = false;            // replicas are wrong without an all-to-all backend
    struct Argument {
        std::string_view name;  // as on its command line, without dashes, words joined by '-'
        std::string_view fact;
    };
    std::span<const Argument> arguments;
    struct Quantisation {
        std::string_view name;     // --quant
        std::string_view adapter;  // of the Python package: the tensors that move together; empty where none can
        std::string_view remark;
    };
    std::span<const Quantisation> quantisations;
    std::string_view dispatch_prefix;  // dispatch models that this engine uses start so; empty: any
    bool reads_expert_map = false;     // its layout file is an expert map
};

std::span<const EngineProfile> engine_profiles();

// Throws Error{usage} that lists the names.
const EngineProfile& find_engine_profile(std::string_view name);

// Server arguments as a JSON object or as a command line: "--name value", "--name=value", bare "--switch" and known
// short "-n value", words joined by '-' or '_'. A foreign text: what the profile does not know is noted. Throws
// Error{input} for JSON that does not parse, and for quotes that do not close.
void read_server_arguments(const std::string& name, const std::string& text, const EngineProfile& profile,
                           ServerFacts& facts);

}  // namespace eplb
