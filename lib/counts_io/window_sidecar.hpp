// The sidecar of a recorded window, Y.window.json beside Y.pt: what the count file itself cannot say.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/count_options.hpp"
#include "core/window_facts.hpp"

namespace eplb {

// Schema: data/schemas/window.schema.json. The first `records` record slots of the count file are the recorded passes,
// oldest first; the others were never filled.
struct WindowSidecar {
    std::string file, sha256;                  // base name and digest of the count file
    Reduction reduction = Reduction::reduced;  // reduced: summed over `members`; per_rank: the share of `rank` alone
    std::string window;                        // names the window; the files of one window carry one name
    std::vector<int> members;                  // ranks whose counts make up the whole window
    std::optional<int> rank;                   // per_rank: whose share this is
    std::vector<std::int64_t> shape;           // [record slots, layers, experts]
    std::int64_t first_sequence = 0;           // sequence number of the oldest record; the others follow without a gap
    int records = 0;
    std::int64_t overwritten = 0;       // passes that the ring lost before the oldest
    std::vector<std::int64_t> tokens;   // [records], summed over the members
    std::vector<std::string> phases;    // [records] prefill, decode, mixed or unknown
    std::vector<std::string> layouts;   // sha256 of every map that was in force, as int64 [L, P]
    std::vector<int> layout_of_record;  // [records] index into layouts
    std::map<std::string, std::string> scenario;
    std::map<std::string, double> seconds;  // copy, fold, reduce, write: for the reader of a slow dump
    bool complete = false;                  // every member reported its share

    bool operator==(const WindowSidecar&) const = default;
};

WindowFacts facts_of(const WindowSidecar& sidecar);

// "Y.pt" -> "Y.window.json"
std::string window_sidecar_path(std::string_view count_file);

// Throws Error{input} with the JSON path: unknown, missing and duplicate keys, lists of the wrong length, what the
// schema does not allow.
WindowSidecar decode_window_sidecar(std::string_view text);
// Texts are made printable(): names of files need not be UTF-8. Throws Error{internal} when decode_window_sidecar()
// would not make the same sidecar of it.
std::string encode_window_sidecar(const WindowSidecar& sidecar);

}  // namespace eplb
