// The manifest beside a layout: where the layout comes from and what it was found to be worth. Byte-equal on re-runs:
// no dates, host names or paths.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/count_options.hpp"
#include "core/geometry.hpp"
#include "core/layout.hpp"
#include "layout_io/scenario.hpp"

namespace eplb {

inline constexpr int manifest_format_version = 1;

struct ManifestCountFile {
    std::string name;  // base name
    std::string sha256;
    std::int64_t total = 0;             // sum of all counts
    int record_slots = 0;               // of this file, zero ones included
    std::vector<int> fitted, held_out;  // record slots of this file, ascending
    bool operator==(const ManifestCountFile&) const = default;
};

// One figure block: a layout under a dispatch model on a part of the record slots. Means and worst over scored layers.
struct ManifestScore {
    std::string layout;    // "fitted", "trivial", "random", "current"
    std::string dispatch;  // model name
    std::string part;      // "fit", "holdout", "all"
    int layers_scored = 0;
    double step_mean = 0, step_worst = 0, window_mean = 0, window_worst = 0;  // max/mean
    bool operator==(const ManifestScore&) const = default;
};

// Per layer, on the fitted record slots under the even split; absent for a layer without counts.
struct ManifestLayer {
    double window = 0, window_lower_bound = 0;  // max/mean
    double step = 0;
    std::optional<double> step_lower_bound;
    bool kept = false;  // the current row was kept (--min-gain)
    bool operator==(const ManifestLayer&) const = default;
};

// What the guard of the step objective saw in the fitted record slots, and what it decided for the whole model.
struct ManifestGuard {
    bool window_fit = false;               // only noise: every layer got the window fit
    std::optional<double> predictability;  // pooled leave-one-out R^2; absent: fewer than three record slots
    double noise_level = 0;                // what it must exceed
    double replica_exponent = 0, replica_share = 0, mean_shrink = 1;
    int step_layers = 0, window_layers = 0;  // by the fit that won
    // Cross-validated on the fitted record slots: mean step balancedness on others, and its gain over the window fit.
    std::optional<double> expected_holdout, expected_gain;
    double expected_gain_error = 0;  // standard error
    bool operator==(const ManifestGuard&) const = default;
};

struct ManifestVerdict {
    std::string decision;  // "recommend-trial", "not-now", "insufficient-evidence"
    std::string against;   // "trivial", or the base name of the current layout
    std::vector<std::string> reasons;
    std::optional<double> gain, gain_spread;
    std::vector<int> worse_layers;  // whose step value grows, the largest growth first
    bool operator==(const ManifestVerdict&) const = default;
};

struct Manifest {
    std::string layout_sha256;  // of the layout file's bytes
    std::string map_hash;       // map_hash() of the layout
    std::optional<std::string> dispatch_table_sha256;
    Geometry geometry;

    std::vector<ManifestCountFile> counts;
    Reduction reduction = Reduction::unknown;
    std::string holdout = "none";       // how the record slots were split: "interleave", "halves", "last", "none"
    bool refit_all = false;             // fitted on all record slots after the split was scored
    std::vector<std::string> accepted;  // codes of errors in the counts that --accept made warnings

    Scenario scenario = unobserved_scenario();

    std::string policy, objective, effort, dispatch;
    std::uint64_t seed = 0;  // below 2^63
    std::optional<ManifestGuard> guard;
    std::string tool_version, tool_commit, command_line;  // canonical: no paths, threads or verbosity

    std::vector<ManifestScore> scores;
    std::vector<std::optional<ManifestLayer>> layers;  // [L]
    std::optional<ManifestVerdict> verdict;
    std::vector<std::string> notes;
    bool operator==(const Manifest&) const = default;
};

// JSON, keys in a fixed order, ends with a newline. Texts are made printable(): names of files need not be UTF-8.
// Throws Error{internal} when decode_manifest() would not make the same manifest of it.
std::string encode_manifest(const Manifest& manifest);

// Throws Error{input} with the JSON path for unknown, duplicate or missing keys and for values out of range.
Manifest read_manifest(const std::string& path);
Manifest decode_manifest(std::string_view text);

// The manifest beside a layout file, if there is one. Throws Error{input} when it cannot be read, or when it belongs to
// another layout file (`layout_sha256` differs).
std::optional<Manifest> find_manifest(const std::string& layout_path, const std::string& layout_sha256);

// SHA-256 over E, R, S and the map as little-endian int32: equal for equal layouts, however the file is written.
std::string map_hash(const Layout& layout);

}  // namespace eplb
