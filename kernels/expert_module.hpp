// Time of one rank's whole expert module: permute, up GEMM, activation, down GEMM, unpermute;
// without communication.
//
//    ExpertTable table = load_expert_table(profile);
//    Cost c = module_cost(profile, table, {.tokens = 4096, .topk = 8, .experts = 256,
//                         .expert_parallel = 8, .hidden = 7168, .inner = 2048});
//
// Inference engines choose their kernels once for a module and use them for every number of tokens,
// and the choice may cost a factor of two or more. The logarithm of measured time over the trend is
// therefore interpolated by kriging (kriging.hpp), with the module, at all its numbers of tokens,
// as the family.
#pragma once

#include <array>
#include <compare>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kriging.hpp"
#include "kernels/profile.hpp"

namespace trainyard {

struct ExpertModule {
  std::int64_t tokens = 0;  // of all ranks that share the experts
  std::int64_t topk = 1;
  std::int64_t experts = 0;
  std::int64_t expert_parallel = 1;
  std::int64_t tensor_parallel = 1;
  std::int64_t hidden = 0;
  std::int64_t inner = 0;  // inner width of one expert before it is divided by tensor_parallel
  bool gated = true;
  std::string routing = "balanced";  // or another name of the tables: "power_law_1.2"
  std::string precision = "bf16";    // or "fp8", "fp8_block"
  [[nodiscard]] std::int64_t rows() const { return tokens * topk / expert_parallel; }
  [[nodiscard]] std::int64_t local_experts() const { return experts / expert_parallel; }
  [[nodiscard]] std::int64_t local_inner() const { return inner / tensor_parallel; }
};

// The GEMMs of a module whose routed tokens are spread evenly.
[[nodiscard]] GroupedGemm up_gemm(const ExpertModule& module);
[[nodiscard]] GroupedGemm down_gemm(const ExpertModule& module);
// Time of everything that is not a GEMM: routing, permute, activation, unpermute.
[[nodiscard]] Seconds module_rest_time(const GpuProfile& profile, const ExpertModule& module);
// Time of the whole module by the profile alone, at the tables' burst clock.
[[nodiscard]] Seconds module_model_time(const GpuProfile& profile, const ExpertModule& module);
// A simple estimate to which modules are compared: t = 20 us + F / 0.6 R + B / 0.8 W, with F the
// FLOPs of the GEMMs, R the peak, B the weights of the experts in use and the traffic of tokens and
// routed tokens, W the bandwidth. Example: 4096 tokens on an H100, top 8 of 256 experts of 3072 x
// 1024 in bf16, undivided: 20 + 1041.8 + 2172.3 = 3234 us (measured: 2264.8, because the two
// overlap).
[[nodiscard]] Seconds module_trend_time(const GpuSheet& sheet, const ExpertModule& module);

// A module without its number of tokens.
struct ModuleKind {
  std::string precision, routing;
  // hidden, inner, gated, topk, experts, tensor_parallel, expert_parallel
  std::array<std::int64_t, 7> shape{};
  auto operator<=>(const ModuleKind&) const = default;
};
[[nodiscard]] ModuleKind kind_of(const ExpertModule& module);
[[nodiscard]] ExpertModule module_of(const ModuleKind& kind, std::int64_t tokens);

// Measured seconds of each kind by ascending number of tokens, and the same data as observations of
// the deviation from the trend, for each precision and routing.
using ModuleSeries = std::vector<std::pair<std::int64_t, double>>;
struct ExpertTable {
  std::map<ModuleKind, ModuleSeries> series;
  std::map<std::pair<std::string, std::string>, std::vector<Observation>> observations;
};
// Fills the observations from the series.
void prepare(ExpertTable& table, const GpuSheet& sheet);

// Reads kernels/modules/<gpu>.json and prepares it for that GPU's profile; empty for a GPU without
// such a file. Throws InputError for a malformed file.
[[nodiscard]] ExpertTable load_expert_table(const GpuProfile& profile);
// The lines of a table in the file: one line for each shape, "~" where nothing was measured.
[[nodiscard]] std::vector<std::string> table_lines(const ExpertTable& table,
                                                   const std::vector<std::int64_t>& tokens,
                                                   const std::string& precision,
                                                   const std::string& routing);

// Measured: the table contains it. Interpolated: its kind was measured with fewer and with more
// tokens. Extrapolated: everything else.
[[nodiscard]] Cost module_cost(const GpuProfile& profile, const ExpertTable& table,
                               const ExpertModule& module);

}  // namespace trainyard
