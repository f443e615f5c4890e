#include "models/host/host_lanes.hpp"

#include <algorithm>

namespace trainyard {

namespace {

bool is_gradient_norm(const Workload& workload, const Operation& op) {
  if (op.kind != OpKind::Compute) return false;
  const auto* kernel = std::get_if<MemoryBound>(&workload.kernels[op.payload]);
  return kernel != nullptr && kernel->kind == MemoryBoundKind::GradNorm;
}

class LaneWriter {
 public:
  LaneWriter(const Workload& workload, const Program& program, const HostCosts& costs,
             const HostHabits& habits)
      : workload_(workload), program_(program), costs_(costs), habits_(habits) {}

  [[nodiscard]] HostLane write() {
    lane_.issued_s.reserve(program_.operations.size());
    for (OpIndex op = 0; op < program_.operations.size(); ++op) issue(op);
    return std::move(lane_);
  }

 private:
  void issue(OpIndex index) {
    const Operation& op = program_.operations[index];
    issued_s_ += dispatch(op).value();
    lane_.issued_s.push_back(issued_s_);
    if (op.kind == OpKind::Compute && op.stream == 0) last_compute_ = index;
    if (habits_.waits_for_receives && op.kind == OpKind::Recv) return wait(index, {index});
    if (reads_gradient_norm(index)) wait(index, {index});
  }

  // The norm of this rank, or where more ranks share it their sum, which follows at once.
  [[nodiscard]] bool reads_gradient_norm(OpIndex index) const {
    const std::vector<Operation>& operations = program_.operations;
    if (operations[index].kind == OpKind::Collective)
      return index > 0 && is_gradient_norm(workload_, operations[index - 1]);
    const bool last = index + 1 == operations.size();
    return is_gradient_norm(workload_, operations[index]) &&
           (last || operations[index + 1].kind != OpKind::Collective);
  }

  [[nodiscard]] Seconds dispatch(const Operation& op) const {
    switch (op.kind) {
      case OpKind::Compute:
        return costs_.seconds(workload_.kernels[op.payload], op.part);
      case OpKind::Collective:
      case OpKind::Send:
      case OpKind::Recv:
        return costs_.collective;
      case OpKind::Delay:
        return {};
    }
    return {};
  }

  void wait(OpIndex after, std::vector<OpIndex> awaited) {
    const bool known = std::find(awaited.begin(), awaited.end(), last_compute_) != awaited.end();
    if (last_compute_ != kNone && !known) awaited.push_back(last_compute_);
    lane_.syncs.push_back({.after = after, .awaited = std::move(awaited)});
    issued_s_ += costs_.synchronize.value();
  }

  const Workload& workload_;
  const Program& program_;
  const HostCosts& costs_;
  const HostHabits& habits_;
  HostLane lane_;
  double issued_s_ = 0.0;
  OpIndex last_compute_ = kNone;
};

}  // namespace

HostHabits host_habits(const Parallelism& parallelism) {
  return {.waits_for_receives = !parallelism.overlap_p2p && parallelism.interleave == 1};
}

std::vector<HostLane> host_lanes(const Workload& workload, const HostCosts& costs,
                                 const HostHabits& habits) {
  std::vector<HostLane> lanes;
  if (costs.free()) return lanes;
  lanes.reserve(workload.programs.size());
  for (const Program& program : workload.programs)
    lanes.push_back(LaneWriter(workload, program, costs, habits).write());
  return lanes;
}

}  // namespace trainyard
