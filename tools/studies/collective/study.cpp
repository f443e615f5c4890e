#include "tools/studies/collective/study.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/cluster/timed_faults.hpp"
#include "sim/collectives/collective.hpp"
#include "sim/collectives/profile/profiled_model.hpp"
#include "sim/engine/engine.hpp"
#include "sim/fold/fold.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

namespace {

constexpr double kRounding = 1e-12;
// Share of the transfer time from which on a link counts as full.
constexpr double kFull = 1.0 - 1e-9;

// Loads: latencies and rate caps may differ, as they do between sizes of NCCL's tuning.
enum class Compared : std::uint8_t { All, Loads };

// Whether the phases `b` are the phases `a` with every byte count multiplied by `factor`.
bool scales(const std::vector<Phase>& a, const std::vector<Phase>& b, double factor,
            Compared compared) {
  const bool all = compared == Compared::All;
  const auto same_load = [&](const LinkLoad& x, const LinkLoad& y) {
    return x.link == y.link && std::abs(x.bytes * factor - y.bytes) <= kRounding * y.bytes;
  };
  const auto same_flow = [&](const MultiLinkFlow& x, const MultiLinkFlow& y) {
    return (!all || x.rate_cap_bytes_per_s == y.rate_cap_bytes_per_s) &&
           std::equal(x.loads.begin(), x.loads.end(), y.loads.begin(), y.loads.end(), same_load);
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const Phase& x, const Phase& y) {
    return (!all || x.latency == y.latency) &&
           std::equal(x.flows.begin(), x.flows.end(), y.flows.begin(), y.flows.end(), same_flow);
  });
}

// A fold with all byte counts multiplied by `factor`. Weights stay: they are relative to the
// payload. Rates stay: they do not depend on the size.
Partition scaled(Partition partition, double factor) {
  for (FlowClass& flow : partition.flows) {
    flow.payload_bytes *= factor;
    for (FlowClass::Weight& weight : flow.weights) weight.bytes *= factor;
  }
  return partition;
}

// The time that the busiest link needs for the bytes of a phase if nothing else limits its flows.
double links_need_s(const Cluster& cluster, const Phase& phase) {
  std::map<LinkId, double> bytes;
  for (const MultiLinkFlow& link_flow : phase.flows)
    for (const LinkLoad& load : link_flow.loads) bytes[load.link] += load.bytes;
  double longest = 0.0;
  for (const auto& [link, sum] : bytes)
    longest = std::max(longest, sum / cluster.link(link).capacity.value());
  return longest;
}

// Whether the phases consist of one phase that moves at the rate of NCCL's model, after its
// latency.
bool follows(const std::vector<Phase>& phases, const nccl::Choice& choice, std::int64_t bytes) {
  if (phases.size() != 1) return false;
  const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(b); };
  const double transfer_s = choice.prediction.transfer_us(static_cast<double>(bytes)) * 1e-6;
  return near(phases.front().latency.value(), choice.prediction.latency_us * 1e-6) &&
         std::ranges::all_of(phases.front().flows, [&](const MultiLinkFlow& link_flow) {
           double payload = 0.0;
           for (const LinkLoad& load : link_flow.loads) payload = std::max(payload, load.bytes);
           return near(link_flow.rate_cap_bytes_per_s * transfer_s, payload);
         });
}

bool same_method(const nccl::Choice& a, const nccl::Choice& b) {
  return a.method.algorithm == b.method.algorithm && a.method.protocol == b.method.protocol;
}

// A communication model that returns known phases for the call of one size, and passes all other
// calls on.
class KnownPhases final : public CommunicationModel {
 public:
  KnownPhases(const CommunicationModel& communication, std::int64_t bytes,
              const std::vector<Phase>& known)
      : communication_(communication), bytes_(bytes), known_(known) {}
  [[nodiscard]] std::vector<Phase> phases(const Call& call,
                                          std::span<const std::uint32_t> gpus) const override {
    return bytes_of(call) == bytes_ ? known_ : communication_.phases(call, gpus);
  }
  [[nodiscard]] SelectedAlgorithm selected_algorithm(
      const Call& call, std::span<const std::uint32_t> gpus) const override {
    return communication_.selected_algorithm(call, gpus);
  }

 private:
  const CommunicationModel& communication_;
  std::int64_t bytes_;
  const std::vector<Phase>& known_;
};

