#include <catch2/catch.hpp>
#include <limits>
#include <sstream>

#include "core/error.hpp"
#include "files/error_of.hpp"
#include "files/temporary_folder.hpp"
#include "layout_io/layout_file.hpp"
#include "layout_io/manifest.hpp"

using namespace eplb;

namespace {

const std::string hash_a(64, 'a'), hash_b(64, 'b'), hash_c(64, 'c');

Manifest sample() {
    Manifest manifest;
    manifest.layout_sha256 = hash_a;
    manifest.map_hash = hash_b;
    manifest.geometry = {3, 4, 2, 3};
    manifest.counts = {{"one.pt", hash_c, 1000, 4, {0, 2}, {1, 3}}, {"two.pt", hash_a, 0, 2, {}, {}}};
    manifest.reduction = Reduction::reduced;
    manifest.holdout = "interleave";
    manifest.scenario = decode_scenario(R"({"role": "prefill", "cache_hit": 0.25, "chunk": 16384})");
    manifest.policy = "search";
    manifest.objective = "window";
    manifest.effort = "default";
    manifest.dispatch = "even";
    manifest.seed = 7;
    manifest.tool_version = "0.1.0";
    manifest.tool_commit = "0123456789ab";
    manifest.command_line = "eplb-fit one.pt two.pt --ranks 2 --redundant-total 2";
    manifest.scores = {{"fitted", "even", "holdout", 2, 1.0625, 1.125, 1.03125, 1.0625}};
    manifest.layers = {std::nullopt, ManifestLayer{1.0625, 1.0, 1.125, std::nullopt, false},
                       ManifestLayer{1.25, 1.125, 1.5, 1.375, true}};
    manifest.verdict = ManifestVerdict{"not-now", "trivial", {"gain below 2 %"}, 0.0125, std::nullopt, {2}};
    manifest.notes = {"a note with \"quotes\""};
    return manifest;
}

std::string manifest_error(const std::string& text) {
    try {
        decode_manifest(text);
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::input);
        return error.what();
    }
    return "";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a manifest reads back as it was written") {
    const Manifest manifest = decode_manifest(encode_manifest(sample()));
    CHECK(manifest == sample());
    CHECK(manifest.geometry == Geometry{3, 4, 2, 3});
    REQUIRE(manifest.counts.size() == 2);
    CHECK(manifest.counts[0].held_out == std::vector<int>{1, 3});
    CHECK(manifest.counts[0].total == 1000);
    CHECK(manifest.reduction == Reduction::reduced);
    CHECK(manifest.seed == 7);
    CHECK(manifest.scores.at(0).step_worst == 1.125);
    CHECK_FALSE(manifest.layers.at(0));
    CHECK(manifest.layers.at(2)->step_lower_bound == 1.375);
    CHECK(manifest.layers.at(2)->kept);
    CHECK(manifest.verdict->gain == 0.0125);
    CHECK_FALSE(manifest.verdict->gain_spread);
    CHECK(manifest.verdict->worse_layers == std::vector<int>{2});
    CHECK(manifest.notes.at(0) == "a note with \"quotes\"");
}

TEST_CASE("a manifest can be read by people: no line is longer than a list of record slots makes it") {
    std::istringstream lines(encode_manifest(sample()));
    std::string line;
    std::size_t count = 0;
    while (std::getline(lines, line)) {
        CHECK(line.size() <= 250);
        ++count;
    }
    CHECK(count > 50);
}

TEST_CASE("what nobody stated is written as not observed") {
    const Manifest manifest = decode_manifest(encode_manifest(sample()));
    const auto value = [&](const std::string& key) {
        for (const auto& [name, text] : manifest.scenario) {
            if (name == key) return text;
        }
        return std::string("absent");
    };
    CHECK(value("role") == "prefill");
    CHECK(value("cache_hit") == "0.25");
    CHECK(value("chunk") == "16384");
    CHECK(value("model") == "not-observed");
}

