#include "models/host.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/data_directory.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

namespace {

constexpr double kKernelsMost = 100.0;

// Experts without routed tokens launch no GEMM.
double gemms_of(const GroupedGemm& experts) {
  return static_cast<double>(std::count_if(experts.rows.begin(), experts.rows.end(),
                                           [](std::int64_t rows) { return rows > 0; }));
}

double kernels_of(const HostKernels& kernels, const Kernel& kernel) {
  if (const auto* gemm = std::get_if<Gemm>(&kernel))
    return gemm->batch > 1 ? kernels.batched_gemm : kernels.gemm;
  if (const auto* experts = std::get_if<GroupedGemm>(&kernel))
    return kernels.gemm * (experts->per_expert ? gemms_of(*experts) : 1.0);
  if (std::holds_alternative<Attention>(kernel)) return kernels.attention;
  if (const auto* memory = std::get_if<MemoryBound>(&kernel)) {
    if (memory->kind == MemoryBoundKind::Norm) return kernels.norm;
    return kernels.other * static_cast<double>(std::max<std::int64_t>(memory->launches, 1));
  }
  return kernels.other;
}

HostKernels read_kernels(JsonObject object) {
  static_cast<void>(object.text("source"));
  const auto count = [&object](std::string_view key) {
    return object.number(key, {.least = 0.0, .most = kKernelsMost});
  };
  return {.gemm = count("gemm"),
          .batched_gemm = count("batched_gemm"),
          .attention = count("attention"),
          .norm = count("norm"),
          .other = count("other")};
}

}  // namespace

Seconds HostCosts::seconds(const Kernel& kernel, StepPart part) const {
  const bool backward = part == StepPart::Backward || part == StepPart::WeightGrad;
  return (backward ? backward_kernel : forward_kernel) * kernels_of(kernels, kernel);
}

std::vector<std::string> host_names() {
  std::vector<std::string> names = data_names("models/hosts");
  names.emplace_back("none");
  return names;
}

HostCosts load_host_costs(const std::string& name_or_path) {
  if (name_or_path == "none") return {};
  const auto path = data_file("models/hosts", name_or_path);
  JsonFile file = JsonFile::read(path);
  JsonObject root = file.root();
  const auto time = [&root](std::string_view key) {
    JsonObject figure = root.object(key);
    static_cast<void>(figure.text("source"));
    return figure.time("value");
  };
  static_cast<void>(root.text("title"));
  HostCosts costs{.name = path.stem().string(),
                  .forward_kernel = time("forward_kernel"),
                  .backward_kernel = time("backward_kernel"),
                  .collective = time("collective"),
                  .synchronize = time("synchronize"),
                  .kernels = read_kernels(root.object("kernels")),
                  .step = root.has("step") ? time("step") : Seconds{0.0},
                  .blocking = root.boolean("blocking", false)};
  file.finish();
  return costs;
}

// ---- lanes

namespace {

bool is_gradient_norm(const Workload& workload, const Program& program, const Operation& op) {
  if (op.kind != OpKind::Compute) return false;
  const auto* kernel = std::get_if<MemoryBound>(&workload.kernels[program.kernel_of(op)]);
  return kernel != nullptr && kernel->kind == MemoryBoundKind::GradNorm;
}

// Writes the lane of one program: the cumulative launch times and the points of synchronisation.
class LaneWriter {
 public:
  LaneWriter(const Workload& workload, const Program& program, const HostCosts& costs,
             const HostSyncRules& habits)
      : workload_(workload), program_(program), costs_(costs), habits_(habits) {}

  [[nodiscard]] HostLane write() {
    lane_.issued_s.reserve(program_.operations.size());
    if (habits_.posts_receives_ahead) lane_.ahead.reserve(program_.operations.size());
    issued_s_ = costs_.step.value();
    for (OpIndex op = 0; op < program_.operations.size(); ++op) issue(op);
    return std::move(lane_);
  }

