// Torch files that are refused, each for what is wrong with it.
#include <catch2/catch.hpp>
#include <random>

#include "decode.hpp"
#include "files/inflation.hpp"
#include "torch_file.hpp"

using namespace eplb;

namespace {

const std::string data_of_24(96, '\1');
const TensorSpec good = TensorSpec::of({2, 3, 4});

std::string good_file(const TensorSpec& spec, const std::string& data = data_of_24) {
    return torch_file(pickle(recorder_dict(spec.opcodes())), data);
}
Error geometry_error(const std::function<void(TensorSpec&)>& change) {
    TensorSpec spec = good;
    change(spec);
    return decode_error(good_file(spec));
}

}  // namespace

TEST_CASE("an unknown callable is refused by name and byte, and nothing runs") {
    const Error error = decode_error(torch_file(pickle(global("os", "system") + "(" + pickled("true") + "tR"), ""));
    CHECK(error.finding_code() == "UNKNOWN_GLOBAL");
    CHECK(error.code() == ErrorCode::input);
    CHECK_THAT(error.what(), Catch::Contains("os.system") && Catch::Contains("counts/data.pkl: byte 2"));
    const std::string stack_global = pickled("posix") + pickled("system") + "\x93";
    CHECK_THAT(decode_error(torch_file(pickle(stack_global, 4), "")).what(),
               Catch::Contains("posix.system") && Catch::Contains("byte 23"));
    // Neighbours of allowed names.
    for (const auto& [module, name] :
         std::vector<std::pair<std::string, std::string>>{{"torch", "load"},
                                                          {"torch._utils", "_rebuild_sparse_tensor"},
                                                          {"torch_npu", "npu"},
                                                          {"torch_npux", "_rebuild_npu_tensor"},
                                                          {"builtins", "eval"},
                                                          {"collections", "defaultdict"},
                                                          {"torch", "ComplexFloatStorage"}}) {
        CAPTURE(name);
        CHECK(decode_error(torch_file(pickle(global(module, name)), "")).finding_code() == "UNKNOWN_GLOBAL");
    }
    // A name must not write to the terminal.
    CHECK_THAT(decode_error(torch_file(pickle(global("\x1b[31m", "x")), "")).message(), !Catch::Contains("\x1b"));
}

