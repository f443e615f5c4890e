// Random numbers: the words of SplitMix64, and permutations that are all equally likely.
#include "sim/base/random.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace trainyard {
namespace {

// Are the words those of the reference implementation? The first outputs of Vigna's splitmix64.c
// for the seed 1234567.
TEST(Random, WordsAreThoseOfSplitMix64) {
  Random random(1234567);
  for (const std::uint64_t word :
       {6457827717110365317U, 3203168211198807973U, 9817491932198370423U, 4593380528125082431U})
    EXPECT_EQ(random.word(), word);
}

// Is every order of three equally likely? Of 6000 draws, each of the six has 1000 with a standard
// deviation of sqrt(6000 * 1/6 * 5/6) = 28.9; five of them are 144.
TEST(Random, EveryPermutationIsEquallyLikely) {
  Random random(1);
  std::map<std::vector<std::uint32_t>, int> drawn;
  for (int draw = 0; draw < 6000; ++draw) ++drawn[random.permutation(3)];
  EXPECT_EQ(drawn.size(), 6U);
  for (const auto& [order, times] : drawn) EXPECT_NEAR(times, 1000, 144);
}

}  // namespace
}  // namespace trainyard
