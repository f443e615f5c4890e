// Files of measured profiles: merging, comparison, import of tables, use in a GPU's profile, the
// shapes that a run requests, and the output of the NCCL profiler.
#include "kernels/bench/profile_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "kernels/bench/collective_rows.hpp"
#include "kernels/bench/shapes_file.hpp"
#include "kernels/gpu.hpp"
#include "kernels/profile.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/collectives/profile/collective_profile.hpp"

namespace trainyard::bench {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

std::string scratch(const std::string& name) {
  return testing::TempDir() + "trainyard_profile_files_" + name;
}

MeasuredProfile profile_of(const std::string& driver, std::vector<MeasuredRow> rows) {
  return {.provenance = {{"gpu", "NVIDIA H200"}, {"driver", driver}, {"date", "2026-11-21"}},
          .rows = std::move(rows)};
}

const Gemm wide_gemm{.m = 4096, .n = 4096, .k = 4096};
const Gemm larger{.m = 8192, .n = 4096, .k = 4096};
const RowKernel wide_activation{.operation = RowOperation::Swiglu, .rows = 4096, .columns = 14336};

// Does the later row of a task replace the earlier one in a merge?
TEST(ProfileFiles, TheLaterRowOfATaskCounts) {
  const auto all = merged(
      {profile_of("580", {{wide_gemm, {200, 199, 201}, ""}}),
       profile_of("580", {{wide_gemm, {210, 209, 211}, ""}, {wide_activation, {50, 49, 51}, ""}})});
  ASSERT_EQ(all.rows.size(), 2U);
  EXPECT_EQ(all.rows[0].time_us.median, 210);
  EXPECT_EQ(all.provenance["merged_from"].size(), 2U);
}

// Are rows of different drivers not merged?
TEST(ProfileFiles, RowsOfOtherDriversAreNotMerged) {
  try {
    (void)merged({profile_of("570", {}), profile_of("580", {})});
    FAIL() << "rows of two drivers were merged";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/provenance/driver: is \"580\", but here it is \"570\""));
  }
}

// Does a diff list the kernels that became slower?
TEST(ProfileFiles, ADiffNamesWhatGotSlower) {
  const auto before = profile_of("570", {{wide_gemm, {200, 199, 201}, ""},
                                         {larger, {400, 398, 402}, ""},
                                         {wide_activation, {50, 49, 51}, ""}});
  const auto after = profile_of("580", {{wide_gemm, {250, 249, 251}, ""},
                                        {larger, {401, 399, 403}, ""},
                                        {Launches{.count = 10}, {2, 2, 2}, ""}});
  const ProfileDiff diff = compared(before, after);
  ASSERT_EQ(diff.rows.size(), 2U);
  EXPECT_EQ(diff.rows[0].task, Task{wide_gemm});
  EXPECT_DOUBLE_EQ(diff.rows[0].ratio(), 1.25);
  EXPECT_TRUE(diff.rows[0].beyond_spread);
  EXPECT_FALSE(diff.rows[1].beyond_spread);
  EXPECT_EQ(diff.only_before, 1U);
  EXPECT_EQ(diff.only_after, 1U);
  ASSERT_EQ(diff.groups.size(), 1U);
  EXPECT_EQ(diff.groups[0].slower, 1U);
  const std::string text = diff_text(diff, 1);
  EXPECT_THAT(text, HasSubstr("driver: \"570\" -> \"580\""));
  EXPECT_THAT(text, HasSubstr("1.250*     200.00 ->     250.00 us  gemm m4096 n4096 k4096"));
}

