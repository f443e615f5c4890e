// Two pieces of work at once: are both done, and does either's error reach the caller?
#include "sim/base/beside.hpp"

#include <gtest/gtest.h>

#include <latch>
#include <stdexcept>
#include <string>
#include <thread>

namespace trainyard::test {
namespace {

TEST(Beside, BothAreDoneAndTheSecondAnswers) {
  for (const bool worth : {false, true}) {
    int first = 0;
    EXPECT_EQ(beside(
                  worth, [&] { first = 3; }, [] { return std::string("four"); }),
              "four");
    EXPECT_EQ(first, 3);
    int second = 0;
    beside(
        worth, [&] { first = 5; }, [&] { second = 6; });
    EXPECT_EQ(first + second, 11);
  }
}

// Each waits for the other: neither would end if one followed the other.
TEST(Beside, TheyMeet) {
  std::latch both(2);
  std::thread::id first;
  const std::thread::id second = beside(
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

TEST(Beside, AnErrorOfEitherIsThrown) {
  const auto fails = [] { throw std::runtime_error("it fails"); };
  const auto works = [] {};
  for (const bool worth : {false, true}) {
    EXPECT_THROW(beside(worth, fails, works), std::runtime_error);
    EXPECT_THROW(beside(worth, works, fails), std::runtime_error);
  }
}

}  // namespace
}  // namespace trainyard::test
