// The GPU profiles as data: they load, every number has a source, and derived profiles are marked.
#include "kernels/profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/gpu.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"

namespace trainyard {
namespace {

using json = nlohmann::ordered_json;
using testing::HasSubstr;

constexpr std::size_t profile_bytes_most = 100'000;

// Do all profiles load?
TEST(Profile, AllLoad) {
  EXPECT_THAT(gpu_names(),
              testing::ElementsAre("a100_40gb", "a100_80gb", "b200", "b300", "gb200", "gb300",
                                   "gh200", "h100", "h100_96gb", "h200", "h800", "l40s", "mi300x",
                                   "rtx_2080", "rtx_3090", "titan_rtx", "v100"));
  for (const std::string& name : gpu_names()) {
    const GpuSheet sheet = load_gpu_sheet(name);
    EXPECT_EQ(sheet.name, name);
    EXPECT_FALSE(sheet.title.empty());
    EXPECT_GT(sheet.sms, 0);
    EXPECT_GT(sheet.fp16.value(), sheet.fp32.value()) << name;
    EXPECT_GT(sheet.hbm.value(), 4e11) << name;
    EXPECT_GE(sheet.memory.value(), 8e9) << name;
    EXPECT_LT(read_file(data_file("kernels/profiles", name)).size(), profile_bytes_most) << name;
  }
}

// Do the sheets contain the figures of the data sheets?
TEST(Profile, SheetsHoldTheDataSheetFigures) {
  EXPECT_DOUBLE_EQ(load_gpu_sheet("a100_80gb").peak(DataType::Bf16).value(), 312e12);
  EXPECT_DOUBLE_EQ(load_gpu_sheet("a100_40gb").hbm.value(), 1555e9);
  EXPECT_DOUBLE_EQ(load_gpu_sheet("h100").peak(DataType::Fp8).value(), 1978.9e12);
  EXPECT_DOUBLE_EQ(load_gpu_sheet("h200").hbm.value(), 4800e9);
  EXPECT_DOUBLE_EQ(load_gpu_sheet("b200").peak(DataType::Bf16).value(), 2250e12);
  EXPECT_EQ(load_gpu_sheet("h800").sms, 132);
  EXPECT_EQ(load_gpu_sheet("mi300x").power_w, 0.0) << "not the power of the GPU it is derived from";
}

// Checks that every number is in an object with a source, or below one. Returns how many there are.
std::size_t expect_sources(const json& value, const std::string& place, bool sourced) {
  std::size_t numbers = 0;
  if (value.is_object()) {
    const bool here = sourced || (value.contains("source") && !value["source"].empty()) ||
                      (value.contains("provenance") && value["provenance"].contains("table"));
    for (const auto& [key, inner] : value.items())
      if (key != "version") numbers += expect_sources(inner, place + "/" + key, here);
  } else if (value.is_array()) {
    for (const auto& inner : value) numbers += expect_sources(inner, place, sourced);
  } else if (value.is_number()) {
    EXPECT_TRUE(sourced) << place;
    ++numbers;
  }
  return numbers;
}

// Does every number have a source?
TEST(Profile, EveryNumberHasASource) {
  for (const std::string& name : gpu_names()) {
    const auto profile = parse_unchecked_json(read_file(data_file("kernels/profiles", name)));
    EXPECT_GE(expect_sources(profile, name, false), 4U) << name;
  }
}

// Do fitted sections state their data and their error?
TEST(Profile, FittedSectionsSayOnWhatAndHowWell) {
  for (const std::string name : {"a100_80gb", "h100", "b200"}) {
    const auto profile = parse_unchecked_json(read_file(data_file("kernels/profiles", name)));
    const auto& gemm = profile["gemm"]["provenance"];
    EXPECT_GT(gemm["bf16"]["rows"], 5000) << name;
    for (const char* key : {"table", "source", "command", "date", "held_out"})
      EXPECT_FALSE(gemm[key].get<std::string>().empty()) << name << key;
    const double loose = name == "b200" ? 0.02 : 0.0;
    EXPECT_LE(gemm["bf16"]["unseen_shapes"]["median"], 0.05 + loose) << name;
    EXPECT_LE(gemm["bf16"]["unseen_shapes"]["p95"], 0.15 + loose * 2.5) << name;
    const auto& attention = profile["attention"]["provenance"]["unseen_shapes"];
    EXPECT_LE(attention["median"], 0.07) << name;
    EXPECT_LE(attention["p95"], 0.20) << name;
  }
}

// Do derived GPUs extrapolate all costs of their base GPU?
TEST(Profile, DerivedGpusExtrapolateEverythingOfTheirSiblings) {
  int derived = 0;
  for (const std::string& name : gpu_names()) {
    const GpuSheet sheet = load_gpu_sheet(name);
    if (sheet.derived_from.empty()) continue;
    ++derived;
    const auto model = load_cost_model(name, Clock::Burst);
    const Gemm gemm{.m = 4096, .n = 4096, .k = 4096, .dtype = DataType::Fp16};
    EXPECT_EQ(model->cost(gemm).provenance, Provenance::Extrapolated) << name;
    Attention attention = table_attention(4096, 32, 128);
    attention.dtype = DataType::Fp16;
    EXPECT_EQ(model->cost(attention).provenance, Provenance::Extrapolated) << name;
    const bool own_memory = name == "a100_40gb";  // fitted to its own kernels
    EXPECT_EQ(model->cost(MemoryBound{.bytes = 1 << 30}).provenance,
              own_memory ? Provenance::Interpolated : Provenance::Extrapolated)
        << name;
  }
  EXPECT_EQ(derived, 14);
}

// Does a derived GPU scale with its data sheet?
TEST(Profile, ASiblingScalesWithTheDataSheet) {
  const MemoryBound kernel{.bytes = 10'000'000'000};
  const Seconds h100 = load_cost_model("h100")->cost(kernel).time;
  const Seconds h200 = load_cost_model("h200")->cost(kernel).time;
  EXPECT_NEAR(h100 / h200, 4800.0 / 3350.0, 0.01);
}

// Do errors for unknown names and precisions suggest a remedy?
TEST(Profile, UnknownNamesAndPrecisionsAreExplained) {
  try {
    (void)load_gpu_sheet("h10");
    FAIL() << "an unknown GPU was accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("h100"));
  }
  const auto v100 = load_cost_model("v100");
  try {
    (void)v100->cost(Gemm{.m = 128, .n = 128, .k = 128, .dtype = DataType::Bf16});
    FAIL() << "a V100 computed in bf16";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no bf16"));
  }
}

// A copy of a profile with one change, in a folder that is removed after the test.
class BrokenProfile : public testing::Test {
 protected:
  std::string written(const json& profile) const {
    const auto file = std::filesystem::path(testing::TempDir()) / "trainyard_broken_profile.json";
    write_file(file, profile.dump());
    return file.string();
  }
  json h200() const {
    return parse_unchecked_json(read_file(data_file("kernels/profiles", "h200")));
  }
};

// Does an error name the field that is wrong?
TEST_F(BrokenProfile, NamesTheFieldThatIsWrong) {
  json profile = h200();
  profile["sheet"]["hbm"]["value"] = "fast";
  profile["sheet"]["sms"]["source"] = "";
  profile["colour"] = "green";
  try {
    (void)load_profile(written(profile));
    FAIL() << "a broken profile was accepted";
  } catch (const InputError& error) {
    EXPECT_EQ(error.problems().size(), 3U);
    EXPECT_THAT(error.what(), HasSubstr("/sheet/hbm/value"));
    EXPECT_THAT(error.what(), HasSubstr("/sheet/sms/source"));
    EXPECT_THAT(error.what(), HasSubstr("colour"));
  }
}

// Can the sheet be read if the fits are damaged, and is it the sheet that pricing uses?
TEST_F(BrokenProfile, GivesItsSheetWhenItsFitsAreLost) {
  json profile = parse_unchecked_json(read_file(data_file("kernels/profiles", "h100")));
  profile["gemm"]["tables"][0]["efficiency_1e4"].erase(0);
  const std::string file = written(profile);
  EXPECT_EQ(load_gpu_sheet(file).hbm.value(), 3350e9);
  EXPECT_THROW((void)load_gpu(file), InputError);
  profile["sheet"]["hbm"]["value"] = "fast";
  EXPECT_THROW((void)load_gpu_sheet(written(profile)), InputError);
  for (const std::string& name : gpu_names())
    EXPECT_EQ(load_gpu(name).sheet.hbm.value(), load_gpu_sheet(name).hbm.value()) << name;
}

// Does a derived GPU with more power hold a higher clock? The clock follows a power of the dynamic
// power (static: 210 W of an H100, 300 W of a B200), whatever the boost clock of its peak, and
// never exceeds it.
TEST(Profile, MorePowerHoldsAHigherClock) {
  const auto sustained = [](const char* gpu) { return load_profile(gpu).gemm.sustained_time; };
  const double exponent = load_profile("b200").clock_exponent;
  EXPECT_NEAR(sustained("gb200"),
              sustained("b200") * 2500.0 / 2250.0 * std::pow(700.0 / 900.0, exponent), 1e-12);
  EXPECT_NEAR(sustained("h100_96gb"), sustained("h100") * std::cbrt(490.0 / 290.0), 1e-12);
  EXPECT_EQ(sustained("h200"), sustained("h100"));
  for (const std::string& gpu : data_names("kernels/profiles"))
    EXPECT_GE(sustained(gpu.c_str()), 1.0) << gpu;
}

// Does attention slow down with less power? Its tables are valid in training on the GPUs on which
// they were measured.
TEST(Profile, LessPowerSlowsAttentionToo) {
  const auto clock = [](const char* gpu) { return load_profile(gpu).attention.clock_time; };
  EXPECT_NEAR(clock("h100_96gb"), std::cbrt(490.0 / 290.0), 1e-12);
  EXPECT_EQ(clock("h100"), 1.0);
  EXPECT_EQ(clock("gb200"), 1.0) << "the tables' clock is the highest";
  const Attention large = table_attention(16384, 64, 128);
  const auto slowed = [&](Clock held) {
    const double at_500_w = load_cost_model("h100_96gb", held)->cost(large).time.value();
    return at_500_w / load_cost_model("h100", held)->cost(large).time.value();
  };
  EXPECT_NEAR(slowed(Clock::Sustained), std::cbrt(490.0 / 290.0), 1e-3) << "but for the launch";
  EXPECT_NEAR(slowed(Clock::Burst), 1.0, 1e-12);
}

// Are another version and a profile derived from a derived one refused?
TEST_F(BrokenProfile, RefusesAnotherVersionAndADerivedSibling) {
  json profile = h200();
  profile["version"] = 2;
  EXPECT_THROW((void)load_profile(written(profile)), InputError);
  profile = h200();
  profile["derived_from"] = "h800";
  EXPECT_THROW((void)load_profile(written(profile)), InputError);
}

// Does a user's data sheet alone give a GPU that equals its base GPU except for its own figures?
TEST_F(BrokenProfile, ADataSheetAloneIsAsTheGpuItNamesButForItsOwnFigures) {
  const json own = {{"schema", "trainyard.gpu_profile"},
                    {"version", 1},
                    {"title", "NVIDIA H100 95 GB HBM2e"},
                    {"derived_from", "h100"},
                    {"sheet",
                     {{"hbm", {{"value", "2400 GB/s"}, {"source", "our vendor"}}},
                      {"memory", {{"value", "95 GB"}, {"source", "our vendor"}}}}}};
  const std::string file = written(own);
  const GpuSheet sheet = load_gpu_sheet(file);
  const GpuSheet measured = load_gpu_sheet("h100");
  EXPECT_DOUBLE_EQ(sheet.hbm.value(), 2.4e12);
  EXPECT_DOUBLE_EQ(sheet.memory.value(), 95e9);
  EXPECT_EQ(sheet.sms, measured.sms);
  EXPECT_EQ(sheet.generation, "hopper");
  EXPECT_EQ(sheet.communication_sms.intra, measured.communication_sms.intra);
  const MemoryBound streamed{.bytes = 1 << 30};
  EXPECT_GT(load_cost_model(file)->cost(streamed).time.value(),
            load_cost_model("h100")->cost(streamed).time.value());
  json alone = own;
  alone.erase("derived_from");
  try {
    (void)load_gpu_sheet(written(alone));
    FAIL() << "a data sheet that names no measured GPU was accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/derived_from"));
    EXPECT_THAT(error.what(), HasSubstr("a100_80gb"));
  }
}

// Are tables that do not match their axes refused?
TEST_F(BrokenProfile, RefusesTablesThatDoNotFitTheirAxes) {
  json profile = parse_unchecked_json(read_file(data_file("kernels/profiles", "h100")));
  profile["gemm"]["tables"][0]["efficiency_1e4"].erase(0);
  try {
    (void)load_profile(written(profile));
    FAIL() << "a table with a missing line was accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/gemm/tables/0/efficiency_1e4"));
  }
  profile = parse_unchecked_json(read_file(data_file("kernels/profiles", "h100")));
  profile["gemm"]["tables"][0]["efficiency_1e4"][0] = "0 x 20000";
  EXPECT_THROW((void)load_profile(written(profile)), InputError);
}

}  // namespace
}  // namespace trainyard
