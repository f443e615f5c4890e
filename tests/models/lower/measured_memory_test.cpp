// Peaks of the PyTorch allocator on every rank, published with the settings of the run, against the
// peaks of the lowered step. The table lies beside the project, not in it; where it is absent the
// test is skipped and says so.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/base/error.hpp"
#include "sim/timeline/memory.hpp"
#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;
namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr double kMib = 1048576.0;

fs::path table() {
  if (const char* folder = std::getenv("TRAINYARD_MEASURED"))
    return fs::path(folder) / "training" / "published.json";
  return fs::path(TRAINYARD_SOURCE_DIRECTORY) / ".." / "shared" / "measured" / "training" /
         "published.json";
}

std::int64_t whole(const Json& object, const char* key, std::int64_t absent = 1) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? absent : found->get<std::int64_t>();
}

Architecture architecture_of(const Json& model) {
  Architecture a;
  a.name = model["name"].get<std::string>();
  a.layers = whole(model, "layers");
  a.hidden = whole(model, "hidden");
  a.heads = whole(model, "heads");
  a.kv_heads = whole(model, "kv_heads", a.heads);
  a.head_dim = whole(model, "head_dim", a.hidden / a.heads);
  a.ffn = whole(model, "ffn");
  a.vocab = whole(model, "vocab");
  a.max_positions = 1'000'000;
  a.gated_ffn = model["gated_mlp"].get<bool>();
  return a;
}

TrainingPlan plan_of_row(const Json& row) {
  const Json& parallel = row["parallel"];
  const Json& batch = row["batch"];
  TrainingPlan plan;
  plan.architecture = architecture_of(row["model"]);
  plan.parallelism = {.tensor = whole(parallel, "tp"),
                      .sequence_parallel = parallel["sequence_parallel"].get<bool>(),
                      .pipeline = whole(parallel, "pp"),
                      .data = whole(parallel, "dp"),
                      .context = whole(parallel, "cp"),
                      .zero_stage = whole(parallel, "zero_stage", 0),
                      .overlap_grad_reduce = false,
                      .overlap_param_gather = false,
                      .overlap_p2p = false};
  plan.parallelism.context_exchange = ContextExchange::AllToAll;
  plan.training.sequence_length = whole(batch, "seq_len");
  plan.training.micro_batch_size = whole(batch, "micro_batch");
  plan.training.global_batch_size = whole(batch, "global_batch");
  return plan;
}

// What the allocator of PyTorch sees: not the context and the communicators.
std::vector<double> predicted_mib(const TrainingPlan& plan) {
  const Step step = replay(lower(plan), free_transport(), [](const Kernel&) { return 1e-3; });
  std::vector<double> stages(step.workload.programs.size());
  for (std::size_t rank = 0; rank < step.partition.ranks.size(); ++rank) {
    const MemoryPeak peak = memory_peak(step.workload, step.partition, step.timeline, rank);
    stages[step.partition.ranks[rank].program] = static_cast<double>(peak.bytes) / kMib;
  }
  return stages;
}

struct Comparison {
  double predicted = 0.0;
  double measured = 0.0;
  [[nodiscard]] double error() const { return predicted / measured - 1.0; }
};

// Every rank of the row, by its stage: the ranks of a stage follow each other.
std::vector<Comparison> compare(const Json& row) {
  const std::vector<double> stages = predicted_mib(plan_of_row(row));
  const Json& ranks = row["measured"]["peak_alloc_by_rank_mib"];
  std::vector<Comparison> result;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    result.push_back({.predicted = stages[rank * stages.size() / ranks.size()],
                      .measured = ranks[rank].get<double>()});
  }
  return result;
}

// The mean error over all ranks of the dense rows that `wanted` chooses; prints a line for each
// row.
double mean_error(bool (*wanted)(const Json& row), double most) {
  const Json document = Json::parse(std::ifstream(table()));
  std::vector<double> errors;
  for (const Json& row : document) {
    const bool dense = row.contains("model") && row["model"].value("arch", "") == "dense";
    if (!dense || !row.contains("measured")) continue;
    if (!row["measured"].contains("peak_alloc_by_rank_mib") || !wanted(row)) continue;
    const std::vector<Comparison> ranks = compare(row);
    for (const Comparison& rank : ranks) {
      errors.push_back(std::abs(rank.error()));
      EXPECT_LT(errors.back(), most)
          << row["id"] << " " << rank.predicted << " MiB, measured " << rank.measured;
    }
    fmt::print("  {:<60} {:8.0f} MiB, measured {:8.0f}: {:+.1f} %\n", row["id"].get<std::string>(),
               ranks.front().predicted, ranks.front().measured, 100.0 * ranks.front().error());
  }
  EXPECT_FALSE(errors.empty());
  const double mean =
      std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
  fmt::print("  {} ranks, mean error {:.2f} %\n", errors.size(), 100.0 * mean);
  return mean;
}

bool has_table() { return fs::exists(table()); }

TEST(MeasuredMemory, DensePeaksPerRank) {
  if (!has_table())
    GTEST_SKIP() << "the published runs are not at " << table()
                 << ": peaks of memory were NOT checked";
  EXPECT_LT(mean_error([](const Json& row) { return whole(row["parallel"], "cp") == 1; }, 0.05),
            0.03);
}

TEST(MeasuredMemory, LongSequencesOverContextRanks) {
  if (!has_table())
    GTEST_SKIP() << "the published runs are not at " << table()
                 << ": peaks of memory were NOT checked";
  EXPECT_LT(mean_error([](const Json& row) { return whole(row["parallel"], "cp") > 1; }, 0.25),
            0.15);
}

}  // namespace
}  // namespace trainyard
