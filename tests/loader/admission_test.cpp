#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "core/error.hpp"
#include "files/digest.hpp"
#include "files/error_of.hpp"
#include "files/temporary_folder.hpp"
#include "layout_io/dispatch_file.hpp"
#include "layout_io/expert_map_file.hpp"
#include "layout_io/layout_file.hpp"
#include "loader/admission.hpp"
#include "loader/legal_layout.hpp"

using namespace eplb;

namespace {

// 2 layers, 8 experts, 4 ranks x 3 slots: the hot experts 0..3 have two replicas each.
Layout small_layout() {
    std::vector<ExpertId> slots;
    for (int layer = 0; layer < 2; ++layer) {
        for (const int expert : {0, 1, 4, 2, 3, 5, 1, 0, 6, 3, 2, 7}) slots.push_back(ExpertId{expert});
    }
    return Layout({2, 8, 4, 3}, slots);
}

// A folder with a layout, its manifest and a server that may load it; a test changes one thing.
struct Deployment {
    TemporaryFolder folder;
    Layout layout = small_layout();
    Manifest manifest;
    std::map<std::string, std::string> facts{{"ranks", "4"},
                                             {"world-size", "4"},
                                             {"nodes", "2"},
                                             {"layers", "2"},
                                             {"experts", "8"},
                                             {"role", "prefill"},
                                             {"redundant-total", "4"},
                                             {"quant", "w8a8"},
                                             {"a2a", "deepep"},
                                             {"dispatch", "sglang-c"},
                                             {"dispatch-algorithm", "static"}};
    AdmissionRequest request;

    Deployment() {
        manifest.geometry = layout.geometry();
        observe("role", "prefill");
        request.engine = "sglang";
    }

    void observe(const std::string& key, const std::string& value) {
        for (auto& [name, text] : manifest.scenario) {
            if (name == key) text = value;
        }
    }

    AdmissionReport admit(bool with_manifest = true) {
        request.layout_path = folder.write("x.json", encode_layout(layout));
        manifest.layout_sha256 = sha256_hex(std::string_view(content_of(request.layout_path)));
        manifest.map_hash = map_hash(layout);
        if (with_manifest) folder.write("x.manifest.json", encode_manifest(manifest));
        for (const auto& [name, value] : facts) request.facts.add(name, value, "--" + name);
        return eplb::admit(request);
    }
};

std::set<std::string> codes(const AdmissionReport& report, Severity severity) {
    std::set<std::string> found;
    for (const Finding& finding : report.findings) {
        if (finding.severity == severity) found.insert(finding.code);
    }
    return found;
}

using Codes = std::set<std::string>;

// The errors after one fact took another value ("" removes it).
Codes errors_with(const std::string& fact, const std::string& value) {
    Deployment deployment;
    if (value.empty()) {
        deployment.facts.erase(fact);
    } else {
        deployment.facts[fact] = value;
    }
    const AdmissionReport report = deployment.admit();
    CHECK(report.admitted() == codes(report, Severity::error).empty());
    return codes(report, Severity::error);
}

Codes warnings_with(const std::string& fact, const std::string& value) {
    Deployment deployment;
    deployment.facts[fact] = value;
    return codes(deployment.admit(), Severity::warning);
}

}  // namespace

TEST_CASE("a layout that fits its server is admitted with what identifies it") {
    Deployment deployment;
    const AdmissionReport report = deployment.admit();
    CHECK(codes(report, Severity::error) == Codes{});
    REQUIRE(report.admitted());
    CHECK(report.attestation->map_hash == map_hash(deployment.layout));
    CHECK(report.attestation->first_row == std::vector<std::vector<int>>{{0, 1, 4}, {2, 3, 5}, {1, 0, 6}, {3, 2, 7}});
    CHECK(report.attestation->geometry == Geometry{2, 8, 4, 3});
}

TEST_CASE("a fact that a rule needs and nobody stated refuses the layout") {
    CHECK(errors_with("ranks", "") == Codes{"RANKS_UNKNOWN"});
    CHECK(errors_with("layers", "") == Codes{"LAYERS_UNKNOWN"});
    CHECK(errors_with("experts", "") == Codes{"EXPERTS_UNKNOWN"});
    CHECK(errors_with("redundant-total", "") == Codes{"REDUNDANCY_UNKNOWN"});
    CHECK(errors_with("role", "") == Codes{"ROLE_MISMATCH"});
    CHECK(errors_with("quant", "") == Codes{"QUANT_UNKNOWN"});
    CHECK(errors_with("a2a", "") == Codes{"A2A_UNKNOWN"});
    CHECK(errors_with("dispatch", "") == Codes{"DISPATCH_UNKNOWN"});
    CHECK(errors_with("nodes", "").count("DISPATCH_UNKNOWN") == 1);  // sglang-c needs the nodes
}