Program one_call(OpKind kind) {
  Program program;
  program.name = to_string(kind);
  program.operations = {{.kind = kind}};
  return program;
}

// A workload in which every GPU of the question makes the one call. A send_recv has one program for
// the sender and one for the receiver.
Workload workload_of(const CollectiveQuestion& question, const Call& call) {
  const bool sends = question.op == CollectiveOp::SendRecv;
  Workload workload;
  workload.streams = {"compute"};
  workload.names = {std::string(to_string(question.op))};
  workload.slots = {"group"};
  workload.calls = {call};
  if (sends) {
    workload.programs = {one_call(OpKind::Send), one_call(OpKind::Recv)};
  } else {
    workload.programs = {one_call(OpKind::Collective)};
  }
  Group group;
  for (std::uint32_t group_rank = 0; group_rank < question.gpus.size(); ++group_rank) {
    group.members.emplace_back(group_rank);
    workload.ranks.push_back({.program = sends ? group_rank : 0,
                              .gpu = question.gpus[group_rank],
                              .slots = {{.group = 0, .group_rank = group_rank}}});
  }
  workload.groups = {std::move(group)};
  return workload;
}

// Folds the one call of a question for many sizes, at little more than the cost of one fold.
//
// Most algorithms load the same links in the same proportions at every size. So the sizes are
// divided into ranges over which the phases differ only in their bytes. The ranges are found by
// bisection: if the phases at both ends are equal up to scale, they are taken as equal at every
// size between. Each range is folded once, at its largest size, and scaled to the others.
//
// NCCL's tuning also changes the latency and the rate with the size. In such a range the fold is
// reused, and the latency and rate of each size are put in. This is valid as long as no link is
// loaded beyond its capacity, because then every flow moves at the rate of NCCL's model. If a link
// would be full at some size, this size is folded by itself.
class Folding {
 public:
  // Folds `call`, which the group of the question makes. The bytes of `call` do not matter.
  Folding(const Cluster& cluster, const ChosenModel& communication,
          const CollectiveQuestion& question, Call call)
      : cluster_(cluster),
        communication_(communication),
        question_(question),
        call_(std::move(call)),
        ascending_(question.sizes) {
    std::sort(ascending_.begin(), ascending_.end());
    ascending_.erase(std::unique(ascending_.begin(), ascending_.end()), ascending_.end());
  }

  // The fold of each size. REQUIRES: sizes above zero.
  std::map<std::int64_t, Partition> all() {
    if (!ascending_.empty()) range(0, ascending_.size() - 1);
    return std::move(folds_);
  }

 private:
  [[nodiscard]] Call call(std::int64_t bytes) const { return with_bytes(call_, bytes); }
  [[nodiscard]] Partition folded(std::int64_t bytes) {
    return fold(cluster_, workload_of(question_, call(bytes)),
                KnownPhases(communication_.get(), bytes, phases(bytes)),
                // A fold without uncontended loads assumes constant links.
                {.drop_uncontended = !has_timed_links(cluster_.facts())});
  }
  [[nodiscard]] bool is_profiled(std::int64_t bytes) const {
    return communication_.is_profiled(call(bytes), question_.gpus);
  }
  // The choice of NCCL. There is no value if NCCL does not choose, or if a profile gives the time.
  [[nodiscard]] std::optional<nccl::Choice> choice(std::int64_t bytes) const {
    if (is_profiled(bytes)) return {};
    return communication_.nccl().choice(call(bytes), question_.gpus);
  }
  // The phases of each size, which the communication model computes once.
  const std::vector<Phase>& phases(std::int64_t bytes) {
    const auto [entry, fresh] = phases_.try_emplace(bytes);
    if (fresh) entry->second = communication_.get().phases(call(bytes), question_.gpus);
    return entry->second;
  }

  // Folds the sizes from index `first` to `last`, both included.
  void range(std::size_t first, std::size_t last) {
    const std::int64_t least = ascending_[first];
    const std::int64_t most = ascending_[last];
    if (first == last) {
      folds_.emplace(most, folded(most));
    } else if (is_scaled(least, most)) {
      fill(first, last);
      phases_.clear();
    } else {
      const std::size_t half = std::midpoint(first, last);
      range(first, half);
      range(half + 1, last);
    }
  }

