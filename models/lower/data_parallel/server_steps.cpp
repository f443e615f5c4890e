// Steps of workers with parameter servers. parameter_server_traffic.hpp (sim/collectives) gives a
// workload in which the computation of a step is one operation and the update of a server another.
// Splice replaces the first by the kernels of a worker's step and the second by the optimizer
// kernel.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/lower/data_parallel/chunk_weights.hpp"
#include "models/lower/lower.hpp"
#include "models/lower/options.hpp"
#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/collectives/parameter_server_traffic.hpp"

namespace trainyard {

namespace {

void check(const Parallelism& p) {
  if (p.tensor * p.context * p.pipeline == 1 && p.zero_stage == 0) return;
  throw InputError(Problem{
      .file = {},
      .pointer = "/parallelism",
      .problem = fmt::format("workers of parameter servers hold the whole model: not tensor {}, "
                             "context {}, pipeline {}, zero_stage {}",
                             p.tensor, p.context, p.pipeline, p.zero_stage),
      .hint = "leave all of them but data out"});
}

std::int64_t parameters_of(const TrainingPlan& plan) {
  return chunk_weights(weight_options(plan), {.first_layer = 0,
                                              .layers = plan.architecture.layers,
                                              .has_embedding = true,
                                              .has_head = true})
      .parameters();
}

// The step of one worker on its own. Splice leaves out the optimizer.
Workload worker_step(const TrainingPlan& plan) {
  TrainingPlan alone = plan;
  alone.servers = {};
  alone.training.global_batch_size /= plan.parallelism.data;
  alone.parallelism.data = 1;
  return lower(alone);
}

// Copies the programs of the traffic and replaces their "compute" and "update" operations.
class Splice {
 public:
  Splice(const TrainingPlan& plan, Workload traffic, const Workload& step, std::int64_t servers)
      : to_(std::move(traffic)), step_(step), first_name_(to_.names.size()) {
    // Each server holds an equal part of the parameters, rounded up.
    const std::int64_t part = (parameters_of(plan) + servers - 1) / servers;
    to_.kernels = step.kernels;
    to_.categories = step.categories;
    // The names of the step follow those of the traffic, so its name indices shift by first_name_.
    to_.names.insert(to_.names.end(), step.names.begin(), step.names.end());
    const StateRecipe recipe = state_recipe(plan);
    const StateBytes state = state_bytes(recipe, part);
    state_ = std::llround(state.master + state.first_moment + state.second_moment);
    to_.kernels.emplace_back(
        MemoryBound{.kind = MemoryBoundKind::Optimizer,
                    .bytes = std::llround(optimizer_step_bytes(recipe) * static_cast<double>(part)),
                    .launches = 1});
    microbatches_ = static_cast<std::int32_t>(plan.microbatches());
  }

  Workload done() {
    for (Program& program : to_.programs) program = spliced(program);
    return std::move(to_);
  }

 private:
  Program spliced(const Program& from);
  void append_step(const Operation& in_place_of, const std::vector<OpIndex>& after);

  Workload to_;
  const Workload& step_;
  std::size_t first_name_;
  std::int64_t state_ = 0;  // bytes of fp32 weights and moments on one server
  std::int32_t microbatches_ = 1;
  Program program_;
};

// `moved` maps the operations of the traffic to those of the new program. A "compute" operation
// maps to the last kernel of the step, since the kernels run in order on one stream.
Program Splice::spliced(const Program& from) {
  program_ = {.name = from.name, .stage = from.stage, .resident = from.resident};
  std::vector<OpIndex> moved;
  for (const Operation& op : from.operations) {
    std::vector<OpIndex> after;
    for (const OpIndex index : from.dependencies_of(static_cast<OpIndex>(moved.size())))
      after.push_back(moved[index]);
    const std::string& name = to_.names[op.name];
    if (name == "compute") {
      append_step(op, after);
    } else {
      Operation copy = op;
      if (name == "update") {
        copy.kind = OpKind::Compute;
        copy.work = WorkClass::Optimizer;
        copy.part = StepPart::Optimizer;
        copy.payload = static_cast<std::uint32_t>(to_.kernels.size() - 1);
      }
      program_.append(copy, after);
    }
    moved.push_back(static_cast<OpIndex>(program_.operations.size() - 1));
  }
  // A worker holds everything that a step holds except the optimizer state, which is on the
  // servers.
  const auto optimizer = static_cast<std::uint16_t>(Category::OptimizerState);
  if (from.name.find("worker") != std::string::npos) {
    for (const ResidentMemory& held : step_.programs.front().resident) {
      if (held.category != optimizer) program_.resident.push_back(held);
    }
  }
  if (from.name.find("server") != std::string::npos)
    program_.resident.push_back({.category = optimizer, .bytes = state_});
  return std::move(program_);
}

// Only the first kernel needs the dependencies of the replaced operation. TY_CHECK ensures that the
// step of a worker consists of kernels without dependencies on other streams.
void Splice::append_step(const Operation& in_place_of, const std::vector<OpIndex>& after) {
  const Program& step = step_.programs.front();
  std::vector<OpIndex> inputs = after;
  OpIndex next = 0;
  for (const Operation& op : step.operations) {
    const OpIndex number = next++;
    if (op.work == WorkClass::Optimizer) continue;
    TY_CHECK(op.kind == OpKind::Compute && step.dependencies_of(number).empty(), op.name);
    Operation copy = op;
    copy.name = static_cast<std::uint16_t>(op.name + first_name_);
    copy.payload = step.kernel_of(op);
    // Microbatches are numbered through all steps of the worker.
    copy.microbatch = in_place_of.microbatch * microbatches_ + std::max(0, op.microbatch);
    program_.append(copy, inputs, step.effects_of(number));
    inputs.clear();
  }
}

}  // namespace

Workload server_steps(const TrainingPlan& plan, const ServerSteps& steps) {
  check(plan.parallelism);
  std::vector<std::uint32_t> workers(static_cast<std::size_t>(plan.parallelism.data));
  std::iota(workers.begin(), workers.end(), 0U);
  const DataType dtype = plan.training.gradient_precision;
  const auto wide = static_cast<std::int64_t>(element_bytes(dtype));
  Workload traffic = parameter_server_traffic({.workers = std::move(workers),
                                               .servers = steps.servers,
                                               .bytes = parameters_of(plan) * wide,
                                               .dtype = dtype,
                                               .steps = steps.steps,
                                               .steps_of_worker = steps.steps_of_worker,
                                               .staleness = steps.staleness});
  const Workload step = worker_step(plan);
  return Splice(plan, std::move(traffic), step, std::ssize(steps.servers)).done();
}

Workload server_steps(const TrainingPlan& plan) {
  const ParameterServers& chosen = plan.servers;
  std::vector<std::uint32_t> gpus(static_cast<std::size_t>(chosen.servers));
  std::iota(gpus.begin(), gpus.end(),
            chosen.dedicated ? static_cast<std::uint32_t>(plan.parallelism.data) : 0U);
  ServerSteps steps{.servers = std::move(gpus), .steps = static_cast<std::uint32_t>(chosen.steps)};
  steps.steps_of_worker = chosen.steps_of_worker;
  steps.staleness = static_cast<std::uint32_t>(chosen.staleness);
  if (chosen.asynchronous) steps.staleness.reset();
  return server_steps(plan, steps);
}

}  // namespace trainyard
