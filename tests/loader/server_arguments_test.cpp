#include <catch2/catch.hpp>

#include "core/error.hpp"
#include "loader/server_facts.hpp"

using namespace eplb;

namespace {

ServerFacts read(const std::string& text, const std::string& engine = "sglang") {
    ServerFacts facts;
    read_server_arguments("serve.sh", text, find_engine_profile(engine), facts);
    return facts;
}

}  // namespace

TEST_CASE("a command line is read as a shell would split it") {
    const ServerFacts facts = read(
        "# start the prefill server\n"
        "python3 -m sglang.launch_server --model-path '/models/a b' --ep-size=16 \\\n"
        "  --tp_size 16 --nnodes 2 --enable-eplb --ep-num-redundant-experts \"16\" --moe-a2a-backend deepep \\\n"
        "  --disable-shared-experts-fusion --disaggregation-mode prefill --quantization w8a8\n");
    CHECK(facts.number("ranks") == 16);
    CHECK(facts.number("tensor-parallel") == 16);
    CHECK(facts.number("nodes") == 2);
    CHECK(facts.number("redundant-total") == 16);
    CHECK(facts.text("a2a") == "deepep");
    CHECK(facts.flag("enable-eplb") == true);
    CHECK(facts.flag("shared-fusion") == false);
    CHECK(facts.text("role") == "prefill");
    CHECK(facts.text("quant") == "w8a8");
    CHECK(facts.source("ranks") == "serve.sh, --ep-size");
}

TEST_CASE("a JSON object of arguments, nested as vllm-ascend has them") {
    const ServerFacts facts = read(R"({"tensor_parallel_size": 2, "enable_eplb": true, "quantization": "ascend",
        "additional_config": {"eplb_config": {"dynamic_eplb": true, "num_redundant_experts": 16}},
        "kv_transfer_config": {"kv_role": "kv_consumer"}, "seed": null, "x": [1, 2], "y": 0.5})",
                                   "vllm-ascend");
    CHECK(facts.number("tensor-parallel") == 2);
    CHECK(facts.flag("dynamic-eplb") == true);
    CHECK(facts.number("redundant-total") == 16);
    CHECK(facts.text("role") == "decode");
    CHECK_FALSE(facts.text("quant"));  // "ascend" does not say what the experts are
    CHECK(facts.notes().size() == 1);
}

TEST_CASE("JSON in an argument of a command line is read too") {
    const ServerFacts facts =
        read(R"(vllm serve M --additional-config '{"eplb_config": {"expert_map_path": "/m.json"}}')", "vllm-ascend");
    CHECK(facts.text("layout-path") == "/m.json");
}

TEST_CASE("short names are read where the engine has them, and are no value of the argument before") {
    const ServerFacts facts =
        read("python3 -m vllm serve M --enable-expert-parallel -tp 4 --seed -1 -dp=2", "vllm-ascend");
    CHECK(facts.number("tensor-parallel") == 4);
    CHECK(facts.number("data-parallel") == 2);
    CHECK(facts.notes() == std::vector<std::string>{"serve.sh: 2 arguments not read: enable-expert-parallel, seed"});
}

TEST_CASE("a switch takes a value only where one follows") {
    CHECK(read("s --enable-eplb false --ep-size 4").flag("enable-eplb") == false);
    CHECK(read("s --enable-eplb --ep-size 4").flag("enable-eplb") == true);
    CHECK(read("s --enable-eplb True").flag("enable-eplb") == true);
}

TEST_CASE("fusion that is not disabled is not yet stated") {
    CHECK(read("s --disable-shared-experts-fusion").flag("shared-fusion") == false);
    CHECK_FALSE(read(R"({"disable_shared_experts_fusion": false})").flag("shared-fusion"));
}

TEST_CASE("unknown arguments are noted, contradictions kept") {
    const ServerFacts facts = read("s --made-up 3 --ep-size 4 --expert-parallel-size 8");
    REQUIRE(facts.notes().size() == 1);
    CHECK(facts.notes()[0] == "serve.sh: 1 arguments not read: made-up");
    REQUIRE(facts.contradictions().size() == 1);
    CHECK(facts.contradictions()[0] == "ranks: serve.sh, --ep-size says 4, serve.sh, --expert-parallel-size says 8");
}

TEST_CASE("arguments that cannot be read are refused with their place") {
    CHECK_THROWS_WITH(read("s --ep-size many"), Catch::Contains("--ep-size") && Catch::Contains("'many'"));
    CHECK_THROWS_WITH(read("s --model 'half"), Catch::Contains("serve.sh") && Catch::Contains("does not close"));
    CHECK_THROWS_WITH(read("{\"ep_size\": 4, \"ep_size\": 4}"), Catch::Contains("serve.sh"));
    CHECK_THROWS_AS(find_engine_profile("tgi"), Error);
}

TEST_CASE("every argument and quantisation of every engine leads to a known fact") {
    for (const EngineProfile& profile : engine_profiles()) {
        for (const EngineProfile::Argument& argument : profile.arguments) {
            CAPTURE(argument.name);
            CHECK_NOTHROW(find_fact_name(argument.fact));
        }
        for (const EngineProfile::Quantisation& scheme : profile.quantisations) {
            CHECK((!scheme.adapter.empty() || !scheme.remark.empty()));
        }
    }
}

TEST_CASE("a million contradictions are four, and a value of megabytes is none") {
    std::string text = "--ep-size 1 ";
    for (int value = 2; value < 1000; ++value) text += "--ep-size " + std::to_string(value) + " ";
    CHECK(read(text).contradictions().size() == 4);
    CHECK_THROWS_AS(read("--init-expert-location " + std::string(5000, 'x')), Error);
}
