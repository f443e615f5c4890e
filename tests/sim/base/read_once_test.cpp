// Is a data file read once for all who ask, and again when it says something else?
#include "sim/base/read_once.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace trainyard {
namespace {

namespace fs = std::filesystem;

class ReadOnce : public ::testing::Test {
 protected:
  ReadOnce() { write("1"); }
  ~ReadOnce() override { fs::remove(file_); }

  // Each time it is written it is a second older than before: another state, whatever the clock.
  void write(const std::string& text) {
    std::ofstream(file_) << text;
    age_ += std::chrono::seconds{1};
    fs::last_write_time(file_, fs::file_time_type::clock::now() - age_);
  }

  const fs::path file_ = fs::path(::testing::TempDir()) / "read_once_test.txt";

 private:
  std::chrono::seconds age_{0};
};

int number_in(const fs::path& file) {
  std::ifstream in(file);
  int number = 0;
  in >> number;
  return number;
}

TEST_F(ReadOnce, ReadsAgainOnlyWhatHasChanged) {
  int reads = 0;
  const auto read = [&reads](const fs::path& file) {
    ++reads;
    return number_in(file);
  };
  const int& first = read_once<int>(file_, read);
  EXPECT_EQ(&read_once<int>(file_, read), &first);
  EXPECT_EQ(reads, 1);
  write("2");
  EXPECT_EQ(read_once<int>(file_, read), 2);
  EXPECT_EQ(reads, 2);
  EXPECT_EQ(first, 1);  // what was read before stays
}

TEST_F(ReadOnce, ReadsAgainWhatWasWrittenTwiceInATickOfTheClock) {
  const fs::file_time_type written = fs::last_write_time(file_);
  EXPECT_EQ(read_once<int>(file_, number_in), 1);
  write("42");
  fs::last_write_time(file_, written);
  EXPECT_EQ(read_once<int>(file_, number_in), 42);
}

TEST_F(ReadOnce, AFailureIsNotKept) {
  bool fails = true;
  const auto read = [&fails](const fs::path& file) {
    if (fails) throw std::runtime_error("unreadable");
    return number_in(file);
  };
  EXPECT_THROW((void)read_once<int>(file_, read), std::runtime_error);
  fails = false;
  EXPECT_EQ(read_once<int>(file_, read), 1);
}

TEST_F(ReadOnce, ThreadsReadOnceTogether) {
  int reads = 0;
  const auto read = [&reads](const fs::path& file) {
    ++reads;
    return number_in(file);
  };
  std::vector<std::thread> threads;
  std::vector<const int*> answers(8);
  for (const int*& answer : answers)
    threads.emplace_back([&] { answer = &read_once<int>(file_, read); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(reads, 1);
  for (const int* answer : answers) EXPECT_EQ(answer, answers.front());
}

}  // namespace
}  // namespace trainyard
