// Workers that train apart for several steps and then exchange weights.
#include <fmt/format.h>

#include "sim/report/report.hpp"
#include "sim/report/result_json.hpp"

namespace trainyard {
namespace {

std::string bytes_text(std::int64_t bytes) { return to_text(Bytes{static_cast<double>(bytes)}); }

}  // namespace

std::string local_steps_section(const RunView& view) {
  if (!view.facts.local_steps) return "";
  const LocalStepsFacts& local = *view.facts.local_steps;
  const double mean_s = view.step_s();
  std::string text = fmt::format("Workers that train apart: {}, an exchange every {} steps\n",
                                 local.workers, local.every);
  text += wrapped(
      fmt::format("  a step takes {}; an exchange takes {} (up to {} from each rank), {} of the "
                  "mean step of {}",
                  to_text(Seconds{mean_s - view.exchange_s()}), to_text(Seconds{local.exchange_s}),
                  bytes_text(local.exchange_bytes), percent(view.exchange_s() / mean_s),
                  to_text(Seconds{mean_s})),
      4);
  text += wrapped(fmt::format("  the outer optimizer holds up to {} on a rank: the weights of the "
                              "last exchange and their momentum",
                              bytes_text(local.state_bytes)),
                  4);
  return text + wrapped(
                    "  tokens, FLOPs and energy are those of all workers; whether the model "
                    "learns as much from a token is not modelled",
                    4);
}

nlohmann::ordered_json local_steps_json(const RunView& view) {
  if (!view.facts.local_steps) return nullptr;
  const LocalStepsFacts& local = *view.facts.local_steps;
  return {{"workers", local.workers},
          {"every", local.every},
          {"inner_step_time_s", view.step_s() - view.exchange_s()},
          {"exchange_time_s", local.exchange_s},
          {"exchange_bytes", local.exchange_bytes},
          {"outer_state_bytes", local.state_bytes}};
}

}  // namespace trainyard
