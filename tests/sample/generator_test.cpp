#include "sample/generator.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "core/error.hpp"

using namespace eplb;

namespace {

// A small spec that every test changes in one place.
SampleSpec small_spec() {
    SampleSpec spec;
    spec.record_slots = 12;
    spec.filled_slots = 9;
    spec.layers = 5;
    spec.dense_layers = 2;
    spec.experts = 32;
    spec.top_k = 4;
    spec.ranks = 8;
    spec.slots_per_rank = 5;
    spec.trivial_balance = 1.5;
    spec.tokens = 3000;
    spec.topics = 6;
    spec.seed = 42;
    return spec;
}

std::vector<std::int32_t> row(const Sample& sample, int slot, int layer) {
    const auto experts = static_cast<std::ptrdiff_t>(sample.spec.experts);
    const auto first =
        sample.counts.begin() + (static_cast<std::ptrdiff_t>(slot) * sample.spec.layers + layer) * experts;
    return {first, first + experts};
}

std::int64_t total(const std::vector<std::int32_t>& values) {
    return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

int filled_record_slots(const Sample& sample) {
    int filled = 0;
    for (int slot = 0; slot < sample.spec.record_slots; ++slot) {
        std::int64_t slot_total = 0;
        for (int layer = 0; layer < sample.spec.layers; ++layer) slot_total += total(row(sample, slot, layer));
        filled += slot_total > 0 ? 1 : 0;
    }
    return filled;
}

// The definition, spelled out: loads of slot p = counts of expert p mod E over its number of slots, summed per rank.
double trivial_window_median(const Sample& sample) {
    const SampleSpec& spec = sample.spec;
    std::vector<double> balances;
    for (int layer = spec.dense_layers; layer < spec.layers; ++layer) {
        std::vector<double> load(static_cast<std::size_t>(spec.ranks));
        for (int p = 0; p < spec.ranks * spec.slots_per_rank; ++p) {
            int replicas = 0;
            for (int q = p % spec.experts; q < spec.ranks * spec.slots_per_rank; q += spec.experts) ++replicas;
            double count = 0;
            for (int slot = 0; slot < spec.record_slots; ++slot) {
                count += row(sample, slot, layer)[static_cast<std::size_t>(p % spec.experts)];
            }
            load[static_cast<std::size_t>(p / spec.slots_per_rank)] += count / replicas;
        }
        const double mean = std::accumulate(load.begin(), load.end(), 0.0) / spec.ranks;
        balances.push_back(*std::max_element(load.begin(), load.end()) / mean);
    }
    std::sort(balances.begin(), balances.end());
    return balances[(balances.size() - 1) / 2];
}

// FNV-1a over the values, byte by byte in little-endian order.
std::uint64_t fingerprint(const std::vector<std::int32_t>& values) {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const std::int32_t value : values) {
        for (int shift = 0; shift < 32; shift += 8) {
            hash = (hash ^ ((static_cast<std::uint32_t>(value) >> shift) & 0xff)) * 0x100000001b3u;
        }
    }
    return hash;
}

}  // namespace

TEST_CASE(
    "every MoE layer of a record slot has the same total, a multiple of top-k, and no expert has more than its "
    "tokens") {
    const Sample sample = generate(small_spec(), 1, {});
    for (int slot = 0; slot < 9; ++slot) {
        const std::int64_t wanted = total(row(sample, slot, 2));
        REQUIRE(wanted > 0);
        CHECK(wanted % 4 == 0);
        for (int layer = 2; layer < 5; ++layer) {
            const auto counts = row(sample, slot, layer);
            CHECK(total(counts) == wanted);
            CHECK(*std::max_element(counts.begin(), counts.end()) <= wanted / 4);
            CHECK(*std::min_element(counts.begin(), counts.end()) >= 0);
        }
    }
}

TEST_CASE("dense layers and record slots beyond the filled ones are zero") {
    const Sample sample = generate(small_spec(), 1, {});
    for (int slot = 0; slot < 12; ++slot) {
        CHECK(total(row(sample, slot, 0)) == 0);
        CHECK(total(row(sample, slot, 1)) == 0);
        CHECK((total(row(sample, slot, 2)) > 0) == (slot < 9));
    }
    CHECK(sample.total == total(sample.counts));
}

TEST_CASE("the top-k bound holds where it binds: top-k = experts gives every expert every token") {
    SampleSpec spec = small_spec();
    spec.top_k = 32;
    spec.slots_per_rank = 4;
    spec.trivial_balance = 1.0;
    const Sample sample = generate(spec, 1, {});
    const auto counts = row(sample, 0, 2);
    CHECK(std::all_of(counts.begin(), counts.end(), [&](std::int32_t count) { return count == counts[0]; }));
}

