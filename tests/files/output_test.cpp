#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "error_of.hpp"
#include "files/output.hpp"
#include "temporary_folder.hpp"

using namespace eplb;

namespace {

using Names = std::set<std::string>;

void write_pair(const TemporaryFolder& folder, bool force, const std::string& manifest, const std::string& layout) {
    OutputSet outputs(force);
    outputs.add(folder.file("x.manifest.json"), manifest);
    outputs.add(folder.file("x.json"), layout);
    outputs.commit();
}

}  // namespace

TEST_CASE("committed outputs hold the bytes and nothing else is left in the folder") {
    const TemporaryFolder folder;
    write_pair(folder, false, "manifest", std::string(200'000, 'x'));
    CHECK(folder.names() == Names{"x.json", "x.manifest.json"});
    CHECK(content_of(folder.file("x.json")) == std::string(200'000, 'x'));
    CHECK(content_of(folder.file("x.manifest.json")) == "manifest");
}

TEST_CASE("an output appears only at commit, and not at all without it") {
    const TemporaryFolder folder;
    {
        OutputSet outputs(false);
        outputs.add(folder.file("x.json"), "text");
        CHECK_FALSE(std::filesystem::exists(folder.file("x.json")));
    }
    CHECK(folder.names().empty());
}

TEST_CASE("an existing output is refused without force and replaced with it") {
    const TemporaryFolder folder;
    folder.write("x.json", "old");
    const Error error = error_of([&] { write_pair(folder, false, "m", "new"); });
    CHECK(error.code() == ErrorCode::output);
    CHECK(error.where() == folder.file("x.json"));
    CHECK(content_of(folder.file("x.json")) == "old");
    CHECK(folder.names() == Names{"x.json"});
    write_pair(folder, true, "m", "new");
    CHECK(content_of(folder.file("x.json")) == "new");
}

TEST_CASE("a file that appears between add and commit wins, and the other outputs of the set are withdrawn") {
    const TemporaryFolder folder;
    {
        OutputSet outputs(false);
        outputs.add(folder.file("x.manifest.json"), "mine");
        outputs.add(folder.file("x.json"), "mine");
        folder.write("x.json", "theirs");
        CHECK(error_of([&] { outputs.commit(); }).code() == ErrorCode::output);
    }
    CHECK(folder.names() == Names{"x.json"});
    CHECK(content_of(folder.file("x.json")) == "theirs");
}

TEST_CASE("of eight concurrent writers without force exactly one wins and its two files belong together") {
    for (int round = 0; round < 5; ++round) {
        const TemporaryFolder folder;
        int gate[2];
        REQUIRE(::pipe(gate) == 0);
        std::vector<pid_t> children;
        for (char writer = 'a'; writer < 'a' + 8; ++writer) {
            const pid_t child = ::fork();
            REQUIRE(child >= 0);
            if (child == 0) {
                ::close(gate[1]);
                char byte = 0;
                [[maybe_unused]] const ssize_t opened = ::read(gate[0], &byte, 1);  // returns when the parent closes
                int code = 0;
                try {
                    write_pair(folder, false, std::string(1, writer), std::string(100'000, writer));
                } catch (const Error& error) {
                    code = static_cast<int>(error.code());
                }
                ::_exit(code);
            }
            children.push_back(child);
        }
        ::close(gate[0]);
        ::close(gate[1]);
        int winners = 0, losers = 0;
        for (const pid_t child : children) {
            int status = 0;
            REQUIRE(::waitpid(child, &status, 0) == child);
            winners += WIFEXITED(status) && WEXITSTATUS(status) == 0;
            losers += WIFEXITED(status) && WEXITSTATUS(status) == static_cast<int>(ErrorCode::output);
        }
        CHECK(winners == 1);
        CHECK(losers == 7);
        CHECK(folder.names() == Names{"x.json", "x.manifest.json"});
        const std::string manifest = content_of(folder.file("x.manifest.json"));
        CHECK(manifest.size() == 1);
        CHECK(content_of(folder.file("x.json")) == std::string(100'000, manifest[0]));
    }
}

TEST_CASE("a writer that is killed before commit leaves the old file as it was") {
    const TemporaryFolder folder;
    folder.write("x.json", "old");
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        OutputSet outputs(true);
        outputs.add(folder.file("x.json"), std::string(1'000'000, 'n'));
        ::raise(SIGKILL);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(content_of(folder.file("x.json")) == "old");
}

TEST_CASE("what cannot be written is named with the system's reason and leaves nothing") {
    const TemporaryFolder folder;
    OutputSet outputs(true);
    const Error no_folder = error_of([&] { outputs.add(folder.file("missing/x.json"), "text"); });
    CHECK(no_folder.code() == ErrorCode::output);
    CHECK_THAT(no_folder.what(), Catch::Contains("missing/x.json") && Catch::Contains("No such file"));
    std::filesystem::create_directory(folder.file("d"));
    CHECK_THROWS_AS(outputs.add(folder.file("d"), "text"), Error);
    CHECK_THROWS_AS(outputs.add("/dev/full", "text"), Error);  // a device is never replaced, not even with force
    CHECK_THROWS_AS(outputs.add("", "text"), Error);
    CHECK(folder.names() == Names{"d"});
}

TEST_CASE("a symbolic link with force keeps pointing at the file that is replaced") {
    const TemporaryFolder folder;
    folder.write("real.json", "old");
    std::filesystem::create_symlink("real.json", folder.file("x.json"));
    OutputSet outputs(true);
    outputs.add(folder.file("x.json"), "new");
    outputs.commit();
    CHECK(std::filesystem::is_symlink(folder.file("x.json")));
    CHECK(content_of(folder.file("real.json")) == "new");

    std::filesystem::create_symlink("nowhere", folder.file("dangling"));
    CHECK_THROWS_AS(outputs.add(folder.file("dangling"), "text"), Error);
}

TEST_CASE("a replaced file keeps its permissions") {
    const TemporaryFolder folder;
    const std::string path = folder.write("x.json", "old");
    REQUIRE(::chmod(path.c_str(), 0640) == 0);
    OutputSet outputs(true);
    outputs.add(path, "new");
    outputs.commit();
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == 0640);
}
