// Peaks of the PyTorch allocator on every rank, published with the settings of the run, against the
// peaks of the lowered step. The table is not part of the repository. If it is absent the test is
// skipped with a message.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "models/layers/layer_memory.hpp"
#include "models/lower/options.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/timeline/memory.hpp"
#include "step.hpp"
#include "tests/models/architecture/kinds.hpp"
#include "tests/models/architecture/stage_shard.hpp"

namespace trainyard {
namespace {

using namespace test;
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

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

void add_experts(const Json& moe, Architecture& a) {
  a.experts = whole(moe, "experts");
  a.experts_per_token = whole(moe, "topk");
  a.expert_ffn = whole(moe, "expert_ffn");
  a.shared_ffn = whole(moe, "shared_expert_ffn", 0);  // of all shared experts together
  a.dense_layers = whole(moe, "first_dense_layers", 0);
}

void add_latents(const Json& mla, Architecture& a) {
  a.query_latent = whole(mla, "q_lora");
  a.kv_latent = whole(mla, "kv_lora");
  a.rope_dim = whole(mla, "qk_rope");
  a.head_dim = whole(mla, "qk_nope") + a.rope_dim;
  a.value_dim = whole(mla, "v");
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
  if (model.contains("moe") && !model["moe"].is_null()) add_experts(model["moe"], a);
  if (model.contains("mla") && !model["mla"].is_null()) add_latents(model["mla"], a);
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
                      .expert = whole(parallel, "ep"),
                      .expert_tensor = 1,
                      .zero_stage = whole(parallel, "zero_stage", 0),
                      .overlap_grad_reduce = false,
                      .overlap_param_gather = false,
                      .overlap_p2p = false};
  plan.parallelism.context_exchange = ContextExchange::AllToAll;
  plan.training.sequence_length = whole(batch, "seq_len");
  plan.training.micro_batch_size = whole(batch, "micro_batch");
  plan.training.global_batch_size = whole(batch, "global_batch");
  plan.training.fused_loss = true;  // the rows' names end in _cef: cross-entropy fused
  plan.framework = load_framework("megatron");
  plan.framework.context_bytes = 0;  // not part of the allocator
  return plan;
}

// The memory that PyTorch's allocator counts, without the CUDA context and the communicators.
std::vector<double> predicted_mib(const TrainingPlan& plan) {
  const Step step = replay(lower(plan), free_model(), [](const Kernel&) { return 1e-3; });
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

// The allowed errors of the mean and of any single rank, and the least number of ranks.
struct Goal {
  double mean = 0.0;
  double most = 0.0;
  std::size_t ranks = 0;
};

// The mean error over all ranks of the rows that `wanted` accepts. Prints a line for each row, for
// the rank with the largest error.
double mean_error(bool (*wanted)(const Json& row), const Goal& goal) {
  const Json document = parse_unchecked_json(read_file(table()));
  std::vector<double> errors;
  for (const Json& row : document) {
    if (!row.contains("model") || !row.contains("measured")) continue;
    if (!row["measured"].contains("peak_alloc_by_rank_mib") || !wanted(row)) continue;
    Comparison worst;
    for (const Comparison& rank : compare(row)) {
      errors.push_back(std::abs(rank.error()));
      EXPECT_LT(errors.back(), goal.most)
          << row["id"] << " " << rank.predicted << " MiB, measured " << rank.measured;
      if (worst.measured == 0.0 || errors.back() > std::abs(worst.error())) worst = rank;
    }
    fmt::print("  {:<60} {:8.0f} MiB, measured {:8.0f}: {:+.1f} %\n", row["id"].get<std::string>(),
               worst.predicted, worst.measured, 100.0 * worst.error());
  }
  EXPECT_GE(errors.size(), goal.ranks);
  const double mean =
      std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
  fmt::print("  {} ranks, mean error {:.2f} %\n", errors.size(), 100.0 * mean);
  return mean;
}

bool has_experts(const Json& row) { return row["model"].value("arch", "") == "moe"; }

void expect_peaks(bool (*wanted)(const Json& row), const Goal& goal) {
  if (!fs::exists(table()))
    GTEST_SKIP() << "SKIPPED, NOT TESTED: the published runs are not at " << table();
  EXPECT_LT(mean_error(wanted, goal), goal.mean);
}

// Are the peaks of dense models predicted on every rank?
TEST(MeasuredMemory, DensePeaksPerRank) {
  expect_peaks(
      [](const Json& row) { return !has_experts(row) && whole(row["parallel"], "cp") == 1; },
      {.mean = 0.005, .most = 0.01, .ranks = 96});
}

// Are the peaks of long sequences over context ranks predicted?
TEST(MeasuredMemory, LongSequencesOverContextRanks) {
  expect_peaks(
      [](const Json& row) { return !has_experts(row) && whole(row["parallel"], "cp") > 1; },
      {.mean = 0.005, .most = 0.01, .ranks = 32});
}

// Are the peaks of models with experts and latent attention predicted?
TEST(MeasuredMemory, ExpertsAndLatentAttention) {
  expect_peaks(has_experts, {.mean = 0.01, .most = 0.015, .ranks = 48});
}

// Korthikanti et al. 2205.05198, figures 1 and 7: state and activations of the first stage in GiB,
// exactly; activations as a share of plain tensor parallelism's within 0.2 points (the figure was
// read off).
TrainingPlan plan_of_figure(const Json& row) {
  const Json& config = row["config"];
  const std::string mode = row["mode"].get<std::string>();
  TrainingPlan plan;
  Architecture& a = plan.architecture;
  a.layers = whole(config, "layers");
  a.hidden = whole(config, "hidden");
  a.heads = a.kv_heads = whole(config, "heads");
  a.head_dim = a.hidden / a.heads;
  a.ffn = 4 * a.hidden;
  a.dropout = true;
  plan.parallelism.tensor = whole(config, "tp");
  plan.parallelism.sequence_parallel = mode.starts_with("sequence_parallel");
  plan.training.micro_batch_size = whole(config, "mbs");
  plan.training.sequence_length = whole(row, "seq_len");
  plan.training.attention = AttentionKind::Unfused;
  plan.training.precision = DataType::Fp16;
  if (mode == "full") plan.training.recompute = Recompute::Full;
  if (mode.find("selective") != std::string::npos) plan.training.recompute = Recompute::Selective;
  return plan;
}

double first_stage_gib(const Json& row, const TrainingPlan& plan) {
  const double factor = first_stage_factor(whole(row["config"], "pp"), whole(row["config"], "vp"));
  const auto layer =
      static_cast<double>(layer_memory(memory_options(plan), dense_layer(plan.architecture)).kept);
  return factor * static_cast<double>(plan.architecture.layers) * layer / (1024.0 * kMib);
}

// Are the published activations of Korthikanti et al. predicted?
TEST(PublishedMemory, KorthikantiActivations) {
  const fs::path file = table().parent_path().parent_path() / "memory.json";
  if (!fs::exists(file))
    GTEST_SKIP() << "SKIPPED, NOT TESTED: the published figures are not at " << file;
  std::size_t absolute = 0;
  std::size_t relative = 0;
  for (const Json& row : parse_unchecked_json(read_file(file))) {
    if (!row.contains("mode")) continue;
    const TrainingPlan plan = plan_of_figure(row);
    if (row.contains("activations_gib")) {
      ++absolute;
      EXPECT_DOUBLE_EQ(first_stage_gib(row, plan), row["activations_gib"].get<double>())
          << row["id"];
    }
    if (!row.contains("activations_pct_of_tp_baseline")) continue;
    ++relative;
    TrainingPlan plain = plan;
    plain.parallelism.sequence_parallel = false;
    plain.training.recompute = Recompute::None;
    EXPECT_NEAR(100.0 * first_stage_gib(row, plan) / first_stage_gib(row, plain),
                row["activations_pct_of_tp_baseline"].get<double>(), 0.2)
        << row["id"];
  }
  EXPECT_GE(absolute, 4U);
  EXPECT_GE(relative, 8U);
}

}  // namespace
}  // namespace trainyard