  // Whether the phases of two sizes differ only in their bytes (and, for a choice of NCCL, in
  // latency and rate).
  bool is_scaled(std::int64_t least, std::int64_t most) {
    const auto before = choice(least);
    const auto after = choice(most);
    if (before.has_value() != after.has_value() || is_profiled(least) != is_profiled(most))
      return false;
    if (before && !same_method(*before, *after)) return false;
    if (before && !(follows(phases(least), *before, least) && follows(phases(most), *after, most)))
      return false;
    const double factor = static_cast<double>(most) / static_cast<double>(least);
    return scales(phases(least), phases(most), factor, before ? Compared::Loads : Compared::All);
  }

  // Folds the largest size of a range and derives all others from it. A size for which NCCL chooses
  // another method, although both ends of the range have the same, is folded by itself.
  void fill(std::size_t first, std::size_t last) {
    const std::int64_t most = ascending_[last];
    const Partition whole = folded(most);
    const auto chosen = choice(most);
    const double needed_s = chosen ? links_need_s(cluster_, phases(most).front()) : 0.0;
    for (std::size_t i = first; i <= last; ++i) {
      const std::int64_t bytes = ascending_[i];
      const double factor = static_cast<double>(bytes) / static_cast<double>(most);
      if (!chosen) {
        folds_.emplace(bytes, scaled(whole, factor));
      } else if (const auto here = choice(bytes); same_method(*here, *chosen)) {
        folds_.emplace(bytes, tuned_fold(scaled(whole, factor), *here, bytes, needed_s * factor));
      } else {
        folds_.emplace(bytes, folded(bytes));
      }
    }
  }

  // Puts the latency and rate of NCCL's model into a scaled fold. `needed_s` is the time that the
  // busiest link needs; if it reaches the transfer time of the model, the links limit the flows,
  // and the size is folded by itself.
  [[nodiscard]] Partition tuned_fold(Partition partition, const nccl::Choice& chosen,
                                     std::int64_t bytes, double needed_s) {
    const double transfer_s = chosen.prediction.transfer_us(static_cast<double>(bytes)) * 1e-6;
    if (needed_s > transfer_s * kFull) return folded(bytes);
    for (FlowClass& flow : partition.flows) {
      flow.rate_cap_bytes_per_s = flow.payload_bytes / transfer_s;
      if (flow.rate_alone) flow.rate_alone = flow.rate_cap_bytes_per_s;
    }
    for (auto& calls : partition.phases)
      for (auto& made : calls)
        for (FoldedPhase& phase : made) phase.latency_s = chosen.prediction.latency_us * 1e-6;
    return partition;
  }

  const Cluster& cluster_;
  const ChosenModel& communication_;
  const CollectiveQuestion& question_;
  Call call_;
  std::vector<std::int64_t> ascending_;
  std::map<std::int64_t, std::vector<Phase>> phases_;
  std::map<std::int64_t, Partition> folds_;
};

std::optional<LoadedLink> most_loaded(const Cluster& cluster, const Partition& partition,
                                      const Timeline& timeline) {
  std::optional<LoadedLink> most;
  for (std::size_t i = 0; i < partition.links.size(); ++i) {
    const Link& link = cluster.link(partition.links[i].representative);
    const double load = timeline.links[i].bytes / (link.capacity.value() * timeline.makespan_s);
    // The tolerance keeps the first of several links that are equal up to rounding.
    if (load > 0.0 && (!most || load > most->load * (1.0 + 1e-9)))
      most = LoadedLink{.kind = link.kind, .load = load};
  }
  return most;
}

double latency_of(const Partition& partition) {
  double latency = 0.0;
  for (const FoldedPhase& phase : partition.phases.at(0).at(0)) latency += phase.latency_s;
  return latency;
}

// Simulates the calls of one algorithm, one size after the other.
class AlgorithmRuns {
 public:
  AlgorithmRuns(const Cluster& cluster, const CollectiveQuestion& question, std::string algorithm)
      : cluster_(cluster),
        question_(question),
        algorithm_(std::move(algorithm)),
        communication_(cluster, question.nccl, question.profile, question.profile_name),
        engine_(make_engine(question.engine)) {}

