// The checks on public counts. Expected figures were computed with NumPy.
#include <catch2/catch.hpp>
#include <filesystem>

#include "counts_io/count_file.hpp"
#include "samples.hpp"
#include "test_paths.hpp"

using namespace eplb;
using Catch::Matchers::Contains;

namespace {

const std::filesystem::path data = std::filesystem::path(EPLB_SHARED_DIR) / "data";

bool no_real_counts() {
    if (std::filesystem::exists(data)) return false;
    WARN("skipped: no folder with real counts");
    return true;
}

CountReport check_file(const std::string& name, const CountOptions& options = {}) {
    const CountFile file = read_count_file((data / name).string(), options);
    return check_counts(name, file.tensor, file.reduction, options);
}

CountOptions with_top_k(int top_k) {
    CountOptions options;
    options.top_k = top_k;
    return options;
}

}  // namespace

TEST_CASE("no real pass is an outlier, and a warm-up pass with 12 % of the counts on 6 of 64 experts is",
          "[realdata]") {
    if (no_real_counts()) return;
    for (const std::string name :
         {"dsv4flash_trace_k0_coffee", "esft_dsv2lite_windows256", "gptoss20b_datasets", "olmoe_examples_null1024"}) {
        CAPTURE(name);
        CHECK(find(check_file("counts/" + name + ".npy").findings, "OUTLIER_RECORD_SLOTS").code.empty());
    }
    const CountFile file = read_count_file((data / "counts/esft_dsv2lite_windows256.npy").string(), {});
    const Counts counts({file.tensor});  // 129 record slots of 1536 in each row
    Sample sample(130, counts.layers(), counts.experts());
    const auto width = static_cast<std::size_t>(counts.experts());
    for (int slot = 0; slot < 130; ++slot) {
        for (int layer = 0; layer < counts.layers(); ++layer) {
            if (slot < 129) {
                counts.read_row(slot, layer, std::span(&sample.at(slot, layer, 0), width));
            } else {
                for (int expert = 0; expert < 6; ++expert) sample.at(slot, layer, (7 * layer + expert) % 64) = 4503;
            }
        }
    }
    const Finding finding = find(check_sample(sample).findings, "OUTLIER_RECORD_SLOTS");
    CHECK(finding.where == "record slots 129");
    CHECK_THAT(finding.message,
               Catch::Matchers::Contains("1 record slot with 12.0 % of the counts is unlike the others"));
}

TEST_CASE("SGLang's prefill statistics: rows 0-2 are zero, four files have unequal layer totals", "[realdata]") {
    if (no_real_counts()) return;
    const std::vector<std::string> unequal{"in1000out1000", "in1800out100", "in2000out100", "in500out1500"};
    std::vector<CountReport> reports;
    for (const std::string name :
         {"in1000out1000", "in1024", "in1800out100", "in2000out100", "in2048", "in4096", "in500out1500", "in512"}) {
        CAPTURE(name);
        const CountReport& report = reports.emplace_back(check_file("sglang/prefill_" + name + ".json"));
        CHECK(report.ok());
        CHECK(report.statistics->zero_layers == std::vector<int>{0, 1, 2});
        CHECK(find(report.findings, "LEADING_ZERO_LAYERS").where == "layers 0-2");
        CHECK(find(report.findings, "FLOAT_COUNTS").severity == Severity::info);
        const bool expected = std::count(unequal.begin(), unequal.end(), name) == 1;
        CHECK(codes_at_least(report.findings, Severity::warning) ==
              (expected ? std::vector<std::string>{"LAYER_TOTAL_MISMATCH"} : std::vector<std::string>{}));
    }
    CHECK(codes_at_least(check_counts_together(reports, {}), Severity::warning).empty());
}

TEST_CASE("a real dump that recorded nothing is empty, its neighbour is not", "[realdata]") {
    if (no_real_counts()) return;
    const CountReport fp8 = check_file("srt-slurm/expert_distribution_fp8_1k1k_compressed.pt");
    CHECK(codes_at_least(fp8.findings, Severity::warning) == std::vector<std::string>{"EMPTY_COUNTS"});
    const CountReport fp4 = check_file("srt-slurm/expert_distribution_fp4_1k1k_compressed.pt");
    CHECK(codes_at_least(fp4.findings, Severity::warning).empty());
    CHECK(fp4.statistics->zero_layers == std::vector<int>{0, 1, 2});
}

TEST_CASE("recorded traces keep every rule of routing", "[realdata]") {
    if (no_real_counts()) return;
    const CountReport olmoe = check_file("counts/olmoe_examples_null1024.npy", with_top_k(8));
    CHECK(codes_at_least(olmoe.findings, Severity::warning).empty());
    CHECK(olmoe.top_k_guess == 8);
    // Four tasks, one after the other: the halves are different loads.
    const CountReport esft = check_file("counts/esft_dsv2lite_windows256.npy", with_top_k(6));
    CHECK(codes_at_least(esft.findings, Severity::warning) == std::vector<std::string>{"HALVES_DIFFER"});
    const CountReport dsv4 = check_file("counts/dsv4flash_trace_k0_coffee.npy", with_top_k(6));
    CHECK(codes_at_least(dsv4.findings, Severity::warning).empty());
    CHECK(find(dsv4.findings, "NEVER_HIT_EXPERTS").message.find("2631 experts in 40 layers") == 0);
}

