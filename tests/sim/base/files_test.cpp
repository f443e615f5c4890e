#include "sim/base/files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include "sim/base/error.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  Files() : folder_(fs::temp_directory_path() / ("trainyard_files_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
  }
  ~Files() override { fs::remove_all(folder_); }

  static std::string message_of_reading(const fs::path& file) {
    try {
      return "read " + read_file(file);
    } catch (const InputError& error) {
      return error.problems().front().problem;
    }
  }

  fs::path folder_;
};

TEST_F(Files, WhatIsWrittenIsReadAndFoldersAreMade) {
  const fs::path file = folder_ / "a" / "b.txt";
  write_file(file, "one\n");
  write_file(file, std::string_view("two\0x", 5));
  EXPECT_EQ(read_file(file), std::string("two\0x", 5));
}

TEST_F(Files, NothingTemporaryStaysBehind) {
  write_file(folder_ / "b.txt", "one");
  const auto count = std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  EXPECT_EQ(count, 1);
}

TEST_F(Files, GzipIsTransparentSmallAndReproducible) {
  std::string contents;
  for (int i = 0; i < 50000; ++i) contents += std::to_string(i * 7919 % 1000) + ' ';
  write_file(folder_ / "a.json.gz", contents);
  write_file(folder_ / "b.json.gz", contents);
  EXPECT_EQ(read_file(folder_ / "a.json.gz"), contents);
  EXPECT_LT(fs::file_size(folder_ / "a.json.gz"), contents.size());
  fs::rename(folder_ / "a.json.gz", folder_ / "a");
  fs::rename(folder_ / "b.json.gz", folder_ / "b");
  const std::string bytes = read_file(folder_ / "a");
  EXPECT_EQ(bytes, read_file(folder_ / "b"));
  EXPECT_EQ(bytes.substr(4, 4), std::string(4, '\0')) << "bytes 4 to 7 of a gzip file are its time";
}

TEST_F(Files, GzipOfNothingAndOfSeveralMembers) {
  write_file(folder_ / "empty.gz", "");
  EXPECT_EQ(read_file(folder_ / "empty.gz"), "");
  write_file(folder_ / "one.gz", "one ");
  write_file(folder_ / "two.gz", "two");
  fs::rename(folder_ / "one.gz", folder_ / "one");
  fs::rename(folder_ / "two.gz", folder_ / "two");
  write_file(folder_ / "joined", read_file(folder_ / "one") + read_file(folder_ / "two"));
  fs::rename(folder_ / "joined", folder_ / "joined.gz");
  EXPECT_EQ(read_file(folder_ / "joined.gz"), "one two");
}

TEST_F(Files, BrokenGzipIsRefused) {
  write_file(folder_ / "a.gz", std::string(1000, 'x'));
  fs::rename(folder_ / "a.gz", folder_ / "whole");
  const std::string whole = read_file(folder_ / "whole");
  write_file(folder_ / "cut", whole.substr(0, whole.size() / 2));
  fs::rename(folder_ / "cut", folder_ / "cut.gz");
  EXPECT_EQ(message_of_reading(folder_ / "cut.gz"), "is not a whole gzip file");
  write_file(folder_ / "text", "no gzip at all");
  fs::rename(folder_ / "text", folder_ / "text.gz");
  EXPECT_EQ(message_of_reading(folder_ / "text.gz"), "is not a whole gzip file");
}

TEST_F(Files, MissingFilesAndFoldersAreRefused) {
  EXPECT_EQ(message_of_reading(folder_ / "none"), "no such file");
  fs::create_directories(folder_);
  EXPECT_EQ(message_of_reading(folder_), "is a folder");
  EXPECT_THROW(write_file(folder_, "x"), InputError);
  write_file(folder_ / "file", "x");
  EXPECT_THROW(write_file(folder_ / "file" / "below", "x"), InputError);
  EXPECT_THROW(write_file("/proc/none", "x"), InputError);
}

TEST_F(Files, LinksAreFollowedAndDevicesKept) {
  write_file(folder_ / "real", "old");
  fs::create_symlink(folder_ / "real", folder_ / "link");
  write_file(folder_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(read_file(folder_ / "real"), "new");
  write_file("/dev/null", "gone");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

std::string read_problem(const std::filesystem::path& file) {
  try {
    return "read " + std::to_string(read_file(file).size()) + " bytes";
  } catch (const InputError& error) {
    return error.what();
  }
}

// 1 GiB of zeros and a byte, of which gzip makes 5 MB.
TEST(ReadFile, AGzipFileThatGrowsWithoutMeasureIsRefused) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) /
                                     ("trainyard_bomb_" + std::to_string(getpid()) + ".gz");
  {
    gzFile out = gzopen(file.c_str(), "wb1");
    const std::string zeros(std::size_t{1} << 24U, '\0');
    for (int i = 0; i < 64; ++i) gzwrite(out, zeros.data(), static_cast<unsigned>(zeros.size()));
    gzwrite(out, "x", 1);
    gzclose(out);
  }
  EXPECT_EQ(read_problem(file), file.string() + ": holds more than 1 GiB (give a smaller file)");
  std::filesystem::remove(file);
}

TEST(ReadFile, ANameThatIsTooLongAndALoopOfLinksAreSaidSo) {
  EXPECT_THAT(read_problem(std::string(300, 'a')), testing::HasSubstr("cannot be read: File name"));
  const std::filesystem::path loop = std::filesystem::path(testing::TempDir()) /
                                     ("trainyard_loop_" + std::to_string(getpid()) + ".json");
  std::filesystem::remove(loop);
  std::filesystem::create_symlink(loop, loop);
  EXPECT_THAT(read_problem(loop), testing::HasSubstr("cannot be read: Too many levels"));
  std::filesystem::remove(loop);
}

}  // namespace
}  // namespace trainyard