TEST_CASE("a server of another shape is refused") {
    CHECK(errors_with("ranks", "6").count("RANKS_DIFFER") == 1);  // 12 slots divide by 6 as well
    CHECK(errors_with("layers", "3") == Codes{"LAYERS_DIFFER"});
    CHECK(errors_with("redundant-total", "0").count("REDUNDANCY_DIFFERS") == 1);
    CHECK(errors_with("experts", "9").count("EXPERTS_DIFFER") ==
          0);  // then expert 8 is missing: a layout check's finding
    CHECK_FALSE(errors_with("experts", "9").empty());
    CHECK_FALSE(errors_with("nodes", "3").empty());
}

TEST_CASE("redundancy counted per rank is not taken for the total") {
    Deployment deployment;
    deployment.facts.erase("redundant-total");
    deployment.facts["redundant-per-rank"] = "1";
    CHECK(codes(deployment.admit(), Severity::error) == Codes{});
    Deployment other;
    other.facts.erase("redundant-total");
    other.facts["redundant-per-rank"] = "4";
    CHECK(codes(other.admit(), Severity::error) == Codes{"REDUNDANCY_DIFFERS"});
}

TEST_CASE("a prefill layout is not loaded on a decode server") {
    CHECK(errors_with("role", "decode") == Codes{"ROLE_MISMATCH"});
    CHECK(errors_with("role", "both") == Codes{"ROLE_MISMATCH"});
}

TEST_CASE("without a manifest only on request") {
    Deployment deployment;
    CHECK(codes(deployment.admit(false), Severity::error) == Codes{"NO_MANIFEST"});
    Deployment allowed;
    allowed.request.allow_no_manifest = true;
    const AdmissionReport report = allowed.admit(false);
    CHECK(report.admitted());
    CHECK(codes(report, Severity::warning).count("NO_MANIFEST") == 1);
}

TEST_CASE("a manifest of another layout does not count") {
    Deployment deployment;
    deployment.admit();
    deployment.folder.write("x.json", encode_layout(trivial_layout({2, 8, 4, 3})));
    CHECK(codes(eplb::admit(deployment.request), Severity::error) == Codes{"MANIFEST_UNUSABLE"});
}

TEST_CASE("a reader of layouts refuses what admission refuses") {
    Deployment deployment;
    deployment.admit();
    const std::string& path = deployment.request.layout_path;
    const LegalLayout read = read_legal_layout(path, {});
    CHECK(read.file.layout == deployment.layout);  // R and E are the manifest's
    CHECK(read.file.sha256 == deployment.manifest.layout_sha256);

    LayoutDemands six_ranks;
    six_ranks.ranks = 6;
    CHECK_THAT(error_of([&] { read_legal_layout(path, six_ranks); }).what(),
               Catch::Contains("6 ranks here, the manifest says 4"));
    deployment.folder.write("alone.json", encode_layout(deployment.layout));
    const std::string alone = deployment.folder.file("alone.json");
    LayoutDemands lenient;
    lenient.allow_no_manifest = true;
    CHECK_THAT(error_of([&] { read_legal_layout(alone, {}); }).what(), Catch::Contains("no manifest beside"));
    CHECK_THAT(error_of([&] { read_legal_layout(alone, lenient); }).what(), Catch::Contains("number of ranks"));
    lenient.ranks = 4;
    CHECK(read_legal_layout(alone, lenient).file.layout == deployment.layout);

    deployment.layout.row(1)[1] = ExpertId{0};  // twice on rank 0, and expert 1 is there once less
    deployment.folder.write("alone.json", encode_layout(deployment.layout));
    CHECK_THAT(error_of([&] { read_legal_layout(alone, lenient); }).what(),
               Catch::Contains("alone.json") && Catch::Contains("layer 1"));
    deployment.folder.write("x.json", encode_layout(deployment.layout));
    CHECK_THAT(error_of([&] { read_legal_layout(path, {}); }).what(), Catch::Contains("manifest"));
}

TEST_CASE("no number of ranks is a refusal with a reason, not an admission") {
    Deployment deployment;
    deployment.request.allow_no_manifest = true;
    deployment.facts["ranks"] = "0";
    const AdmissionReport report = deployment.admit(false);
    CHECK_FALSE(report.admitted());
    CHECK(codes(report, Severity::error).count("RANKS_UNKNOWN") == 1);
}

