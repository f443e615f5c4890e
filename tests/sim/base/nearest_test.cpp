#include "sim/base/nearest.hpp"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

const std::vector<std::string> kWords = {"tensor", "pipeline", "interleave", "zero_stage"};

// Are typing errors recognised?
TEST(Nearest, FindsTypingErrors) {
  EXPECT_EQ(nearest("tensr", kWords), "tensor");
  EXPECT_EQ(nearest("pipelines", kWords), "pipeline");
  EXPECT_EQ(nearest("tesnor", kWords), "tensor");
  EXPECT_EQ(nearest("1fb1", {"gpipe", "1f1b"}), "1f1b") << "two neighbours swapped are one mistake";
  EXPECT_EQ(nearest("zero-stage", kWords), "zero_stage");
  EXPECT_EQ(nearest("ZeroStage", kWords), "zero_stage");
}

// Is there no suggestion if nothing is similar?
TEST(Nearest, SuggestsNothingIfNothingIsSimilar) {
  EXPECT_EQ(nearest("banana", kWords), "");
  EXPECT_EQ(nearest("tp", kWords), "");
  EXPECT_EQ(nearest("", kWords), "");
  EXPECT_EQ(nearest("tensor", {}), "");
  EXPECT_EQ(nearest(std::string(1000, 'x'), kWords), "");
}

// May a third of the letters differ?
TEST(Nearest, AcceptsAThirdOfTheLength) {
  EXPECT_EQ(nearest("tenxxr", kWords), "tensor");  // six letters, two wrong
  EXPECT_EQ(nearest("texxxr", kWords), "");        // three wrong
}

// Does a suggestion name the nearest word, or list all?
TEST(Suggestion, NamesTheNearestOrListsAll) {
  EXPECT_EQ(suggestion("tensr", kWords), "did you mean \"tensor\"?");
  EXPECT_EQ(suggestion("banana", {"a", "b"}), "known: a, b");
  EXPECT_EQ(suggestion("banana", {}), "");
}

}  // namespace
}  // namespace trainyard
