// The memo: it returns the same value for equal inputs, and drops values when its memory is full.
#include "sim/base/memo.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "sim/base/error.hpp"

namespace trainyard {
namespace {

struct Text {
  std::string text;
};
std::size_t footprint(const Text& text) { return text.text.size(); }

// Is a value computed once for equal inputs?
TEST(Memo, ComputesAValueOnceForEqualInputs) {
  Memo memo;
  int made = 0;
  const auto ask = [&](const std::string& name, int number) {
    return memo.get<Text>(
        [&] {
          ++made;
          return Text{name + std::to_string(number)};
        },
        name, number);
  };
  const auto first = ask("a", 1);
  EXPECT_EQ(first, ask("a", 1));
  EXPECT_EQ(made, 1);
  EXPECT_EQ(ask("a", 2)->text, "a2");
  EXPECT_EQ(ask("b", 1)->text, "b1");
  EXPECT_EQ(made, 3);
}

// Is the least recently used value dropped?
TEST(Memo, EvictsTheLeastRecentlyUsedValue) {
  Memo memo(10);
  int made = 0;
  const auto ask = [&](int number) {
    return memo.get<Text>(
        [&] {
          ++made;
          return Text{std::string(4, 'x')};
        },
        number);
  };
  const auto held = ask(1);
  (void)ask(2);
  (void)ask(1);
  (void)ask(3);  // no room: 2 is dropped
  EXPECT_LE(memo.bytes(), 10U);
  EXPECT_EQ(made, 3);
  EXPECT_EQ(ask(1), held);
  EXPECT_EQ(made, 3);
  (void)ask(2);
  EXPECT_EQ(made, 4);
}

// Is a value returned that is too large to store?
TEST(Memo, ReturnsAValueTooLargeToCache) {
  Memo memo(3);
  EXPECT_EQ(memo.get<Text>([] { return Text{"too long"}; }, 1)->text, "too long");
  EXPECT_EQ(memo.bytes(), 0U);
}

// Is nothing stored after a failure?
TEST(Memo, CachesNothingAfterAnException) {
  Memo memo;
  const auto fail = []() -> Text { throw RunError("no"); };
  EXPECT_THROW((void)memo.get<Text>(fail, 1), RunError);
  EXPECT_EQ(memo.get<Text>([] { return Text{"yes"}; }, 1)->text, "yes");
}

// Do concurrent threads get one value?
TEST(Memo, ConcurrentThreadsGetOneValue) {
  Memo memo;
  std::atomic<int> made = 0;
  std::vector<std::shared_ptr<const Text>> got(8);
  {
    std::vector<std::jthread> threads;
    for (auto& value : got)
      threads.emplace_back([&] {
        value = memo.get<Text>(
            [&] {
              ++made;
              return Text{"one"};
            },
            7);
      });
  }
  EXPECT_EQ(made, 1);
  EXPECT_NE(got.front(), nullptr);
  for (const auto& value : got) EXPECT_EQ(value, got.front());
}

// Does a memo of zero bytes store nothing?
TEST(Memo, OfZeroBytesCachesNothing) {
  Memo memo(0);
  int made = 0;
  for (int i = 0; i < 2; ++i) {
    const auto text = memo.get<Text>(
        [&] {
          ++made;
          return Text{"fresh"};
        },
        1);
    EXPECT_EQ(text->text, "fresh");
  }
  EXPECT_EQ(made, 2);
  EXPECT_EQ(memo.bytes(), 0U);
}

}  // namespace
}  // namespace trainyard