TEST_CASE("an expert twice on a rank is refused, two layers deep") {
    Deployment deployment;
    deployment.layout.row(1)[1] = ExpertId{0};
    deployment.layout.row(1)[7] = ExpertId{1};
    const AdmissionReport report = deployment.admit();
    CHECK_FALSE(report.admitted());
    CHECK(std::any_of(report.findings.begin(), report.findings.end(), [](const Finding& finding) {
        return finding.severity == Severity::error && finding.where.find("layer 1") != std::string::npos;
    }));
}

TEST_CASE("replicas need an all-to-all backend, and a layout without replicas does not") {
    CHECK(errors_with("a2a", "none") == Codes{"A2A_NONE", "MAP_NOT_ROUTED"});
    Deployment plain;
    plain.layout = trivial_layout({2, 8, 4, 2});
    plain.manifest.geometry = plain.layout.geometry();
    plain.facts["redundant-total"] = "0";
    plain.facts["a2a"] = "none";
    plain.facts["enable-eplb"] = "true";
    CHECK(codes(plain.admit(), Severity::error) == Codes{});
}

TEST_CASE("a server that is told another layout, or none, is refused") {
    const auto errors_under = [](const std::string& arguments) {
        Deployment deployment;
        deployment.folder.write("other.json", encode_layout(trivial_layout({2, 8, 4, 3})));
        deployment.folder.write("copy.json", encode_layout(deployment.layout));
        std::string text = arguments;
        const std::size_t at = text.find("DIR");
        if (at != std::string::npos) text.replace(at, 3, deployment.folder.path().string());
        read_server_arguments("serve.sh", text, find_engine_profile("sglang"), deployment.request.facts);
        return codes(deployment.admit(), Severity::error);
    };
    CHECK(errors_under("s --init-expert-location DIR/x.json") == Codes{});
    CHECK(errors_under("s --init-expert-location DIR/copy.json") == Codes{});             // the same bytes
    CHECK(errors_under("s --init-expert-location /in/the/container/x.json") == Codes{});  // not here: by its name
    CHECK(errors_under("s --init-expert-location DIR/other.json") == Codes{"LAYOUT_NOT_LOADED"});
    CHECK(errors_under("s --init-expert-location trivial") == Codes{"LAYOUT_NOT_LOADED"});
    CHECK(errors_under("s --ep-size 4") == Codes{"LAYOUT_NOT_LOADED"});
}

TEST_CASE("vllm-ascend's map file is read, and must be this layout") {
    const auto errors_under = [](const std::string& name, const std::string& text) {
        Deployment deployment;
        deployment.request.engine = "vllm-ascend";
        deployment.facts["expert-layers"] = "2";
        deployment.facts["dispatch"] = "vllm-ascend";
        deployment.facts.erase("dispatch-algorithm");
        if (!text.empty()) deployment.folder.write(name, text);
        const std::string path = (deployment.folder.path() / name).string();
        read_server_arguments("serve.sh",
                              "s --additional-config '{\"eplb_config\": {\"expert_map_path\": \"" + path + "\"}}'",
                              find_engine_profile("vllm-ascend"), deployment.request.facts);
        return codes(deployment.admit(), Severity::error);
    };
    const Layout layout = small_layout();
    CHECK(errors_under("map.json", encode_expert_map(layout)) == Codes{});
    CHECK(errors_under("map.txt", encode_expert_map(layout)) == Codes{"LAYOUT_NOT_LOADED"});
    CHECK(errors_under("map.json", "") == Codes{"LAYOUT_NOT_LOADED"});                     // not there
    CHECK(errors_under("map.json", encode_layout(layout)) == Codes{"LAYOUT_NOT_LOADED"});  // SGLang's form
    CHECK(errors_under("map.json", encode_expert_map(trivial_layout({2, 8, 4, 3}))) == Codes{"LAYOUT_NOT_LOADED"});
}

TEST_CASE("an engine that goes on rebalancing replaces the layout") {
    CHECK(errors_with("dynamic-eplb", "true") == Codes{"DYNAMIC_EPLB"});
    CHECK(errors_with("dynamic-eplb", "false") == Codes{});
    CHECK(warnings_with("enable-eplb", "true").count("DYNAMIC_EPLB") == 1);
}

TEST_CASE("a quantisation without a list of tensors, or that only the engine can place, is refused") {
    CHECK(errors_with("quant", "w3a3") == Codes{"QUANT_UNKNOWN"});
    CHECK(errors_with("quant", "fuseep") == Codes{"QUANT_LOAD_TIME"});
}

