#include "sim/report/figures.hpp"

namespace trainyard {
namespace {

constexpr double kTera = 1e12;

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
  const auto utilisation = [&](Flops work) -> std::optional<double> {
    const auto each = tflops(work);
    if (!each || facts.gpu_peak.value() <= 0.0) return std::nullopt;
    return *each * kTera / facts.gpu_peak.value();
  };
  const auto tokens = rate(facts.tokens_per_step);
  return {.step_time_s = step_s,
          .tokens_per_s = tokens,
          .tokens_per_s_per_gpu = tokens ? std::optional(*tokens / gpus) : std::nullopt,
          .model_tflops_per_gpu = tflops(facts.model_flops),
          .hardware_tflops_per_gpu = tflops(facts.hardware_flops),
          .mfu = utilisation(facts.model_flops),
          .hfu = utilisation(facts.hardware_flops),
          .mfu_other = utilisation(facts.model_flops_other),
          .hfu_other = utilisation(facts.hardware_flops_other)};
}

}  // namespace trainyard
