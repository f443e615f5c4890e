// The peak memory of zero-bubble schedules against the authors' own table.
#include <gtest/gtest.h>

#include "runs.hpp"

namespace trainyard {
namespace {

// A row of table 3 and a column of table 4 of Qi et al. 2401.10241 (ZB-1p and ZB-2p are searched
// under the memory of ZB-H1 and ZB-H2): GPTs on A100s, first and last stage one layer shorter.
struct PublishedMemory {
  const char* name;
  std::int64_t layers, heads, hidden, stages, micro_batch, microbatches;
  double plain_gib, zb_1p_gib, zb_2p_gib;
};

nlohmann::ordered_json published_document(const PublishedMemory& row, const char* schedule) {
  const std::int64_t inner = (row.layers + 2) / row.stages;
  return {{"description", row.name},
          {"model",
           {{"name", row.name},
            {"layers", row.layers},
            {"hidden", row.hidden},
            {"heads", row.heads},
            {"ffn", 4 * row.hidden},
            {"vocab", 50'304},
            {"max_positions", 1024},
            {"gated_ffn", false},
            {"biases", true},
            {"dropout", true},
            {"tied_embeddings", true},
            {"positions", "learned"},
            {"norm", "layer_norm"}}},
          {"cluster",
           {{"node", "dgx_a100_80gb"},
            {"nodes", std::max<std::int64_t>(1, row.stages / 8)},
            {"fabric", {{"kind", "rail_optimized"}}}}},
          {"parallelism",
           {{"pipeline", row.stages},
            {"schedule", schedule},
            {"first_stage_layers", inner - 1},
            {"last_stage_layers", inner - 1}}},
          {"training",
           {{"sequence_length", 1024},
            {"micro_batch_size", row.micro_batch},
            {"global_batch_size", row.micro_batch * row.microbatches},
            {"attention", "unfused"}}}};
}

double peak_gib(const PublishedMemory& row, const char* schedule) {
  const ScenarioRun run = simulate(load(published_document(row, schedule)), {});
  std::int64_t most = 0;
  for (const MemoryPeak& peak : run.memory_peaks) most = std::max(most, peak.bytes);
  return static_cast<double>(most) / 1073741824.0;
}

// Is the peak the published multiple of that of 1F1B?
TEST(ZeroBubbleMemory, IsThePublishedMultipleOf1F1B) {
  for (const PublishedMemory& row :
       {PublishedMemory{"1.5B", 22, 24, 2304, 8, 6, 24, 30.0, 32.0, 59.0},
        PublishedMemory{"6.2B", 30, 32, 4096, 8, 3, 24, 39.0, 42.0, 70.0},
        PublishedMemory{"14.6B", 46, 40, 5120, 16, 1, 48, 32.0, 33.0, 51.0}}) {
    SCOPED_TRACE(row.name);
    const double plain = peak_gib(row, "1f1b");
    const double one = peak_gib(row, "zb_h1");
    const double two = peak_gib(row, "zb_h2");
    EXPECT_NEAR(plain / row.plain_gib, 1.0, 0.11);
    EXPECT_NEAR(one / row.zb_1p_gib, 1.0, 0.11);
    EXPECT_NEAR(two / row.zb_2p_gib, 1.0, 0.11);
    EXPECT_NEAR(one / plain / (row.zb_1p_gib / row.plain_gib), 1.0, 0.05);
    EXPECT_NEAR(two / plain / (row.zb_2p_gib / row.plain_gib), 1.0, 0.1);
  }
}

}  // namespace
}  // namespace trainyard
