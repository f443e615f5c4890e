// Tables that are read by the names of their columns, their errors, and fields that are written
// without formulas.
#include "sim/base/csv.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard {
namespace {

std::filesystem::path table_of(const std::string& text) {
  const auto file = std::filesystem::path(testing::TempDir()) / "table.csv";
  write_file(file, text);
  return file;
}

std::string problem_of(const std::string& text, const std::string& column) {
  try {
    (void)CsvTable(table_of(text)).number(0, column);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// Is a table read by column?
TEST(CsvTable, IsReadByColumn) {
  const CsvTable table(table_of("gpu,rows,time_us\nh100,12,3.5\n\nb200,7,1e3\n"));
  ASSERT_EQ(table.rows(), 2U);
  EXPECT_TRUE(table.has("rows"));
  EXPECT_FALSE(table.has("columns"));
  EXPECT_EQ(table.text(0, "gpu"), "h100");
  EXPECT_EQ(table.integer(1, "rows"), 7);
  EXPECT_DOUBLE_EQ(table.number(1, "time_us"), 1000.0);
}

// Is a table read as spreadsheets write it?
TEST(CsvTable, IsReadAsSpreadsheetsWriteIt) {
  const CsvTable table(table_of("\xEF\xBB\xBF\"gpu\", rows,time_us,\r\n\"h100\",12 ,3.5,\r\n\r\n"));
  ASSERT_EQ(table.rows(), 1U);
  EXPECT_EQ(table.text(0, "gpu"), "h100");
  EXPECT_EQ(table.integer(0, "rows"), 12);
  EXPECT_DOUBLE_EQ(table.number(0, "time_us"), 3.5);
}

// Do commas within quotes belong to the field?
TEST(CsvTable, KeepsCommasWithinQuotes) {
  const CsvTable table(table_of("nic,rows\n\"IB, 400 Gb/s\",12\n8 x 5\",7\n"));
  ASSERT_EQ(table.rows(), 2U);
  EXPECT_EQ(table.text(0, "nic"), "IB, 400 Gb/s");
  EXPECT_EQ(table.text(1, "nic"), "8 x 5\"");
  EXPECT_EQ(table.integer(1, "rows"), 7);
}

// Is a field that csv_field() wrote read back, and is a comment never the header?
TEST(CsvTable, ReadsWrittenFieldsBack) {
  const std::string field = "4 nodes, \"rail\" fabric";
  const CsvTable table(table_of("nic,rows\n" + csv_field(field) + ",12\n"));
  EXPECT_EQ(table.text(0, "nic"), field);
  EXPECT_EQ(CsvTable(table_of("# nic,rows")).columns().front(), "");
}

// Does an error describe the fault?
TEST(CsvTable, ReportsItsFaults) {
  EXPECT_NE(problem_of("a;b\n1;2\n", "a").find("part fields by commas"), std::string::npos);
  EXPECT_NE(problem_of("a,b\n\n1,nan\n", "b").find("line 3 has b \"nan\""), std::string::npos);

  EXPECT_NE(problem_of("a,b\n1\n", "a").find("line 2 has 1 fields, the header has 2"),
            std::string::npos);
  EXPECT_NE(problem_of("a,b\n1,2\n", "c").find("has no column \"c\""), std::string::npos);
  EXPECT_NE(problem_of("a,b\n1,x\n", "b").find("line 2 has b \"x\""), std::string::npos);
}

// Is a written field not a formula?
TEST(CsvField, IsNeverAFormula) {
  EXPECT_EQ(csv_field("plain"), "plain");
  EXPECT_EQ(csv_field("=1+1"), "'=1+1");
  EXPECT_EQ(csv_field("@SUM(A1,A2)"), "\"'@SUM(A1,A2)\"");
  EXPECT_EQ(csv_field("-2+3"), "'-2+3");
  EXPECT_EQ(csv_field("\t=1"), "'\t=1");
  for (const char* number : {"-2", "+1.5e3", "-"}) EXPECT_EQ(csv_field(number), number);
  EXPECT_EQ(csv_field("say \"yes\"\n"), "\"say \"\"yes\"\"\n\"");
}

// Is a cell the field of a JSON value?
TEST(CsvCell, IsTheFieldOfAValue) {
  EXPECT_EQ(csv_cell(nullptr), "");
  EXPECT_EQ(csv_cell("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_cell(-2.5), "-2.5");
  EXPECT_EQ(csv_cell(true), "true");
  EXPECT_EQ(csv_cell(nlohmann::ordered_json::array({1, 2})), "\"[1,2]\"");
}

}  // namespace
}  // namespace trainyard
