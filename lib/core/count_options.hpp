// How the user wants count files read and what he knows about them: the reading flags of eplb-validate, eplb-fit and
// eplb-score.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/count_axes.hpp"
#include "core/index_list.hpp"
#include "core/selection.hpp"

namespace eplb {

enum class Reduction { unknown, reduced, per_rank };  // are the counts already summed over the ranks?
enum class PtReader { native, libtorch };

struct CountOptions {
    std::vector<std::string> files;      // paths, "-" is stdin
    std::optional<std::string> format;   // name in the table of counts_io; sniffed when absent
    std::optional<std::string> dataset;  // HDF5 data set
    std::optional<CountAxes> axes;       // of the array; else slots,layers,experts
    std::optional<int> layers, experts, top_k;
    std::optional<IndexList> dense_layers;    // layers without experts
    std::optional<std::string> model_config;  // config.json, or the folder that holds it; what it says is in the others
    int draft_layers_from = std::numeric_limits<int>::max();  // first layer of draft (MTP) modules, which may be zero
    std::optional<int> ranks;                                 // that a layout will be fitted for
    std::optional<int> recorded_ranks;                        // that counted: how many shares make up a window
    std::optional<std::int64_t> expect_total;
    std::optional<std::string> recorded_layout;   // layout in force while physical slots were counted
    std::optional<std::int64_t> tokens_per_slot;  // routed expert ids: tokens that make up a record slot
    std::vector<std::string> accepted;            // finding codes whose errors count as warnings
    Reduction reduction = Reduction::unknown;
    Selection selection;
    PtReader pt_reader = PtReader::native;
    bool cross_check_libtorch = false;
};

constexpr const char* name_of(Reduction reduction) {
    switch (reduction) {
        case Reduction::unknown:
            return "unknown";
        case Reduction::reduced:
            return "reduced";
        case Reduction::per_rank:
            return "per-rank";
    }
    return "unknown";
}

}  // namespace eplb
