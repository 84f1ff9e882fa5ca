// Torch files that are read: every way in which a counts tensor can be saved.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <numeric>

#include "decode.hpp"
#include "files/digest.hpp"
#include "torch_file.hpp"

using namespace eplb;

namespace {

const std::string data_24 = raw_bytes(ascending<std::int32_t>(24));

std::string recorder_file(const TensorSpec& spec, const std::string& data = data_24) {
    return torch_file(pickle(recorder_dict(spec.opcodes())), data);
}
std::string file_of(const std::string& opcodes, int protocol = 2) {
    return torch_file(pickle(opcodes, protocol), data_24);
}

}  // namespace

TEST_CASE("a recorder dump gives its counts, reduced, saved on the CPU") {
    const std::string bytes = recorder_file(TensorSpec::of({2, 3, 4}));
    const CountFile file = decode(bytes);
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

TEST_CASE("a stored record is used in place, without a copy") {
    const std::string bytes = recorder_file(TensorSpec::of({2, 3, 4}));
    const CountFile file = decode(bytes);
    const auto whole = file.source->bytes();
    CHECK(file.tensor.data > whole.data());
    CHECK(file.tensor.data < whole.data() + whole.size());
}

TEST_CASE("a 2-D tensor is one record slot, and no record slots are a shape too") {
    CHECK(decode(recorder_file(TensorSpec::of({6, 4}))).tensor.shape == std::vector<std::int64_t>{1, 6, 4});
    TensorSpec none = TensorSpec::of({0, 3, 4});
    none.strides = {12, 4, 1};
    CHECK(decode(recorder_file(none, "")).tensor.shape == std::vector<std::int64_t>{0, 3, 4});
}

TEST_CASE("every integer and float storage is read") {
    const auto one_row = [](const std::string& storage, const std::string& data) {
        TensorSpec spec = TensorSpec::of({1, 3});
        spec.storage = global("torch", storage);
        return decode(recorder_file(spec, data)).tensor;
    };
    const std::vector<std::int64_t> wanted = {1, 2, 3};
    CHECK(values_of(one_row("ByteStorage", "\1\2\3")) == wanted);
    CHECK(values_of(one_row("CharStorage", "\1\2\3")) == wanted);
    CHECK(values_of(one_row("ShortStorage", raw_bytes(ascending<std::int16_t>(3)))) == wanted);
    CHECK(values_of(one_row("IntStorage", raw_bytes(ascending<std::int32_t>(3)))) == wanted);
    CHECK(values_of(one_row("LongStorage", raw_bytes(ascending<std::int64_t>(3)))) == wanted);
    CHECK(values_of(one_row("FloatStorage", raw_bytes(ascending<float>(3)))) == wanted);
    CHECK(values_of(one_row("DoubleStorage", raw_bytes(ascending<double>(3)))) == wanted);
    const std::vector<std::uint16_t> halves = {0x3c00, 0x4000, 0x4200}, brains = {0x3f80, 0x4000, 0x4040};
    CHECK(values_of(one_row("HalfStorage", raw_bytes(halves))) == wanted);
    CHECK(values_of(one_row("BFloat16Storage", raw_bytes(brains))) == wanted);
    CHECK(one_row("BoolStorage", std::string("\1\0\1", 3)).dtype == DType::boolean);  // for the checks to refuse
}

TEST_CASE("types without a storage class come through _rebuild_tensor_v3 over untyped bytes") {
    TensorSpec spec = TensorSpec::of({1, 3});
    spec.constructor = global("torch._utils", "_rebuild_tensor_v3");
    spec.storage = global("torch.storage", "UntypedStorage");
    spec.elements = 6;  // bytes
    spec.more_arguments = global("torch", "uint16");
    const Tensor tensor = decode(recorder_file(spec, raw_bytes(ascending<std::uint16_t>(3)))).tensor;
    CHECK(tensor.dtype == DType::uint16);
    CHECK(values_of(tensor) == std::vector<std::int64_t>{1, 2, 3});

    spec.elements = 5;
    CHECK(decode_error(recorder_file(spec, "12345")).finding_code() == "BAD_GEOMETRY");
    spec.more_arguments = global("torch", "complex64");
    CHECK(decode_error(recorder_file(spec, "12345")).finding_code() == "UNKNOWN_GLOBAL");
}

TEST_CASE("tensors saved from an NPU give the same counts whatever their memory format argument is") {
    const std::string format = global("torch_npu.npu._format", "Format");
    const std::vector<std::string> arguments = {
        "\x88", pickled(std::int64_t{2}), format + "(" + pickled(std::int64_t{2}) + "tR",
        global("__builtin__", "getattr") + "(" + format + pickled("ND") + "tR",  // as Python 3.11 pickles an enum
    };
    for (const std::string& argument : arguments) {
        CAPTURE(argument);
        TensorSpec spec = TensorSpec::of({2, 3, 4});
        spec.constructor = global("torch_npu.utils.storage", "_rebuild_npu_tensor");
        spec.location = "npu:0";
        spec.more_arguments = argument;
        const CountFile file = decode(recorder_file(spec));
        CHECK(values_of(file.tensor) == one_to_24);
        CHECK(file.saved_on == "npu:0");
        CHECK(file.reduction == Reduction::reduced);
    }
    TensorSpec spec = TensorSpec::of({2, 3, 4});
    spec.constructor = global("torch_npu.utils.storage", "_rebuild_npu_tensor");
    spec.more_arguments = pickled("ND");
    CHECK(decode_error(recorder_file(spec)).finding_code() == "MALFORMED");
    spec.more_arguments = global("builtins", "getattr") + "(" + ordered_dict + pickled("ND") + "tR";
    CHECK(decode_error(recorder_file(spec)).finding_code() == "MALFORMED");
}

TEST_CASE("a storage may have been anywhere") {
    for (const std::string location : {"cpu", "cuda:7", "npu:15", "meta", "", "privateuseone:0"}) {
        TensorSpec spec = TensorSpec::of({2, 3, 4});
        spec.location = location;
        const CountFile file = decode(recorder_file(spec));
        CHECK(values_of(file.tensor) == one_to_24);
        CHECK(file.saved_on == location);
    }
}

TEST_CASE("offset and strides are honoured") {
    TensorSpec view;
    view.shape = {2, 3, 2};
    view.strides = {12, 4, 2};
    view.offset = 1;
    view.elements = 24;
    // Elements 1, 3 | 5, 7 | 9, 11 and 12 further on, of 1..24.
    CHECK(values_of(decode(recorder_file(view)).tensor) ==
          std::vector<std::int64_t>{2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24});

    TensorSpec transposed = TensorSpec::of({4, 6});
    transposed.shape = {6, 4};
    transposed.strides = {1, 6};
    const std::vector<std::int64_t> values = values_of(decode(recorder_file(transposed)).tensor);
    CHECK(std::vector<std::int64_t>(values.begin(), values.begin() + 5) == std::vector<std::int64_t>{1, 7, 13, 19, 2});
}

TEST_CASE("big-endian files are swapped") {
    std::vector<std::int32_t> swapped;
    for (const std::int32_t value : ascending<std::int32_t>(24)) {
        swapped.push_back(static_cast<std::int32_t>(__builtin_bswap32(static_cast<std::uint32_t>(value))));
    }
    const std::string text = pickle(recorder_dict(TensorSpec::of({2, 3, 4}).opcodes()));
    const auto with_order = [&](const std::string& order, const std::string& data) {
        return zip_of({{"a/data.pkl", text}, {"a/byteorder", order}, {"a/data/0", data}});
    };
    CHECK(values_of(decode(with_order("big", raw_bytes(swapped))).tensor) == one_to_24);
    CHECK(values_of(decode(with_order("little", data_24)).tensor) == one_to_24);
    CHECK(values_of(decode(zip_of({{"a/data.pkl", text}, {"a/data/0", data_24}})).tensor) == one_to_24);
    CHECK(decode_error(with_order("middle", data_24)).finding_code() == "MALFORMED");
}

TEST_CASE("counts are found in a dict, OrderedDict, list, tuple, parameter, or bare") {
    const std::string tensor = TensorSpec::of({2, 3, 4}).opcodes();
    const std::string parameter =
        global("torch._utils", "_rebuild_parameter") + "(" + tensor + "\x89" + ordered_dict + "tR";
    for (const std::string& body :
         {tensor, parameter, "](" + tensor + "e", "(" + tensor + "t", "]" + tensor + "a",
          dict({{"counts", tensor}, {"note", pickled("text")}}), ordered_dict + "(" + pickled("a") + tensor + "u"}) {
        const CountFile file = decode(file_of(body));
        CHECK(values_of(file.tensor) == one_to_24);
        CHECK(file.reduction == Reduction::unknown);  // nothing says that the ranks were summed
    }
    for (const std::string& body :
         {ordered_dict + "(" + pickled("logical_count") + tensor + "u", "](" + recorder_dict(tensor) + "e"}) {
        CHECK(decode(file_of(body)).reduction == Reduction::reduced);
    }
    CHECK(decode(file_of(tensor)).findings.empty());
    const CountFile chosen = decode(file_of("](" + tensor + "e"));
    REQUIRE(chosen.findings.size() == 1);
    CHECK(chosen.findings[0].code == "TENSOR_CHOSEN");
    CHECK(chosen.findings[0].where == "[0]");
}

TEST_CASE("of several tensors none is guessed, and --dataset names one") {
    const std::string first = TensorSpec::of({2, 3, 4}).opcodes(), second = TensorSpec::of({6, 4}).opcodes();
    const std::string bytes = file_of(dict({{"a", first}, {"b", second}, {"c", TensorSpec::of({24}).opcodes()}}));
    const Error error = decode_error(bytes);
    CHECK(error.finding_code() == "NOT_A_COUNT_FILE");
    CHECK_THAT(error.message(), Catch::Contains("2 tensors") && Catch::Contains("['a'] int32 [2, 3, 4]"));
    CountOptions options;
    options.dataset = "b";
    CHECK(decode(bytes, options).tensor.shape == std::vector<std::int64_t>{1, 6, 4});
    options.dataset = "z";
    CHECK(decode_error(bytes, options).finding_code() == "NOT_A_COUNT_FILE");
}

TEST_CASE("keys beside the recorder's own are noted, the recorder's are not") {
    const CountFile file = decode(file_of(
        dict({{"logical_count", TensorSpec::of({2, 3, 4}).opcodes()}, {"rank", "N"}, {"model", pickled("m")}})));
    REQUIRE(file.findings.size() == 1);
    CHECK(file.findings[0].code == "EXTRA_KEYS");
    CHECK(file.findings[0].severity == Severity::info);
    CHECK_THAT(file.findings[0].message, Catch::Contains("model"));
}

TEST_CASE("names in a file cannot write to the terminal or break JSON") {
    TensorSpec spec = TensorSpec::of({2, 3, 4});
    spec.location = "\x1b[31mnpu\xff";
    const CountFile file = decode(file_of(dict({{"logical_count", spec.opcodes()}, {"\x1b]0;x\a", pickled("text")}})));
    CHECK(file.saved_on == "?[31mnpu?");
    REQUIRE(file.findings.size() == 1);
    CHECK(file.findings[0].message == "key \"?]0;x?\" is not read");
}

TEST_CASE("protocols 2 to 5 are read, with frames, memo and short opcodes") {
    const std::string name = "\x8c\x0elogical_count_";  // SHORT_BINUNICODE
    const auto short_text = [](const std::string& text) {
        return "\x8c" + little_endian(text.size(), 1) + text + "\x94";  // MEMOIZE
    };
    const auto stack_global = [&](const std::string& module, const std::string& what) {
        return short_text(module) + short_text(what) + "\x93\x94";
    };
    const std::string tensor = stack_global("torch._utils", "_rebuild_tensor_v2") + "((" + short_text("storage") +
                               stack_global("torch", "IntStorage") + short_text("0") + short_text("cpu") +
                               pickled(std::int64_t{24}) + "t\x94Q" + pickled(std::int64_t{0}) + "K\2K\3K\4\x87" +
                               "K\x0cK\4K\1\x87\x89" + stack_global("collections", "OrderedDict") + ")R\x94t\x94R\x94";
    const std::string body = "}\x94(" + short_text("logical_count") + tensor + "u";
    for (const int protocol : {4, 5}) {
        const std::string framed = "\x95" + little_endian(body.size() + 1, 8) + body;
        CHECK(values_of(decode(file_of(framed, protocol)).tensor) == one_to_24);
    }
    // The same tensor stored in the memo and recalled.
    const std::string recalled =
        "}(" + pickled("logical_count") + TensorSpec::of({2, 3, 4}).opcodes() + "q\7" + pickled("again") + "h\7u";
    for (const int protocol : {2, 3}) CHECK(values_of(decode(file_of(recalled, protocol)).tensor) == one_to_24);
    for (const int protocol : {0, 1, 6}) {
        CHECK(decode_error(file_of(recalled, protocol)).finding_code() == "UNSUPPORTED_FILE");
    }
}

TEST_CASE("deflated records and zip64 directories are read") {
    const std::string text = pickle(recorder_dict(TensorSpec::of({2, 3, 4}).opcodes()));
    for (const bool zip64 : {false, true}) {
        for (const bool deflated : {false, true}) {
            const std::string bytes = zip_of({{"a/data.pkl", text, deflated}, {"a/data/0", data_24, deflated}}, zip64);
            CHECK(values_of(decode(bytes).tensor) == one_to_24);
        }
    }
}
