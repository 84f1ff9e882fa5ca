#include "loader/legal_layout.hpp"

#include <fmt/format.h>

#include "check/layout.hpp"
#include "core/error.hpp"
#include "files/digest.hpp"
#include "files/mapped_file.hpp"

namespace eplb {

void require_legal(const Layout& layout) {
    std::string reasons;
    for (const Finding& finding : check_layout(layout)) {
        if (finding.severity != Severity::error) continue;
        reasons += fmt::format("{}{}{}{}", reasons.empty() ? "" : "; ", finding.where,
                               finding.where.empty() ? "" : ": ", finding.message);
    }
    if (!reasons.empty()) throw Error(ErrorCode::input, "layout", reasons, "fit it again");
}

void require_table(const Layout& layout, const DispatchTable& table) {
    const Geometry& geometry = layout.geometry();
    if (table.ranks != geometry.ranks || table.layers != geometry.layers || table.experts != geometry.experts) {
        throw Error(ErrorCode::input, "dispatch table",
                    fmt::format("it is [{}, {}, {}], the layout needs [{}, {}, {}]", table.ranks, table.layers,
                                table.experts, geometry.ranks, geometry.layers, geometry.experts),
                    "make it for this layout: eplb-load table");
    }
    for (int rank = 0; rank < table.ranks; ++rank) {
        for (int layer = 0; layer < table.layers; ++layer) {
            const auto slots = table.row(rank, layer);
            const auto row = layout.row(layer);
            for (int expert = 0; expert < table.experts; ++expert) {
                const int slot = slots[static_cast<std::size_t>(expert)].value;
                if (slot >= 0 && slot < geometry.physical_slots() &&
                    row[static_cast<std::size_t>(slot)].value == expert) {
                    continue;
                }
                throw Error(ErrorCode::input,
                            fmt::format("dispatch table, rank {}, layer {}, expert {}", rank, layer, expert),
                            fmt::format("names slot {}, which does not hold the expert", slot),
                            "the table was made for another layout: eplb-load table makes one for this");
            }
        }
    }
}

AdmittedLayout read_legal_layout(const std::string& path, std::optional<int> ranks, bool allow_no_manifest) {
    const auto file = MappedFile::open(path);
    AdmittedLayout read{{path, sha256_hex(file->bytes()), {}}, {}};
    read.manifest = find_manifest(path, read.file.sha256);
    std::optional<int> experts;
    if (read.manifest) {
        const Geometry& recorded = read.manifest->geometry;
        if (ranks && *ranks != recorded.ranks) {
            throw Error(ErrorCode::input, path,
                        fmt::format("was made for {} ranks, {} were asked for", recorded.ranks, *ranks),
                        "fit it again for this deployment");
        }
        ranks = recorded.ranks;
        experts = recorded.experts;
    } else if (!allow_no_manifest) {
        throw Error(ErrorCode::input, path, "has no manifest beside it, so that nobody knows what it was made for",
                    "copy the .manifest.json as well, or allow a layout without one");
    } else if (!ranks) {
        throw Error(ErrorCode::input, path, "has no manifest, and the number of ranks was not given");
    }
    try {
        read.file.layout = decode_layout(file->text(), *ranks, experts);
        if (read.manifest && (read.file.layout.geometry() != read.manifest->geometry ||
                              map_hash(read.file.layout) != read.manifest->map_hash)) {
            throw Error(ErrorCode::input, "", "holds another map than its manifest says", "copy both files again");
        }
        require_legal(read.file.layout);
    } catch (const Error& error) {
        throw error.inside(path);
    }
    return read;
}

}  // namespace eplb