TEST_CASE("figures keep every bit") {
    Manifest manifest = sample();
    manifest.scores[0].step_mean = 1.0 + 0x1.0p-52;
    manifest.scores[0].step_worst = 1.0133999999999999;
    const Manifest back = decode_manifest(encode_manifest(manifest));
    CHECK(back.scores[0].step_mean == 1.0 + 0x1.0p-52);
    CHECK(back.scores[0].step_worst == 1.0133999999999999);
}

TEST_CASE("a manifest refuses unknown, duplicate and missing keys by name") {
    const std::string text = encode_manifest(sample());
    CHECK(manifest_error(replaced(text, "\"notes\":", "\"remarks\": [], \"notes\":")).find("$.remarks") == 0);
    CHECK(manifest_error(replaced(text, "\"seed\":7", "\"seed\":7,\"speed\":1")).find("$.fit.speed") == 0);
    CHECK(manifest_error(replaced(text, "\"seed\":7", "\"seed\":7,\"seed\":7")).find("twice") != std::string::npos);
    CHECK(manifest_error(replaced(text, ",\"seed\":7", "")).find("lacks the key \"seed\"") != std::string::npos);
    CHECK(manifest_error(replaced(text, "\"role\":", "\"rolle\":")).find("\"role\"") != std::string::npos);
}

TEST_CASE("a manifest refuses values out of range with their place") {
    const std::string text = encode_manifest(sample());
    CHECK(manifest_error(replaced(text, "\"format_version\": 1", "\"format_version\": 2")).find("$.format_version") ==
          0);
    CHECK(manifest_error(replaced(text, "\"ranks\":2", "\"ranks\":0")).find("$.layout.geometry.ranks") == 0);
    CHECK(manifest_error(replaced(text, "\"slots_per_rank\":3", "\"slots_per_rank\":1048576")) != "");
    CHECK(manifest_error(replaced(text, "\"redundant_total\":2", "\"redundant_total\":4"))
              .find("$.layout.geometry.redundant_total") == 0);
    CHECK(manifest_error(replaced(text, hash_a, hash_a.substr(1))).find("SHA-256") != std::string::npos);
    CHECK(manifest_error(replaced(text, "[1,3]", "[1,4]")).find("held_out[1]") != std::string::npos);
    CHECK(manifest_error(replaced(text, "[0,2]", "[2,0]")).find("fitted[1]") != std::string::npos);
    CHECK(manifest_error(replaced(text, "\"reduced\"", "\"maybe\"")).find("$.counts.reduction") == 0);
    CHECK(manifest_error("[]") != "");
}

TEST_CASE("a manifest cut at any byte is refused") {
    const std::string text = encode_manifest(sample());
    for (std::size_t length = 0; length + 1 < text.size(); ++length) {
        CAPTURE(length);
        CHECK(manifest_error(text.substr(0, length)) != "");
    }
}

TEST_CASE("the name of a count file need not be UTF-8") {
    Manifest manifest = sample();
    manifest.counts[0].name = "dump\xff.pt";
    CHECK(decode_manifest(encode_manifest(manifest)).counts[0].name == "dump?.pt");
}

TEST_CASE("layers that get worse stand in the order of their growth, each once") {
    Manifest manifest = sample();
    manifest.verdict->worse_layers = {2, 0, 1};
    CHECK(decode_manifest(encode_manifest(manifest)).verdict->worse_layers == std::vector<int>{2, 0, 1});
    const std::string text = encode_manifest(manifest);
    CHECK(manifest_error(replaced(text, "[2,0,1]", "[2,0,2]")).find("$.verdict.worse_layers[2]") == 0);
    CHECK(manifest_error(replaced(text, "[2,0,1]", "[2,0,4095]")) == "");
    CHECK(manifest_error(replaced(text, "[2,0,1]", "[2,0,4096]")).find("$.verdict.worse_layers[2]") == 0);
    CHECK(manifest_error(replaced(text, "[2,0,1]", "[2,-1,1]")).find("$.verdict.worse_layers[1]") == 0);
}

