// Collective profiles: as files, and as the times of a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/collectives/profile/collective_profile.hpp"
#include "sim/collectives/profile/profiled_model.hpp"
#include "sim/engine/engine.hpp"
#include "sim/fold/fold.hpp"
#include "sim/nccl/nccl_model.hpp"
#include "tests/agreement.hpp"
#include "tests/topologies/clusters.hpp"
#include "topologies/topology.hpp"

namespace trainyard {
namespace {

using testing::HasSubstr;

// 12 us + S / 100 GB/s from 1 KiB to 64 MiB, in and out of placed.
MeasuredRun run_of(CollectiveOp op, std::uint32_t ranks, std::uint32_t nodes) {
  MeasuredRun run{.file = "a.log", .op = op, .gpu = "GPU", .ranks = ranks, .nodes = nodes};
  for (std::int64_t bytes = 1024; bytes <= (1 << 26); bytes *= 4) {
    const double time_us = 12.0 + static_cast<double>(bytes) / 1e5;
    run.rows.push_back({.bytes = bytes, .dtype = "float", .time_us = time_us});
    run.rows.push_back(
        {.bytes = bytes, .dtype = "float", .time_us = 1.5 * time_us, .in_place = true});
  }
  return run;
}

CollectiveProfile profile_of(CollectiveOp op, std::uint32_t ranks, std::uint32_t nodes) {
  return make_collective_profile({run_of(op, ranks, nodes)}, "2026-01-31");
}

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("trainyard_profile_" + std::to_string(::getpid()));
  ~Folder() { std::filesystem::remove_all(path); }
};

// Is a profile read as it was written?
TEST(CollectiveProfile, IsReadAsItWasWritten) {
  const Folder folder;
  const CollectiveProfile written = profile_of(CollectiveOp::AllGather, 16, 2);
  write_file(folder.path / "p.json", to_json(written).dump(1));
  EXPECT_TRUE(is_collective_profile(read_file(folder.path / "p.json")));
  const CollectiveProfile read = read_collective_profile(folder.path / "p.json");
  EXPECT_EQ(to_json(read).dump(), to_json(written).dump());
  EXPECT_EQ(read.imported, "2026-01-31");
  EXPECT_EQ(read.source, "nccl-tests: a.log");
}

// Does a profile state the latency and the rate of every fit? They are those of the line behind the
// times; in place all times are half as long again.
TEST(CollectiveProfile, FitsStateTheirLatencyAndRate) {
  const nlohmann::ordered_json document = to_json(profile_of(CollectiveOp::AllGather, 16, 2));
  ASSERT_EQ(document.at("fits").size(), 2U);
  for (const nlohmann::ordered_json& fit : document.at("fits")) {
    const double factor = fit.at("in_place") ? 1.5 : 1.0;
    ASSERT_EQ(fit.at("segments").size(), 1U);
    const nlohmann::ordered_json& segment = fit.at("segments").front();
    EXPECT_NEAR(segment.at("latency_us").get<double>(), 12.0 * factor, 1e-6);
    EXPECT_NEAR(segment.at("algbw_GBps").get<double>(), 100.0 / factor, 1e-6);
  }
}

// Does a fit of a single size have no rate? Its time may not depend on the size.
TEST(CollectiveProfile, AFitOfOneSizeHasNoRate) {
  MeasuredRun run = run_of(CollectiveOp::AllGather, 16, 2);
  run.rows.resize(1);
  const nlohmann::ordered_json document = to_json(make_collective_profile({run}, ""));
  const nlohmann::ordered_json& segment = document.at("fits").at(0).at("segments").at(0);
  EXPECT_NEAR(segment.at("latency_us").get<double>(), 12.0 + 1024.0 / 1e5, 1e-9);
  EXPECT_TRUE(segment.at("algbw_GBps").is_null());
}

// Are two ranks the fewest of a run?
TEST(CollectiveProfile, TwoRanksAreTheFewest) {
  const Folder folder;
  for (const std::uint32_t ranks : {1U, 2U}) {
    write_file(folder.path / "p.json",
               to_json(profile_of(CollectiveOp::AllReduce, ranks, 1)).dump());
    if (ranks == 1) {
      EXPECT_THROW((void)read_collective_profile(folder.path / "p.json"), InputError);
    } else {
      EXPECT_EQ(read_collective_profile(folder.path / "p.json").curves.front().ranks, 2U);
    }
  }
}

// Does a refusal list every problem?
TEST(CollectiveProfile, RefusesWithEveryProblem) {
  const Folder folder;
  nlohmann::ordered_json document = to_json(profile_of(CollectiveOp::AllGather, 16, 2));
  document["runs"][0]["rows"][0]["time_us"] = 0.0;
  document["runs"][0]["rows"][1]["op"] = "all_reduce";
  document["runs"][0]["ranks"] = 1;
  document["verion"] = 1;
  write_file(folder.path / "p.json", document.dump());
  try {
    (void)read_collective_profile(folder.path / "p.json");
    FAIL() << "was read";
  } catch (const InputError& error) {
    const std::string text = error.what();
    EXPECT_THAT(text, HasSubstr("/runs/0/rows/0/time_us: 0 us is no time"));
    EXPECT_THAT(text, HasSubstr("/runs/0/rows/1/op: is another operation"));
    EXPECT_THAT(text, HasSubstr("/runs/0/ranks"));
    EXPECT_THAT(text, HasSubstr("/verion: unknown key"));
  }
}

// Is the curve of the same shape and data type preferred, out of placed?
TEST(CollectiveProfile, FindsTheShapeAndPrefersItsTypeOutOfPlace) {
  MeasuredRun half = run_of(CollectiveOp::AllReduce, 8, 1);
  for (RunRow& row : half.rows) row.dtype = "half";
  const CollectiveProfile profile =
      make_collective_profile({run_of(CollectiveOp::AllReduce, 8, 1), half}, "");
  ProfileQuery question{
      .op = CollectiveOp::AllReduce, .ranks = 8, .nodes = 1, .dtype = DataType::Fp16};
  ASSERT_NE(profile.find(question), nullptr);
  EXPECT_EQ(profile.find(question)->dtype, "half");
  EXPECT_FALSE(profile.find(question)->in_place);
  question.dtype = DataType::Bf16;
  EXPECT_NE(profile.find(question), nullptr);
  question.nodes = 2;
  EXPECT_EQ(profile.find(question), nullptr);
}

double time_of(const Cluster& cluster, const CommunicationModel& communication, const Call& call,
               std::uint32_t ranks, std::string_view engine) {
  Workload workload;
  workload.streams = {"compute"};
  workload.names = {"call"};
  workload.slots = {"group"};
  workload.calls = {call};
  workload.programs = {{.name = "call", .operations = {{.kind = OpKind::Collective}}}};
  workload.groups.resize(1);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    workload.groups[0].members.push_back(RankId{rank});
    workload.ranks.push_back({.gpu = rank, .slots = {{.group = 0, .group_rank = rank}}});
  }
  const Partition partition = fold(cluster, workload, communication, {.drop_uncontended = true});
  return make_engine(engine)
      ->run(
          {.cluster = cluster, .workload = workload, .partition = partition, .kernel_seconds = {}})
      .makespan_s;
}

