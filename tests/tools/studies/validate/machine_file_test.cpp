// A user's own measurements, with a description of their machine in a file next to them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "scenarios/reader/scenario.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "tools/studies/validate/collective_rows.hpp"
#include "tools/studies/validate/dataset.hpp"
#include "tools/studies/validate/row_scenario.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Json = nlohmann::ordered_json;

class OwnMachine : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("trainyard_own_machine_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    log_ = folder_ / "ours.log";
    fs::copy_file(fs::path(TRAINYARD_SOURCE_DIRECTORY) / "tests/scenarios/import/h8.log", log_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void describe(const std::string& machine) const {
    write_file(folder_ / "ours.machine.json", machine);
  }
  [[nodiscard]] std::string complaint() const {
    try {
      (void)validate_collectives(log_);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }

  fs::path folder_;
  fs::path log_;
};

// Is a log validated against the machine file next to it? The log of nccl-tests is unchanged
// output, and next to it is a platform block or a cluster.
TEST_F(OwnMachine, ALogIsJudgedByTheMachineBesideIt) {
  ASSERT_TRUE(is_collective_dataset(log_));
  EXPECT_THAT(complaint(), HasSubstr("ours.machine.json"));
  for (const char* machine :
       {R"({"gpu": "h100", "gpus": 8, "nccl": "2.27"})",
        R"({"node": "dgx_h100", "nodes": 1, "fabric": {"kind": "single_switch"}})"}) {
    describe(machine);
    const std::vector<Outcome> outcomes = validate_collectives(log_);
    ASSERT_GT(outcomes.size(), 10U) << machine;
    for (const Outcome& outcome : outcomes) {
      ASSERT_TRUE(outcome.predicted()) << outcome.reason;
      EXPECT_EQ(outcome.row.source, "ours");
      EXPECT_LT(std::abs(outcome.error()), 2.0) << outcome.row.id;
    }
  }
}

// Is a faulty machine refused with the field at fault?
TEST_F(OwnMachine, AMachineAtFaultIsRefusedAtItsPlace) {
  describe(R"({"gpu": "h1000", "gpus": 8})");
  EXPECT_THAT(complaint(), testing::AllOf(HasSubstr("ours.machine.json"), HasSubstr("/gpu")));
  describe(R"({"gpu": "h100", "gpus": 8, "nick": 50})");
  EXPECT_THAT(complaint(), HasSubstr("/nick: unknown key"));
  describe(R"({"gpu": "h100", "gpus": 4})");
  EXPECT_THAT(complaint(), HasSubstr("/nics: is 0, and 8 ranks are on several nodes"));
  describe(R"({"node": "dgx_h1000", "nodes": 1})");
  EXPECT_THAT(complaint(), HasSubstr("dgx_h1000"));
}

// Do rows of training run on the cluster next to them? The steps were measured on the user's own
// cluster, and each row takes its part of it.
TEST_F(OwnMachine, RowsOfTrainingRunOnTheClusterBesideThem) {
  Json row = {
      {"id", "mine-1"},
      {"model", {{"layers", 8}, {"hidden", 1024}, {"heads", 8}, {"ffn", 4096}, {"vocab", 32000}}},
      {"hardware", {{"num_gpus", 16}}},
      {"framework", "megatron_bridge"},
      {"parallel", {{"dp", 16}}},
      {"batch", {{"micro_batch", 1}, {"global_batch", 32}, {"seq_len", 2048}}},
      {"measured", {{"iter_time_s", 0.5}}}};
  write_file(folder_ / "ours.json", Json::array({row}).dump());
  const auto scenario = [&] {
    const MeasuredRow read = read_dataset(folder_ / "ours.json").front();
    return read_scenario_document("row", row_scenario(load_row_tables(), read));
  };
  EXPECT_THROW((void)scenario(), InputError) << "nobody says what the machine is";
  describe(R"({"node": "dgx_h200", "nodes": 64, "fabric": {"kind": "fat_tree"}})");
  const Scenario s = scenario();
  EXPECT_EQ(s.cluster.nodes, 2U);
  EXPECT_EQ(s.cluster.node.gpu, "h200");
  EXPECT_TRUE(std::holds_alternative<FatTree>(s.cluster.fabric.kind));
  EXPECT_EQ(s.framework, "megatron_bridge");
  EXPECT_TRUE(s.plan.training.fused_loss) << "a default of that framework";
}

}  // namespace
}  // namespace trainyard