TEST_CASE("dynamic dispatch on the server contradicts a static table") {
    CHECK(errors_with("dispatch-algorithm", "dynamic") == Codes{"DISPATCH_DIFFERS"});
}

TEST_CASE("shared experts and draft layers must be decided about") {
    CHECK(errors_with("shared-experts", "1") == Codes{"SHARED_FUSION_UNKNOWN"});
    Deployment fused;
    fused.facts["shared-experts"] = "1";
    fused.facts["shared-fusion"] = "false";
    CHECK(codes(fused.admit(), Severity::error) == Codes{});
    Deployment drafting;
    drafting.facts["model-draft-layers"] = "1";
    drafting.facts["speculative"] = "EAGLE";
    CHECK(codes(drafting.admit(), Severity::error) == Codes{"DRAFT_LAYERS"});
    Deployment left;
    left.facts["model-draft-layers"] = "1";
    left.facts["speculative"] = "EAGLE";
    left.facts["draft-layers"] = "trivial";
    CHECK(codes(left.admit(), Severity::error) == Codes{});
}

TEST_CASE("more processes than ranks is a warning with both numbers") {
    CHECK(warnings_with("world-size", "8").count("WORLD_SIZE") == 1);
    CHECK(warnings_with("world-size", "4").count("WORLD_SIZE") == 0);
}

TEST_CASE("a table must host every expert that it sends tokens to") {
    Deployment deployment;
    DispatchContext context;
    context.nodes = 2;
    DispatchTable table = dispatch_table(find_dispatch_model("omni"), deployment.layout, context);
    deployment.request.table_path = deployment.folder.write("t.npy", encode_dispatch_table(table));
    const AdmissionReport good = deployment.admit();
    CHECK(codes(good, Severity::error) == Codes{});
    CHECK(good.attestation->table_sha256 == sha256_hex(std::string_view(content_of(*deployment.request.table_path))));

    table.row(3, 1)[5] = SlotId{0};  // slot 0 holds expert 0
    deployment.folder.write("t.npy", encode_dispatch_table(table));
    const AdmissionReport bad = eplb::admit(deployment.request);
    CHECK(codes(bad, Severity::error) == Codes{"TABLE_DIFFERS"});
    CHECK(bad.findings.front().where == "dispatch table, rank 3, layer 1, expert 5");

    deployment.folder.write("t.npy", encode_dispatch_table(DispatchTable(4, 1, 8)));
    CHECK(codes(eplb::admit(deployment.request), Severity::error) == Codes{"TABLE_DIFFERS"});
}

TEST_CASE("a table whose manifest names another layout is refused even if every entry hosts its expert") {
    Deployment deployment;
    DispatchContext context;
    context.nodes = 2;
    const auto bytes = encode_dispatch_table(dispatch_table(find_dispatch_model("omni"), deployment.layout, context));
    deployment.request.table_path = deployment.folder.write("t.npy", bytes);
    deployment.admit();
    DispatchTableManifest manifest;
    manifest.layout_sha256 = deployment.manifest.layout_sha256;
    manifest.table_sha256 = sha256_hex(bytes);
    manifest.ranks = 4, manifest.layers = 2, manifest.experts = 8;
    manifest.dispatch = "omni";
    deployment.folder.write("t.manifest.json", encode_dispatch_table_manifest(manifest));
    const AdmissionReport good = eplb::admit(deployment.request);
    CHECK(codes(good, Severity::error) == Codes{});
    REQUIRE(good.table);
    CHECK(encode_dispatch_table(*good.table) == bytes);

    manifest.layout_sha256 = std::string(64, '0');
    deployment.folder.write("t.manifest.json", encode_dispatch_table_manifest(manifest));
    CHECK(codes(eplb::admit(deployment.request), Severity::error) == Codes{"TABLE_DIFFERS"});
}

TEST_CASE("an earlier attestation must still hold where it is asked for") {
    Deployment deployment;
    const std::string attested = encode_attestation(*deployment.admit().attestation);
    deployment.request.expect_path = deployment.folder.write("a.json", attested);
    CHECK(eplb::admit(deployment.request).admitted());
    Deployment other;
    other.request.expect_path = other.folder.write("a.json", attested);
    other.facts["world-size"] = "8";
    CHECK(codes(other.admit(), Severity::error) == Codes{"ATTESTATION_DIFFERS"});
}

