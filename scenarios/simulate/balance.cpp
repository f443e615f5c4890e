#include "scenarios/simulate/balance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "models/pipeline_shape.hpp"
#include "models/rank_groups.hpp"
#include "sim/base/units.hpp"
#include "sim/render/text_table.hpp"
#include "sim/report/stage_summary.hpp"

namespace trainyard {

namespace {

using Shares = std::vector<std::int64_t>;

// The limit of simulations that look at neighbours of the estimated shares.
constexpr int kNeighboursTried = 8;

bool divides_layers(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  return p.pipeline > 1 && p.interleave == 1 && p.layers_per_stage.empty() &&
         !p.first_stage_layers && !p.last_stage_layers && !p.embedding_in_split &&
         !p.loss_in_split && p.operator_devices.empty() && placement_of(p) == StagePlacement::Wrap;
}

bool divides_batch(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  return p.data > 1 && p.replica_microbatches.empty() && p.zero_stage <= 1 && p.expert == 1 &&
         p.operator_devices.empty() && plan.servers.servers == 0 &&
         plan.documents.kind == DocumentKind::None;
}

// The time that one stage of one replica works, on the slowest of its ranks: it computes, or it
// waits for collectives within the stage.
struct PlaceTime {
  double layer_s = 0.0;  // of a layer and a microbatch
  double other_s = 0.0;  // of a microbatch outside the layers: embedding, head, loss
};

// The times and the memory of each stage in a run.
struct Pace {
  std::vector<std::vector<PlaceTime>> times;  // by stage and replica
  std::vector<double> memory;                 // by stage: the largest peak over its capacity
};

// Returns the time that the spans cover.
double covered(std::vector<std::pair<double, double>> spans) {
  std::ranges::sort(spans);
  double sum = 0.0;
  double until_s = 0.0;
  for (const auto& [begin_s, end_s] : spans) {
    sum += std::max(0.0, end_s - std::max(begin_s, until_s));
    until_s = std::max(until_s, end_s);
  }
  return sum;
}

// Returns the layers that each pipeline rank has, in all of its chunks.
std::vector<std::int64_t> layers_of_ranks(const TrainingPlan& plan) {
  const PipelineShape shape = pipeline_shape(plan);
  std::vector<std::int64_t> layers(static_cast<std::size_t>(shape.stages), 0);
  const std::vector<std::int64_t> split = layer_split(plan);
  for (std::size_t stage = 0; stage < split.size(); ++stage)
    layers[static_cast<std::size_t>(holder_of(shape, static_cast<std::int64_t>(stage), {}).rank)] +=
        split[stage];
  return layers;
}

// Whether the operation is computation, or a collective with the other ranks of the stage.
bool works_in_stage(const Workload& workload, RankId rank, const Operation& op) {
  if (op.kind != OpKind::Collective) return op.kind == OpKind::Compute;
  const GroupKind kind = workload.groups[workload.ranks[rank].slots[op.slot].group].kind;
  return kind == GroupKind::Tensor || kind == GroupKind::Context;
}

PlaceTime place_time(const Result& run, RankId rank, std::int64_t layers) {
  const std::uint32_t rank_class = run.partition->class_of_rank[rank];
  const Program& program = run.workload->programs[run.partition->ranks[rank_class].program];
  const OpTimes& times = run.timeline.classes[rank_class];
  std::vector<std::pair<double, double>> in_layers;
  std::vector<std::pair<double, double>> others;
  std::int32_t microbatches = 1;
  for (OpIndex index = 0; const Operation& op : program.operations) {
    const std::pair span{times.start_s[index], times.end_s[index]};
    ++index;
    if (op.microbatch < 0 || !works_in_stage(*run.workload, rank, op)) continue;
    microbatches = std::max(microbatches, op.microbatch + 1);
    (op.layer >= 0 ? in_layers : others).push_back(span);
  }
  return {.layer_s = covered(std::move(in_layers)) / static_cast<double>(microbatches * layers),
          .other_s = covered(std::move(others)) / static_cast<double>(microbatches)};
}

Pace pace_of(const Result& run, const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  const std::vector<std::int64_t> layers = layers_of_ranks(plan);
  const RankGrid grid(p);
  Pace pace{.times = std::vector(static_cast<std::size_t>(p.pipeline),
                                 std::vector<PlaceTime>(static_cast<std::size_t>(p.data))),
            .memory = std::vector<double>(static_cast<std::size_t>(p.pipeline), 0.0)};
  // Workers of local steps have the same shares, so the slowest of them counts.
  for (RankId rank = 0; rank < run.workload->ranks.size(); ++rank) {
    const GridPosition at = grid.position(rank);
    const auto stage = static_cast<std::size_t>(at.pipeline);
    const PlaceTime own = place_time(run, rank, std::max<std::int64_t>(layers[stage], 1));
    PlaceTime& slowest = pace.times[stage][static_cast<std::size_t>(at.data)];
    slowest.layer_s = std::max(slowest.layer_s, own.layer_s);
    slowest.other_s = std::max(slowest.other_s, own.other_s);
    if (run.memory_peaks.empty()) continue;
    const auto peak =
        static_cast<double>(run.memory_peaks[run.partition->class_of_rank[rank]].bytes);
    const double capacity = run.cluster->gpu_kind(run.workload->ranks[rank].gpu).memory.value();
    pace.memory[stage] = std::max(pace.memory[stage], peak / capacity);
  }
  return pace;
}

Shares microbatches_of(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  if (!p.replica_microbatches.empty()) return p.replica_microbatches;
  return Shares(static_cast<std::size_t>(p.data), plan.microbatches());
}

// A stage is as slow as in the replica that takes longest for it. Memory grows with the layers: a
// stage of 8 layers whose memory is 80 % full may have 10.
Shares layers_by_pace(const Pace& pace, const TrainingPlan& plan) {
  const Shares microbatches = microbatches_of(plan);
  const std::vector<std::int64_t> split = layer_split(plan);
  std::vector<double> seconds;
  std::vector<double> extra;
  Shares most;
  for (std::size_t stage = 0; stage < split.size(); ++stage) {
    double layer_s = 0.0;
    double other_s = 0.0;
    for (std::size_t replica = 0; replica < microbatches.size(); ++replica) {
      const PlaceTime& time = pace.times[stage][replica];
      const auto count = static_cast<double>(microbatches[replica]);
      layer_s = std::max(layer_s, count * time.layer_s);
      other_s = std::max(other_s, count * time.other_s);
    }
    seconds.push_back(std::max(layer_s, std::numeric_limits<double>::min()));
    extra.push_back(other_s);
    const double room = pace.memory[stage] > 0.0 ? 1.0 / pace.memory[stage]
                                                 : static_cast<double>(plan.architecture.layers);
    most.push_back(std::clamp<std::int64_t>(
        static_cast<std::int64_t>(static_cast<double>(split[stage]) * room), 1,
        plan.architecture.layers));
  }
  return balanced_shares(plan.architecture.layers, seconds, extra, most);
}

// A replica of m microbatches and p stages takes m + p - 1 times its slowest stage.
Shares microbatches_by_pace(const Pace& pace, const TrainingPlan& plan) {
  const std::vector<std::int64_t> split = layers_of_ranks(plan);
  const Shares now = microbatches_of(plan);
  const std::int64_t count = std::accumulate(now.begin(), now.end(), std::int64_t{0});
  std::vector<double> seconds(now.size(), 0.0);
  for (std::size_t stage = 0; stage < split.size(); ++stage)
    for (std::size_t replica = 0; replica < now.size(); ++replica) {
      const PlaceTime& time = pace.times[stage][replica];
      seconds[replica] = std::max(seconds[replica],
                                  static_cast<double>(split[stage]) * time.layer_s + time.other_s);
    }
  std::vector<double> extra;
  for (const double slowest : seconds)
    extra.push_back(slowest * static_cast<double>(split.size() - 1));
  return balanced_shares(count, seconds, extra, Shares(now.size(), count));
}

std::string balance_text(const BalanceFacts& facts, double step_s) {
  std::string text;
  if (!facts.layers.empty())
    text = fmt::format("layers {} on the stages", counted_text(facts.layers));
  if (!facts.microbatches.empty())
    text += fmt::format("{}microbatches {} on the replicas", text.empty() ? "" : ", ",
                        counted_text(facts.microbatches));
  if (text.empty()) return "nothing to share: one stage and one replica, or shares that are given";
  return fmt::format("{}; equal shares would take {} ({})", text,
                     to_text(Seconds{facts.equal_step_s}),
                     signed_percent(facts.equal_step_s / step_s - 1.0));
}

// Keeps the fastest run, and of runs that fit into memory and others a run that fits.
class Balancing {
 public:
  Balancing(const Scenario& scenario, const std::function<Result(const Scenario&)>& simulate)
      : simulate_(simulate), scenario_(scenario), best_(scenario) {
    Parallelism& first = best_.plan.parallelism;
    first.balance = Balance::Equal;
    if (divides_layers(scenario.plan) && scenario.plan.architecture.layers % first.pipeline != 0)
      first.layers_per_stage = layer_split(scenario.plan);
    run_ = simulate(best_);
    equal_s_ = run_.view().step_s();
  }

