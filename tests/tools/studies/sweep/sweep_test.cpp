// Does a sweep run all combinations once each, in order, and print them in that order?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "sim/base/error.hpp"
#include "tools/studies/sweep/grid.hpp"
#include "tools/studies/sweep/rows.hpp"

namespace trainyard {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kSwept = TRAINYARD_SOURCE_DIRECTORY "/scenarios/first/two_gpus.json";

std::vector<std::string> keys(const std::vector<Variant>& variants) {
  std::vector<std::string> all;
  for (const Variant& variant : variants) all.push_back(variant_key(variant));
  return all;
}

// Does the grid hold every combination, with the last axis fastest?
TEST(Grid, EveryCombinationTheLastAxisFastest) {
  const std::vector<Axis> axes = {axis_of({"a=1,2"}), axis_of({"b.c=x,y"})};
  EXPECT_THAT(keys(grid("s", axes)),
              ElementsAre("s a=1 b.c=x", "s a=1 b.c=y", "s a=2 b.c=x", "s a=2 b.c=y"));
  EXPECT_THAT(keys(grid("s", {})), ElementsAre("s"));
}

// Do the fields of one axis change together?
TEST(Grid, FieldsOfOneAxisChangeTogether) {
  const std::vector<Axis> axes = {axis_of({"a=1,2", "b=3,4"})};
  EXPECT_THAT(keys(grid("s", axes)), ElementsAre("s a=1 b=3", "s a=2 b=4"));
  EXPECT_THROW((void)axis_of({"a=1,2", "b=3"}), InputError);
}

// Is a field refused that is there twice, however it is written?
TEST(Grid, AFieldIsThereOnce) {
  const auto said = [](const std::vector<std::string>& over, const std::vector<std::string>& zip,
                       const std::vector<std::string>& sets) -> std::string {
    try {
      return std::to_string(axes_of(over, zip, sets).size());
    } catch (const InputError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(said({"a.b=1,2", "c=1"}, {"d=1", "e=2"}, {"a.c=1"}), "3");
  EXPECT_EQ(said({"a.b=1", "/a/b=2"}, {}, {}),
            "--over: /a/b is there twice (give all values at once: --over /a/b=1,2)");
  EXPECT_EQ(said({"a.b=1"}, {"c=1", "a.b=2"}, {}),
            "--over: a.b is there twice (give all values at once: --over a.b=1,2)");
  EXPECT_EQ(said({"a.b=1"}, {}, {"a/b=2"}), "--set: a/b has the values of --over (leave it out)");
}

// Do commas inside structures separate nothing?
TEST(Grid, CommasOfStructuresSeparateNothing) {
  const Axis axis =
      axis_of({R"(cluster.fabric={"kind":"torus","dims":[2,2]},{"kind":"fat_tree"})"});
  ASSERT_EQ(axis.points.size(), 2U);
  EXPECT_EQ(axis.points[0][0].value, R"({"kind":"torus","dims":[2,2]})");
  EXPECT_THROW((void)axis_of({"a"}), InputError);
  EXPECT_THROW((void)axis_of({"a=1,,2"}), InputError);
}

// Does a list have a run on every line?
TEST(Grid, AListHasARunOnEveryLine) {
  const auto variants = listed("s", "runs.txt", "# sizes\na=1 b=500 ns\n\n  a=2  \r\n");
  EXPECT_THAT(keys(variants), ElementsAre("s a=1 b=500 ns", "s a=2"));
  EXPECT_THROW((void)listed("s", "runs.txt", "nonsense\n"), InputError);
  EXPECT_THROW((void)listed("s", "runs.txt", "# nothing\n"), InputError);
}

// Are shards disjoint, and are they together the whole grid?
TEST(Grid, ShardsAreDisjointAndTogetherAll) {
  const std::vector<Axis> axes = {axis_of({"a=1,2,3,4,5,6,7"})};
  const std::vector<Variant> all = grid("s", axes);
  std::multiset<std::string> seen;
  for (const char* part : {"1/3", "2/3", "3/3"})
    for (const std::string& key : keys(shard_of(all, shard_from(part)))) seen.insert(key);
  const std::vector<std::string> expected = keys(all);
  EXPECT_EQ(seen, std::multiset<std::string>(expected.begin(), expected.end()));
  for (const char* bad : {"0/3", "4/3", "1", "a/b", "1/", "1/3x"})
    EXPECT_THROW((void)shard_from(bad), InputError) << bad;
}

// One grid with a value that is refused, simulated once and printed in every form.
class Shown : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    Journal journal("");
    run_batch(variants(), {.journal = journal, .processes = 2});
    rows_ = new SweepRows(sweep_rows(variants(), journal));
  }
  static void TearDownTestSuite() { delete rows_; }
  static std::vector<Axis> axes() {
    return {axis_of({"training.global_batch_size=4,8,7"}),
            axis_of({"parallelism.overlap_grad_reduce=true,false"})};
  }
  static std::vector<Variant> variants() { return grid(kSwept, axes()); }
  static inline SweepRows* rows_ = nullptr;
};

// Do the rows come in the order of the grid?
TEST_F(Shown, RowsComeInTheOrderOfTheGrid) {
  ASSERT_EQ(rows_->size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ((*rows_)[i].row["key"], variant_key(variants()[i]));
}

// Does the text mark the quickest run and report why others are missing?
TEST_F(Shown, TheTextMarksTheQuickestAndSaysWhyOthersAreMissing) {
  const std::string text = sweep_text(*rows_);
  EXPECT_THAT(text, HasSubstr("6 runs: 4 fit, 2 refused"));
  EXPECT_THAT(text, HasSubstr("7 sequences do not divide"));
  EXPECT_THAT(text, HasSubstr("<- quickest"));
}

// Does the CSV have every input and as many cells as columns?
TEST_F(Shown, TheCsvHasEveryInputAndAsManyCellsAsColumns) {
  const std::string csv = sweep_csv(*rows_);
  std::istringstream in(csv);
  std::string head;
  std::getline(in, head);
  EXPECT_THAT(head, HasSubstr("set.training.global_batch_size"));
  EXPECT_THAT(head, HasSubstr(",in.parallelism.tensor,"));
  EXPECT_THAT(head, HasSubstr(",step_time_s,"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 7);
}

// Do plots show every run that has the figure?
TEST_F(Shown, PlotsShowEveryRunThatHasTheFigure) {
  const std::vector<Axis> two = axes();
  const std::string lines = line_plot(*rows_, {.title = "t", .axes = two});
  std::size_t circles = 0;
  for (std::size_t at = lines.find("<circle"); at != std::string::npos;
       at = lines.find("<circle", at + 1))
    ++circles;
  EXPECT_EQ(circles, 4U);
  EXPECT_THAT(heat_map(*rows_, {.title = "t", .axes = two}), HasSubstr("</svg>"));
  EXPECT_THROW((void)heat_map(*rows_, {.title = "t", .axes = std::span(two).first(1)}), InputError);
  EXPECT_THROW((void)line_plot(*rows_, {.title = "t", .axes = two, .metric = "nothing"}),
               InputError);
}

}  // namespace
}  // namespace trainyard