// Does a run use measured shapes as measured? In a GPU's profile with measured rows, these shapes
// are exact, their neighbours are scaled by them, and distant shapes are unchanged.
TEST(ProfileFiles, ARunAnswersMeasuredShapesAsMeasured) {
  const auto rows = profile_of("580", {{wide_gemm, {300, 299, 301}, ""},
                                       {wide_activation, {50, 49, 51}, ""},
                                       {Launches{.count = 10}, {2, 2, 2}, ""}});
  const auto base = parse_unchecked_json(read_file(data_file("kernels/profiles", "h200")));
  const std::string file = scratch("h200.json");
  write_file(file, with_measured(with_measured(base, rows), rows).dump(1));
  EXPECT_EQ(parse_unchecked_json(read_file(file))["measured"]["rows"].size(), 2U);
  const auto model = load_cost_model(file, Clock::Burst);
  const auto plain = load_cost_model("h200", Clock::Burst);
  EXPECT_DOUBLE_EQ(model->cost(wide_gemm).time.value(), 300e-6);
  EXPECT_EQ(model->cost(wide_gemm).provenance, Provenance::Measured);
  EXPECT_DOUBLE_EQ(model->cost(as_memory_bound(wide_activation)).time.value(), 50e-6);
  const double offset = 300e-6 / plain->cost(wide_gemm).time.value();
  const double near = model->cost(larger).time / plain->cost(larger).time;
  EXPECT_EQ(model->cost(larger).provenance, Provenance::Interpolated);
  EXPECT_EQ(plain->cost(larger).provenance, Provenance::Extrapolated);
  EXPECT_NEAR(std::log(near) / std::log(offset), std::exp(-1.0 / 3.0), 0.01);
  const Gemm far{.m = 64, .n = 64, .k = 64};
  EXPECT_NEAR(model->cost(far).time / plain->cost(far).time, 1.0, 0.05);
  Gemm gradient = wide_gemm;
  gradient.pass = GemmPass::WeightGrad;
  EXPECT_DOUBLE_EQ(model->cost(gradient).time.value(), plain->cost(gradient).time.value());
}

// Do rows that a later measurement leaves keep their source, and replaced ones not?
TEST(ProfileFiles, RowsThatStayKeepTheirSource) {
  const auto base = parse_unchecked_json(read_file(data_file("kernels/profiles", "h200")));
  const auto first = profile_of("570", {{wide_gemm, {300, 299, 301}, ""}});
  const auto second = profile_of("580", {{wide_activation, {50, 49, 51}, ""}});
  const auto drivers = [](const Json& profile) {
    const Json& origin = profile["measured"]["provenance"];
    return std::pair(origin.value("driver", ""),
                     origin.value("before", Json::object()).value("driver", ""));
  };
  using Drivers = std::pair<std::string, std::string>;
  EXPECT_EQ(drivers(with_measured(with_measured(base, first), second)), (Drivers{"580", "570"}));
  const auto again = profile_of("580", {{wide_gemm, {310, 309, 311}, ""}});
  EXPECT_EQ(drivers(with_measured(with_measured(base, first), again)), (Drivers{"580", ""}));
}

// Do kernels from traces have exactly their time in a step? At burst clock they are faster by the
// profile's sustained time, an earlier measurement of the same kernel alone gives way, and other
// shapes are unchanged. A second import replaces the row of its kernel.
TEST(ProfileFiles, TracedKernelsHaveTheirTimeInAStep) {
  const auto base = parse_unchecked_json(read_file(data_file("kernels/profiles", "h100")));
  const auto alone = profile_of("580", {{wide_gemm, {300, 299, 301}, ""}});
  const Json origin = {{"gpu", "NVIDIA H100"}, {"date", "2026-11-26"}};
  const Json once = with_traced(with_measured(base, alone), {{wide_gemm, 500.0, 7}}, origin);
  const Json twice = with_traced(once, {{wide_gemm, 400.0, 3}}, origin);
  EXPECT_EQ(once["measured"]["rows"].size(), 2U);
  ASSERT_EQ(twice["measured"]["rows"].size(), 2U);
  EXPECT_EQ(twice["measured"]["rows"][1]["repetitions"], 3);
  EXPECT_EQ(with_measured(twice, alone)["measured"]["rows"].size(), 2U) << "both kinds are kept";
  const std::string file = scratch("traced.json");
  write_file(file, twice.dump(1));
  const auto step = load_cost_model(file, Clock::Sustained);
  const Cost cost = step->cost(wide_gemm);
  EXPECT_DOUBLE_EQ(cost.time.value(), 400e-6);
  EXPECT_EQ(cost.provenance, Provenance::Measured);
  EXPECT_TRUE(cost.in_step);
  const auto plain = load_cost_model("h100", Clock::Sustained);
  EXPECT_FALSE(plain->cost(wide_gemm).in_step);
  write_file(file, with_traced(base, {{wide_gemm, 400.0, 3}}, origin).dump(1));
  EXPECT_DOUBLE_EQ(load_cost_model(file, Clock::Sustained)->cost(larger).time.value(),
                   plain->cost(larger).time.value());
  const double launch_s = load_profile("h100").gemm.tile.launch.value();
  const double sustained = load_profile("h100").gemm.sustained_time;
  EXPECT_GT(sustained, 1.0);
  EXPECT_NEAR(load_cost_model(file, Clock::Burst)->cost(wide_gemm).time.value(),
              launch_s + (400e-6 - launch_s) / sustained, 1e-12);
}