TEST_CASE("counts made from rounded fractions betray themselves", "[realdata]") {
    if (no_real_counts()) return;
    const CountReport gptoss = check_file("counts/gptoss20b_datasets.npy", with_top_k(4));
    CHECK(codes_at_least(gptoss.findings, Severity::warning) ==
          std::vector<std::string>{"LAYER_TOTAL_MISMATCH", "NOT_DIVISIBLE_BY_TOP_K"});
    CHECK(find(gptoss.findings, "NOT_DIVISIBLE_BY_TOP_K").message.find("197 of 264 rows") != std::string::npos);
}

namespace {

CountOptions accepting(const std::string& code) {
    CountOptions options;
    options.accepted = {code};
    return options;
}

Finding mismatch(const std::string& name) {
    return find(check_file(name).findings, "LAYER_TOTAL_MISMATCH");
}

}  // namespace

TEST_CASE("layer totals of made-up cases: the cause that fits the numbers is named", "[realdata]") {
    if (no_real_counts()) return;
    CHECK(mismatch("cases/stat_approx.pt").severity == Severity::error);
    CHECK_THAT(mismatch("cases/stat_approx.pt").hint, Contains("multiples of 16") && Contains("stat_approx"));
    CHECK(check_file("cases/stat_approx.pt", accepting("LAYER_TOTAL_MISMATCH")).ok());
    CHECK_THAT(
        mismatch("cases/r05_draft_zero.npy").hint,
        Contains("only layer 58 deviates: it is zero in 16 of the 32 record slots") && Contains("--drop-layers 58"));
    CHECK_THAT(mismatch("cases/r24_R_L_S.npy").hint, Contains("--recorded-layout FILE"));
    CHECK_THAT(mismatch("cases/lln_0.npy").hint,
               Contains("exactly 4 of 16 experts have counts") && Contains("--reduction per-rank"));
}

TEST_CASE("axes in another order are named, and read as named nothing is left to say", "[realdata]") {
    if (no_real_counts()) return;
    CHECK_THAT(mismatch("cases/ax_E_L.npy").hint, Contains("give --axes experts,layers"));
    CountOptions options;
    options.axes = parse_count_axes("experts,layers");
    const CountReport report = check_file("cases/ax_E_L.npy", options);
    CHECK(report.layers == 46);
    CHECK(report.experts == 128);
    CHECK(codes_at_least(report.findings, Severity::warning).empty());
}

TEST_CASE("a placement and routed ids are no counts", "[realdata]") {
    if (no_real_counts()) return;
    CHECK(codes_at_least(check_file("layouts/omni_dsv3_8ranks_redundant.npy").findings, Severity::warning) ==
          std::vector<std::string>{"PLACEMENT_MASK"});
    CountOptions as_array;
    as_array.format = "npy";
    const CountReport ids = check_file("cases/r28_routed_experts.npy", as_array);
    CHECK(codes_at_least(ids.findings, Severity::warning) == std::vector<std::string>{"ROUTED_IDS"});
}

TEST_CASE("counts that bfloat16 has rounded are said to be, and a spread shared expert is found", "[realdata]") {
    if (no_real_counts()) return;
    const CountReport rounded = check_file("cases/bf16_big.pt");
    CHECK(codes_at_least(rounded.findings, Severity::warning) ==
          std::vector<std::string>{"ROUNDED_COUNTS", "LAYER_TOTAL_MISMATCH"});
    CHECK_THAT(find(rounded.findings, "ROUNDED_COUNTS").message, Contains("195584 are stored as bfloat16"));
    CHECK(rounded.ok());
    const CountReport shared = check_file("cases/shared8.npy");
    CHECK(codes_at_least(shared.findings, Severity::warning) == std::vector<std::string>{"SHARED_EXPERT_SUSPECTED"});
    CHECK(find(shared.findings, "SHARED_EXPERT_SUSPECTED").where == "experts 128-135");
}

TEST_CASE("half of the true top-k is contradicted by real counts", "[realdata]") {
    if (no_real_counts()) return;
    const CountReport olmoe = check_file("counts/olmoe_examples_null1024.npy", with_top_k(4));
    CHECK(codes_at_least(olmoe.findings, Severity::warning) == std::vector<std::string>{"TOP_K_CONTRADICTED"});
    // Windows of 16 tokens: two different totals only, but hot experts that every token hits.
    const CountReport dsv4 = check_file("counts/dsv4flash_trace_k0_coffee.npy", with_top_k(3));
    CHECK(codes_at_least(dsv4.findings, Severity::warning) == std::vector<std::string>{"TOP_K_CONTRADICTED"});
    CHECK(find(dsv4.findings, "TOP_K_CONTRADICTED").hint.find("say --top-k 6") == 0);
}
