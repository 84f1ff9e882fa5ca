// The rules of admission beyond the legality of the map. Each fails closed: a fact that a rule needs and nobody stated
// is an error, not a pass.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "core/error.hpp"
#include "files/digest.hpp"
#include "files/mapped_file.hpp"
#include "layout_io/expert_map_file.hpp"
#include "loader/admission.hpp"
#include "loader/legal_layout.hpp"
#include "loader/plan.hpp"

namespace eplb {
namespace {

using Findings = std::vector<Finding>;

void error(Findings& findings, std::string_view code, std::string message, std::string hint) {
    findings.push_back({Severity::error, std::string(code), "", std::move(message), std::move(hint)});
}
void warning(Findings& findings, std::string_view code, std::string message, std::string hint) {
    findings.push_back({Severity::warning, std::string(code), "", std::move(message), std::move(hint)});
}
void info(Findings& findings, std::string_view code, std::string message) {
    findings.push_back({Severity::info, std::string(code), "", std::move(message), ""});
}

// "16 (serve.sh, --ep-size)"
std::string said(const ServerFacts& facts, std::string_view name) {
    return fmt::format("{} ({})", *facts.text(name), facts.source(name));
}

bool has_replicas(const AdmissionCase& admission) {
    return admission.layout && admission.layout->geometry().redundant_total() > 0;
}

std::optional<std::string> observed(const AdmissionCase& admission, std::string_view key) {
    if (!admission.manifest) return std::nullopt;
    for (const auto& [name, value] : admission.manifest->scenario) {
        if (name == key && value != "not-observed") return value;
    }
    return std::nullopt;
}

void facts_agree(const AdmissionCase& admission, Findings& findings) {
    for (const std::string& contradiction : admission.facts().contradictions()) {
        error(findings, "FACTS_CONTRADICT", contradiction, "find out what the server really does");
    }
}

void role_fits(const AdmissionCase& admission, Findings& findings) {
    const auto server = admission.facts().text("role");
    const auto made_for = observed(admission, "role");
    if (server && *server != "prefill" && *server != "decode" && *server != "mixed") {
        error(findings, "ROLE_MISMATCH", fmt::format("'{}' is no role", *server), "prefill, decode or mixed");
    } else if (made_for && !server) {
        error(findings, "ROLE_MISMATCH",
              fmt::format("the layout was made from {} counts; the server's role is not stated", *made_for),
              "give --role: prefill and decode have different hot experts");
    } else if (made_for && *made_for != *server) {
        error(findings, "ROLE_MISMATCH",
              fmt::format("the layout was made from {} counts, the server's role is {}", *made_for,
                          said(admission.facts(), "role")),
              "collect counts on this role and fit again");
    } else if (!made_for) {
        warning(findings, "ROLE_UNKNOWN", "the manifest does not say from which role the counts are", "");
    }
}

void scenario_fits(const AdmissionCase& admission, Findings& findings) {
    constexpr std::pair<std::string_view, std::string_view> pairs[] = {
        {"quantisation", "quant"}, {"a2a_backend", "a2a"}, {"dispatch", "dispatch"}, {"nodes", "nodes"}};
    for (const auto& [key, fact] : pairs) {
        const auto then = observed(admission, key), now = admission.facts().text(fact);
        if (then && now && *then != *now) {
            warning(findings, "SCENARIO_DIFFERS",
                    fmt::format("{}: the counts were recorded under {}, the server has {}", key, *then, *now),
                    "routing does not depend on it, measured times do");
        }
    }
}

void rows_fit(const AdmissionCase& admission, Findings& findings) {
    if (!admission.layout) return;
    const std::string_view fact = admission.profile.model_layer_rows ? "layers" : "expert-layers";
    const auto wanted = admission.facts().number(fact);
    if (!wanted) {
        error(findings, "LAYERS_UNKNOWN",
              fmt::format("the number of the model's {} is not stated",
                          admission.profile.model_layer_rows ? "decoder layers" : "layers with experts"),
              fmt::format("give --model-config, or --{}", fact));
    } else if (*wanted != admission.layout->geometry().layers) {
        error(
            findings, "LAYERS_DIFFER",
            fmt::format("the layout has {} rows; {} has a row for each of the {} {}",
                        admission.layout->geometry().layers, admission.profile.name, *wanted,
                        admission.profile.model_layer_rows ? "decoder layers, dense ones too" : "layers with experts"),
            "a shorter layout shifts layers without an error");
    }
}

void experts_fit(const AdmissionCase& admission, Findings& findings) {
    if (!admission.layout) return;
    const auto experts = admission.facts().number("experts");
    if (!experts) {
        error(findings, "EXPERTS_UNKNOWN", "the number of the model's experts is not stated",
              "give --model-config, or --experts");
    } else if (*experts != admission.layout->geometry().experts) {
        error(findings, "EXPERTS_DIFFER",
              fmt::format("the layout places {} experts, the model has {}", admission.layout->geometry().experts,
                          said(admission.facts(), "experts")),
              "fit again from this model's counts");
    }
}

void redundancy_fits(const AdmissionCase& admission, Findings& findings) {
    if (!admission.layout) return;
    const Geometry& geometry = admission.layout->geometry();
    const ServerFacts& facts = admission.facts();
    if (const auto per_rank = facts.number("redundant-per-rank"); per_rank) {
        if (*per_rank * geometry.ranks != geometry.redundant_total()) {
            error(findings, "REDUNDANCY_DIFFERS",
                  fmt::format("the layout has {} redundant slots in total, the server allocates {} on each of {} ranks",
                              geometry.redundant_total(), said(facts, "redundant-per-rank"), geometry.ranks),
                  "the server's weights would not have these slots");
        }
    } else if (const auto total = facts.number("redundant-total"); !total) {
        error(findings, "REDUNDANCY_UNKNOWN", "how many redundant slots the server allocates is not stated",
              "give --redundant-total, 0 where it has none");
    } else if (*total != geometry.redundant_total()) {
        error(findings, "REDUNDANCY_DIFFERS",
              fmt::format("the layout has {} redundant slots in total, the server allocates {}",
                          geometry.redundant_total(), said(facts, "redundant-total")),
              "weights come from the server's number, ids from the layout's: slots would be missing or unfilled");
    }
}

void ranks_fit(const AdmissionCase& admission, Findings& findings) {
    const auto ranks = admission.facts().number("ranks");
    if (ranks.value_or(0) < 1) {
        error(findings, "RANKS_UNKNOWN", "the server's expert-parallel size is not stated", "give --ranks");
    } else if (admission.manifest && admission.manifest->geometry.ranks != *ranks) {
        error(findings, "RANKS_DIFFER",
              fmt::format("the layout was made for {} ranks, the server has {}", admission.manifest->geometry.ranks,
                          said(admission.facts(), "ranks")),
              "the number of slots may divide by both, and every slot would be on another rank");
    }
}

void world_size_fits(const AdmissionCase& admission, Findings& findings) {
    const ServerFacts& facts = admission.facts();
    const auto ranks = facts.number("ranks");
    std::optional<int> world = facts.number("world-size");
    if (!world && admission.profile.name == "sglang" && facts.number("tensor-parallel")) {
        world = *facts.number("tensor-parallel") * facts.number("pipeline-parallel").value_or(1);
    }
    if (!ranks || !admission.profile.draws_table_itself) return;
    if (!world) {
        warning(findings, "WORLD_SIZE", "the number of processes is not stated", "give --world-size");
    } else if (*world != *ranks) {
        warning(
            findings, "WORLD_SIZE",
            fmt::format("{} processes, {} expert-parallel ranks: the engine takes its table row by global rank modulo "
                        "ranks",
                        *world, *ranks),
            "check on two ranks which row is used, or use expert parallelism over all processes");
    }
}

void dispatch_is_known(const AdmissionCase& admission, Findings& findings) {
    const ServerFacts& facts = admission.facts();
    if (!has_replicas(admission)) return;
    if (admission.dispatch == nullptr && !admission.table) {
        error(findings, "DISPATCH_UNKNOWN", "which rule picks among replicas is not stated",
              fmt::format("give --dispatch ({}...) or --table", admission.profile.dispatch_prefix));
    }
    if (admission.dispatch != nullptr && !admission.dispatch->name.starts_with(admission.profile.dispatch_prefix) &&
        admission.dispatch->name != "table" && admission.dispatch->name != "even" && !admission.table) {
        warning(findings, "DISPATCH_FOREIGN",
                fmt::format("{} is not how {} picks replicas", admission.dispatch->name, admission.profile.name),
                "put our table in place of the engine's (docs/loading.md), or name the engine's rule");
    }
    const auto algorithm = facts.text("dispatch-algorithm");
    if (admission.profile.name == "sglang" && !algorithm) {
        warning(findings, "DISPATCH_IMPLICIT", "--ep-dispatch-algorithm is not given: the engine falls back to static",
                "give --ep-dispatch-algorithm static");
    } else if (algorithm && (*algorithm == "dynamic" || *algorithm == "fake") && admission.dispatch != nullptr &&
               admission.dispatch->table != nullptr) {
        error(findings, "DISPATCH_DIFFERS",
              fmt::format("the server dispatches {}, the layout is to be loaded under {}",
                          said(facts, "dispatch-algorithm"), admission.dispatch->name),
              "give the dispatch that the server uses");
    }
}

void table_fits(const AdmissionCase& admission, Findings& findings) {
    if (!admission.layout || !admission.table) return;
    try {
        require_table(*admission.layout, *admission.table);
    } catch (const Error& failure) {
        findings.push_back({Severity::error, "TABLE_DIFFERS", failure.where(), failure.message(), failure.hint()});
    }
}

void shares_are_even(const AdmissionCase& admission, Findings& findings) {
    constexpr double limit = 1.5;  // FORMATS 7.2 L13
    if (!has_replicas(admission) || !admission.dispatch || !admission.dispatch_context) return;
    const Layout& layout = *admission.layout;
    ReplicaShares shares;
    try {
        shares = replica_shares(*admission.dispatch, layout, *admission.dispatch_context);
    } catch (const Error&) {
        return;  // a table that does not fit is another rule's finding
    }
    double worst = 0;
    int worst_layer = 0, worst_expert = 0, concentrated = 0;
    for (int layer = 0; layer < layout.geometry().layers; ++layer) {
        const auto row = layout.row(layer);
        const std::vector<int> replicas = replica_counts(row, layout.geometry().experts);
        std::vector<bool> counted(replicas.size());
        for (std::size_t slot = 0; slot < row.size(); ++slot) {
            const auto expert = static_cast<std::size_t>(row[slot].value);
            const double excess = shares.row(layer)[slot] * replicas[expert];
            if (excess > limit && !counted[expert]) {
                counted[expert] = true;
                ++concentrated;
            }
            if (excess > worst) {
                worst = excess;
                worst_layer = layer;
                worst_expert = row[slot].value;
            }
        }
    }
    if (concentrated > 0) {
        warning(findings, "SHARES_UNEVEN",
                fmt::format(
                    "under {} the busiest replica of {} experts gets more than {} times its even share, up to {:.2f} "
                    "(layer {}, expert {})",
                    admission.dispatch->name, concentrated, limit, worst, worst_layer, worst_expert),
                "fit for this dispatch, or load a table of ours");
    }
}

void a2a_backend_fits(const AdmissionCase& admission, Findings& findings) {
    if (!admission.profile.needs_a2a || !has_replicas(admission)) return;
    const auto backend = admission.facts().text("a2a");
    if (!backend) {
        error(findings, "A2A_UNKNOWN", "the all-to-all backend is not stated, and the layout has replicas",
              "give --a2a: without a backend every rank computes all tokens");
    } else if (*backend == "none" &&
               !(admission.dispatch != nullptr && admission.dispatch->name == "sglang-dynamic-d-no-a2a")) {
        error(
            findings, "A2A_NONE",
            "replicas without an all-to-all backend: ranks pick different replicas and their sums count an expert "
            "twice",
            "use a backend, redundancy 0, or SGLang from 2026-07-30 with dynamic (--dispatch sglang-dynamic-d-no-a2a)");
    }
}

void routing_uses_the_map(const AdmissionCase& admission, Findings& findings) {
    const ServerFacts& facts = admission.facts();
    if (admission.profile.name != "sglang") return;
    const auto backend = facts.text("a2a");
    const auto enabled = facts.flag("enable-eplb");
    if (backend && *backend == "none" && !enabled.value_or(false)) {
        error(findings, "MAP_NOT_ROUTED",
              "without an all-to-all backend and without --enable-eplb the weights follow the map and the routing does "
              "not",
              "use a backend, or --enable-eplb");
    }
}

// The file is not the layout but written from it, so it is read, and must be here.
void require_expert_map_of(const std::string& path, const Layout& layout, Findings& findings) {
    try {
        if (!path.ends_with(".json"))
            throw Error(ErrorCode::input, path, "the engine takes only names that end in .json");
        require_expert_map_file(path, layout);
    } catch (const Error& failure) {
        findings.push_back({Severity::error, "LAYOUT_NOT_LOADED", failure.where(),
                            fmt::format("the server would not load this layout: {}", failure.message()),
                            failure.hint()});
    }
}

// A server that was told another file, or none, runs another layout without a word.
void server_loads_it(const AdmissionCase& admission, Findings& findings) {
    const ServerFacts& facts = admission.facts();
    if (!admission.profile.loads_weights_by_map && !admission.profile.reads_expert_map) return;
    const auto stated = facts.text("layout-path");
    if (!stated) {
        const auto argument = std::find_if(admission.profile.arguments.begin(), admission.profile.arguments.end(),
                                           [](const auto& entry) { return entry.fact == "layout-path"; });
        if (!facts.arguments_read() || argument == admission.profile.arguments.end()) return;
        error(findings, "LAYOUT_NOT_LOADED",
              fmt::format("the server's arguments have no --{}: it would load no layout", argument->name),
              fmt::format("give it --{} {}", argument->name, admission.request.layout_path));
        return;
    }
    if (admission.profile.reads_expert_map) {
        if (admission.layout) require_expert_map_of(*stated, *admission.layout, findings);
        return;
    }
    namespace fs = std::filesystem;
    std::error_code ignored;
    const bool same = fs::is_regular_file(*stated, ignored)
                          ? sha256_hex(MappedFile::open(*stated)->bytes()) == admission.layout_sha256
                          : fs::path(*stated).filename() == fs::path(admission.request.layout_path).filename();
    if (!same) {
        error(findings, "LAYOUT_NOT_LOADED",
              fmt::format("the server loads {}, another layout", said(facts, "layout-path")),
              "check the layout that it loads, or change its argument");
    }
}

void layout_stays(const AdmissionCase& admission, Findings& findings) {
    const ServerFacts& facts = admission.facts();
    if (facts.flag("dynamic-eplb").value_or(false)) {
        error(findings, "DYNAMIC_EPLB",
              fmt::format("the engine replaces the layout while it serves ({})", facts.source("dynamic-eplb")),
              "switch dynamic load balancing off");
    }
    if (admission.profile.name == "sglang" && facts.flag("enable-eplb").value_or(false)) {
        warning(findings, "DYNAMIC_EPLB",
                "--enable-eplb rebalances periodically: this layout is replaced after the first interval",
                "leave it off where an all-to-all backend is used");
    }
}

void quantisation_is_known(const AdmissionCase& admission, Findings& findings) {
    const auto quant = admission.facts().text("quant");
    std::string list;
    for (const EngineProfile::Quantisation& scheme : admission.profile.quantisations) {
        list += fmt::format("{}{}", list.empty() ? "" : ", ", scheme.name);
        if (!quant || scheme.name != *quant) continue;
        if (scheme.adapter.empty()) {
            error(findings, "QUANT_LOAD_TIME", fmt::format("{}: {}", scheme.name, scheme.remark),
                  "the installer cannot move these tensors");
        } else {
            info(findings, "ADAPTER",
                 fmt::format("adapter {}{}{}", scheme.adapter, scheme.remark.empty() ? "" : "; ", scheme.remark));
        }
        return;
    }
    error(findings, "QUANT_UNKNOWN",
          quant ? fmt::format("for the quantisation {} no list of tensors is known", said(admission.facts(), "quant"))
                : "the quantisation of the experts is not stated",
          fmt::format("give --quant, one of {}: scales that are left behind garble the output", list));
}

void shared_fusion_is_known(const AdmissionCase& admission, Findings& findings) {
    const ServerFacts& facts = admission.facts();
    if (facts.number("shared-experts").value_or(0) == 0 || facts.flag("shared-fusion")) return;
    error(
        findings, "SHARED_FUSION_UNKNOWN",
        fmt::format("the model has {} shared experts; whether the engine fuses them into the routed ones is not stated",
                    said(facts, "shared-experts")),
        "give --shared-fusion true or false: fused ones take slots behind each rank's");
}

void draft_layers_are_decided(const AdmissionCase& admission, Findings& findings) {
    const ServerFacts& facts = admission.facts();
    const auto policy = facts.text("draft-layers");
    const bool drafts = facts.number("model-draft-layers").value_or(0) > 0 && facts.text("speculative");
    if (policy && *policy != "refuse" && *policy != "trivial") {
        error(findings, "DRAFT_LAYERS", fmt::format("'{}' is not a policy", *policy), "refuse or trivial");
    } else if (drafts && policy.value_or("refuse") == "refuse") {
        error(findings, "DRAFT_LAYERS",
              fmt::format("the server drafts with {} layers that have no row in the layout",
                          said(facts, "model-draft-layers")),
              "--draft-layers trivial leaves them as the engine fills them");
    }
}

void weights_follow(const AdmissionCase& admission, Findings& findings) {
    if (admission.profile.loads_weights_by_map || !admission.layout) return;
    if (*admission.layout == trivial_layout(admission.layout->geometry())) return;
    warning(findings, "WEIGHTS_NEED_INSTALL",
            fmt::format(
                "{} routes by the map and {} load weights by it: without eplb_loader every token goes to a wrong "
                "expert",
                admission.profile.name, admission.profile.reads_expert_map ? "in some releases does not" : "does not"),
            "call install_model after the weights are loaded and before graphs are captured (docs/loading.md)");
}

void moves_are_counted(const AdmissionCase& admission, Findings& findings) {
    if (!admission.layout || !admission.current) return;
    const Geometry& geometry = admission.layout->geometry();
    if (admission.current->geometry() != geometry) {
        error(findings, "CURRENT_DIFFERS",
              fmt::format("the current layout has {}, the new one {}", describe(admission.current->geometry()),
                          describe(geometry)),
              "slots can only move between layouts of one geometry");
        return;
    }
    const int nodes = admission.facts().number("nodes").value_or(1);
    if (nodes < 1 || geometry.ranks % nodes != 0) return;  // the layout checks say so
    int moved = 0, on_rank = 0, across = 0;
    for (int layer = 0; layer < geometry.layers; ++layer) {
        for (const SlotMove& move :
             exchange_plan(admission.current->row(layer), admission.layout->row(layer), geometry.ranks, nodes)) {
            ++moved;
            on_rank += move.source_rank == move.target_rank;
            across += move.source_rank / (geometry.ranks / nodes) != move.target_rank / (geometry.ranks / nodes);
        }
    }
    info(findings, "MOVES",
         fmt::format("{} of {} slots change: {} inside a rank, {} between nodes", moved,
                     geometry.layers * geometry.physical_slots(), on_rank, across));
}

constexpr std::array rules{
    AdmissionRule{"FACTS_CONTRADICT", "", "flags, server arguments and config.json agree", facts_agree},
    AdmissionRule{"RANKS_DIFFER", "L5", "the layout was made for as many ranks as the server has", ranks_fit},
    AdmissionRule{"LAYERS_DIFFER", "L4", "a row for every layer that the engine expects", rows_fit},
    AdmissionRule{"EXPERTS_DIFFER", "L5", "as many experts as the model has", experts_fit},
    AdmissionRule{"REDUNDANCY_DIFFERS", "L5", "as many redundant slots as the server allocates", redundancy_fits},
    AdmissionRule{"ROLE_MISMATCH", "", "prefill layouts on prefill servers, decode layouts on decode servers",
                  role_fits},
    AdmissionRule{"SCENARIO_DIFFERS", "", "the counts were recorded under the same conditions", scenario_fits},
    AdmissionRule{"WORLD_SIZE", "L10", "one expert-parallel rank a process", world_size_fits},
    AdmissionRule{"DISPATCH_UNKNOWN", "L12, L16", "the rule that picks among replicas is known", dispatch_is_known},
    AdmissionRule{"TABLE_DIFFERS", "L12", "every entry of every rank's table hosts its expert", table_fits},
    AdmissionRule{"SHARES_UNEVEN", "L13", "no replica gets much more than its share", shares_are_even},
    AdmissionRule{"A2A_NONE", "L14", "replicas need an all-to-all backend", a2a_backend_fits},
    AdmissionRule{"MAP_NOT_ROUTED", "L15", "routing uses the map", routing_uses_the_map},
    AdmissionRule{"LAYOUT_NOT_LOADED", "", "the server is told to load this layout", server_loads_it},
    AdmissionRule{"DYNAMIC_EPLB", "L15", "nothing replaces the layout later", layout_stays},
    AdmissionRule{"QUANT_UNKNOWN", "L17", "the tensors that move together are known", quantisation_is_known},
    AdmissionRule{"SHARED_FUSION_UNKNOWN", "L18", "fused shared experts are accounted for", shared_fusion_is_known},
    AdmissionRule{"DRAFT_LAYERS", "L26", "draft layers are decided about", draft_layers_are_decided},
    AdmissionRule{"WEIGHTS_NEED_INSTALL", "L23", "weights follow the map", weights_follow},
    AdmissionRule{"MOVES", "L19", "what changes against the current layout", moves_are_counted},
};

}  // namespace

std::span<const AdmissionRule> admission_rules() {
    return rules;
}

}  // namespace eplb