  [[nodiscard]] Result result() {
    const TrainingPlan& plan = scenario_.plan;
    const bool layers = divides_layers(plan);
    const bool batch = divides_batch(plan);
    // The shares of one depend on those of the other.
    for (int round = 0; round < (layers && batch ? 2 : 1); ++round) {
      if (layers) take(&Parallelism::layers_per_stage, layers_by_pace(pace(), best_.plan));
      if (batch) take(&Parallelism::replica_microbatches, microbatches_by_pace(pace(), best_.plan));
    }
    if (layers) try_neighbours(&Parallelism::layers_per_stage);
    if (batch) try_neighbours(&Parallelism::replica_microbatches);
    const BalanceFacts facts{.layers = layers ? layer_split(best_.plan) : Shares{},
                             .microbatches = batch ? microbatches_of(best_.plan) : Shares{},
                             .equal_step_s = equal_s_};
    add_balance(facts, run_.view().step_s(), run_.facts);
    return std::move(run_);
  }

 private:
  using Field = Shares Parallelism::*;

  [[nodiscard]] Pace pace() const { return pace_of(run_, best_.plan); }

  // Simulates the best plan with other shares, and keeps it where it is better.
  bool take(Field field, Shares shares) {
    if (shares.empty() || shares == now(field)) return false;
    Scenario changed = best_;
    changed.plan.parallelism.*field = std::move(shares);
    Result run = simulate_(changed);
    const bool fits = everything_fits(run.view());
    const bool fitted = everything_fits(run_.view());
    // If both runs fit, or neither does, the faster one is better; else the one that fits.
    if (fits == fitted ? run.view().step_s() >= run_.view().step_s() : fitted) return false;
    best_ = std::move(changed);
    run_ = std::move(run);
    return true;
  }

