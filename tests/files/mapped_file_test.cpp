#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "error_of.hpp"
#include "files/digest.hpp"
#include "files/mapped_file.hpp"
#include "temporary_folder.hpp"

using namespace eplb;

TEST_CASE("a file, a copy and a pipe give the same bytes, also under their reopen path") {
    const TemporaryFolder folder;
    const std::string text(100'000, 'a'), path = folder.write("x", text);
    CHECK(MappedFile::open(path)->text() == text);
    CHECK(content_of(MappedFile::open(path)->reopen_path()) == text);

    const auto copy = MappedFile::copy_of("x", std::as_bytes(std::span(text)));
    CHECK(copy->text() == text);
    CHECK(content_of(copy->reopen_path()) == text);

    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    REQUIRE(::write(ends[1], "piped", 5) == 5);
    ::close(ends[1]);
    const auto pipe = MappedFile::open("/proc/self/fd/" + std::to_string(ends[0]));
    ::close(ends[0]);
    CHECK(pipe->text() == "piped");
    CHECK(content_of(pipe->reopen_path()) == "piped");
}

TEST_CASE("an empty file has no bytes; a folder and a missing file are refused by name") {
    const TemporaryFolder folder;
    CHECK(MappedFile::open(folder.write("empty", ""))->bytes().empty());
    CHECK(error_of([&] { MappedFile::open(folder.path()); }).where() == folder.path());
    CHECK_THAT(error_of([&] { MappedFile::open(folder.file("none")); }).what(), Catch::Contains("No such file"));
}

TEST_CASE("opening leaves a read-only file and its time of change alone") {
    const TemporaryFolder folder;
    const std::string path = folder.write("x", "abc");
    struct stat before {
    }, after{};
    REQUIRE(::stat(path.c_str(), &before) == 0);
    REQUIRE(::chmod(path.c_str(), 0400) == 0);
    CHECK(MappedFile::open(path)->text() == "abc");
    REQUIRE(::stat(path.c_str(), &after) == 0);
    CHECK(before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
}

TEST_CASE("SHA-256 is that of FIPS 180-2") {
    CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_CASE("what has no size of its own is read to its end") {
    CHECK_THAT(std::string(MappedFile::open("/proc/self/status")->text()), Catch::Contains("VmPeak"));
    CHECK(MappedFile::open("/dev/null")->bytes().empty());
}

TEST_CASE("a small file that is shortened keeps the bytes that it had") {
    const TemporaryFolder folder;
    const std::string path = folder.write("x", std::string(1 << 20, 'a'));
    const auto file = MappedFile::open(path);
    REQUIRE(::truncate(path.c_str(), 0) == 0);
    CHECK(file->text() == std::string(1 << 20, 'a'));
}
