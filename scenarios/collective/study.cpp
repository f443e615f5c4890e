#include "scenarios/collective/study.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "models/collectives/nccl/transport.hpp"
#include "models/collectives/selection.hpp"
#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/engine/engine.hpp"
#include "sim/graph/fold.hpp"

namespace trainyard {

namespace {

Program one_call(OpKind kind) {
  Program program;
  program.name = to_string(kind);
  program.operations = {{.kind = kind}};
  return program;
}

// Every GPU of the question makes the one call. A send_recv has a program for each end.
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
  for (std::uint32_t role = 0; role < question.gpus.size(); ++role) {
    group.members.push_back(role);
    workload.ranks.push_back({.program = sends ? role : 0,
                              .gpu = question.gpus[role],
                              .slots = {{.group = 0, .role = role}}});
  }
  workload.groups = {std::move(group)};
  return workload;
}

// Is `b` what `a` becomes when every byte is `factor` bytes?
bool scales(const std::vector<Phase>& a, const std::vector<Phase>& b, double factor) {
  constexpr double kEqual = 1e-12;
  const auto same_load = [&](const LinkLoad& x, const LinkLoad& y) {
    return x.link == y.link && std::abs(x.bytes * factor - y.bytes) <= kEqual * y.bytes;
  };
  const auto same_chain = [&](const Chain& x, const Chain& y) {
    return x.rate_cap_bytes_per_s == y.rate_cap_bytes_per_s &&
           std::equal(x.loads.begin(), x.loads.end(), y.loads.begin(), y.loads.end(), same_load);
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const Phase& x, const Phase& y) {
    return x.latency == y.latency && std::equal(x.chains.begin(), x.chains.end(), y.chains.begin(),
                                                y.chains.end(), same_chain);
  });
}

// Weights are relative to the payload, and rates do not change with the size.
Partition scaled(Partition partition, double factor) {
  for (FlowClass& flow : partition.flows) {
    flow.payload_bytes *= factor;
    for (FlowClass::Weight& weight : flow.weights) weight.bytes *= factor;
  }
  return partition;
}

std::optional<LoadedLink> most_loaded(const Cluster& cluster, const Partition& partition,
                                      const Timeline& timeline) {
  std::optional<LoadedLink> most;
  for (std::size_t i = 0; i < partition.links.size(); ++i) {
    const Link& link = cluster.link(partition.links[i].representative);
    const double load = timeline.links[i].bytes / (link.capacity.value() * timeline.makespan_s);
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

// The calls of one algorithm, one after the other.
class AlgorithmRuns {
 public:
  AlgorithmRuns(const Cluster& cluster, const CollectiveQuestion& question, std::string algorithm)
      : cluster_(cluster),
        question_(question),
        algorithm_(std::move(algorithm)),
        transport_(cluster, question.nccl),
        engine_(make_engine(question.engine)) {}

  [[nodiscard]] AlgorithmStudy study() const {
    AlgorithmStudy study{.algorithm = algorithm_};
    study.refusal = refusal();
    if (study.refusal || question_.sizes.empty()) return study;
    const auto [least, most] = std::minmax_element(question_.sizes.begin(), question_.sizes.end());
    std::optional<Partition> common;
    if (algorithm_ != nccl::kNcclName && is_scaled(*least, *most)) common = folded(*most);
    for (const std::int64_t bytes : question_.sizes) {
      const double factor = static_cast<double>(bytes) / static_cast<double>(*most);
      study.rows.push_back(row(bytes, common ? scaled(*common, factor) : folded(bytes)));
    }
    return study;
  }

 private:
  [[nodiscard]] Call call(std::int64_t bytes) const {
    return {.op = question_.op, .bytes = bytes, .dtype = question_.dtype, .algorithm = algorithm_};
  }

  [[nodiscard]] std::optional<std::string> refusal() const {
    if (algorithm_ != nccl::kNcclName) {
      const CollectiveAlgorithm* algorithm = find_algorithm(question_.op, algorithm_);
      TY_CHECK(algorithm != nullptr);
      return algorithm->refusal({.cluster = cluster_, .gpus = question_.gpus});
    }
    try {
      for (const std::int64_t bytes : question_.sizes)
        (void)transport_.label(call(bytes), question_.gpus);
    } catch (const RunError& error) {
      return error.what();
    }
    return {};
  }

  [[nodiscard]] bool is_scaled(std::int64_t from, std::int64_t to) const {
    return scales(transport_.phases(call(from), question_.gpus),
                  transport_.phases(call(to), question_.gpus),
                  static_cast<double>(to) / static_cast<double>(from));
  }

  [[nodiscard]] Partition folded(std::int64_t bytes) const {
    return fold(cluster_, workload_of(question_, call(bytes)), transport_,
                {.drop_uncontended = true});
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
    if (algorithm_ == nccl::kNcclName) {
      // What NCCL tunes is one phase, so its busiest link is full throughout or never.
      constexpr double kFull = 0.99;
      row.protocol_bound = row.link && transport_.choice(call(bytes), question_.gpus) &&
                           row.link->load * row.time_s < kFull * (row.time_s - row.latency_s);
      constexpr std::string_view kPrefix = "nccl: ";
      row.choice = transport_.label(call(bytes), question_.gpus);
      if (row.choice.starts_with(kPrefix)) row.choice.erase(0, kPrefix.size());
    }
    return row;
  }

  const Cluster& cluster_;
  const CollectiveQuestion& question_;
  std::string algorithm_;
  nccl::NcclTransport transport_;
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
    if (algorithm->op() == op && algorithm->name() != "step") names.emplace_back(algorithm->name());
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
