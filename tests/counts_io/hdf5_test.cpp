#ifdef EPLB_HAVE_HDF5
#include <hdf5.h>

#include <catch2/catch.hpp>
#include <functional>
#include <numeric>
#include <random>

#include "core/tensor_view.hpp"
#include "decode.hpp"
#include "files/hdf5.hpp"
#include "files/inflation.hpp"
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

TEST_CASE("links are not followed, and named with what they lead to") {
    const TemporaryFolder folder;
    hdf5_file(folder, {{"/logical_count", H5T_STD_I32LE, {2, 3, 4}}});
    const std::string path = folder.file("link.h5");
    hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_external("x.h5", "/logical_count", file, "/logical_count", H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
    CHECK(read_error(path).finding_code() == "UNSUPPORTED_FILE");
    CHECK_THAT(read_error(path).what(),
               Catch::Contains("/logical_count: is a link to /logical_count in another file, x.h5"));

    const std::string soft = hdf5_file(folder, {{"/run/1d", H5T_STD_I32LE, {4}}});
    file = H5Fopen(soft.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    H5Lcreate_soft("/run/1d", file, "/counts", H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
    CountOptions options;
    options.dataset = "counts";
    CHECK_THAT(read_error(soft, options).what(),
               Catch::Contains("/counts: is a soft link to /run/1d") && Catch::Contains("--dataset /run/1d"));
    CHECK(read_error(soft).finding_code() == "NOT_A_COUNT_FILE");
}

TEST_CASE("values in other files are refused with the name of the first") {
    const TemporaryFolder folder;
    const hsize_t shape[3] = {2, 3, 4};
    const auto error_with = [&](const std::function<void(hid_t creation, hid_t space)>& change) {
        const std::string path = folder.file("outside.h5");
        const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        const hid_t creation = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(3, shape, nullptr);
        change(creation, space);
        H5Dclose(H5Dcreate2(file, "/logical_count", H5T_STD_I32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
        H5Sclose(space);
        H5Pclose(creation);
        H5Fclose(file);
        return read_error(path);
    };
    const Error raw = error_with([](hid_t creation, hid_t) { H5Pset_external(creation, "values.raw", 0, 96); });
    CHECK(raw.finding_code() == "UNSUPPORTED_FILE");
    CHECK_THAT(raw.message(), Catch::Contains("values.raw"));
    const Error parts =
        error_with([](hid_t creation, hid_t space) { H5Pset_virtual(creation, space, "part0.h5", "/counts", space); });
    CHECK(parts.finding_code() == "UNSUPPORTED_FILE");
    CHECK_THAT(parts.message(), Catch::Contains("virtual") && Catch::Contains("part0.h5"));
    const Error filtered = error_with([&](hid_t creation, hid_t) {
        H5Pset_chunk(creation, 3, shape);
        H5Pset_filter(creation, 32000, H5Z_FLAG_OPTIONAL, 0, nullptr);  // LZF, which the library does not have
    });
    CHECK(filtered.finding_code() == "UNSUPPORTED_FILE");
    CHECK_THAT(filtered.what(), Catch::Contains("LZF (HDF5 filter 32000)") && Catch::Contains("gzip"));
}

TEST_CASE("a data set for each layer is not taken for passes") {
    const TemporaryFolder folder;
    using Paths = std::vector<std::string>;
    for (const Paths& paths : {Paths{"/layer_3", "/layer_4"}, Paths{"/0", "/1", "/2"},
                               Paths{"/layers/3/counts", "/layers/12/counts"}, Paths{"/a/Layer3", "/a/Layer4"}}) {
        for (const std::vector<hsize_t>& shape : {std::vector<hsize_t>{6, 4}, std::vector<hsize_t>{6, 1, 4}}) {
            std::vector<DataSet> data_sets;
            for (const std::string& path : paths) data_sets.push_back({path, H5T_STD_I32LE, shape});
            const std::string file = hdf5_file(folder, data_sets);
            CAPTURE(paths.front(), shape.size());
            CHECK(read_error(file).finding_code() == "UNSUPPORTED_FILE");
            CHECK_THAT(read_error(file).what(), Catch::Contains("for each layer") && Catch::Contains("N"));
            CountOptions options;
            options.dataset = paths.back();
            if (shape.size() == 3) {
                CHECK(read_count_file(file, options).tensor.shape == std::vector<std::int64_t>{6, 1, 4});
            } else {
                CHECK_THAT(read_error(file, options).message(), Catch::Contains("one layer of"));
            }
        }
    }
    // A number that is alone, or beside the only counts, says nothing.
    CHECK(read_count_file(hdf5_file(folder, {{"/run1", H5T_STD_I32LE, {2, 3, 4}}}), {}).tensor.numel() == 24);
    CHECK(read_count_file(hdf5_file(folder, {{"/counts", H5T_STD_I32LE, {2, 3, 4}},
                                             {"/times/0", H5T_STD_I32LE, {2}},
                                             {"/times/1", H5T_STD_I32LE, {2}}}),
                          {})
              .tensor.numel() == 24);
}

TEST_CASE("a data set holds no more than its file can") {
    const TemporaryFolder folder;
    const auto rows_that_fit = [&](hsize_t rows) {  // never written, so that the file stays small
        const std::string path = folder.file("sparse.h5");
        const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
        const hsize_t shape[3] = {rows, 1, 256}, chunk[3] = {1, 1, 256};
        H5Pset_chunk(creation, 3, chunk);
        const hid_t space = H5Screate_simple(3, shape, nullptr);
        H5Dclose(H5Dcreate2(file, "/logical_count", H5T_STD_I32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
        H5Sclose(space);
        H5Pclose(creation);
        H5Fclose(file);
        return path;
    };
    const std::uint64_t file_bytes = content_of(rows_that_fit(1)).size();
    const hsize_t most = max_inflated(file_bytes) / 1024;
    CHECK(read_count_file(rows_that_fit(most), {}).tensor.shape[0] == static_cast<std::int64_t>(most));
    CHECK(read_error(rows_that_fit(most + 1)).finding_code() == "BAD_GEOMETRY");
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
