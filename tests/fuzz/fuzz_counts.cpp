// Feeds arbitrary bytes to one count reader: it may only return counts or throw Error{input} with a finding code. The
// target "pickle" wraps the bytes into a torch file with true checksums, which mutation would hardly find.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/counts.hpp"
#include "counts_io/count_file.hpp"
#include "files/zip.hpp"

namespace {

using namespace eplb;

std::vector<std::byte> torch_file(std::span<const std::byte> pickle) {
    ZipWriter archive;
    archive.add("a/data.pkl", pickle);
    archive.add("a/data/0", std::string(96, '\1'));
    return archive.finish();
}

void touch_every_value(const Tensor& tensor) {
    const Counts counts({tensor});
    std::vector<std::int64_t> row(static_cast<std::size_t>(counts.experts()));
    for (int slot = 0; slot < counts.record_slots(); ++slot) {
        for (int layer = 0; layer < counts.layers(); ++layer) {
            try {
                counts.read_row(slot, layer, row);
            } catch (const Error&) {
                // Values that are no counts are for the checks, not the readers.
            }
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    constexpr std::string_view target = EPLB_FUZZED_FORMAT;
    const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
    CountOptions options;
    options.format = target == "pickle" ? "pt" : target;
    if (target == "msit-csv" || target == "omni-txt" || target == "xllm-prefix")
        options.experts = 4;  // else every input is asked for a layout
    try {
        const auto file = target == "pickle" ? MappedFile::copy_of("input", torch_file(bytes))
                                             : MappedFile::copy_of("input_rank_1", bytes);
        touch_every_value(decode_count_file(file, options).tensor);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::input || error.finding_code().empty()) std::abort();
    }
    return 0;
}