TEST_CASE("traffic that piles up on one replica is a warning") {
    // One node: every rank without a copy of its own sends to the lowest replica. Of 4 ranks 3 go to the first of two
    // replicas: 3/4 against an even 1/2 is 1.5 times, not more.
    CHECK(warnings_with("nodes", "1").count("SHARES_UNEVEN") == 0);
    // 8 ranks x 2 slots, two replicas each: seven of eight ranks send expert 0 to slot 0, 7/8 against 1/2 is 1.75
    // times.
    Deployment deployment;
    deployment.facts["nodes"] = "1";
    std::vector<ExpertId> slots;
    for (const int expert : {0, 1, 0, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6, 7}) slots.push_back(ExpertId{expert});
    deployment.layout = Layout({1, 8, 8, 2}, slots);
    deployment.manifest.geometry = deployment.layout.geometry();
    deployment.facts["ranks"] = deployment.facts["world-size"] = "8";
    deployment.facts["layers"] = "1";
    deployment.facts["redundant-total"] = "8";
    CHECK(codes(deployment.admit(), Severity::warning).count("SHARES_UNEVEN") == 1);
}

TEST_CASE("two sources that contradict each other refuse the layout") {
    Deployment deployment;
    deployment.request.facts.add("ranks", "8", "serve.sh, --ep-size");
    const AdmissionReport report = deployment.admit();
    CHECK(codes(report, Severity::error).count("FACTS_CONTRADICT") == 1);
}

TEST_CASE("vllm-ascend routes by a map and loads other weights: the installer is needed unless the map is linear") {
    Deployment deployment;
    deployment.request.engine = "vllm-ascend";
    deployment.facts.erase("dispatch-algorithm");
    deployment.facts["dispatch"] = "vllm-ascend";
    deployment.facts["expert-layers"] = "2";
    const AdmissionReport report = deployment.admit();
    CHECK(codes(report, Severity::error) == Codes{});
    CHECK(codes(report, Severity::warning).count("WEIGHTS_NEED_INSTALL") == 1);
}

TEST_CASE("what would move against the current layout is counted") {
    Deployment deployment;
    Layout current = deployment.layout;
    std::swap(current.row(0)[0], current.row(0)[2]);   // inside rank 0
    std::swap(current.row(1)[2], current.row(1)[11]);  // between rank 0 (node 0) and rank 3 (node 1)
    deployment.request.current_path = deployment.folder.write("current.json", encode_layout(current));
    const AdmissionReport report = deployment.admit();
    const auto moves = std::find_if(report.findings.begin(), report.findings.end(),
                                    [](const Finding& finding) { return finding.code == "MOVES"; });
    REQUIRE(moves != report.findings.end());
    CHECK(moves->message == "4 of 24 slots change: 2 inside a rank, 2 between nodes");
}

TEST_CASE("an attestation is read back, and every difference is named") {
    Deployment deployment;
    const Attestation attested = *deployment.admit().attestation;
    Attestation now = decode_attestation(encode_attestation(attested));
    CHECK(differences(attested, now).empty());
    CHECK(now == attested);
    now.map_hash = "00";
    now.first_row[0][0] = 7;
    now.facts.back().second = "changed";
    CHECK(differences(attested, now).size() == 3);
    CHECK_THROWS_AS(decode_attestation(R"({"format_version":1})"), Error);
    CHECK_THROWS_AS(decode_attestation(R"({"format_version":2})"), Error);
}

TEST_CASE("an attestation that could not be read again is not written, and its texts need not be UTF-8") {
    Deployment deployment;
    Attestation attestation = *deployment.admit().attestation;
    attestation.layout_name = "lay\xff.json";
    attestation.facts.emplace_back("zzz", "mod\xc3");
    const Attestation back = decode_attestation(encode_attestation(attestation));
    CHECK(back.layout_name == "lay?.json");
    CHECK(back.facts.back().second == "mod?");
    attestation.geometry.slots_per_rank = 0;
    const Error error = error_of([&] { encode_attestation(attestation); });
    CHECK(error.code() == ErrorCode::internal);
    CHECK_THAT(error.what(), Catch::Contains("$.geometry.slots_per_rank"));
    attestation.geometry.slots_per_rank = 1;
    attestation.map_hash = "00";
    CHECK_THAT(error_of([&] { encode_attestation(attestation); }).what(), Catch::Contains("$.map_hash"));
}

TEST_CASE("every rule has a code and a summary of its own") {
    Codes seen;
    for (const AdmissionRule& rule : admission_rules()) {
        CHECK(seen.insert(std::string(rule.code)).second);
        CHECK_FALSE(rule.summary.empty());
        REQUIRE(rule.run != nullptr);
    }
}