// Does measured interference become the factors of the profile? 16 and 32 of an H200's 132 SMs held
// give (1 - 100 / 116) / (16 / 132) = 1.1379 and (1 - 100 / 136) / (32 / 132) = 1.0919, with a
// median of 1.1149; copying loses 10 and 20 %.
TEST(ProfileFiles, InterferenceBecomesTheProfilesFactors) {
  const Interference less{.sms = 16, .gemm = wide_gemm}, more{.sms = 32, .gemm = wide_gemm};
  const auto rows =
      profile_of("580", {{less, {116, 115, 117}, "", InterferenceResult{100, 90e9, 100e9}},
                         {more, {136, 135, 137}, "", InterferenceResult{100, 160e9, 200e9}}});
  const auto factors = interference_factors(rows, 132);
  ASSERT_TRUE(factors);
  EXPECT_NEAR(factors->compute_loss, (16.0 / 116 * 132 / 16 + 36.0 / 136 * 132 / 32) / 2, 1e-12);
  EXPECT_NEAR(factors->slowed, 0.15, 1e-12);
  const std::string written = scratch("interference.json");
  finish_profile(rows, written);
  EXPECT_EQ(read_profile(written).rows, rows.rows);
  const auto base = parse_unchecked_json(read_file(data_file("kernels/profiles", "h200")));
  const std::string file = scratch("h200_beside.json");
  write_file(file, with_measured(base, rows).dump(1));
  const CommunicationSms held = load_gpu_sheet(file).communication_sms;
  EXPECT_DOUBLE_EQ(held.slowed, factors->slowed);
  EXPECT_DOUBLE_EQ(held.compute_loss, factors->compute_loss);
  EXPECT_EQ(held.intra, load_gpu_sheet("h200").communication_sms.intra);
  EXPECT_FALSE(interference_factors(profile_of("580", {}), 132));
}

// Are malformed measured sections refused?
TEST(ProfileFiles, MalformedMeasuredSectionsAreRefused) {
  auto base = parse_unchecked_json(read_file(data_file("kernels/profiles", "h200")));
  base["measured"] = {{"source", ""},
                      {"provenance", Json::object()},
                      {"rows", {{{"kernel", {{"kind", "gemm"}}}, {"time_us", 0}}}}};
  const std::string file = scratch("bad.json");
  write_file(file, base.dump(1));
  try {
    (void)load_cost_model(file);
    FAIL() << "a measured section without source was accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/measured/source"));
    EXPECT_THAT(error.what(), HasSubstr("/measured/rows/0/time_us"));
    EXPECT_THAT(error.what(), HasSubstr("/measured/rows/0/kernel/m"));
  }
}

