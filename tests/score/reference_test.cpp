// Scores of real counts against an independent scorer in Python.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <sstream>
#include <test_paths.hpp>

#include "score/layout_score.hpp"

using namespace eplb;
namespace fs = std::filesystem;

namespace {

template <typename T>
std::vector<T> values_of(const fs::path& path) {
    std::vector<T> values(fs::file_size(path) / sizeof(T));
    std::ifstream(path, std::ios::binary)
        .read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
    return values;
}

struct TemporaryFolder {
    fs::path path;
    TemporaryFolder() {
        std::string name = (fs::temp_directory_path() / "eplb-score-XXXXXX").string();
        REQUIRE(mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~TemporaryFolder() { fs::remove_all(path); }
};

}  // namespace

TEST_CASE("real counts score as the independent scorer says, layer by layer", "[realdata]") {
    if (!fs::exists(fs::path(EPLB_SHARED_DIR) / "bench" / "score.py")) {
        WARN("skipped: no folder with real counts");
        return;
    }
    const TemporaryFolder folder;
    const fs::path listing = folder.path / "listing";
    const std::string command = "/usr/bin/python3 '" EPLB_SOURCE_DIR
                                "/tests/score/score_reference.py' '" EPLB_SHARED_DIR "' '" +
                                folder.path.string() + "' > '" + listing.string() + "'";
    REQUIRE(std::system(command.c_str()) == 0);
    std::ifstream lines(listing);
    std::string name;
    int slots = 0, sets = 0;
    Geometry geometry;
    while (lines >> name >> slots >> geometry.layers >> geometry.experts >> geometry.ranks >> geometry.slots_per_rank) {
        CAPTURE(name);
        ++sets;
        const Counts counts({make_count_tensor(values_of<std::int64_t>(folder.path / (name + ".counts")), slots,
                                               geometry.layers, geometry.experts)});
        std::vector<ExpertId> experts;
        for (const std::int32_t expert : values_of<std::int32_t>(folder.path / (name + ".layout"))) {
            experts.push_back(ExpertId{expert});
        }
        const Layout layout(geometry, std::move(experts));
        const ReplicaShares shares = replica_shares(find_dispatch_model("even"), layout, {});
        std::vector<int> all(static_cast<std::size_t>(slots));
        std::iota(all.begin(), all.end(), 0);
        const LayoutScore score = score_layout(counts, all, layout, shares, 2);
        const std::vector<double> expected = values_of<double>(folder.path / (name + ".scores"));
        const auto layers = static_cast<std::size_t>(geometry.layers);
        REQUIRE(expected.size() == 3 * layers);
        for (std::size_t layer = 0; layer < layers; ++layer) {
            CAPTURE(layer);
            REQUIRE(score.layers[layer].has_value() == (expected[2 * layers + layer] != 0));
            if (!score.layers[layer]) continue;
            CHECK(score.layers[layer]->window == Approx(expected[layer]).epsilon(1e-9));
            CHECK(score.layers[layer]->step == Approx(expected[layers + layer]).epsilon(1e-9));
        }
    }
    CHECK(sets == 5);
}
