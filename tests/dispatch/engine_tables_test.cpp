// Our tables against those that the engines' own functions computed: numbers kept beside the checkout.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dispatch/model.hpp"
#include "dispatch/replica_lists.hpp"
#include "files/digest.hpp"
#include "random_layout.hpp"
#include "test_paths.hpp"

using namespace eplb;
using nlohmann::json;

namespace {

std::vector<json> entries_of(const std::string& file) {
    const std::filesystem::path path = std::filesystem::path(EPLB_SHARED_DIR) / "data" / "dispatch" / file;
    if (!std::filesystem::exists(path)) {
        WARN("skipped: no folder with real counts");
        return {};
    }
    auto entries = json::parse(std::ifstream(path)).get<std::vector<json>>();
    entries.erase(entries.begin());  // what the keys mean
    return entries;
}

Layout layout_of_entry(const json& entry) {
    std::vector<int> experts;
    for (const json& row : entry.at("map")) experts.insert(experts.end(), row.begin(), row.end());
    return test::layout_of({entry.at("layers"), entry.at("experts"), entry.at("ranks"), entry.at("slots")}, experts);
}

DispatchContext context_of_entry(const json& entry) {
    DispatchContext context;
    context.nodes = entry.at("nodes").get<int>();
    context.tensor_parallel = entry.value("tp", 1);
    context.moe_tensor_parallel = entry.value("moe_tp", 1);
    context.pipeline_stages = entry.value("pp", 1);
    return context;
}

std::string generation_of_entry(const json& entry) {
    const std::string letter = entry.at("gen");
    if (letter == "A") return "a";
    if (letter == "B") return "b-fill-all";
    if (letter == "C") return "c";
    if (letter == "C'") return "c-one-stream";
    if (letter == "D") return entry.value("elastic", false) ? "d-elastic" : "d-subset";
    if (letter == "D+none") return "d-no-a2a";
    return letter;
}

json as_json(const DispatchTable& table) {
    json ranks = json::array();
    for (int rank = 0; rank < table.ranks; ++rank) {
        json layers = json::array();
        for (int layer = 0; layer < table.layers; ++layer) {
            json row = json::array();
            for (const SlotId slot : table.row(rank, layer)) row.push_back(slot.value);
            layers.push_back(row);
        }
        ranks.push_back(layers);
    }
    return ranks;
}

// int32 and little-endian, as SlotId is on the machines that this runs on.
std::string digest_of(const DispatchTable& table) {
    return sha256_hex(std::as_bytes(std::span(table.slots)));
}

json as_json(std::span<const SlotId> slots) {
    json values = json::array();
    for (const SlotId slot : slots) values.push_back(slot.value);
    return values;
}

// [R][L][E] of the slots that a source may be served by.
json candidates_of(const DispatchModel& model, const Layout& layout, const DispatchContext& context) {
    json ranks = json::array();
    for (const DispatchSource& source : dispatch_sources(layout.geometry(), context)) {
        json layers = json::array();
        for (int layer = 0; layer < layout.geometry().layers; ++layer) {
            const dispatch::ReplicaLists lists(layout, layer);
            json row = json::array();
            for (int expert = 0; expert < layout.geometry().experts; ++expert) {
                row.push_back(as_json(model.targets(source, lists.of(expert), expert)));
            }
            layers.push_back(row);
        }
        ranks.push_back(layers);
    }
    return ranks;
}

// Each replica of an expert gets an even part of its tokens in these picks, up to `slack` tokens.
void check_even_picks(const Layout& layout, const ReplicaShares& shares, const json& picks, double slack) {
    for (const json& one : picks) {
        const int layer = one.at("layer");
        std::vector<double> tokens(static_cast<std::size_t>(layout.geometry().experts)),
            served(layout.row(layer).size());
        for (std::size_t row = 0; row < one.at("topk").size(); ++row) {
            for (std::size_t k = 0; k < one.at("topk")[row].size(); ++k) {
                const auto slot = one.at("physical")[row][k].get<std::size_t>();
                const auto expert = one.at("topk")[row][k].get<std::size_t>();
                REQUIRE(layout.row(layer)[slot].value == static_cast<int>(expert));
                ++tokens[expert];
                ++served[slot];
            }
        }
        for (std::size_t slot = 0; slot < served.size(); ++slot) {
            const auto expert = static_cast<std::size_t>(layout.row(layer)[slot].value);
            CHECK(std::abs(served[slot] - shares.row(layer)[slot] * tokens[expert]) <= slack);
        }
    }
}

}  // namespace

TEST_CASE("tables and candidates of SGLang equal those of its own functions", "[realdata]") {
    for (const json& entry : entries_of("sglang.json")) {
        const std::string generation = generation_of_entry(entry);
        INFO(generation << " " << entry.at("what") << ", " << entry.at("kind") << ", " << entry.at("ranks")
                        << " ranks, " << entry.at("nodes") << " nodes, commit " << entry.at("commit"));
        const Layout layout = layout_of_entry(entry);
        const DispatchContext context = context_of_entry(entry);
        if (entry.at("what") == "static table") {
            const DispatchTable table = dispatch_table(find_dispatch_model("sglang-" + generation), layout, context);
            if (entry.contains("table")) {
                CHECK(as_json(table) == entry.at("table"));
            } else {
                CHECK(digest_of(table) == entry.at("table_sha256_le_i32_RLE"));
            }
            continue;
        }
        const DispatchModel& model = find_dispatch_model("sglang-dynamic-" + generation);
        const json candidates = candidates_of(model, layout, context);
        if (entry.at("what") == "dynamic candidates") {
            CHECK(candidates == entry.at("candidates"));
            continue;
        }
        REQUIRE(entry.at("what") == "dynamic picks");
        for (const json& of_rank : candidates) CHECK(of_rank == entry.at("candidates"));
        for (const json& one : entry.at("picks")) {
            for (std::size_t row = 0; row < one.at("topk").size(); ++row) {
                for (std::size_t k = 0; k < one.at("topk")[row].size(); ++k) {
                    const json& slots = entry.at(
                        "candidates")[one.at("layer").get<std::size_t>()][one.at("topk")[row][k].get<std::size_t>()];
                    CHECK(one.at("physical")[row][k] == slots[row % slots.size()]);
                }
            }
        }
    }
}

TEST_CASE("tables of the other engines equal those of their own functions", "[realdata]") {
    for (const json& entry : entries_of("engines.json")) {
        const std::string engine = entry.at("engine");
        INFO(engine << ", " << entry.at("kind") << ", " << entry.at("ranks") << " ranks");
        const Layout layout = layout_of_entry(entry);
        const DispatchContext context = context_of_entry(entry);
        const DispatchModel& model = find_dispatch_model(engine);
        if (entry.contains("picks")) {
            // Round robin inside blocks of 1024 assignments, so off by at most one token a block.
            for (const json& one : entry.at("picks")) {
                const std::size_t assignments = one.at("topk").size() * one.at("topk")[0].size();
                check_even_picks(layout, replica_shares(model, layout, context), json::array({one}),
                                 1.0 + static_cast<double>(assignments / 1024));
            }
            continue;
        }
        const DispatchTable table = dispatch_table(model, layout, context);
        CHECK(as_json(table) == entry.at("table"));
        if (!entry.contains("target_rank")) continue;
        json target = as_json(table);
        for (json& rank : target) {
            for (json& row : rank) {
                for (json& slot : row) slot = slot.get<int>() / layout.geometry().slots_per_rank;
            }
        }
        CHECK(target == entry.at("target_rank"));
    }
}
