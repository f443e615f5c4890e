#include "sim/contention/folded_calls.hpp"

#include <algorithm>
#include <cstdint>

namespace trainyard {

namespace {

bool have_equal_groups(const Workload& a, const Workload& b) {
  const auto same_group = [](const Group& x, const Group& y) {
    return x.kind == y.kind && x.members == y.members;
  };
  const auto same_rank = [](const Rank& x, const Rank& y) {
    return x.program == y.program && x.gpu == y.gpu && x.slots == y.slots;
  };
  return a.programs.size() == b.programs.size() && a.calls == b.calls &&
         std::ranges::equal(a.groups, b.groups, same_group) &&
         std::ranges::equal(a.ranks, b.ranks, same_rank);
}

}  // namespace

// Compares what folding reads: ranks, groups, and the distinct calls of each slot. The number of
// operations does not count, so steps with other numbers of microbatches are equal. The last
// comparison costs the most: it asks the other analysis the questions about order that this one has
// answered.
bool FoldedCalls::operator==(const FoldedCalls& other) const {
  const std::shared_ptr<const Workload> known = workload.lock();
  const std::shared_ptr<const Workload> asked = other.workload.lock();
  const std::shared_ptr<ProgramAnalysis> its = analysis.lock();
  const std::shared_ptr<ProgramAnalysis> others = other.analysis.lock();
  if (!known || !asked || !its || !others) return false;
  if (known == asked) return true;
  if (!have_equal_groups(*known, *asked)) return false;
  for (std::uint32_t program = 0; program < known->programs.size(); ++program)
    if (its->template_of(program) != others->template_of(program) ||
        its->calls(program).distinct_calls() != others->calls(program).distinct_calls())
      return false;
  return its->answers_hold_for(*others);
}

}  // namespace trainyard