TEST_CASE("geometry that does not fit the storage is refused with its numbers") {
    const Error beyond = geometry_error([](TensorSpec& spec) { spec.offset = 1; });
    CHECK(beyond.finding_code() == "BAD_GEOMETRY");
    CHECK_THAT(beyond.message(), Catch::Contains("reaches element 24 of a storage of 24"));
    constexpr std::int64_t huge = INT64_MAX;
    for (const auto& change : std::vector<std::function<void(TensorSpec&)>>{
             [](TensorSpec& spec) { spec.offset = -1; },
             [](TensorSpec& spec) { spec.offset = huge; },
             [](TensorSpec& spec) {
                 spec.shape = {2, 3, 5};
             },
             [](TensorSpec& spec) {
                 spec.shape = {2, -3, 4};
             },
             [](TensorSpec& spec) {
                 spec.strides = {12, -4, 1};
             },
             [](TensorSpec& spec) {
                 spec.shape = {huge, huge, huge};
             },
             [](TensorSpec& spec) {
                 spec.strides = {huge, huge, huge};
             },
             [](TensorSpec& spec) {
                 spec.shape = {2, 3};
             },
             [](TensorSpec& spec) { spec.elements = huge; },
             [](TensorSpec& spec) { spec.elements = -1; },
             [](TensorSpec& spec) { spec.elements = 25; },  // more than the record holds
             [](TensorSpec& spec) { spec.elements = 23; },
             [](TensorSpec& spec) {
                 spec.shape = {1'000'000'000, 1000, 1000}, spec.strides = {0, 0, 0};
             },
             [](TensorSpec& spec) { spec.storage = global("torch", "LongStorage"); },
         }) {
        CHECK(geometry_error(change).finding_code() == "BAD_GEOMETRY");
    }
    CHECK_NOTHROW(decode(good_file(good)));
}

TEST_CASE("a tensor of another rank is no count tensor") {
    CHECK(decode_error(good_file(TensorSpec::of({24}))).finding_code() == "BAD_GEOMETRY");
    CHECK(decode_error(good_file(TensorSpec::of({2, 3, 2, 2}))).finding_code() == "BAD_GEOMETRY");
    CHECK(decode_error(good_file(TensorSpec::of({}), std::string(4, '\1'))).finding_code() == "BAD_GEOMETRY");
}

TEST_CASE("an empty tensor cannot claim axes that cost hours to walk") {
    const auto empty = [](std::vector<std::int64_t> shape) {
        TensorSpec spec;
        spec.shape = std::move(shape);
        spec.strides = {1, 1, 1};
        return good_file(spec, "");
    };
    CHECK(decode_error(empty({2'147'483'647, 61, 0})).finding_code() == "BAD_GEOMETRY");
    CHECK(decode_error(empty({0, 5000, 4})).finding_code() == "BAD_GEOMETRY");
    CHECK(decode_error(empty({0, 61, 70'000})).finding_code() == "BAD_GEOMETRY");
    CHECK(decode(empty({0, 61, 256})).tensor.shape == std::vector<std::int64_t>{0, 61, 256});
}

TEST_CASE("any flipped byte of the counts is caught by the CRC-32") {
    const std::string bytes = good_file(good);
    const std::size_t data_at = bytes.find(data_of_24);
    for (std::size_t at = data_at; at < data_at + data_of_24.size(); ++at) {
        std::string flipped = bytes;
        flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
        CHECK(decode_error(flipped).finding_code() == "CRC_MISMATCH");
    }
}

TEST_CASE("a file cut at any byte is truncated, and where its pickle survives its size is known") {
    std::mt19937 noise(1);
    std::string data(4000, '\0');
    for (char& byte : data) byte = static_cast<char>(noise());
    const std::string bytes = good_file(TensorSpec::of({10, 10, 10}), data);
    const std::size_t pickle_end = bytes.find("PK\7\10");
    for (std::size_t size = 1; size < bytes.size(); ++size) {
        CAPTURE(size);
        const Error error = decode_error(std::string_view(bytes).substr(0, size));
        CHECK(error.code() == ErrorCode::input);
        CHECK(error.finding_code() == "TRUNCATED");
        CHECK_THAT(error.message(), Catch::Contains(std::to_string(size) + " bytes"));
        if (size >= pickle_end && size < 4000)
            CHECK_THAT(error.message(), Catch::Contains("int32 [10, 10, 10] alone needs 4000"));
    }
}

TEST_CASE("a file whose end was never written says how much of it is zero") {
    std::string bytes = good_file(TensorSpec::of({10, 10, 10}), std::string(4000, '\1'));
    const std::size_t size = bytes.size();
    std::fill(bytes.begin() + 2000, bytes.end(), '\0');
    const Error error = decode_error(bytes);
    CHECK(error.finding_code() == "TRUNCATED");
    CHECK_THAT(error.message(), Catch::Contains(std::to_string(size - 2000)) && Catch::Contains("zero"));
    CHECK(decode_error(std::string(1000, '\0')).finding_code() == "TRUNCATED");
}

TEST_CASE("files of other kinds are refused by name") {
    using namespace std::string_literals;
    const std::string legacy = "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20j\xa8P\x19.\x80\x02M\xe9\x03."s;
    CHECK(decode_error(legacy).finding_code() == "LEGACY_FORMAT");
    CHECK_THAT(decode_error(legacy).hint(), Catch::Contains("torch.save"));
    CHECK(decode_error("\x80\x04K\1."s).finding_code() == "NOT_A_COUNT_FILE");
    CHECK(decode_error("some text\n").finding_code() == "NOT_A_COUNT_FILE");
    CHECK(decode_error("").finding_code() == "EMPTY_FILE");
    CHECK_THAT(decode_error("version https://git-lfs.github.com/spec/v1\n").message(), Catch::Contains("Git LFS"));
    CHECK_THAT(decode_error("\x1f\x8b\x08\0"s).message(), Catch::Contains("gzip"));
    CHECK_THAT(decode_error(zip_of({{"logical_count.npy", "x"}})).hint(), Catch::Contains(".npz"));
    CHECK(decode_error(zip_of({})).finding_code() == "NOT_A_COUNT_FILE");
    CHECK_THAT(decode_error(zip_of({{"a/data.pkl", "x"}, {"a/constants.pkl", "x"}})).message(),
               Catch::Contains("TorchScript"));
    CountOptions options;
    options.format = "pt";
    CHECK(decode_error("some text\n", options).finding_code() == "NOT_A_COUNT_FILE");
    options.format = "csv";
    CHECK(decode_error("some text\n", options).code() == ErrorCode::usage);
}

TEST_CASE("a layout is told from counts") {
    const std::string tensor = good.opcodes();
    CHECK_THAT(decode_error(torch_file(pickle(dict({{"physical_to_logical_map", tensor}})), data_of_24)).message(),
               Catch::Contains("layout"));
    CHECK(decode_error(torch_file(pickle(dict({{"logical_count", "N"}})), data_of_24)).finding_code() ==
          "NOT_A_COUNT_FILE");
}

TEST_CASE("pickles that break the machine's rules are refused") {
    for (const std::string& body :
         {std::string("0"), std::string("R"), std::string("t"), std::string("h\1"), std::string("(("),
          std::string("NN"), std::string(""), std::string("Na"), std::string("N)R"), std::string("}(Nu"),
          std::string("X\xff\xff\xff\xff"), std::string("\x8e\xff\xff\xff\xff\xff\xff\xff\xff"), std::string("Q"),
          std::string("N}b"), std::string("cos"), std::string("I1\n"), std::string("(K\1K\2d0"),
          std::string("\x8a\xff")}) {
        CAPTURE(body);
        const Error error = decode_error(torch_file(pickle(body), ""));
        CHECK(error.code() == ErrorCode::input);
        CHECK((error.finding_code() == "MALFORMED" || error.finding_code() == "UNSUPPORTED_FILE"));
    }
}

TEST_CASE("a pickle that would blow up is refused before it does") {
    // A list that holds itself twice, thirty levels deep by recall: 2^30 walks if nobody counted.
    std::string body = "]q\1";
    for (int level = 1; level < 7; ++level) {
        body += "](";
        for (int copy = 0; copy < 64; ++copy) body += "h" + std::string(1, static_cast<char>(level));
        body += "eq" + std::string(1, static_cast<char>(level + 1));
    }
    std::string nested = "](";
    nested += body + "e";
    std::string pops;
    CHECK(decode_error(torch_file(pickle(body), "")).code() == ErrorCode::input);
    CHECK(decode_error(torch_file(pickle(nested), "")).code() == ErrorCode::input);
    // A list that contains itself.
    CHECK(decode_error(torch_file(pickle("]q\1h\1a"), "")).code() == ErrorCode::input);
    // 300,000 opcodes; a deep nest that a recursive destructor would not survive.
    std::string deep;
    for (int level = 0; level < 100'000; ++level) deep += "](";
    for (int level = 0; level < 100'000; ++level) deep += "e";
    CHECK(decode_error(torch_file(pickle(deep), "")).code() == ErrorCode::input);
}

TEST_CASE("a text key stands once in a dict, and is no longer than a key") {
    const std::string value = good.opcodes();
    CHECK(decode_error(torch_file(pickle(dict({{"logical_count", value}, {"logical_count", value}})), data_of_24))
              .finding_code() == "MALFORMED");
    const auto with_key = [&](std::size_t size) {
        return torch_file(pickle(dict({{"logical_count", value}, {std::string(size, 'k'), "N"}})), data_of_24);
    };
    CHECK(decode(with_key(1024)).findings.at(0).message.size() < 120);
    CHECK_THAT(decode_error(with_key(1025)).message(), Catch::Contains("a key of 1025 bytes"));
}

TEST_CASE("of many keys beside the counts the first are named and the others counted") {
    std::vector<std::pair<std::string, std::string>> items{{"logical_count", good.opcodes()}};
    for (int key = 0; key < 20; ++key) items.emplace_back("k" + std::to_string(key), "N");
    const std::vector<Finding> findings = decode(torch_file(pickle(dict(items)), data_of_24)).findings;
    REQUIRE(findings.size() == 17);
    CHECK(findings[15].message == "key \"k15\" is not read");
    CHECK(findings[16].message == "4 more keys are not read");
}

TEST_CASE("a storage's key and device are short") {
    TensorSpec spec = good;
    spec.location = std::string(256, 'x');
    CHECK(decode(good_file(spec)).saved_on == spec.location);
    spec.location += 'x';
    CHECK_THAT(decode_error(good_file(spec)).message(), Catch::Contains("storage location of 257 bytes"));
}

TEST_CASE("members are not inflated beyond what their file may hold") {
    const auto claim = [&](std::int64_t size) {
        return zip_of({{"a/data.pkl", pickle(recorder_dict(good.opcodes()))}, {"a/data/0", data_of_24, true, size}});
    };
    const auto most = static_cast<std::int64_t>(max_inflated(claim(1).size()));
    CHECK(most == (1 << 26) + 100 * static_cast<std::int64_t>(claim(1).size()));
    CHECK_THAT(decode_error(claim(most)).message(), Catch::Contains("its storage claims 96"));
    CHECK_THAT(decode_error(claim(most + 1)).message(), Catch::Contains("inflate to more than"));
    // All members together.
    const std::string two = zip_of({{"a/data.pkl", pickle(recorder_dict(good.opcodes()))},
                                    {"a/data/0", data_of_24, true, 1 << 26},
                                    {"a/data/1", data_of_24, true, 1 << 26}});
    CHECK_THAT(decode_error(two).message(), Catch::Contains("\"a/data/1\" inflate to more than"));
}

TEST_CASE("members that overlap are refused") {
    // Both claim the bytes of the second: together more than stands before the directory.
    std::string file = zip_of({{"a/data.pkl", pickle(recorder_dict(good.opcodes()))}, {"a/data/0", data_of_24}});
    const std::size_t first = file.find("PK\1\2");
    const auto room = static_cast<std::uint64_t>(first);
    CHECK(decode(file).tensor.numel() == 24);
    file.replace(first + 20, 8, little_endian(room - 96, 4) + little_endian(room - 96, 4));
    CHECK_THAT(decode_error(file).message(), !Catch::Contains("overlap"));
    file.replace(first + 20, 8, little_endian(room - 95, 4) + little_endian(room - 95, 4));
    CHECK_THAT(decode_error(file).message(), Catch::Contains("overlap"));
}

TEST_CASE("zip archives with lies in their directory are refused") {
    const std::string text = pickle(recorder_dict(good.opcodes()));
    CHECK(decode_error(zip_of({{"a/data.pkl", text}, {"a/data.pkl", text}, {"a/data/0", data_of_24}})).finding_code() ==
          "MALFORMED");
    CHECK(decode_error(zip_of({{"a/data.pkl", text}})).finding_code() == "MALFORMED");  // the record is missing
    CHECK(decode_error(zip_of({{"a/data.pkl", text}, {"b/data.pkl", text}})).finding_code() == "MALFORMED");
    for (const bool zip64 : {false, true}) {
        CHECK(decode_error(zip_of({{"a/data.pkl", text}, {"a/data/0", data_of_24, false, 95}}, zip64)).code() ==
              ErrorCode::input);
        CHECK(decode_error(zip_of({{"a/data.pkl", text}, {"a/data/0", data_of_24, false, 1 << 30}}, zip64)).code() ==
              ErrorCode::input);
        // A deflated pickle of claimed gigabytes.
        CHECK(decode_error(zip_of({{"a/data.pkl", text, true, 1LL << 25}, {"a/data/0", data_of_24}}, zip64))
                  .finding_code() == "MALFORMED");
        CHECK(decode_error(zip_of({{"a/data.pkl", text, true, 1LL << 27}, {"a/data/0", data_of_24}}, zip64))
                  .finding_code() == "BAD_GEOMETRY");
    }
    std::string encrypted = zip_of({{"a/data.pkl", text}, {"a/data/0", data_of_24}});
    encrypted[encrypted.find("PK\1\2") + 8] |= 1;
    CHECK(decode_error(encrypted).finding_code() == "UNSUPPORTED_FILE");
    std::string method = zip_of({{"a/data.pkl", text}, {"a/data/0", data_of_24}});
    method[method.find("PK\1\2") + 10] = 14;
    CHECK(decode_error(method).finding_code() == "UNSUPPORTED_FILE");
}

TEST_CASE("mutated torch files are either refused or give the same counts") {
    const std::string text = pickle(recorder_dict(good.opcodes()));
    std::mt19937 random(2026);
    for (const std::string& bytes :
         {zip_of({{"a/data.pkl", text}, {"a/byteorder", "little"}, {"a/data/0", data_of_24}}),
          zip_of({{"a/data.pkl", text, true}, {"a/data/0", data_of_24, true}}, true)}) {
        const std::vector<std::int64_t> wanted = values_of(decode(bytes).tensor);
        int refused = 0;
        for (int round = 0; round < 4000; ++round) {
            std::string mutated = bytes;
            const int changes = 1 + static_cast<int>(random() % 3);
            for (int change = 0; change < changes; ++change) {
                mutated[random() % mutated.size()] = static_cast<char>(random() % 4 ? random() : 0xff);
            }
            try {
                const std::vector<std::int64_t> values = values_of(decode(mutated).tensor);
                if (values != wanted) FAIL("round " << round << " gives other counts");
            } catch (const Error& error) {
                ++refused;
                if (error.code() != ErrorCode::input || error.finding_code().empty()) FAIL(error.what());
            }
        }
        CHECK(refused > 1000);
    }
}