TEST_CASE("a manifest that its reader would refuse is not written, and the reader's reason is told") {
    const auto refused = [](auto change) {
        Manifest wrong = sample();
        change(wrong);
        const Error error = error_of([&] { encode_manifest(wrong); });
        CHECK(error.code() == ErrorCode::internal);
        return std::string(error.what());
    };
    using Catch::Contains;
    CHECK_THAT(refused([](Manifest& wrong) { wrong.verdict->worse_layers = {1, 1}; }), Contains("worse_layers[1]"));
    CHECK_THAT(refused([](Manifest& wrong) { wrong.counts[0].fitted = {2, 0}; }), Contains("fitted[1]"));
    CHECK_THAT(refused([](Manifest& wrong) { wrong.scores[0].part = "some"; }), Contains("$.scores[0].part"));
    CHECK_THAT(refused([](Manifest& wrong) { wrong.holdout = "odd"; }), Contains("$.counts.holdout"));
    CHECK_THAT(refused([](Manifest& wrong) { wrong.verdict->decision = "maybe"; }), Contains("$.verdict.decision"));
    CHECK_THAT(refused([](Manifest& wrong) { wrong.layers[1]->window = -1; }), Contains("$.layers[1].window"));
    CHECK_THAT(refused([](Manifest& wrong) { wrong.seed = std::uint64_t{1} << 63; }), Contains("$.fit.seed"));
    CHECK_THAT(refused([](Manifest& wrong) { wrong.geometry.slots_per_rank = 0; }), Contains("slots_per_rank"));
    CHECK_THAT(refused([](Manifest& wrong) { wrong.map_hash = "none"; }), Contains("$.layout.map_hash"));
}

TEST_CASE("an unfinished figure never reaches a file") {
    Manifest manifest = sample();
    manifest.scores[0].step_mean = std::numeric_limits<double>::quiet_NaN();
    CHECK_THROWS_AS(encode_manifest(manifest), Error);
}

TEST_CASE("a scenario file refuses unknown keys and roles") {
    CHECK_THROWS_WITH(decode_scenario(R"({"modle": "x"})"), Catch::Contains("$.modle"));
    CHECK_THROWS_WITH(decode_scenario(R"({"role": "P"})"), Catch::Contains("prefill, decode or mixed"));
    CHECK_THROWS_AS(decode_scenario(R"({"model": ["x"]})"), Error);
    CHECK_THROWS_AS(decode_scenario(R"({"model": "x", "model": "y"})"), Error);
    CHECK_THROWS_AS(decode_scenario("3"), Error);
    CHECK(decode_scenario(R"({"role": null})") == unobserved_scenario());
}

TEST_CASE("a manifest is found beside its layout and refused beside another one") {
    const TemporaryFolder folder;
    const std::string layout = folder.write("x.json", "{}");
    CHECK_FALSE(find_manifest(layout, hash_a));
    folder.write("x.manifest.json", encode_manifest(sample()));
    CHECK(find_manifest(layout, hash_a));
    CHECK_THROWS_WITH(find_manifest(layout, hash_b), Catch::Contains("another layout file"));
    CHECK_FALSE(find_manifest("-", hash_a));
}

TEST_CASE("the hash of a map is that of its bytes: E, R, S and the ids as little-endian int32") {
    // sha256 of 03000000 01000000 03000000 00000000 02000000 01000000, by Python's hashlib.
    const Layout layout({1, 3, 1, 3}, {ExpertId{0}, ExpertId{2}, ExpertId{1}});
    CHECK(map_hash(layout) == "12a73639c6035bb0a92b454a251cb779f38f7fa2f1894edc8a19bd110cc7ce70");
    CHECK(map_hash(Layout({1, 3, 3, 1}, {ExpertId{0}, ExpertId{2}, ExpertId{1}})) != map_hash(layout));
}

TEST_CASE("codes that were accepted stand in the manifest, and only where there are some") {
    Manifest manifest = sample();
    CHECK(encode_manifest(manifest).find("accepted") == std::string::npos);
    manifest.accepted = {"LAYER_TOTAL_MISMATCH"};
    const std::string text = encode_manifest(manifest);
    CHECK(decode_manifest(text).accepted == manifest.accepted);
    CHECK(manifest_error(replaced(text, "[\"LAYER_TOTAL_MISMATCH\"]", "[]")).find("$.counts.accepted") == 0);
}
