// The parts of human output that eplb-fit and eplb-score have in common.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evaluation/count_input.hpp"
#include "evaluation/evaluation.hpp"

namespace eplb {

// What was read: files, record slots, how they are split, and the warnings of the gate (with `verbose` the infos too).
std::string counts_text(const CountInput& input, const RecordSplit& split, Holdout holdout, bool verbose);

// A table with a line for each subject, part and dispatch model.
std::string scores_text(std::span<const Subject> subjects, const std::vector<std::vector<PartScore>>& scores);

// What the columns mean, which dispatch models were assumed, how many layers were scored.
std::string legend_text(const PartScore& headline, std::span<const Dispatch> dispatches);

std::string verdict_text(const Verdict& verdict, const std::string& against);

std::string base_name(const std::string& path);                   // without its folders, printable()
std::string fixed(double value);                                  // four decimals, "-" when there is none
std::string counted(std::int64_t number, std::string_view noun);  // "1 layer", "61 layers"

}  // namespace eplb