// Does a table become a profile with median and quantiles?
TEST(ProfileFiles, TablesBecomeProfiles) {
  const std::string file = scratch("gemm.csv");
  write_file(file,
             "backend,dtype,m,n,k,time_us\na,bf16,64,128,256,4\nb,bf16,64,128,256,9\n"
             "a,fp8_block,64,128,256,3\n");
  const auto profile = from_csv(file, {.gpu = "H100", .source = "a test", .date = "2026-11-21"});
  ASSERT_EQ(profile.rows.size(), 1U);
  EXPECT_EQ(profile.rows[0].time_us, (Spread{.median = 6, .p10 = 4, .p90 = 9}));
  EXPECT_EQ(profile.provenance["rows_left_out"], 1);
  write_file(file, "dtype,batch,seq,heads,kv_heads,head_dim,time_us\nbf16,2,512,8,1,128,30\n");
  const auto attention = from_csv(file, {.gpu = "H100", .source = "a test", .date = "2026-11-21"});
  ASSERT_EQ(attention.rows.size(), 1U);
  EXPECT_EQ(std::get<Attention>(attention.rows[0].task).pairs, 512 * 513 / 2);
  const std::string written = scratch("attention.json");
  finish_profile(attention, written);
  EXPECT_EQ(read_profile(written).rows, attention.rows);
  write_file(file, "dtype,m,n,k,time_us\nbf16,64,many,256,4\n");
  EXPECT_THROW((void)from_csv(file, {}), InputError);
  write_file(file, "a,b\n1,2\n");
  EXPECT_THROW((void)from_csv(file, {}), InputError);
}

