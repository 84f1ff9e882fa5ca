#include "layout_io/dispatch_file.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "core/random.hpp"

using namespace eplb;

namespace {

class Folder {
  public:
    Folder() : path_(std::filesystem::temp_directory_path() / fmt::format("eplb_table_{}", static_cast<void*>(this))) {
        std::filesystem::create_directories(path_);
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string write(const std::string& name, std::string_view bytes) const {
        const std::string path = (path_ / name).string();
        std::ofstream(path, std::ios::binary) << bytes;
        return path;
    }

  private:
    std::filesystem::path path_;
};

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

DispatchTable some_table() {
    DispatchTable table(2, 2, 3);
    for (std::size_t i = 0; i < table.slots.size(); ++i) table.slots[i] = SlotId{static_cast<int>(i * 7 % 4)};
    return table;
}

}  // namespace

TEST_CASE("a table written as .npy or .json is read back as it was") {
    const Folder folder;
    for (const char* name : {"t.npy", "t.json"}) {
        const std::string path = folder.write(name, text_of(encode_dispatch_table(some_table(), name)));
        CHECK(read_dispatch_table(path).table == some_table());
        CHECK(read_dispatch_table(path).sha256.size() == 64);
    }
    CHECK_THROWS_AS(encode_dispatch_table(some_table(), "t.txt"), Error);
    CHECK(text_of(encode_dispatch_table(some_table(), "t.json")) ==
          "{\"dispatch_table\": [\n[[0, 3, 2],\n[1, 0, 3]],\n[[2, 1, 0],\n[3, 2, 1]]\n]}\n");
}

TEST_CASE("what is no dispatch table is refused with its place") {
    const Folder folder;
    const auto refusal = [&](std::string_view text) -> std::string {
        try {
            read_dispatch_table(folder.write("t.json", text));
        } catch (const Error& error) {
            CHECK(error.code() == ErrorCode::input);
            return error.what();
        }
        return "accepted";
    };
    CHECK(refusal(R"({"dispatch_table": [[[0, 1]]]})") == "accepted");
    CHECK(refusal(R"({"dispatch_table": [[[0, 1]], [[0]]]})").find("$.dispatch_table[1][0]") != std::string::npos);
    CHECK(refusal(R"({"dispatch_table": [[[0, 1]], []]})").find("has 0 layers") != std::string::npos);
    CHECK(refusal(R"({"dispatch_table": [[[0, 1.5]]]})").find("$.dispatch_table[0][0][1]") != std::string::npos);
    for (const char* text :
         {R"({"dispatch_table": []})", R"({"dispatch_table": [[]]})", R"({"dispatch_table": [[[]]]})",
          R"({"dispatch_table": 3})", R"({})", R"([])", "", R"({"dispatch_table": [[[0]]], "more": 1})"}) {
        CHECK(refusal(text) != "accepted");
    }
}

TEST_CASE("an entry that no layout has is read as -1, for the check to refuse") {
    const Folder folder;
    const auto file = read_dispatch_table(folder.write("t.json", R"({"dispatch_table": [[[-7, 4294967296, 3]]]})"));
    CHECK(file.table.slots == std::vector<SlotId>{SlotId{-1}, SlotId{-1}, SlotId{3}});
}

TEST_CASE("a table cut at any byte, or with any byte changed, is an error or a table") {
    const Folder folder;
    Random random(1);
    for (const char* name : {"t.npy", "t.json"}) {
        const std::string whole = text_of(encode_dispatch_table(some_table(), name));
        for (std::size_t size = 0; size < whole.size(); ++size) {
            const std::string path = folder.write(name, std::string_view(whole).substr(0, size));
            if (whole.find_first_not_of(" \n", size) == std::string::npos) continue;
            CHECK_THROWS_AS(read_dispatch_table(path), Error);
        }
        for (std::size_t at = 0; at < whole.size(); ++at) {
            std::string changed = whole;
            changed[at] = static_cast<char>(changed[at] ^ (1 << random.below(8)));
            try {
                read_dispatch_table(folder.write(name, changed));
            } catch (const Error& error) {
                CHECK(error.code() == ErrorCode::input);
            }
        }
    }
}

TEST_CASE("a table's manifest ties it to its layout") {
    const Folder folder;
    const std::string path = folder.write("t.npy", text_of(encode_dispatch_table(some_table(), "t.npy")));
    const DispatchFile file = read_dispatch_table(path);
    const std::string layout_hash(64, 'a');
    CHECK(!find_dispatch_table_manifest(file, layout_hash));

    DispatchTableManifest manifest{layout_hash, file.sha256, 2, 2, 3, "sglang-c", 2, 1, 1, 1, "0.1.0", "unknown"};
    CHECK(dispatch_table_manifest_path(path).ends_with("t.manifest.json"));
    folder.write("t.manifest.json", encode_dispatch_table_manifest(manifest));
    const auto found = find_dispatch_table_manifest(file, layout_hash);
    REQUIRE(found);
    CHECK(encode_dispatch_table_manifest(*found) == encode_dispatch_table_manifest(manifest));
    manifest.moe_tensor_parallel = 2;
    manifest.pipeline_stages = 4;
    const DispatchTableManifest in_world = decode_dispatch_table_manifest(encode_dispatch_table_manifest(manifest));
    CHECK(in_world.moe_tensor_parallel == 2);
    CHECK(in_world.pipeline_stages == 4);
    const auto refused_as = [&](const std::string& hash) -> std::string {
        try {
            find_dispatch_table_manifest(file, hash);
        } catch (const Error& error) {
            return error.finding_code();
        }
        return "accepted";
    };
    CHECK(refused_as(layout_hash) == "accepted");
    CHECK(refused_as(std::string(64, 'b')) == "TABLE_MISMATCH");
    manifest.table_sha256 = std::string(64, 'c');
    folder.write("t.manifest.json", encode_dispatch_table_manifest(manifest));
    CHECK(refused_as(layout_hash) == "TABLE_MISMATCH");

    const std::string text = encode_dispatch_table_manifest(manifest);
    std::string more = text;
    more.insert(1, "\"more\": 1, ");
    CHECK_THROWS_AS(decode_dispatch_table_manifest(more), Error);
    CHECK_THROWS_AS(decode_dispatch_table_manifest(std::string_view(text).substr(0, text.size() / 2)), Error);
}

TEST_CASE("source weights are one amount for every rank") {
    const Folder folder;
    CHECK(read_source_weights(folder.write("w.json", "[1, 2.5, 0]"), 3) == std::vector<double>{1, 2.5, 0});
    for (const char* text : {"[1, 2]", "[1, 2, 3, 4]", "[1, 2, -1]", "[1, 2, \"3\"]", "{}", ""}) {
        CHECK_THROWS_AS(read_source_weights(folder.write("w.json", text), 3), Error);
    }
}