  [[nodiscard]] Shares now(Field field) const {
    return field == &Parallelism::layers_per_stage ? layer_split(best_.plan)
                                                   : microbatches_of(best_.plan);
  }

  // Moves one item from the share whose computation takes longest to one of the others, the fastest
  // first, for as long as that helps.
  void try_neighbours(Field field) {
    for (int tried = 0; tried < kNeighboursTried;) {
      const std::vector<double> busy_s = busy(field);
      std::vector<std::size_t> order(busy_s.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::ranges::stable_sort(order, {}, [&](std::size_t i) { return busy_s[i]; });
      const std::size_t from = order.back();
      const double item_s = busy_s[from] / static_cast<double>(now(field)[from]);
      bool better = false;
      for (std::size_t i = 0; i + 1 < order.size() && !better && tried < kNeighboursTried; ++i) {
        Shares shares = now(field);
        // The item would make the other share the slowest. The order is ascending, so no later one
        // gains either.
        if (shares[from] <= 1 || busy_s[order[i]] + item_s >= busy_s[from]) return;
        --shares[from];
        ++shares[order[i]];
        ++tried;
        better = take(field, std::move(shares));
      }
      if (!better) return;
    }
  }

  // The time of the computation of each stage, or of each replica.
  [[nodiscard]] std::vector<double> busy(Field field) const {
    const Pace found = pace();
    const std::vector<std::int64_t> split = layers_of_ranks(best_.plan);
    const Shares microbatches = microbatches_of(best_.plan);
    const bool by_stage = field == &Parallelism::layers_per_stage;
    std::vector<double> busy_s(by_stage ? split.size() : microbatches.size(), 0.0);
    for (std::size_t stage = 0; stage < split.size(); ++stage)
      for (std::size_t replica = 0; replica < microbatches.size(); ++replica) {
        const PlaceTime& time = found.times[stage][replica];
        double& slowest = busy_s[by_stage ? stage : replica];
        slowest = std::max(slowest,
                           static_cast<double>(microbatches[replica]) *
                               (static_cast<double>(split[stage]) * time.layer_s + time.other_s));
      }
    return busy_s;
  }

  const std::function<Result(const Scenario&)>& simulate_;
  Scenario scenario_;  // as given, with equal shares
  Scenario best_;      // so far
  Result run_ = {};    // of the best
  double equal_s_ = 0.0;
};

}  // namespace

// Each item goes where the sum is smallest afterwards: for times that grow with the share this is
// optimal, since an item that goes elsewhere makes no largest time smaller.
std::vector<std::int64_t> balanced_shares(std::int64_t count, std::span<const double> seconds,
                                          std::span<const double> extra,
                                          std::span<const std::int64_t> most) {
  const std::int64_t room = std::accumulate(most.begin(), most.end(), std::int64_t{0});
  const auto owners = static_cast<std::int64_t>(seconds.size());
  if (count < owners || room < count) return {};
  std::vector<std::int64_t> shares(seconds.size(), 1);
  for (std::int64_t item = owners; item < count; ++item) {
    std::size_t best = seconds.size();
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      const double then = static_cast<double>(shares[i] + 1) * seconds[i] + extra[i];
      if (shares[i] >= most[i] || then >= least) continue;
      least = then;
      best = i;
    }
    ++shares[best];
  }
  return shares;
}

Scenario with_shares(Scenario scenario, const BalanceFacts& shares) {
  Parallelism& sizes = scenario.plan.parallelism;
  sizes.balance = Balance::Equal;
  // Equal shares stay unnamed, as in a scenario without balance.
  if (!shares.layers.empty() && (scenario.plan.architecture.layers % sizes.pipeline != 0 ||
                                 shares.layers != layer_split(scenario.plan)))
    sizes.layers_per_stage = shares.layers;
  if (!shares.microbatches.empty() && shares.microbatches != microbatches_of(scenario.plan))
    sizes.replica_microbatches = shares.microbatches;
  return scenario;
}

void add_balance(const BalanceFacts& shares, double step_s, RunFacts& facts) {
  facts.setup.push_back({"balance", balance_text(shares, step_s)});
  facts.balance = shares;
}

Result simulate_balanced(const Scenario& scenario,
                         const std::function<Result(const Scenario&)>& simulate) {
  return Balancing(scenario, simulate).result();
}

}  // namespace trainyard
