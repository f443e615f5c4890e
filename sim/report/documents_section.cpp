// Packed documents: how unevenly their attention is divided in a step, and the step over several
// batches.
#include <fmt/format.h>

#include <cmath>

#include "sim/base/sample_mean.hpp"
#include "sim/report/report.hpp"
#include "sim/report/result_json.hpp"
#include "sim/report/stage_summary.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

double seconds_of(const Breakdown& breakdown, TimeShare share) {
  return breakdown.seconds[static_cast<std::size_t>(share)];
}

// The share of the step that balancing saves, batch by batch.
std::vector<double> savings(const BatchTimes& batches) {
  std::vector<double> saved;
  for (std::size_t i = 0; i < batches.balanced_s.size(); ++i)
    saved.push_back(1.0 - batches.balanced_s[i] / batches.as_drawn_s[i]);
  return saved;
}

Json sample_json(const std::vector<double>& values) {
  const SampleMean sample = sample_mean(values);
  return {{"mean", sample.mean},
          {"deviation", sample.deviation},
          {"low", sample.low()},
          {"high", sample.high()}};
}

template <class Print>
void add_sample(TextTable& table, const std::string& title, const std::vector<double>& values,
                const Print& print) {
  const SampleMean sample = sample_mean(values);
  table.row({title, print(sample.mean),
             fmt::format("{} to {}", print(sample.low()), print(sample.high())),
             print(sample.deviation)});
}

}  // namespace

std::string documents_section(const RunView& view) {
  if (!view.facts.documents) return "";
  const DocumentFacts& facts = *view.facts.documents;
  const Breakdown mean = mean_breakdown(stage_breakdown(view));
  TextTable table({"attention of", "largest over mean", "loss of all causes", "of the step"});
  const auto add = [&](const char* title, double excess, TimeShare share) {
    const double seconds = seconds_of(mean, share);
    const bool waits = seconds > 0.0;
    table.row({title, signed_percent(excess), waits ? to_text(Seconds{seconds}) : "-",
               waits ? percent(seconds / view.step_s()) : "-"});
  };
  add("replicas (waiting)", facts.replica_excess, TimeShare::Waiting);
  add("microbatches (bubble)", facts.microbatch_excess, TimeShare::Bubble);
  return wrapped(fmt::format("Documents: {} of {:.4g} tokens in the mean, the longest of {} ({}, "
                             "balance {}); attention computes {} of the pairs of whole sequences",
                             grouped(static_cast<double>(facts.count)), facts.mean_tokens,
                             facts.longest_tokens, facts.lengths, facts.balance,
                             percent(facts.pairs_share)),
                 2) +
         table.text();
}

Json documents_json(const RunView& view) {
  if (!view.facts.documents) return nullptr;
  const DocumentFacts& facts = *view.facts.documents;
  Json stages = Json::array();
  for (const StageBreakdown& stage : stage_breakdown(view))
    stages.push_back({{"stage", stage.stage},
                      {"waiting_s", seconds_of(stage.mean, TimeShare::Waiting)},
                      {"bubble_s", seconds_of(stage.mean, TimeShare::Bubble)}});
  return {{"lengths", facts.lengths},
          {"balance", facts.balance},
          {"count", facts.count},
          {"mean_tokens", facts.mean_tokens},
          {"longest_tokens", facts.longest_tokens},
          {"pairs_share", facts.pairs_share},
          {"replica_excess", facts.replica_excess},
          {"microbatch_excess", facts.microbatch_excess},
          {"stages", std::move(stages)}};
}

std::string batches_section(const RunView& view) {
  if (!view.facts.batches) return "";
  const BatchTimes& batches = *view.facts.batches;
  const auto time = [](double seconds) { return to_text(Seconds{seconds}); };
  TextTable table({"", "mean", "95 % interval of the mean", "deviation"});
  if (batches.balanced_s.empty()) {
    add_sample(table, "step time", batches.step_s, time);
  } else {
    add_sample(table, "step as drawn", batches.as_drawn_s, time);
    add_sample(table, fmt::format("step balanced ({})", batches.balance), batches.balanced_s, time);
    add_sample(table, "saved by balancing", savings(batches), percent);
  }
  return fmt::format("Over {} batches (seeds {} to {})\n{}", batches.step_s.size(),
                     batches.first_seed, batches.first_seed + batches.step_s.size() - 1,
                     table.text());
}

Json batches_json(const RunView& view) {
  if (!view.facts.batches) return nullptr;
  const BatchTimes& batches = *view.facts.batches;
  Json json{{"count", batches.step_s.size()},
            {"first_seed", batches.first_seed},
            {"step_times_s", batches.step_s},
            {"step_time_s", sample_json(batches.step_s)}};
  if (batches.balanced_s.empty()) return json;
  json["balance"] = batches.balance;
  json["as_drawn_s"] = sample_json(batches.as_drawn_s);
  json["balanced_s"] = sample_json(batches.balanced_s);
  json["saving"] = sample_json(savings(batches));
  return json;
}

}  // namespace trainyard
