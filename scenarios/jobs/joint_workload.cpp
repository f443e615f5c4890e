#include "scenarios/jobs/joint_workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/workload/program_templates.hpp"

namespace trainyard {

namespace {

// The tables of the joint workload before a job is added: what its indices grow by.
struct Offsets {
  std::uint32_t names, kernels, calls, delays, slots, groups, ranks, programs;
};

Offsets sizes_of(const Workload& workload) {
  const auto size = [](const auto& table) { return static_cast<std::uint32_t>(table.size()); };
  return {size(workload.names),  size(workload.kernels), size(workload.calls),
          size(workload.delays), size(workload.slots),   size(workload.groups),
          size(workload.ranks),  size(workload.programs)};
}

template <class Value>
void append(std::vector<Value>& all, const std::vector<Value>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

// Returns the index of the name, which the table gets where it lacks it.
std::uint32_t index_in(std::vector<std::string>& names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<std::uint32_t>(found - names.begin());
  names.push_back(name);
  return static_cast<std::uint32_t>(names.size() - 1);
}

// The operations between the steps of a job, by their entries in the tables.
struct BetweenSteps {
  std::uint16_t name = 0;
  std::uint16_t slot = 0;
  std::uint32_t call = 0;      // the rendezvous
  std::uint32_t start = 0;     // the delay until the job starts
  std::uint32_t no_delay = 0;  // a delay of 0 s
};

// Writes one step of a program `steps` times. The step ends with a block that waits for all streams
// of the rank, meets the other ranks, and lets the streams go on. A similar block delays the first
// step. A step of 10 operations on 2 streams, twice: 0 and 1 are the start block, 2 to 11 the first
// step, 12 and 13 its end block, 14 to 23 the second step, 24 and 25 its end block.
class StepRepeater {
 public:
  StepRepeater(const OperationList& step, std::uint32_t steps, const BetweenSteps& between)
      : content_(step.content()),
        instances_(std::move(content_.instances)),
        bindings_(std::move(content_.bindings)),
        length_(static_cast<OpIndex>(step.size())),
        steps_(steps),
        between_(between) {
    for (OpIndex index = 0; const Operation& op : step) last_of_[op.stream] = index++;
    last_of_.try_emplace(std::uint8_t{0}, kNone);  // of no operation on the compute stream
  }

  [[nodiscard]] OperationList written() {
    content_.instances.clear();
    content_.bindings.clear();
    const std::uint32_t start = add_start_block();
    const std::uint32_t end = add_end_block();
    const auto streams = static_cast<OpIndex>(last_of_.size());
    add_instance(start, 0);
    for (std::uint32_t step = 0; step < steps_; ++step) {
      const OpIndex begin = streams + step * (length_ + streams);
      repeat(begin);
      add_instance(end, begin + length_);
      // The inputs of the end block, in the order in which add_end_block() counts the streams.
      for (const auto& [stream, last] : last_of_)
        if (last != kNone) content_.bindings.push_back(begin + last);
    }
    return OperationList(std::move(content_));
  }

  [[nodiscard]] std::uint32_t streams() const {
    return static_cast<std::uint32_t>(last_of_.size());
  }

 private:
  // Lets the other streams go on after operation 0 of the block, which is on the compute stream. A
  // stream runs its operations in order, so a delay of 0 s that depends on operation 0 holds it
  // until then.
  void release_streams() {
    for (const auto& [stream, last] : last_of_) {
      if (stream == 0) continue;
      content_.operations.push_back({.kind = OpKind::Delay,
                                     .stream = stream,
                                     .name = between_.name,
                                     .payload = between_.no_delay,
                                     .dependencies_begin = dependencies(),
                                     .dependencies_end = dependencies() + 1});
      content_.dependencies.push_back(0);
    }
  }

  std::uint32_t add_start_block() {
    begin_block(0);
    content_.operations.push_back({.kind = OpKind::Delay,
                                   .name = between_.name,
                                   .payload = between_.start,
                                   .dependencies_begin = dependencies(),
                                   .dependencies_end = dependencies()});
    release_streams();
    return end_block();
  }

  std::uint32_t add_end_block() {
    const auto awaited = static_cast<std::uint32_t>(
        std::ranges::count_if(last_of_, [](const auto& entry) { return entry.second != kNone; }));
    begin_block(awaited);
    content_.operations.push_back({.kind = OpKind::Collective,
                                   .name = between_.name,
                                   .slot = between_.slot,
                                   .payload = between_.call,
                                   .dependencies_begin = dependencies(),
                                   .dependencies_end = dependencies() + awaited});
    for (std::uint32_t input = 0; input < awaited; ++input)
      content_.dependencies.push_back(kBlockInput + input);
    release_streams();
    return end_block();
  }

  [[nodiscard]] std::uint32_t dependencies() const {
    return static_cast<std::uint32_t>(content_.dependencies.size());
  }
  void begin_block(std::uint32_t inputs) {
    content_.blocks.push_back(
        {.begin = static_cast<OpIndex>(content_.operations.size()), .inputs = inputs});
  }
  std::uint32_t end_block() {
    Block& block = content_.blocks.back();
    block.count = static_cast<OpIndex>(content_.operations.size()) - block.begin;
    return static_cast<std::uint32_t>(content_.blocks.size() - 1);
  }

  void add_instance(std::uint32_t block, OpIndex first) {
    content_.instances.push_back(
        {.first = first,
         .block = block,
         .bindings = static_cast<std::uint32_t>(content_.bindings.size())});
  }

  // Adds the instances of a step whose first operation is `begin`.
  void repeat(OpIndex begin) {
    const auto before = static_cast<std::uint32_t>(content_.bindings.size());
    for (Instance instance : instances_) {
      instance.first += begin;
      instance.bindings += before;
      content_.instances.push_back(instance);
    }
    for (const OpIndex bound : bindings_) content_.bindings.push_back(bound + begin);
  }

  OperationList::Content content_;
  std::vector<Instance> instances_;  // of one step
  std::vector<OpIndex> bindings_;    // of one step
  OpIndex length_;                   // of one step
  std::uint32_t steps_;
  BetweenSteps between_;
  std::map<std::uint8_t, OpIndex> last_of_;  // by stream: its last operation in the step
};

// Appends the tables of one job after the other and shifts the indices of each job by what the
// tables held before it. Streams and categories are the exception: jobs share those of equal names.
class JobJoiner {
 public:
  explicit JobJoiner(JointWorkload& joint) : joint_(joint), all_(joint.specialised.workload) {}

  void add(const JobSteps& job) {
    const Workload& step = *job.step->workload;
    const Offsets offsets = sizes_of(all_);
    joint_.jobs.push_back({.first_program = offsets.programs,
                           .programs = static_cast<std::uint32_t>(step.programs.size()),
                           .first_kernel = offsets.kernels,
                           .first_rank = offsets.ranks,
                           .ranks = static_cast<std::uint32_t>(step.ranks.size()),
                           .first_group = offsets.groups,
                           .groups = static_cast<std::uint32_t>(step.groups.size()) + 1,
                           .steps = job.steps,
                           .step_operations = {},
                           .streams = {}});
    add_tables(job, offsets);
    add_programs(job, offsets);
    add_ranks(job, offsets);
    add_hosts(job);
  }

 private:
  void add_tables(const JobSteps& job, const Offsets& offsets) {
    const Workload& step = *job.step->workload;
    append(all_.names, step.names);
    append(all_.kernels, step.kernels);
    append(joint_.specialised.gpu_of_kernel, job.step->gpu_of_kernel);
    append(joint_.specialised.clock_of_kernel, job.step->clock_of_kernel);
    append(all_.calls, step.calls);
    append(all_.delays, step.delays);
    // All categories, in the order of the step, by which reports find them.
    for (const std::string& category : step.categories) index_in(all_.categories, category);
    for (const std::string& slot : step.slots) all_.slots.push_back(slot);
    for (const auto& [key, field] : step.chosen_fields)
      all_.chosen_fields[{static_cast<std::uint16_t>(key.first + offsets.slots), key.second}] =
          field;
    for (Group group : step.groups) {
      for (RankId& member : group.members) member += offsets.ranks;
      all_.groups.push_back(std::move(group));
    }
    between_ = {.name = static_cast<std::uint16_t>(all_.names.size()),
                .slot = static_cast<std::uint16_t>(all_.slots.size()),
                .call = static_cast<std::uint32_t>(all_.calls.size()),
                .start = static_cast<std::uint32_t>(all_.delays.size()),
                .no_delay = static_cast<std::uint32_t>(all_.delays.size()) + 1};
    all_.names.emplace_back("between steps");
    all_.slots.emplace_back("job");
    // A relay without hops: a rendezvous that moves no bytes and takes no time.
    all_.calls.emplace_back(RelayCall{.follows = true});
    all_.delays.push_back(job.start);
    all_.delays.emplace_back(0.0);
  }

  // Programs of one template still share it.
  void add_programs(const JobSteps& job, const Offsets& offsets) {
    const Workload& step = *job.step->workload;
    const std::vector<std::uint32_t> templates = program_templates(step.programs);
    for (std::size_t i = 0; i < step.programs.size(); ++i) {
      Program program = step.programs[i];
      const auto length = static_cast<std::uint32_t>(program.operations.size());
      refuse_too_long(job, length);
      JobPart& part = joint_.jobs.back();
      if (templates[i] < i) {
        program.operations = all_.programs[offsets.programs + templates[i]].operations;
        part.streams.push_back(std::uint32_t{part.streams[templates[i]]});
      } else {
        renumber(program, step, offsets);
        StepRepeater repeater(program.operations, job.steps, between_);
        program.operations = repeater.written();
        part.streams.push_back(repeater.streams());
      }
      part.step_operations.push_back(length);
      for (std::uint32_t& kernel : program.kernels) kernel += offsets.kernels;
      repeat_memory(program, step, static_cast<std::uint32_t>(i));
      program.name = fmt::format("{}: {}", job.name, program.name);
      all_.programs.push_back(std::move(program));
    }
  }

  static void refuse_too_long(const JobSteps& job, std::uint32_t length) {
    if (std::uint64_t{length} * job.steps < kBlockInput / 2) return;
    throw RunError(fmt::format("{} steps of job {} have too many operations", job.steps, job.name));
  }

  void renumber(Program& program, const Workload& step, const Offsets& offsets) {
    const bool own_kernels = !program.kernels.empty();
    for (Operation& op : program.operations.edit()) {
      op.stream = static_cast<std::uint8_t>(index_in(all_.streams, step.streams[op.stream]));
      op.name = static_cast<std::uint16_t>(op.name + offsets.names);
      if (op.kind == OpKind::Compute) {
        if (!own_kernels) op.payload += offsets.kernels;
      } else if (op.kind == OpKind::Delay) {
        op.payload += offsets.delays;
      } else {
        op.payload += offsets.calls;
        op.slot = static_cast<std::uint16_t>(op.slot + offsets.slots);
      }
    }
  }

  void repeat_memory(Program& program, const Workload& step, std::uint32_t number) {
    const auto category = [&](std::uint16_t index) {
      return static_cast<std::uint16_t>(index_in(all_.categories, step.categories[index]));
    };
    for (MemoryEffect& effect : program.effects) effect.category = category(effect.category);
    for (ResidentMemory& held : program.resident) held.category = category(held.category);
    // The operations of a block repeat with their effects. Effects of single operations name them
    // by number, so each step has its own.
    const auto of_step = std::move(program.single_effects);
    program.single_effects.clear();
    const JobPart& part = joint_.jobs.back();
    for (std::uint32_t repetition = 0; repetition < part.steps; ++repetition)
      for (auto [op, effect] : of_step) {
        effect.category = category(effect.category);
        program.single_effects.emplace_back(part.step(number, repetition).begin + op, effect);
      }
  }

  void add_ranks(const JobSteps& job, const Offsets& offsets) {
    Group all_ranks;
    const auto rendezvous = static_cast<GroupId>(all_.groups.size());
    for (Rank rank : job.step->workload->ranks) {
      rank.program += offsets.programs;
      rank.label = fmt::format("{} {}", job.name, rank.label);
      // A rank binds the slots of its own job only; its bindings of the others stay empty.
      std::vector<SlotBinding> slots(offsets.slots);
      for (SlotBinding binding : rank.slots) {
        if (binding.group != kNone) binding.group += offsets.groups;
        slots.push_back(binding);
      }
      slots.resize(between_.slot);
      slots.push_back({rendezvous, static_cast<std::uint32_t>(all_ranks.members.size())});
      rank.slots = std::move(slots);
      all_ranks.members.push_back(static_cast<RankId>(all_.ranks.size()));
      all_.ranks.push_back(std::move(rank));
    }
    all_.groups.push_back(std::move(all_ranks));
  }

  // The host of a rank waits for the rendezvous, so that each step is issued as the first one. The
  // lanes are by program, so programs of earlier jobs without host costs get empty ones.
  void add_hosts(const JobSteps& job) {
    const JobPart& part = joint_.jobs.back();
    const std::vector<HostLane>& lanes = job.step->hosts;
    if (!lanes.empty()) joint_.hosts.resize(part.first_program);
    if (lanes.empty() && joint_.hosts.empty()) return;
    for (std::uint32_t program = 0; program < part.programs; ++program)
      joint_.hosts.push_back(lanes.empty() ? HostLane{} : repeated(lanes[program], program));
  }

  [[nodiscard]] HostLane repeated(const HostLane& lane, std::uint32_t program) const {
    if (lane.issued_s.empty()) return {};
    const JobPart& part = joint_.jobs.back();
    HostLane all;
    double base_s = 0.0;
    // One more round after the last step, for the block that ends it.
    for (std::uint32_t number = 0; number <= part.steps; ++number) {
      const StepRange step = part.step(program, number);
      // The operations between steps are issued at once.
      all.issued_s.resize(step.begin, base_s);
      if (!lane.ahead.empty()) all.ahead.resize(step.begin, false);
      all.syncs.push_back({.after = step.begin - part.streams[program],
                           .awaited = {step.begin - part.streams[program]}});
      if (number == part.steps) break;
      for (const double issued_s : lane.issued_s) all.issued_s.push_back(base_s + issued_s);
      for (const bool ahead : lane.ahead) all.ahead.push_back(ahead);
      for (HostSync sync : lane.syncs) {
        sync.after += step.begin;
        for (OpIndex& op : sync.awaited) op += step.begin;
        all.syncs.push_back(std::move(sync));
      }
      base_s += lane.issued_s.back();
    }
    return all;
  }

  JointWorkload& joint_;
  Workload& all_;
  BetweenSteps between_ = {};  // of the job that is being added
};

}  // namespace

// A program consists of the start block, and for each step its operations and the end block. Both
// blocks have one operation per stream.
StepRange JobPart::step(std::uint32_t program, std::uint32_t step) const {
  const OpIndex length = step_operations[program];
  const OpIndex between = streams[program];
  const OpIndex begin = between + step * (length + between);
  return {.begin = begin, .rendezvous = begin + length};
}

JointWorkload join_jobs(std::span<const JobSteps> jobs) {
  JointWorkload joint;
  joint.specialised.workload.streams = {"compute"};
  JobJoiner joiner(joint);
  for (const JobSteps& job : jobs) joiner.add(job);
  return joint;
}

}  // namespace trainyard