// Are empty tables refused? A profile without rows, or with an empty GEMM, would cause an error
// much later.
TEST(ProfileFiles, TablesOfNothingAreRefused) {
  const std::string file = scratch("nothing.csv");
  const auto said = [&](const std::string& rows) {
    write_file(file, "dtype,m,n,k,time_us\n" + rows);
    try {
      (void)from_csv(file, {});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_THAT(said(""), HasSubstr("has no row that can be taken, of 0"));
  EXPECT_THAT(said("BF16,64,128,256,4\n"), HasSubstr("give rows of dtype fp32, tf32, bf16"));
  EXPECT_THAT(said("bf16,64,0,256,4\n"), HasSubstr("line 2 has n 0"));
  EXPECT_THAT(said("bf16,64,128,256,-1\n"), HasSubstr("line 2 has time_us -1"));
}

// Does the file of requested shapes contain exactly the shapes that are then measured?
TEST(ShapesFile, WhatARunAsksForIsWhatIsMeasured) {
  const GroupedGemm experts{.rows = {10, 0, 22}, .n = 64, .k = 128};
  const MemoryBound norm{.kind = MemoryBoundKind::Norm, .bytes = 2 * 4 * 4096 * 512};
  const std::string file = scratch("shapes.json");
  write_file(file, shapes_to_json({{wide_gemm, "interpolated", 0.5},
                                   {experts, "extrapolated", 0.25},
                                   {norm, "", 0.0},
                                   {wide_gemm, "", 0.0}},
                                  "h200")
                       .dump(1));
  const auto tasks = read_shapes(file);
  ASSERT_EQ(tasks.size(), 3U);
  EXPECT_EQ(tasks[0], Task{wide_gemm});
  EXPECT_EQ(tasks[1], Task{experts});
  const auto& row = std::get<RowKernel>(tasks[2]);
  EXPECT_EQ(row.operation, RowOperation::RmsNorm);
  EXPECT_NEAR(static_cast<double>(as_memory_bound(row).bytes) / static_cast<double>(norm.bytes),
              1.0, 0.01);
}

// Is a collective profile of two or more ranks read back as it was written?
TEST(CollectiveRows, AProfileOfTwoRanksIsReadBack) {
  CollectiveRun run{.op = CollectiveOp::AllReduce,
                    .gpu = "NVIDIA H200",
                    .ranks = 8,
                    .nodes = 1,
                    .nccl_version = "2.28.9",
                    .forced = "algorithm ring",
                    .rows = {}};
  for (const std::int64_t bytes : size_steps(1024, 1 << 20, 4))
    run.rows.push_back({.bytes = bytes, .time_us = 10.0 + static_cast<double>(bytes) * 1e-4});
  const std::string file = scratch("nccl.json");
  write_file(file, collective_json({run}, {{"date", "2026-11-21"}}).dump(1));
  const CollectiveProfile profile = read_collective_profile(file);
  ASSERT_EQ(profile.runs.size(), 1U);
  EXPECT_EQ(profile.runs[0].ranks, 8U);
  EXPECT_EQ(profile.runs[0].rows.size(), 6U);
  EXPECT_NE(profile.find({.op = CollectiveOp::AllReduce, .ranks = 8, .nodes = 1}), nullptr);
  // 1 MiB in 114.9 us: 9.129 GB/s, times 2 * 7 / 8.
  EXPECT_NEAR(profile.runs[0].rows.back().busbw_GBps, 1048576.0 / 114.8576 * 1e-3 * 1.75, 1e-9);
}

// Is a measurement of one rank written as a lower limit and not as a profile?
TEST(CollectiveRows, OneRankIsAFloorAndNoProfile) {
  const CollectiveRun alone{.op = CollectiveOp::AllReduce,
                            .gpu = "H200",
                            .ranks = 1,
                            .nccl_version = "",
                            .forced = "",
                            .rows = {{8, 6.5}}};
  const auto json = collective_json({alone}, {{"date", "2026-11-21"}});
  EXPECT_EQ(json["schema"], "trainyard.nccl_one_rank");
  EXPECT_THAT(json["missing"].get<std::string>(), HasSubstr("a second GPU"));
  EXPECT_EQ(json["runs"][0]["rows"][0]["busbw_GBps"], 0.0);
}

// Are sizes and their units parsed as in nccl-tests?
TEST(CollectiveRows, SizesAndTheirUnits) {
  EXPECT_EQ(size_steps(8, std::int64_t{8} << 30, 2).size(), 31U);
  EXPECT_EQ(read_bytes("--max", "8GiB"), std::int64_t{8} << 30);
  EXPECT_EQ(read_bytes("--min", "8"), 8);
  EXPECT_THROW((void)read_bytes("--min", "8GB"), InputError);
  EXPECT_THROW((void)read_bytes("--min", "0.5"), InputError);
}

// Kernels that a user measured, on any GPU, against a profile.

// A GEMM whose shape no profile contains as measured.
Gemm odd_gemm(std::int64_t m) { return {.m = m, .n = 5056, .k = 3136, .dtype = DataType::Bf16}; }

MeasuredProfile rows_of(const std::string& gpu, double over) {
  const auto model = load_cost_model(gpu, Clock::Burst);
  MeasuredProfile profile{.provenance = {{"gpu", "somebody's"}}, .rows = {}};
  for (const std::int64_t m : {1111, 2222, 3333}) {
    const double us = over * model->cost(odd_gemm(m)).time.value() * 1e6;
    profile.rows.push_back({odd_gemm(m), {us, us, us}, ""});
  }
  profile.rows.push_back({Launches{.count = 10}, {1.0, 1.0, 1.0}, ""});
  return profile;
}

// Are the rows of any GPU judged without a fit, even if no table of the GPU was ever shipped? Rows
// that are all twice as slow have an error of 50 %.
TEST(JudgeRows, TakesAnyGpuAndFitsNothing) {
  for (const char* gpu : {"h200", "h100", "l40s"}) {
    const std::vector<fit::Judgement> found = judge_rows(rows_of(gpu, 2.0), gpu);
    ASSERT_EQ(found.size(), 1U) << gpu;
    EXPECT_EQ(found[0].gpu, gpu);
    EXPECT_EQ(found[0].what, "gemm bf16");
    EXPECT_EQ(found[0].errors.count, 3U);
    EXPECT_NEAR(found[0].errors.bias, -0.5, 1e-9);
    EXPECT_NEAR(found[0].errors.median, 0.5, 1e-9);
  }
}

// Are rows without any kernel refused?
TEST(JudgeRows, RefusesRowsOfNoKernel) {
  MeasuredProfile rows = rows_of("h100", 1.0);
  rows.rows.erase(rows.rows.begin(), rows.rows.begin() + 3);
  EXPECT_THROW((void)judge_rows(rows, "h100"), InputError);
}

}  // namespace
}  // namespace trainyard::bench
