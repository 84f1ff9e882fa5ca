#include "evaluation/layout_input.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "files/digest.hpp"
#include "files/mapped_file.hpp"

namespace eplb {
namespace {

int ranks_of(const std::string& path, std::optional<int> ranks, const std::optional<Manifest>& manifest) {
    if (ranks && manifest && *ranks != manifest->geometry.ranks) {
        throw Error(ErrorCode::input, path,
                    fmt::format("--ranks {} disagrees with the {} ranks of {}", *ranks, manifest->geometry.ranks,
                                manifest_path(path)));
    }
    if (ranks) return *ranks;
    if (manifest) return manifest->geometry.ranks;
    throw Error(ErrorCode::usage, path, "the number of ranks is not known: there is no manifest beside the layout",
                "give --ranks R");
}

std::vector<int> fitted_slots(const Manifest& manifest, const CountInput& input) {
    std::vector<int> slots;
    for (std::size_t index = 0; index < input.files.size(); ++index) {
        for (const ManifestCountFile& file : manifest.counts) {
            if (file.sha256 != input.files[index].sha256) continue;
            const std::vector<int>& slot_in_counts = input.slot_in_counts[index];
            for (const int slot : file.fitted) {
                if (static_cast<std::size_t>(slot) >= slot_in_counts.size())
                    continue;  // cut differently than it is now
                if (slot_in_counts[static_cast<std::size_t>(slot)] >= 0) {
                    slots.push_back(slot_in_counts[static_cast<std::size_t>(slot)]);
                }
            }
        }
    }
    std::sort(slots.begin(), slots.end());
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
    return slots;
}

}  // namespace

LayoutInput load_layout(const std::string& path, std::optional<int> ranks, const CountInput& input) {
    const auto file = MappedFile::open(path);
    LayoutInput layout;
    layout.manifest = find_manifest(path, sha256_hex(file->bytes()));
    layout.file = read_layout(*file, ranks_of(path, ranks, layout.manifest), input.counts.experts());
    const Geometry& geometry = layout.file.layout.geometry();
    if (geometry.layers != input.counts.layers()) {
        throw Error(
            ErrorCode::input, path,
            fmt::format("{} layers do not go with counts of {} layers", geometry.layers, input.counts.layers()));
    }
    if (layout.manifest && layout.manifest->geometry != geometry) {
        throw Error(ErrorCode::input, path,
                    fmt::format("the layout has {}, its manifest says {}", describe(geometry),
                                describe(layout.manifest->geometry)),
                    "counts of another model?");
    }
    if (layout.manifest) layout.fitted = fitted_slots(*layout.manifest, input);
    return layout;
}

}  // namespace eplb
