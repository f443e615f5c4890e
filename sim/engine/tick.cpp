#include "sim/engine/tick.hpp"

#include <cstdint>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/fold/fold.hpp"

namespace trainyard {
namespace {

// By call: the longest time that any group needs for the call alone.
std::vector<double> call_seconds(const EngineInput& input) {
  std::vector<double> seconds(input.workload.calls.size(), 0.0);
  for (std::uint32_t group = 0; group < input.partition.groups.size(); ++group) {
    const auto& phases = input.partition.phases[group];
    for (std::uint32_t call = 0; call < phases.size(); ++call) {
      if (phases[call].empty()) continue;
      seconds[call] =
          std::max(seconds[call], call_seconds_alone(input.cluster, input.partition, group, call));
    }
  }
  return seconds;
}

double seconds_of(const EngineInput& input, const Program& program, const Operation& op,
                  const std::vector<double>& calls) {
  switch (op.kind) {
    case OpKind::Compute:
      return input.kernel_seconds[program.kernel_of(op)];
    case OpKind::Delay:
      return input.workload.delays[op.payload].value();
    case OpKind::Collective:
    case OpKind::Send:
    case OpKind::Recv:
      return calls[op.payload];
  }
  return 0.0;
}

// Time of the program without any waits. An operation of a block counts once per instance of the
// block: `until[i]` is the time of the first i written operations, so the time of a block is a
// difference of two entries.
double busy_seconds(const EngineInput& input, const Program& program,
                    const std::vector<double>& calls) {
  std::vector<double> until = {0.0};
  until.reserve(program.operations.written().size() + 1);
  for (const Operation& op : program.operations.written())
    until.push_back(until.back() + seconds_of(input, program, op, calls));
  double seconds = 0.0;
  for (const Instance& instance : program.operations.instances()) {
    const Block& block = program.operations.block_of(instance);
    seconds += until[block.begin + block.count] - until[block.begin];
  }
  return seconds;
}

}  // namespace

// Only the order of magnitude matters, because it sets the exponent of the tick. Programs that no
// rank runs do not count. A step without some of its microbatches gets the horizon of the whole
// step as an input (Engine::play_steady).
double horizon_of(const EngineInput& input) {
  if (input.horizon_s > 0.0) return input.horizon_s;
  const std::vector<double> calls = call_seconds(input);
  std::vector<bool> runs(input.workload.programs.size(), false);
  for (const RankClass& ranks : input.partition.ranks) runs[ranks.program] = true;
  double busiest_s = 0.0;
  for (std::size_t program = 0; program < runs.size(); ++program) {
    if (!runs[program]) continue;
    busiest_s = std::max(busiest_s, busy_seconds(input, input.workload.programs[program], calls));
  }
  return busiest_s;
}

Tick tick_of(const EngineInput& input) { return Tick(horizon_of(input)); }

}  // namespace trainyard
