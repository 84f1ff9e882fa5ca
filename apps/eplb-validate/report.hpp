// What eplb-validate found, and how it is shown.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "check/counts.hpp"
#include "core/error.hpp"
#include "core/finding.hpp"
#include "core/geometry.hpp"
#include "counts_io/count_file.hpp"
#include "options.hpp"

namespace eplb {

struct FileReport {
    std::string path;
    std::optional<std::string> sha256;  // absent when the file cannot be opened
    std::optional<std::int64_t> bytes;
    std::optional<Error> undecodable;  // why nothing but a finding is known
    std::vector<Finding> findings;     // most severe first

    // Counts.
    std::optional<std::string> format, saved_on;
    std::optional<DType> dtype;
    std::vector<std::int64_t> shape;
    std::optional<CountReport> counts;  // without its findings
    // A layout.
    std::optional<Geometry> geometry;
    std::optional<std::string> map_hash;
    // A dispatch table.
    struct TableShape {
        int ranks, layers, experts;
    };
    std::optional<TableShape> table;
};

struct Report {
    bool layout = false;  // a layout, and the dispatch table for it if one was given; else counts
    bool strict = false;
    std::vector<FileReport> files;
    std::vector<Finding> findings;   // across files, and of the sum
    std::optional<CountReport> sum;  // of a window's ranks

    int exit_code() const;  // 0 or 1, or 3 when a file cannot be decoded
};

std::string report_json(const Report& report);
// One screen, verdict first. With `verbose` also digests and the hints of infos.
std::string report_text(const Report& report, bool verbose);

}  // namespace eplb