// Does a call alone take its measured time? This holds on both engines, also if the fit is only
// latency.
TEST(ProfiledModel, ACallAloneTakesItsMeasuredTime) {
  const Cluster cluster = h100s(1);
  const nccl::NcclModel nccl(cluster, {});
  const CollectiveProfile profile = profile_of(CollectiveOp::AllReduce, 8, 1);
  const ProfiledModel communication(cluster, nccl, profile, "p.json");
  for (const std::string engine : {"ideal", "simgrid"}) {
    std::size_t sizes = 0;
    for (const RunRow& row : profile.runs[0].rows) {
      if (row.in_place) continue;
      const CollectiveCall call{.bytes = row.bytes, .dtype = DataType::Fp32, .algorithm = "nccl"};
      EXPECT_NEAR(time_of(cluster, communication, call, 8, engine), row.time_us * 1e-6,
                  kAgreement * row.time_us * 1e-6)
          << row.bytes;
      ++sizes;
    }
    EXPECT_EQ(sizes, 9U) << "from 1 KiB to 64 MiB";
  }
}

// Are other calls unaffected?
TEST(ProfiledModel, LeavesOtherCallsAlone) {
  const Cluster cluster = h100s(2);
  const nccl::NcclModel nccl(cluster, {});
  const CollectiveProfile profile = profile_of(CollectiveOp::AllReduce, 8, 1);
  const ProfiledModel communication(cluster, nccl, profile, "p.json");
  const std::vector<std::uint32_t> node{0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<std::uint32_t> rail{0, 8};
  const CollectiveCall call{.bytes = 1 << 20, .algorithm = "nccl"};
  EXPECT_EQ(communication.label(call, node), "profile: p.json");
  EXPECT_EQ(communication.label(CollectiveCall{.bytes = 1 << 30, .algorithm = "nccl"}, node),
            "profile: p.json, beyond the sizes measured");
  EXPECT_EQ(communication.label(call, rail), nccl.label(call, rail));
  EXPECT_EQ(communication.label(CollectiveCall{.bytes = 1 << 20, .algorithm = "ring"}, node),
            "ring");
  const CollectiveCall gather{.op = CollectiveOp::AllGather, .bytes = 1 << 20, .algorithm = "nccl"};
  EXPECT_EQ(communication.curve(gather, node), nullptr);
}

// Are links never faster than described? If the links cannot carry the measured rate, they decide.
TEST(ProfiledModel, LinksAreNeverFasterThanTheyAre) {
  const Cluster cluster = h100s(1);
  MeasuredRun run = run_of(CollectiveOp::AllReduce, 8, 1);
  for (RunRow& row : run.rows) row.time_us *= 1e-3;  // 100 TB/s
  const CollectiveProfile profile = make_collective_profile({run}, "");
  const nccl::NcclModel nccl(cluster, {});
  const ProfiledModel communication(cluster, nccl, profile, "p.json");
  const CollectiveCall call{.bytes = 1 << 26, .dtype = DataType::Fp32, .algorithm = "nccl"};
  // NVLS moves at least S over each GPU's links.
  const double least_s = double{1 << 26} / load_node("dgx_h100").nvlink.value();
  EXPECT_GE(time_of(cluster, communication, call, 8, "simgrid"), least_s);
}

// Can a profile be used without a model of the GPU? A profile measured on GPUs of other makers
// still loads links.
TEST(ProfiledModel, NeedsNoModelOfTheGpu) {
  const Cluster cluster = build_cluster({.node = load_node("mi300x"), .nodes = 1});
  const nccl::NcclModel nccl(cluster, {});
  const CollectiveProfile profile = profile_of(CollectiveOp::AllReduce, 8, 1);
  const ProfiledModel communication(cluster, nccl, profile, "p.json");
  const CollectiveCall call{.bytes = 1 << 20, .dtype = DataType::Fp32, .algorithm = "nccl"};
  EXPECT_NEAR(time_of(cluster, communication, call, 8, "simgrid"), 12e-6 + (1 << 20) / 1e11,
              kAgreement * 23e-6);
}

}  // namespace
}  // namespace trainyard
