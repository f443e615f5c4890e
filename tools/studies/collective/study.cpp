#include "tools/studies/collective/study.hpp"

#include <memory>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/collectives/collective.hpp"
#include "sim/engine/engine.hpp"
#include "tools/studies/collective/folding.hpp"

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
        transport_(cluster, question.nccl, question.profile, question.profile_name),
        engine_(make_engine(question.engine)) {}

  [[nodiscard]] AlgorithmStudy study() const {
    AlgorithmStudy study{.algorithm = algorithm_};
    study.refusal = refusal();
    if (study.refusal || question_.sizes.empty()) return study;
    const LoneCall lone{
        .cluster = cluster_,
        .transport = transport_,
        .gpus = question_.gpus,
        .call = call(0),
        .workload_of = [this](const Call& made) { return workload_of(question_, made); }};
    for (const SizedFold& folded : folded_sizes(lone, question_.sizes))
      study.rows.push_back(row(folded.bytes, folded.partition));
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
        (void)transport_.get().label(call(bytes), question_.gpus);
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
    // What NCCL tunes, or a profile tells, is one phase: its busiest link is full throughout or
    // never.
    constexpr double kFull = 0.99;
    const bool one_phase = transport_.is_profiled(made, question_.gpus) ||
                           transport_.nccl().choice(made, question_.gpus).has_value();
    row.protocol_bound =
        row.link && one_phase && row.link->load * row.time_s < kFull * (row.time_s - row.latency_s);
    constexpr std::string_view kPrefix = "nccl: ";
    row.choice = transport_.get().label(made, question_.gpus);
    if (row.choice.starts_with(kPrefix)) row.choice.erase(0, kPrefix.size());
  }

  const Cluster& cluster_;
  const CollectiveQuestion& question_;
  std::string algorithm_;
  ChosenTransport transport_;
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
