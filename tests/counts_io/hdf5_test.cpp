#ifdef EPLB_HAVE_HDF5
#include <hdf5.h>

#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "core/tensor_view.hpp"
#include "decode.hpp"
#include "files/hdf5.hpp"
#include "files/temporary_folder.hpp"

using namespace eplb;

namespace {

struct DataSet {
    std::string path;
    hid_t stored_type;
    std::vector<hsize_t> shape;
};

// Writes int32 values 1, 2, ... into every data set, converted to its stored type.
std::string hdf5_file(const TemporaryFolder& folder, const std::vector<DataSet>& data_sets, unsigned gzip = 0) {
    const std::string path = folder.file("x.h5");
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    for (const DataSet& data_set : data_sets) {
        std::size_t size = 1;
        for (const hsize_t extent : data_set.shape) size *= extent;
        std::vector<std::int32_t> values(size);
        std::iota(values.begin(), values.end(), 1);
        const hid_t links = H5Pcreate(H5P_LINK_CREATE), creation = H5Pcreate(H5P_DATASET_CREATE);
        H5Pset_create_intermediate_group(links, 1);
        if (gzip) {
            H5Pset_chunk(creation, static_cast<int>(data_set.shape.size()), data_set.shape.data());
            H5Pset_deflate(creation, gzip);
        }
        const hid_t space = H5Screate_simple(static_cast<int>(data_set.shape.size()), data_set.shape.data(), nullptr);
        const hid_t id =
            H5Dcreate2(file, data_set.path.c_str(), data_set.stored_type, space, links, creation, H5P_DEFAULT);
        if (H5Tget_class(data_set.stored_type) != H5T_STRING) {
            H5Dwrite(id, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
        }
        H5Dclose(id);
        H5Sclose(space);
        H5Pclose(creation);
        H5Pclose(links);
    }
    H5Fclose(file);
    return path;
}

Error read_error(const std::string& path, const CountOptions& options = {}) {
    return error_of([&] { read_count_file(path, options); });
}

}  // namespace

TEST_CASE("integers and floats of every size and byte order are read from a path and from memory") {
    const TemporaryFolder folder;
    for (const hid_t type : {H5T_STD_I32LE, H5T_STD_I32BE, H5T_STD_U8LE, H5T_STD_I8LE, H5T_STD_U16BE, H5T_STD_I16LE,
                             H5T_STD_U32LE, H5T_STD_I64LE, H5T_STD_U64BE, H5T_IEEE_F32LE, H5T_IEEE_F64BE}) {
        const std::string path = hdf5_file(folder, {{"/logical_count", type, {2, 3, 4}}});
        const CountFile file = read_count_file(path, {});
        CHECK(file.format == "h5");
        CHECK(values_of(file.tensor) == one_to_24);
        CHECK(file.reduction == Reduction::unknown);
        CHECK(file.findings.empty());
        CHECK(values_of(decode(content_of(path)).tensor) == one_to_24);
    }
    CHECK(values_of(read_count_file(hdf5_file(folder, {{"/logical_count", H5T_STD_I32LE, {2, 3, 4}}}, 9), {}).tensor) ==
          one_to_24);
    CHECK(read_count_file(hdf5_file(folder, {{"/logical_count", H5T_STD_I32LE, {6, 4}}}), {}).tensor.shape ==
          std::vector<std::int64_t>{1, 6, 4});
}

TEST_CASE("without /logical_count the only integer data set with three axes is taken, and said so") {
    const TemporaryFolder folder;
    const CountFile file = read_count_file(
        hdf5_file(folder, {{"/run/counts", H5T_STD_I32LE, {2, 3, 4}}, {"/run/times", H5T_STD_I64LE, {2}}}), {});
    CHECK(values_of(file.tensor) == one_to_24);
    REQUIRE(file.findings.size() == 1);
    CHECK(file.findings[0].code == "TENSOR_CHOSEN");
    CHECK(file.findings[0].where == "/run/counts");
}

TEST_CASE("of several data sets none is guessed, and --dataset names one") {
    const TemporaryFolder folder;
    const std::string path = hdf5_file(folder, {{"/a", H5T_STD_I32LE, {2, 3, 4}}, {"/b", H5T_STD_I32LE, {1, 6, 4}}});
    CHECK(read_error(path).finding_code() == "NOT_A_COUNT_FILE");
    CHECK_THAT(read_error(path).hint(), Catch::Contains("/a, /b"));
    CountOptions options;
    options.dataset = "b";
    CHECK(read_count_file(path, options).tensor.shape == std::vector<std::int64_t>{1, 6, 4});
    options.dataset = "/c";
    CHECK(read_error(path, options).finding_code() == "NOT_A_COUNT_FILE");
}

TEST_CASE("strings are no counts, and a data set that claims more than it stores is refused") {
    const TemporaryFolder folder;
    CHECK(read_error(hdf5_file(folder, {{"/logical_count", H5T_C_S1, {2, 3, 4}}})).finding_code() ==
          "UNSUPPORTED_TYPE");
    // 2^40 elements, none of them ever written.
    const std::string path = folder.file("huge.h5");
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t shape[3] = {1 << 20, 1 << 10, 1 << 10}, chunk[3] = {1, 1, 1024};
    H5Pset_chunk(creation, 3, chunk);
    const hid_t space = H5Screate_simple(3, shape, nullptr);
    H5Dclose(H5Dcreate2(file, "/logical_count", H5T_STD_I32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
    H5Sclose(space);
    H5Pclose(creation);
    H5Fclose(file);
    CHECK(read_error(path).finding_code() == "BAD_GEOMETRY");
}

TEST_CASE("links into other files are not followed") {
    const TemporaryFolder folder;
    hdf5_file(folder, {{"/logical_count", H5T_STD_I32LE, {2, 3, 4}}});
    const std::string path = folder.file("link.h5");
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_external(folder.file("x.h5").c_str(), "/logical_count", file, "/logical_count", H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
    CHECK(read_error(path).finding_code() == "NOT_A_COUNT_FILE");
}

TEST_CASE("a flipped byte under Fletcher32 is caught") {
    const std::vector<std::int32_t> values(24, 0x01010101);
    const std::vector<std::byte> encoded = encode_counts("h5", view_of(values, {2, 3, 4}));
    std::string bytes(reinterpret_cast<const char*>(encoded.data()), encoded.size());
    const std::size_t at = bytes.find(std::string(96, '\1'));
    REQUIRE(at != std::string::npos);
    CHECK(values_of(decode(bytes).tensor) == std::vector<std::int64_t>(24, 0x01010101));
    bytes[at + 50] = '\3';
    CHECK(decode_error(bytes).finding_code() == "CRC_MISMATCH");
}

TEST_CASE("HDF5 files cut anywhere are refused, and mutated ones are decoded or refused") {
    const std::vector<std::int32_t> values(24, 5);
    const std::vector<std::byte> encoded = encode_counts("h5", view_of(values, {2, 3, 4}));
    const std::string bytes(reinterpret_cast<const char*>(encoded.data()), encoded.size());
    // Every reading forks a child: a prime step over the file keeps the test short.
    for (std::size_t size = 1; size < bytes.size(); size += 97) {
        CAPTURE(size);
        const Error error = decode_error(bytes.substr(0, size));
        CHECK(error.code() == ErrorCode::input);
        CHECK(error.finding_code() == "TRUNCATED");
    }
    std::mt19937 random(5);
    int refused = 0;
    for (int round = 0; round < 60; ++round) {
        std::string mutated = bytes;
        for (int change = 0; change < 4; ++change) mutated[8 + random() % 2000] = static_cast<char>(random());
        try {
            decode(mutated);
        } catch (const Error& error) {
            ++refused;
            if (error.code() != ErrorCode::input || error.finding_code().empty()) FAIL(error.what());
        }
    }
    CHECK(refused > 5);
}
#endif
