// Is a source that is left out predicted without the constants that its own rows fitted, and only
// that source?
#include <gtest/gtest.h>

#include <algorithm>

#include "tools/studies/validate/dataset.hpp"
#include "tools/studies/validate/report.hpp"
#include "tools/studies/validate/validation.hpp"

namespace trainyard {
namespace {

// The first row of a series in the sample.
MeasuredRow first_of(const std::string& source) {
  for (MeasuredRow& row :
       read_dataset(TRAINYARD_SOURCE_DIRECTORY "/tests/measured/published_runs.json"))
    if (row.source == source) return std::move(row);
  ADD_FAILURE() << "the sample has no row of " << source;
  return {};
}

// Are the constants in their files, and does no source occur twice for one?
TEST(LeftOut, ConstantsAreInTheirFilesAndNoSourceIsNamedTwiceForOne) {
  EXPECT_FALSE(load_left_out().empty());
  for (const LeftOut& entry : load_left_out()) {
    EXPECT_NE(entry.sources.empty(), entry.gpus.empty());
    for (const Setting& setting : entry.settings) {
      EXPECT_GT(setting.value, 0.0) << setting.constant.name;
      EXPECT_NE(setting.value, setting.constant.value)
          << setting.constant.name << ": what is left out is what was fitted";
    }
  }
}

// Does only the source that fitted a constant lose it?
TEST(LeftOut, OnlyTheSourceThatFittedAConstantLosesIt) {
  const std::vector<MeasuredRow> rows = {first_of("foundry"), first_of("korthikanti")};
  const std::vector<Outcome> with = validate(rows, {});
  const std::vector<Outcome> without = validate_left_out(rows, {});
  ASSERT_EQ(without.size(), 2U);
  EXPECT_EQ(without[0].row.id, rows[0].id);
  EXPECT_NE(without[0].predicted_s, with[0].predicted_s);
  EXPECT_EQ(without[1].predicted_s, with[1].predicted_s) << "nothing was fitted on it";
  // The overlay alone decides: the same constants in place of the files' give the same time.
  std::vector<Setting> own;
  for (const LeftOut& entry : load_left_out())
    if (entry.sources == std::vector<std::string>{"foundry"})
      own.insert(own.end(), entry.settings.begin(), entry.settings.end());
  ASSERT_FALSE(own.empty());
  const DataOverlay data(own);
  EXPECT_EQ(validate({rows[0]}, {.data = data.folder()})[0].predicted_s, without[0].predicted_s);
}

// Is a GPU that is left out priced by the tables of another one, as known by its data sheet alone?
TEST(LeftOut, AGpuWithoutItsTablesIsPricedByItsDataSheet) {
  const std::vector<MeasuredRow> rows = {first_of("korthikanti"), first_of("simumax")};
  const std::vector<Outcome> with = validate(rows, {});
  const std::vector<Outcome> without = validate_left_out(rows, {}, Feature::Gpu);
  const auto sheet = static_cast<std::size_t>(Uncertain::SheetGpu);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    EXPECT_NE(without[row].predicted_s, with[row].predicted_s) << rows[row].id;
    EXPECT_EQ(with[row].uncertain[sheet], 0.0) << rows[row].id;
    EXPECT_GT(without[row].uncertain[sheet], 0.3) << rows[row].id;
  }
}

// Do the reports print both errors?
TEST(LeftOut, ReportsPrintBoth) {
  const std::vector<MeasuredRow> rows = {first_of("internevo")};
  const std::vector<Outcome> with = validate(rows, {});
  const ReportChoice choice{
      .left_out = {{Feature::Source, validate_left_out(rows, {})},
                   {Feature::Gpu, validate_left_out(rows, {}, Feature::Gpu)}}};
  EXPECT_NE(validation_text(with, choice).find("source left out"), std::string::npos);
  EXPECT_NE(validation_markdown(with, choice).find("| source left out |"), std::string::npos);
  const auto json = validation_json(with, choice);
  for (const char* feature : {"source", "gpu"}) {
    const auto& without = json.at("left_out").at(feature);
    EXPECT_NE(without.at("all").at("mape"), json.at("all").at("mape")) << feature;
    EXPECT_EQ(without.at("rows").size(), 1U) << feature;
  }
  EXPECT_EQ(validation_text(with, {}).find("left out"), std::string::npos) << "unless asked";
}

// Are rows of memory in the columns of runs?
TEST(LeftOut, RowsOfMemoryStandInTheColumnsOfRuns) {
  const std::vector<MemoryOutcome> memory = {{.id = "mem-a-1",
                                              .source = "mem-a",
                                              .figure = "allocated",
                                              .measured_gib = 50.0,
                                              .predicted_gib = 55.0}};
  const std::string text = validation_csv({}, memory);
  const std::string head = text.substr(0, text.find('\n'));
  const std::string line = text.substr(text.find('\n') + 1);
  EXPECT_EQ(std::count(head.begin(), head.end(), ','), std::count(line.begin(), line.end(), ','));
  EXPECT_EQ(line, "mem-a-1,mem-a,,,,,,,,allocated,,,,,,,,,0.1000,,55.0000,50,,,\n");
}

}  // namespace
}  // namespace trainyard
