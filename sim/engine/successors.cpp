#include "sim/engine/successors.hpp"

#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "sim/base/check.hpp"

namespace trainyard {
namespace {

// An operation that waits by itself, outside stretches or at the head of one.
struct Waiting {
  OpIndex op = 0;
  OpIndex previous = kNone;  // on its stream
};

std::vector<Waiting> waiting_of(const Program& program, const ProgramStretches& stretches) {
  std::vector<Waiting> result;
  std::array<OpIndex, std::numeric_limits<std::uint8_t>::max() + 1> last_on_stream{};
  last_on_stream.fill(kNone);
  OpIndex op = 0;
  for (const Operation& operation : program.operations) {
    const OpIndex previous = std::exchange(last_on_stream[operation.stream], op);
    if (!stretches.within(op)) result.push_back({op, previous});
    ++op;
  }
  return result;
}

// Calls visit(from) for all that an operation waits for.
template <class Visit>
void for_each_awaited(const Program& program, const Waiting& to, const Visit& visit) {
  if (to.previous != kNone) visit(to.previous);
  for (const OpIndex before : program.dependencies_of(to.op)) {
    TY_CHECK(before < to.op, program.name, before, to.op);
    visit(before);
  }
}

}  // namespace

Successors successors(const Program& program, const ProgramStretches& stretches) {
  const std::vector<Waiting> waiting = waiting_of(program, stretches);
  const std::size_t count = program.operations.size();
  Successors result;
  // Counted two places on, the lists begin one place on; writing them moves that to their own.
  result.begin.assign(count + 2, 0);
  for (const Waiting& to : waiting) {
    std::uint32_t edges = 0;
    for_each_awaited(program, to, [&](OpIndex from) {
      ++result.begin[from + 2];
      ++edges;
    });
    edges == 0 ? result.heads.push_back(to.op) : result.waits_for.push_back(edges);
  }
  std::partial_sum(result.begin.begin(), result.begin.end(), result.begin.begin());
  result.edges.resize(result.begin.back());
  std::uint32_t counter = 0;
  for (const Waiting& to : waiting) {
    bool waits = false;
    for_each_awaited(program, to, [&](OpIndex from) {
      result.edges[result.begin[from + 1]++] = {to.op, counter};
      waits = true;
    });
    if (waits) ++counter;
  }
  result.begin.pop_back();
  return result;
}

}  // namespace trainyard
