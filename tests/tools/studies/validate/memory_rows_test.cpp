// Is measured memory compared with that of the simulated run, and does the report give a reason
// where it cannot be?
#include "tools/studies/validate/memory_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Two figures of Korthikanti et al. 2022 (arXiv 2205.05198, figures 1 and 7), and runs.
const char* const kRows = R"json([
  {"id": "mem-korthikanti-22B-seqsel", "gpu": "A100-SXM4-80GB", "model": "megatron-22B",
   "seq_len": 2048, "mode": "sequence_parallel+selective",
   "config": {"layers": 48, "hidden": 6144, "heads": 64, "tp": 8, "pp": 1, "vp": 1, "mbs": 4,
              "gbs": 4, "gpus": 8},
   "params_grads_optimizer_gib": 45.5625, "activations_gib": 9.5625},
  {"id": "mem-korthikanti-22B-share", "gpu": "A100-SXM4-80GB", "mode": "selective",
   "config": {}, "activations_pct_of_tp_baseline": 49.42},
  {"id": "mem-own-run", "training_id": "own-run", "metric": "peak_mem_allocated_gib", "value": 4.0},
  {"id": "mem-own-reserved", "training_id": "own-run", "metric": "peak_mem_gib", "value": 4.0},
  {"id": "mem-own-lost", "training_id": "lost", "metric": "peak_mem_gib", "value": 1.0}
])json";

const char* const kRuns = R"json([
  {"id": "own-run",
   "model": {"name": "small", "arch": "dense", "layers": 4, "hidden": 1024, "heads": 16,
             "kv_heads": 16, "head_dim": 64, "ffn": 4096, "gated_mlp": false, "vocab": 51200},
   "hardware": {"gpu": "A100-SXM4-80GB", "num_gpus": 8}, "framework": "Megatron-LM",
   "precision": "FP16", "parallel": {"tp": 1, "pp": 1, "dp": 8, "zero_stage": 0},
   "batch": {"micro_batch": 1, "global_batch": 8, "seq_len": 2048}, "recompute": "none",
   "measured": {"iter_time_s": 1.0}}
])json";

std::vector<MemoryOutcome> validated() {
  const fs::path folder = fs::path(testing::TempDir()) / "memory_rows";
  fs::create_directories(folder / "training");
  write_file(folder / "memory.json", kRows);
  write_file(folder / "training" / "published.json", kRuns);
  EXPECT_TRUE(is_memory_dataset(folder / "memory.json"));
  EXPECT_FALSE(is_memory_dataset(folder / "training" / "published.json"));
  return validate_memory(folder / "memory.json", [](const std::string&) { return true; }, {});
}

// Is every figure predicted, or is there a reason why not?
TEST(MemoryRows, EveryFigureIsPredictedOrSaysWhyNot) {
  const std::vector<MemoryOutcome> rows = validated();
  ASSERT_EQ(rows.size(), 6U) << "two figures of the first row";
  EXPECT_EQ(rows[0].source, "korthikanti");
  EXPECT_THAT(rows[0].figure, HasSubstr("state"));
  EXPECT_LT(std::abs(rows[0].error()), 0.05) << "the figure leaves the embedding out";
  EXPECT_THAT(rows[1].figure, HasSubstr("activations"));
  EXPECT_LT(std::abs(rows[1].error()), 0.08) << "and the head's input, which is kept as well";
  EXPECT_THAT(rows[2].reason, HasSubstr("share"));
  ASSERT_TRUE(rows[3].predicted()) << rows[3].reason;
  ASSERT_TRUE(rows[4].predicted()) << rows[4].reason;
  EXPECT_GT(rows[4].predicted_gib, rows[3].predicted_gib) << "reserved is more than given out";
  EXPECT_THAT(rows[5].reason, HasSubstr("training/published.json"));

  const std::string text = memory_rows_text(rows);
  EXPECT_THAT(text, HasSubstr("korthikanti, activations of the first stage"));
  EXPECT_THAT(text, HasSubstr("Not predicted, and why"));
  const auto json = memory_rows_json(rows);
  EXPECT_EQ(json[1]["error"].get<double>(), rows[1].error());
  EXPECT_TRUE(json[5].contains("reason"));
}

// Is an empty choice refused?
TEST(MemoryRows, NothingChosenIsRefused) {
  const fs::path file = fs::path(testing::TempDir()) / "chosen.json";
  write_file(file, kRows);
  EXPECT_THROW(
      static_cast<void>(validate_memory(file, [](const std::string&) { return false; }, {})),
      InputError);
}

}  // namespace
}  // namespace trainyard
