// Is a field of a table one field, and no formula, wherever it is opened?
#include "sim/render/csv.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trainyard {
namespace {

TEST(CsvField, IsNoFormula) {
  EXPECT_EQ(csv_field("plain"), "plain");
  EXPECT_EQ(csv_field("=1+1"), "'=1+1");
  EXPECT_EQ(csv_field("@SUM(A1,A2)"), "\"'@SUM(A1,A2)\"");
  EXPECT_EQ(csv_field("-2+3"), "'-2+3");
  EXPECT_EQ(csv_field("\t=1"), "'\t=1");
  for (const char* number : {"-2", "+1.5e3", "-"}) EXPECT_EQ(csv_field(number), number);
  EXPECT_EQ(csv_field("say \"yes\"\n"), "\"say \"\"yes\"\"\n\"");
}

TEST(CsvCell, IsTheFieldOfAValue) {
  EXPECT_EQ(csv_cell(nullptr), "");
  EXPECT_EQ(csv_cell("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_cell(-2.5), "-2.5");
  EXPECT_EQ(csv_cell(true), "true");
  EXPECT_EQ(csv_cell(nlohmann::ordered_json::array({1, 2})), "\"[1,2]\"");
}

}  // namespace
}  // namespace trainyard
