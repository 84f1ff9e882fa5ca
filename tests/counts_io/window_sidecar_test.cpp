// The sidecar beside a recorded window.
#include <catch2/catch.hpp>
#include <fstream>

#include "core/tensor_view.hpp"
#include "counts_io/count_file.hpp"
#include "counts_io/window_sidecar.hpp"
#include "files/digest.hpp"
#include "files/error_of.hpp"
#include "files/temporary_folder.hpp"

using namespace eplb;

namespace {

WindowSidecar sample() {
    WindowSidecar sidecar;
    sidecar.file = "Y.pt";
    sidecar.sha256 = std::string(64, 'a');
    sidecar.window = "w";
    sidecar.members = {0, 1};
    sidecar.shape = {3, 1, 2};
    sidecar.first_sequence = 5;
    sidecar.records = 2;
    sidecar.overwritten = 5;
    sidecar.tokens = {10, 20};
    sidecar.phases = {"prefill", "decode"};
    sidecar.layouts = {std::string(64, 'b')};
    sidecar.layout_of_record = {0, 0};
    sidecar.scenario = {{"role", "prefill"}};
    sidecar.seconds = {{"copy", 0.25}};
    sidecar.complete = true;
    return sidecar;
}

// The text with one piece replaced.
std::string with(std::string_view from, std::string_view to) {
    std::string text = encode_window_sidecar(sample());
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
}

std::string what(const std::string& text) {
    return error_of([&] { decode_window_sidecar(text); }).what();
}

}  // namespace

TEST_CASE("a sidecar survives being written and read") {
    const WindowSidecar back = decode_window_sidecar(encode_window_sidecar(sample()));
    CHECK(back == sample());
    const WindowFacts facts = facts_of(back);
    CHECK(facts.sequence == std::vector<std::int64_t>{5, 6});
    CHECK(facts.members == std::vector<int>{0, 1});
    CHECK_FALSE(facts.rank.has_value());
    CHECK(window_sidecar_path("a.b/Y.pt") == "a.b/Y.window.json");
}

TEST_CASE("the sequence number of every record is a number") {
    // Two records: the second one's number is the largest there is, or would be one above it.
    CHECK(facts_of(decode_window_sidecar(with("\"first_sequence\": 5", "\"first_sequence\": 9223372036854775806")))
              .sequence.back() == INT64_MAX);
    CHECK_THAT(what(with("\"first_sequence\": 5", "\"first_sequence\": 9223372036854775807")),
               Catch::Contains("$.first_sequence") && Catch::Contains("outside 0 to 9223372036854775806"));
}

TEST_CASE("a sidecar with anything unknown, missing or of another length is refused") {
    CHECK_THAT(what(with("\"window\"", "\"wind\"")), Catch::Contains("wind"));
    CHECK_THAT(what(with("\"reduced\"", "\"summed\"")), Catch::Contains("summed"));
    CHECK_THAT(what(with("\"overwritten\": 5", "\"overwritten\": -1")), Catch::Contains("$.overwritten"));
    CHECK_THAT(what(with("\"format_version\": 1", "\"format_version\": 2")), Catch::Contains("$.format_version"));
}

TEST_CASE("a sidecar names a rank exactly when it is one rank's share") {
    WindowSidecar share = sample();
    share.reduction = Reduction::per_rank;
    CHECK_THROWS_AS(encode_window_sidecar(share), Error);
    share.rank = 1;
    CHECK(decode_window_sidecar(encode_window_sidecar(share)).rank == 1);
}

TEST_CASE("a sidecar that its reader would refuse is not written, and the reader's reason is told") {
    const auto refused = [](auto change) {
        WindowSidecar wrong = sample();
        change(wrong);
        const Error error = error_of([&] { encode_window_sidecar(wrong); });
        CHECK(error.code() == ErrorCode::internal);
        return std::string(error.what());
    };
    CHECK_THAT(refused([](WindowSidecar& wrong) { wrong.tokens = {10}; }),
               Catch::Contains("$.tokens") && Catch::Contains("1 entries for 2 records"));
    CHECK_THAT(refused([](WindowSidecar& wrong) {
                   wrong.layout_of_record = {0, 1};
               }),
               Catch::Contains("$.layout_of_record[1]"));
    CHECK_THAT(refused([](WindowSidecar& wrong) {
                   wrong.phases = {"prefill", "warm-up"};
               }),
               Catch::Contains("warm-up"));
    CHECK_THAT(refused([](WindowSidecar& wrong) { wrong.members = {1, 0, 1}; }), Catch::Contains("$.members"));
    CHECK_THAT(refused([](WindowSidecar& wrong) { wrong.members.clear(); }), Catch::Contains("$.members"));
    CHECK_THAT(refused([](WindowSidecar& wrong) { wrong.layouts = {"a map"}; }), Catch::Contains("$.layouts[0]"));
    CHECK_THAT(refused([](WindowSidecar& wrong) { wrong.sha256.pop_back(); }), Catch::Contains("$.sha256"));
    CHECK_THAT(refused([](WindowSidecar& wrong) { wrong.file.clear(); }), Catch::Contains("$.file"));
    CHECK_THAT(refused([](WindowSidecar& wrong) { wrong.seconds["copy"] = -0.25; }), Catch::Contains("$.seconds.copy"));
    CHECK_THAT(refused([](WindowSidecar& wrong) { wrong.rank = 1; }), Catch::Contains("rank"));
}

TEST_CASE("texts of a sidecar need not be UTF-8") {
    WindowSidecar sidecar = sample();
    sidecar.file = "Y\xff.pt";
    sidecar.scenario = {{"role", "pre\xc3"}};
    const WindowSidecar back = decode_window_sidecar(encode_window_sidecar(sidecar));
    CHECK(back.file == "Y?.pt");
    CHECK(back.scenario.at("role") == "pre?");
}

TEST_CASE("a count file takes its facts from its own sidecar and refuses another's") {
    const TemporaryFolder folder;
    const std::vector<std::int32_t> values{1, 2, 3, 4, 0, 0};
    const std::vector<std::byte> bytes = encode_counts("npy", view_of(values, {3, 1, 2}));
    std::ofstream(folder.file("Y.npy"), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    CHECK_FALSE(read_count_file(folder.file("Y.npy"), {}).window.has_value());

    WindowSidecar sidecar = sample();
    std::ofstream(folder.file("Y.window.json")) << encode_window_sidecar(sidecar);
    const Error foreign = error_of([&] { read_count_file(folder.file("Y.npy"), {}); });
    CHECK(foreign.finding_code() == "SIDECAR_MISMATCH");
    CHECK_THAT(foreign.what(), Catch::Contains("Y.npy") && Catch::Contains("belongs to another count file"));

    sidecar.sha256 = sha256_hex(bytes);
    std::ofstream(folder.file("Y.window.json")) << encode_window_sidecar(sidecar);
    const CountFile file = read_count_file(folder.file("Y.npy"), {});
    CHECK(file.reduction == Reduction::reduced);
    REQUIRE(file.window);
    CHECK(file.window->overwritten == 5);

    std::ofstream(folder.file("Y.window.json")) << "{";
    CHECK(error_of([&] { read_count_file(folder.file("Y.npy"), {}); }).finding_code() == "SIDECAR_MISMATCH");
}