 private:
  void issue(OpIndex index) {
    const Operation& op = program_.operations[index];
    // A collective that is expanded into messages is enclosed by two delays (expand.cpp). The host
    // launches it as one call, at the first delay. A delay of the optimizer is work of the CPU and
    // does not enclose anything.
    const bool edge = op.kind == OpKind::Delay && op.work != WorkClass::Optimizer;
    const bool opens = edge && !inside_;
    if (edge) inside_ = !inside_;
    if (opens) issued_s_ += costs_.collective.value();
    if (!edge && !inside_) issued_s_ += dispatch(op).value();
    lane_.issued_s.push_back(issued_s_);
    if (habits_.posts_receives_ahead) lane_.ahead.push_back(op.kind == OpKind::Recv);
    if (!inside_) finish(index, edge || op.kind == OpKind::Collective);
  }

  // Called after an operation, or after the last message of an expanded collective; adds a
  // synchronisation if the host waits there.
  void finish(OpIndex index, bool collective) {
    const Operation& op = program_.operations[index];
    if (op.kind == OpKind::Compute && op.stream == 0) last_compute_ = index;
    // If ranks sum the gradient norm, the host waits for the sum, which is the next operation.
    const bool norm = is_gradient_norm(workload_, program_, op);
    if (norm && shared_by_more(index)) {
      norm_ = true;
      return;
    }
    const bool sum = norm_ && collective;
    norm_ = false;
    const bool received = habits_.waits_for_receives && op.kind == OpKind::Recv;
    // The host must not wait here: a message whose receiver is not ready would block the sender's
    // host forever.
    const bool ahead = habits_.posts_receives_ahead && op.kind == OpKind::Recv;
    const bool blocked = costs_.blocking && op.kind != OpKind::Send && !ahead;
    const bool counts = collective && workload_.names[op.name] == kExpertCountsOperation;
    if (norm || sum || received || counts || blocked) wait(index);
  }

  // True if the norm of this rank is summed over other ranks in the next operation.
  [[nodiscard]] bool shared_by_more(OpIndex norm) const {
    if (norm + 1 == program_.operations.size()) return false;
    const OpKind next = program_.operations[norm + 1].kind;
    return next == OpKind::Collective || next == OpKind::Delay;
  }

  [[nodiscard]] Seconds dispatch(const Operation& op) const {
    if (op.kind != OpKind::Compute) return costs_.collective;
    return costs_.seconds(workload_.kernels[program_.kernel_of(op)], op.part);
  }

  // The awaited operation may run on another stream, so the host also waits for the last compute
  // operation.
  void wait(OpIndex after) {
    std::vector<OpIndex> awaited{after};
    if (last_compute_ != kNone && last_compute_ != after) awaited.push_back(last_compute_);
    lane_.syncs.push_back({.after = after, .awaited = std::move(awaited)});
    issued_s_ += costs_.synchronize.value();
  }

  const Workload& workload_;
  const Program& program_;
  const HostCosts& costs_;
  const HostSyncRules& habits_;
  HostLane lane_;
  double issued_s_ = 0.0;
  OpIndex last_compute_ = kNone;
  bool inside_ = false;  // inside a collective that is expanded into messages
  bool norm_ = false;    // the gradient norm was launched last, and its sum follows
};

}  // namespace

HostSyncRules host_habits(const Parallelism& parallelism) {
  return {.waits_for_receives = !parallelism.overlap_p2p && parallelism.interleave == 1,
          .posts_receives_ahead = !parallelism.overlap_p2p && parallelism.interleave > 1};
}

std::vector<HostLane> host_lanes(const Workload& workload, const HostCosts& costs,
                                 const HostSyncRules& habits) {
  std::vector<HostLane> lanes;
  if (costs.free()) return lanes;
  lanes.reserve(workload.programs.size());
  for (const Program& program : workload.programs)
    lanes.push_back(LaneWriter(workload, program, costs, habits).write());
  return lanes;
}

}  // namespace trainyard
