#include <catch2/catch.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "core/counts.hpp"
#include "counts_io/count_file.hpp"
#include "files/digest.hpp"
#include "files/error_of.hpp"
#include "torch_file.hpp"

using namespace eplb;

namespace {

CountFile decode(std::string_view bytes, const CountOptions& options = {}) {
    return decode_count_file(MappedFile::copy_of("x.pt", std::as_bytes(std::span(bytes))), options);
}
Error decode_error(std::string_view bytes, const CountOptions& options = {}) {
    return error_of([&] { decode(bytes, options); });
}

std::vector<std::int64_t> values_of(const Tensor& tensor) {  // of a 3-D tensor of whole numbers, row-major
    const Counts counts({tensor});
    std::vector<std::int64_t> values, row(static_cast<std::size_t>(counts.experts()));
    for (int slot = 0; slot < counts.record_slots(); ++slot) {
        for (int layer = 0; layer < counts.layers(); ++layer) {
            counts.read_row(slot, layer, row);
            values.insert(values.end(), row.begin(), row.end());
        }
    }
    return values;
}

std::vector<std::int32_t> ascending(int size) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(size));
    std::iota(values.begin(), values.end(), 1);
    return values;
}
const std::vector<std::int64_t> one_to_24 = [] {
    std::vector<std::int64_t> values(24);
    std::iota(values.begin(), values.end(), 1);
    return values;
}();
const std::string data_24 = raw_bytes(ascending(24));

std::string recorder_file(const TensorSpec& spec, const std::string& data = data_24) {
    return torch_file(pickle(recorder_dict(spec.opcodes())), data);
}

}  // namespace

TEST_CASE("a recorder dump gives its counts, reduced, saved on the CPU") {
    const std::string bytes = recorder_file(TensorSpec::of({2, 3, 4}));
    const CountFile file = decode(bytes);
    CHECK(file.path == "x.pt");
    CHECK(file.format == "pt");
    CHECK(file.bytes == static_cast<std::int64_t>(bytes.size()));
    CHECK(file.sha256 == sha256_hex(bytes));
    CHECK(file.tensor.dtype == DType::int32);
    CHECK(file.tensor.shape == std::vector<std::int64_t>{2, 3, 4});
    CHECK(values_of(file.tensor) == one_to_24);
    CHECK(file.reduction == Reduction::reduced);
    CHECK(file.saved_on == "cpu");
    CHECK(file.findings.empty());
}

TEST_CASE("an unknown callable is refused by name and byte, and nothing runs") {
    const Error error = decode_error(torch_file(pickle(global("os", "system") + "(" + pickled("true") + "tR"), ""));
    CHECK(error.finding_code() == "UNKNOWN_GLOBAL");
    CHECK_THAT(error.what(), Catch::Contains("os.system") && Catch::Contains("byte 2"));
}
