#include "score/summary.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

using namespace eplb;

TEST_CASE("percentiles are nearest-rank: no value in between is made up") {
    std::vector<double> values(40);
    std::iota(values.begin(), values.end(), 1.0);  // 1..40
    const Percentiles high = percentiles(values, BadTail::high);
    CHECK(high.mean == 20.5);
    CHECK(high.median == 20);  // ceil(0.50 * 40) = 20th
    CHECK(high.p95 == 38);     // ceil(0.95 * 40) = 38th
    CHECK(high.worst == 40);
}

TEST_CASE("where small values are bad, the low tail is reported") {
    std::vector<double> values(40);
    std::iota(values.begin(), values.end(), 1.0);
    const Percentiles low = percentiles(values, BadTail::low);
    CHECK(low.mean == 20.5);
    CHECK(low.median == 21);  // 20th from the top
    CHECK(low.p95 == 3);      // 38th from the top
    CHECK(low.worst == 1);
}

TEST_CASE("percentiles of one, two and three values") {
    CHECK(percentiles({7}, BadTail::high).p95 == 7);
    CHECK(percentiles({7, 9}, BadTail::high).median == 7);
    CHECK(percentiles({7, 9}, BadTail::high).p95 == 9);
    CHECK(percentiles({3, 1, 2}, BadTail::high).median == 2);
    CHECK(percentiles({3, 1, 2}, BadTail::low).worst == 1);
}

TEST_CASE("no values give no figure") {
    CHECK(std::isnan(percentiles({}, BadTail::high).mean));
    CHECK(std::isnan(percentiles({}, BadTail::low).worst));
}

TEST_CASE("a layer without counts is left out of the summary, not counted as perfect") {
    LayoutScore score;
    score.layers = {LayerBalance{2.0, 1.6, 0}, std::nullopt, LayerBalance{4.0, 3.2, 1}};
    CHECK(score.layers_scored() == 2);
    const ScoreSummary summary = summarize(score);
    CHECK(summary.step_max_over_mean.mean == 3.0);
    CHECK(summary.step_max_over_mean.worst == 4.0);
    CHECK(summary.step_mean_over_max.mean == (0.5 + 0.25) / 2);  // not 1/3
    CHECK(summary.step_mean_over_max.worst == 0.25);
    CHECK(summary.window_max_over_mean.median == 1.6);
    CHECK(summary.window_mean_over_max.median == 1 / 1.6);
}
