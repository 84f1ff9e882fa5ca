// Count files: the table of formats, and the reading and writing of one file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/count_options.hpp"
#include "core/finding.hpp"
#include "core/tensor.hpp"

namespace eplb {

// One decoded count file. The tensor is 3-D [record slots, layers, experts] (a 2-D file is one record slot), of any
// number type: `check` judges the values.
struct CountFile {
    std::string path;        // as given
    std::string format;      // name in the table
    std::string sha256;      // 64 hex digits, of the whole file
    std::int64_t bytes = 0;  // file size
    Tensor tensor;
    Reduction reduction = Reduction::unknown;  // reduced where the format says so by definition
    std::optional<std::string> saved_on;       // device a .pt was saved from, e.g. "npu:0"
    std::vector<Finding> findings;             // what the reader noticed: extra keys, a dropped device tag, ... (info)
};

// Reads one file, format sniffed from its content or taken from the options. Throws Error{input} that names file,
// place, value and remedy when it cannot be decoded, with finding_code() of the matching finding where there is one
// (TRUNCATED, ...).
CountFile read_count_file(const std::string& path, const CountOptions& options);

std::vector<std::string_view> count_format_names();

// Bytes of a count file as `format` ("pt": exactly what SGLang's recorder saves; "npy"; "h5", with Fletcher32).
// values: [record slots, layers, experts].
std::vector<std::byte> encode_counts(std::string_view format, std::span<const std::int32_t> values, int record_slots,
                                     int layers, int experts);

}  // namespace eplb
