// Concurrent work: all of it is done, and an error of any part reaches the caller.
#include "sim/base/concurrency.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace trainyard::test {
namespace {

// Are both tasks done, and is the result of the second returned?
TEST(RunConcurrently, RunsBothAndReturnsTheSecondResult) {
  for (const bool worth : {false, true}) {
    int first = 0;
    EXPECT_EQ(run_concurrently(
                  worth, [&] { first = 3; }, [] { return std::string("four"); }),
              "four");
    EXPECT_EQ(first, 3);
    int second = 0;
    run_concurrently(
        worth, [&] { first = 5; }, [&] { second = 6; });
    EXPECT_EQ(first + second, 11);
  }
}

// Are both tasks done if the stack of a thread cannot be allocated? They then run one after the
// other.
TEST(RunConcurrently, RunsBothInTurnWithoutAThread) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "SKIPPED, NOT TESTED: the sanitizer would have no memory for itself";
#endif
  const auto without_room = [] {
    const rlimit none{.rlim_cur = 1 << 20, .rlim_max = RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &none);
    std::thread::id first;
    const auto here = [] { return std::this_thread::get_id(); };
    const std::thread::id second = run_concurrently(
        true, [&] { first = here(); }, here);
    std::_Exit(first == second ? 0 : 1);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // alone: no stack is left from another test
  EXPECT_EXIT(without_room(), testing::ExitedWithCode(0), "");
}

// Do the tasks run at the same time? Each waits for the other: neither would end if one followed
// the other.
TEST(RunConcurrently, RunsBothAtTheSameTime) {
  std::latch both(2);
  std::thread::id first;
  const std::thread::id second = run_concurrently(
      true,
      [&] {
        first = std::this_thread::get_id();
        both.arrive_and_wait();
      },
      [&] {
        both.arrive_and_wait();
        return std::this_thread::get_id();
      });
  EXPECT_NE(first, second);
  EXPECT_EQ(second, std::this_thread::get_id());
}

// Is the error of either task thrown?
TEST(RunConcurrently, ThrowsTheErrorOfEitherTask) {
  const auto fails = [] { throw std::runtime_error("it fails"); };
  const auto works = [] {};
  for (const bool worth : {false, true}) {
    EXPECT_THROW(run_concurrently(worth, fails, works), std::runtime_error);
    EXPECT_THROW(run_concurrently(worth, works, fails), std::runtime_error);
  }
}

// Is every piece done exactly once?
TEST(ShareOut, EveryPieceRunsOnce) {
  for (const bool worth : {false, true}) {
    std::vector<int> done(100, 0);
    parallel_for(worth, done.size(), [&](std::size_t i) { ++done[i]; });
    EXPECT_EQ(done, std::vector<int>(100, 1));
    parallel_for(worth, 0, [](std::size_t) { FAIL(); });
  }
}

// Is the error of a piece thrown?
TEST(ShareOut, AnErrorOfAPieceIsThrown) {
  const auto fails = [](std::size_t i) {
    if (i == 7) throw std::runtime_error("it fails");
  };
  for (const bool worth : {false, true})
    EXPECT_THROW(parallel_for(worth, 20, fails), std::runtime_error);
}

}  // namespace
}  // namespace trainyard::test
