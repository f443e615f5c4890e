#include "sim/report/figures.hpp"

#include <functional>
#include <utility>

namespace trainyard {
namespace {

constexpr double kTera = 1e12;

// FLOPs of one step as one convention counts them.
struct CountedFlops {
  std::string attention;
  Flops model;
  Flops hardware;
};

std::vector<CountedFlops> counted_flops(const RunFacts& facts) {
  const std::string& own = facts.flops_convention;
  const std::string other = own == "causal" ? "full" : own == "full" ? "causal" : "other";
  return {{own, facts.model_flops, facts.hardware_flops},
          {other, facts.model_flops_other, facts.hardware_flops_other}};
}

// `tflops`: what so many FLOPs are a second and GPU, nothing where there are none.
std::vector<Utilisation> utilisations(const RunFacts& facts,
                                      const std::function<std::optional<double>(Flops)>& tflops) {
  std::vector<Utilisation> rows;
  for (const CountedFlops& counted : counted_flops(facts)) {
    const std::optional<double> model = tflops(counted.model);
    for (const PeakRate& peak : facts.peaks) {
      if (!model || peak.rate.value() <= 0.0) continue;
      const auto share = [&](double rate) { return rate * kTera / peak.rate.value(); };
      rows.push_back({.attention = counted.attention,
                      .peak = peak,
                      .mfu = share(*model),
                      .hfu = share(tflops(counted.hardware).value_or(0.0))});
    }
  }
  return rows;
}

}  // namespace

Figures figures(const RunView& view) {
  const RunFacts& facts = view.facts;
  const double step_s = view.step_s();
  const auto gpus = static_cast<double>(view.workload.ranks.size());
  const auto rate = [&](double amount) -> std::optional<double> {
    if (amount <= 0.0 || step_s <= 0.0) return std::nullopt;
    return amount / step_s;
  };
  const auto tflops = [&](Flops work) -> std::optional<double> {
    const auto all = rate(work.value());
    return all ? std::optional(*all / gpus / kTera) : std::nullopt;
  };
  const auto tokens = rate(facts.tokens_per_step);
  std::vector<Utilisation> rows = utilisations(facts, tflops);
  return {.step_time_s = step_s,
          .tokens_per_s = tokens,
          .tokens_per_s_per_gpu = tokens ? std::optional(*tokens / gpus) : std::nullopt,
          .model_tflops_per_gpu = tflops(facts.model_flops),
          .hardware_tflops_per_gpu = tflops(facts.hardware_flops),
          .mfu = rows.empty() ? std::nullopt : std::optional(rows.front().mfu),
          .hfu = rows.empty() ? std::nullopt : std::optional(rows.front().hfu),
          .utilisation = std::move(rows)};
}

}  // namespace trainyard
