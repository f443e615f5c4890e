#include "sim/engine/successors.hpp"

#include <array>
#include <limits>
#include <utility>

#include "sim/base/check.hpp"

namespace trainyard {
namespace {

// Calls edge(from, to) for every edge of the program, in order of `to`.
template <class Edge>
void for_each_edge(const Program& program, const ProgramStretches& stretches, const Edge& edge) {
  std::array<OpIndex, std::numeric_limits<std::uint8_t>::max() + 1> last_on_stream{};
  last_on_stream.fill(kNone);
  for (OpIndex op = 0; op < program.operations.size(); ++op) {
    const Operation& operation = program.operations[op];
    const OpIndex last = std::exchange(last_on_stream[operation.stream], op);
    if (stretches.within(op)) continue;
    if (last != kNone) edge(last, op);
    for (const OpIndex before : program.dependencies_of(operation)) {
      TY_CHECK(before < op, program.name, before, op);
      edge(before, op);
    }
  }
}

}  // namespace

Successors successors(const Program& program, const ProgramStretches& stretches) {
  const std::size_t count = program.operations.size();
  Successors result;
  result.begin.assign(count + 1, 0);
  std::vector<std::uint32_t> counter(count, kNone);
  for_each_edge(program, stretches, [&](OpIndex from, OpIndex to) {
    ++result.begin[from + 1];
    if (counter[to] == kNone) {
      counter[to] = static_cast<std::uint32_t>(result.waits_for.size());
      result.waits_for.push_back(0);
    }
    ++result.waits_for[counter[to]];
  });
  for (std::size_t op = 0; op < count; ++op) result.begin[op + 1] += result.begin[op];
  result.edges.resize(result.begin[count]);
  std::vector<std::uint32_t> place(result.begin.begin(), result.begin.end() - 1);
  for_each_edge(program, stretches, [&](OpIndex from, OpIndex to) {
    result.edges[place[from]++] = {to, counter[to]};
  });
  for (OpIndex op = 0; op < count; ++op)
    if (counter[op] == kNone && !stretches.within(op)) result.heads.push_back(op);
  return result;
}

}  // namespace trainyard
