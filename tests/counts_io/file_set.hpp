// Count files under names of their own in a temporary folder, for readers that look at names and neighbours.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "counts_io/count_file.hpp"
#include "files/error_of.hpp"
#include "files/temporary_folder.hpp"

namespace eplb {

class FileSet {
  public:
    std::string add(const std::string& name, std::string_view content) const { return folder_.write(name, content); }
    const std::filesystem::path& path() const { return folder_.path(); }
    CountFile read(const std::string& name, std::string_view content, const CountOptions& options = {}) const {
        return read_count_file(add(name, content), options);
    }
    Error refused(const std::string& name, std::string_view content, const CountOptions& options = {}) const {
        return error_of([&] { read(name, content, options); });
    }

  private:
    TemporaryFolder folder_;
};

inline CountOptions with_experts(int experts) {
    CountOptions options;
    options.experts = experts;
    return options;
}
inline CountOptions with_layout(const std::string& path) {
    CountOptions options;
    options.recorded_layout = path;
    return options;
}

// The first finding with `code`, or null.
inline const Finding* finding_in(const CountFile& file, std::string_view code) {
    for (const Finding& finding : file.findings) {
        if (finding.code == code) return &finding;
    }
    return nullptr;
}

}  // namespace eplb
