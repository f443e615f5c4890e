#include "sim/base/new_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

class NewFiles : public testing::Test {
 protected:
  NewFiles() : folder_(fs::temp_directory_path() / ("trainyard_new_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~NewFiles() override { fs::remove_all(folder_); }

  [[nodiscard]] std::ptrdiff_t files() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }

  fs::path folder_;
};

TEST_F(NewFiles, AnOldFileStandsUntilTheNewOneIsWhole) {
  write_file(folder_ / "a", "old");
  NewFile made(folder_ / "a");
  made.write("ne");
  made.write("w");
  EXPECT_EQ(read_file(folder_ / "a"), "old");
  made.put_in_place();
  EXPECT_EQ(read_file(folder_ / "a"), "new");
  EXPECT_EQ(files(), 1);
}

TEST_F(NewFiles, OneThatIsGivenUpLeavesNothing) {
  { NewFile(folder_ / "deep" / "a").write("half"); }
  EXPECT_TRUE(fs::is_empty(folder_ / "deep"));
}

TEST_F(NewFiles, TwoAtOnceDoNotMix) {
  NewFile one(folder_ / "a");
  NewFile two(folder_ / "a");
  one.write("one and more");
  two.write("two");
  one.put_in_place();
  EXPECT_EQ(read_file(folder_ / "a"), "one and more");
  two.put_in_place();
  EXPECT_EQ(read_file(folder_ / "a"), "two");
  EXPECT_EQ(files(), 1);
}

// Where the file system has files without names, as those of Linux machines do.
TEST_F(NewFiles, AKilledProcessLeavesNothing) {
  const int probe = ::open(folder_.c_str(), O_TMPFILE | O_WRONLY, 0666);
  if (probe < 0) GTEST_SKIP() << "no files without names here";
  ::close(probe);
  const pid_t child = fork();
  if (child == 0) {
    NewFile made(folder_ / "a");
    made.write("half");
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(files(), 0);
}

// A root folder without /proc, where a file without a name gets none later.
TEST_F(NewFiles, WithoutProcAFileIsWrittenUnderAnotherNameFirst) {
  const pid_t child = fork();
  if (child == 0) {
    constexpr int kNotAllowed = 77;
    if (::chroot(folder_.c_str()) != 0) ::_exit(kNotAllowed);
    try {
      write_file("/deep/a", "new");
      ::_exit(0);
    } catch (...) {
      ::_exit(1);
    }
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "SKIPPED, NOT TESTED: chroot is not allowed here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(read_file(folder_ / "deep" / "a"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "deep"), fs::directory_iterator()), 1);
}

TEST_F(NewFiles, DevicesAndPipesAreNeverReplaced) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  NewFile made(pipe);
  made.write("through");
  made.put_in_place();
  char read[16] = {};
  EXPECT_EQ(::read(reader, read, sizeof read), 7);
  ::close(reader);
  EXPECT_STREQ(read, "through");
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_TRUE(is_written_as_it_stands("/dev/null"));
  EXPECT_FALSE(is_written_as_it_stands(folder_));
  EXPECT_FALSE(is_written_as_it_stands(folder_ / "none"));
}

TEST_F(NewFiles, AFullDeviceSaysSo) {
  NewFile made("/dev/full");
  try {
    made.write("x");
    FAIL() << "it was written";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("/dev/full: cannot be written: No space left"));
  }
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(NewFiles, ALinkToAFileYetToBeMadeIsFollowed) {
  fs::create_symlink("real", folder_ / "link");
  write_file(folder_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(read_file(folder_ / "real"), "new");
}

}  // namespace
}  // namespace trainyard