TEST_CASE("the same spec gives the same counts on any number of threads, and another seed gives others") {
    const Sample one = generate(small_spec(), 1, {}), seven = generate(small_spec(), 7, {});
    CHECK(one.counts == seven.counts);
    CHECK(one.trivial_balance == seven.trivial_balance);
    SampleSpec other = small_spec();
    other.seed = 43;
    CHECK(generate(other, 1, {}).counts != one.counts);
}

TEST_CASE("counts are the same on every compiler and machine") {
    CHECK(fingerprint(generate(small_spec(), 2, {}).counts) == 0x1c7488666d30e5e7u);
}

TEST_CASE("the reported trivial balance is that of the counts") {
    const Sample sample = generate(small_spec(), 1, {});
    CHECK(sample.trivial_balance == Approx(trivial_window_median(sample)).epsilon(1e-12));
}

TEST_CASE("each preset reaches its trivial balance within 2 % and fills the record slots it says") {
    for (const SamplePreset& preset : sample_presets()) {
        INFO(preset.name);
        SampleSpec spec = preset.spec;
        spec.layers = spec.dense_layers + 6;  // fewer layers, to be quick
        const Sample sample = generate(spec, 1, {});
        CHECK(sample.trivial_balance == Approx(spec.trivial_balance).epsilon(0.02));
        CHECK(filled_record_slots(sample) == spec.filled_slots);
        if (preset.name == "decode") CHECK(static_cast<double>(sample.total) * 43 / 6 == Approx(45.6e6).epsilon(0.01));
    }
}

TEST_CASE("presets have the published shapes") {
    const auto shape = [](std::string_view name) {
        const SampleSpec& spec = find_sample_preset(name).spec;
        return std::vector<int>{spec.record_slots, spec.layers, spec.experts};
    };
    CHECK(shape("prefill-16k") == std::vector<int>{512, 43, 256});
    CHECK(shape("decode") == std::vector<int>{512, 43, 256});
    CHECK(shape("deepseek-v3") == std::vector<int>{128, 61, 256});
    CHECK(shape("kimi-k2") == std::vector<int>{64, 60, 384});
    CHECK(shape("qwen3") == std::vector<int>{200, 94, 128});
    CHECK(find_sample_preset("prefill-16k").spec.filled_slots == 34);
    CHECK(find_sample_preset("deepseek-v3").spec.dense_layers == 3);
    CHECK_THROWS_AS(find_sample_preset("deepseek"), Error);
}

TEST_CASE("a trivial balance that no popularity can give is refused with the range that can be had") {
    SampleSpec spec = small_spec();
    spec.trivial_balance = 8.5;  // above the number of ranks
    CHECK_THROWS_WITH(generate(spec, 1, {}), Catch::Contains("8.5") && Catch::Contains("can be had"));
    // 32 experts on 8 x 5 slots: even with equal popularity a rank with five sole replicas carries 5 / 4 of the mean.
    spec.trivial_balance = 1.24;
    CHECK_THROWS_WITH(generate(spec, 1, {}), Catch::Contains("1.2500"));
    spec.trivial_balance = 1.26;
    CHECK_NOTHROW(generate(spec, 1, {}));
}

TEST_CASE("a spec that makes no sense is refused by the name of the field") {
    const auto refused = [](auto change, const char* field) {
        SampleSpec spec = small_spec();
        change(spec);
        CHECK_THROWS_WITH(require_sensible(spec), Catch::Contains(field));
    };
    CHECK_NOTHROW(require_sensible(small_spec()));
    refused([](SampleSpec& s) { s.record_slots = 0; }, "record slots");
    refused([](SampleSpec& s) { s.filled_slots = 13; }, "filled record slots");
    refused([](SampleSpec& s) { s.dense_layers = 5; }, "dense layers");
    refused([](SampleSpec& s) { s.top_k = 33; }, "top-k");
    refused([](SampleSpec& s) { s.tokens = 0; }, "tokens");
    refused([](SampleSpec& s) { s.topics = 0; }, "topics");
    refused([](SampleSpec& s) { s.trivial_balance = 0.99; }, "trivial balance");
    refused([](SampleSpec& s) { s.record_slots = s.filled_slots = 1 << 28; }, "layers x experts");
    refused([](SampleSpec& s) { s.layers = s.topics = 4096; }, "layers x topics x experts");
    refused([](SampleSpec& s) { s.slots_per_rank = 3; }, "experts");
}

TEST_CASE("Ctrl-C ends the work") {
    Progress progress;
    progress.stop_requested = [] { return true; };
    CHECK_THROWS_AS(generate(small_spec(), 2, progress), Interrupted);
}