  [[nodiscard]] AlgorithmStudy study() const {
    AlgorithmStudy study{.algorithm = algorithm_};
    study.refusal = refusal();
    if (study.refusal || question_.sizes.empty()) return study;
    const std::map<std::int64_t, Partition> folds =
        Folding(cluster_, communication_, question_, call(0)).all();
    for (const std::int64_t bytes : question_.sizes)
      study.rows.push_back(row(bytes, folds.at(bytes)));
    return study;
  }

 private:
  [[nodiscard]] Call call(std::int64_t bytes) const {
    return make_call(question_.op, bytes, question_.dtype, algorithm_);
  }

  [[nodiscard]] std::optional<std::string> refusal() const {
    if (algorithm_ != nccl::kNcclName) {
      const CollectiveAlgorithm* algorithm = find_algorithm(question_.op, algorithm_);
      TY_CHECK(algorithm != nullptr);
      return algorithm->refusal({.cluster = cluster_, .gpus = question_.gpus});
    }
    try {
      for (const std::int64_t bytes : question_.sizes)
        (void)communication_.get().label(call(bytes), question_.gpus);
    } catch (const RunError& error) {
      return error.what();
    }
    return {};
  }

  [[nodiscard]] CollectiveRow row(std::int64_t bytes, const Partition& partition) const {
    const Workload workload = workload_of(question_, call(bytes));
    const Timeline timeline = engine_->run(
        {.cluster = cluster_, .workload = workload, .partition = partition, .kernel_seconds = {}});
    const auto ranks = static_cast<std::uint32_t>(question_.gpus.size());
    CollectiveRow row{.bytes = bytes,
                      .time_s = timeline.makespan_s,
                      .latency_s = latency_of(partition),
                      .algbw = static_cast<double>(bytes) / timeline.makespan_s,
                      .link = most_loaded(cluster_, partition, timeline)};
    row.busbw = row.algbw * bus_bandwidth_factor(question_.op, ranks);
    if (algorithm_ == nccl::kNcclName) add_choice(row, call(bytes));
    return row;
  }

  void add_choice(CollectiveRow& row, const Call& made) const {
    // A call that NCCL's model or a profile times is one phase, so its busiest link is either full
    // all the time or never. If it is not full, the protocol limits the call.
    constexpr double kThroughout = 0.99;
    const bool one_phase = communication_.is_profiled(made, question_.gpus) ||
                           communication_.nccl().choice(made, question_.gpus).has_value();
    row.protocol_bound = row.link && one_phase &&
                         row.link->load * row.time_s < kThroughout * (row.time_s - row.latency_s);
    constexpr std::string_view kPrefix = "nccl: ";
    row.choice = communication_.get().label(made, question_.gpus);
    if (row.choice.starts_with(kPrefix)) row.choice.erase(0, kPrefix.size());
    const nccl::NcclModel& nccl = communication_.nccl();
    const nccl::Communicator* communicator = nccl.find_communicator(question_.gpus);
    if (communicator != nullptr && nccl.priced_by() == nccl::PricedBy::ThisGpu &&
        !communication_.is_profiled(made, question_.gpus))
      row.spread = nccl::spread_of(communicator->nodes, row.bytes);
  }

  const Cluster& cluster_;
  const CollectiveQuestion& question_;
  std::string algorithm_;
  ChosenModel communication_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace

std::string CollectiveRow::bottleneck() const {
  if (!link || latency_s >= 0.5 * time_s) return "latency";
  if (protocol_bound) return "protocol";
  return std::string(to_string(link->kind));
}

std::vector<std::string> study_algorithms(CollectiveOp op) {
  std::vector<std::string> names;
  for (const CollectiveAlgorithm* algorithm : collective_algorithms())
    if (algorithm->op() == op && !algorithm->is_part()) names.emplace_back(algorithm->name());
  names.emplace_back(nccl::kNcclName);
  return names;
}

CollectiveStudy study_collective(const Cluster& cluster, const CollectiveQuestion& question) {
  TY_CHECK(question.gpus.size() > 1, question.gpus.size());
  TY_CHECK(question.op != CollectiveOp::SendRecv || question.gpus.size() == 2,
           question.gpus.size());
  CollectiveStudy study{.op = question.op,
                        .dtype = question.dtype,
                        .ranks = static_cast<std::uint32_t>(question.gpus.size()),
                        .sizes = question.sizes};
  for (const std::string& algorithm : question.algorithms)
    study.algorithms.push_back(AlgorithmRuns(cluster, question, algorithm).study());
  return study;
}

}  // namespace trainyard
