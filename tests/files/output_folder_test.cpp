#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "core/error.hpp"
#include "error_of.hpp"
#include "files/digest.hpp"
#include "files/output_folder.hpp"
#include "temporary_folder.hpp"

using namespace eplb;

namespace {

WrittenFile write_one(const std::string& path, bool force, const std::string& text) {
    OutputFolder folder(path, force);
    folder.open("x.bin");
    folder.write(text.substr(0, text.size() / 2));
    folder.write(text.substr(text.size() / 2));
    const WrittenFile written = folder.close();
    folder.commit();
    return written;
}

}  // namespace

TEST_CASE("a committed folder holds its files and its neighbour is gone") {
    const TemporaryFolder parent;
    const WrittenFile written = write_one(parent.file("out"), false, "some text");
    CHECK(content_of(parent.file("out/x.bin")) == "some text");
    CHECK(written.sha256 == sha256_hex(std::string_view("some text")));
    CHECK(written.bytes == 9);
    CHECK(parent.names() == std::set<std::string>{"out"});
}

TEST_CASE("a folder that is not committed leaves nothing, whatever was open") {
    const TemporaryFolder parent;
    {
        OutputFolder folder(parent.file("out"), false);
        folder.open("x.bin");
        folder.write(std::string_view("half"));
    }
    CHECK(parent.names().empty());
}

TEST_CASE("an existing folder is refused without force and replaced as a whole with it") {
    const TemporaryFolder parent;
    write_one(parent.file("out"), false, "old");
    std::filesystem::create_directory(parent.file("out/kept-by-nobody"));
    CHECK(error_of([&] { write_one(parent.file("out"), false, "new"); }).code() == ErrorCode::output);
    CHECK(content_of(parent.file("out/x.bin")) == "old");
    write_one(parent.file("out/"), true, "new");
    CHECK(content_of(parent.file("out/x.bin")) == "new");
    CHECK_FALSE(std::filesystem::exists(parent.file("out/kept-by-nobody")));
    CHECK(parent.names() == std::set<std::string>{"out"});
}

TEST_CASE("a folder that appears while we write wins") {
    const TemporaryFolder parent;
    OutputFolder folder(parent.file("out"), false);
    std::filesystem::create_directory(parent.file("out"));
    CHECK(error_of([&] { folder.commit(); }).code() == ErrorCode::output);
}

TEST_CASE("what a killed writer left is removed by the next one, what a living one writes is not") {
    const TemporaryFolder parent;
    std::filesystem::create_directory(parent.file(".out.0123456789abcdef.tmp"));
    std::filesystem::create_directory(parent.file(".out.keep.tmp"));
    std::filesystem::create_directory(parent.file(".other.0123456789abcdef.tmp"));
    OutputFolder living(parent.file("out"), false);
    CHECK_FALSE(parent.names().contains(".out.0123456789abcdef.tmp"));
    write_one(parent.file("out"), false, "some text");
    CHECK(parent.names().size() == 4);  // out, the living one's, and two that are none of ours
    CHECK(std::filesystem::exists(living.temporary()));
    CHECK_THROWS_AS(living.commit(), Error);  // the other was first
}

TEST_CASE("a folder that does not exist cannot hold an output folder") {
    const TemporaryFolder parent;
    CHECK_THAT(error_of([&] { OutputFolder folder(parent.file("none/out"), false); }).what(),
               Catch::Contains("none/out") && Catch::Contains("make its folder first"));
}

TEST_CASE("a digest of pieces is the digest of the whole") {
    Sha256 digest;
    digest.update(std::as_bytes(std::span(std::string_view("ab"))));
    digest.update({});
    digest.update(std::as_bytes(std::span(std::string_view("c"))));
    // FIPS 180-2, appendix B.1
    CHECK(digest.hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
