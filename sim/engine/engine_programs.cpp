#include "sim/engine/engine_programs.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/concurrency.hpp"
#include "sim/engine/steady_state.hpp"

namespace trainyard {
namespace {

// The number of operations from which on a second thread pays off.
constexpr std::size_t kWorthAThread = 10'000;

// The operations that regions may hold: computations, delays and the joinable collectives.
MayJoin members(const Program& program, const ProgramCalls& calls,
                const std::vector<bool>& joinable) {
  return [&](OpIndex op) {
    const std::uint32_t collective = calls.collective_of(op);
    return collective == kNone ? !communicates(program.operations[op].kind) : joinable[collective];
  };
}

}  // namespace

EnginePrograms::EnginePrograms(const Workload& workload, const ProgramAnalysis& analysis,
                               const EnginePrograms* like)
    : workload_(workload),
      analysis_(analysis),
      members_(workload.programs.size()),
      programs_(workload.programs.size()) {
  for (std::uint32_t program = 0; program < members_.size(); ++program)
    members_[analysis.template_of(program)].push_back(program);
  like_.resize(workload.programs.size());
  if (like == nullptr) return;
  // A run on another thread may be adding results to `like`.
  const std::scoped_lock lock(like->mutex_);
  std::ranges::copy_n(like->programs_.begin(),
                      std::min(std::ssize(like->programs_), std::ssize(like_)), like_.begin());
}

// Defined here because ShortStep is incomplete in the header.
EnginePrograms::~EnginePrograms() = default;

// The shortened workload is made once. It stays alive when forget_short_step() hides it, because a
// run on another thread may still play it.
const ShortStep* EnginePrograms::short_step() {
  std::call_once(shortened_, [&] { short_step_ = shortened(workload_); });
  return steady_ ? short_step_.get() : nullptr;
}

// REQUIRES: the caller holds mutex_.
EnginePrograms::Known EnginePrograms::of_same_template(std::uint32_t program, bool contracted,
                                                       const std::vector<bool>& joinable) const {
  for (const std::uint32_t member : members_[analysis_.template_of(program)]) {
    const Known& known = programs_[member];
    if (known && known->contracted == contracted && known->joinable == joinable) return known;
  }
  return nullptr;
}

// A program has one result at a time, either plain or with regions. A request for the other form
// replaces it; runs that still use the old one share its ownership.
std::shared_ptr<const EngineProgram> EnginePrograms::plain(std::uint32_t program) {
  const std::scoped_lock lock(mutex_);
  Known& known = programs_.at(program);
  if (known && !known->contracted) return known;
  if (Known other = of_same_template(program, false, {})) return known = std::move(other);
  EngineProgram fresh;
  fresh.successors = Successors(workload_.programs[program]);
  known = std::make_shared<const EngineProgram>(std::move(fresh));
  return known;
}

std::vector<EnginePrograms::Known> EnginePrograms::contract(
    const std::vector<const Contraction*>& fresh) const {
  std::vector<EngineProgram> found(fresh.size());
  std::size_t operations = 0;
  for (const Contraction* const one : fresh)
    operations += workload_.programs[one->program].operations.size();
  parallel_for(operations > kWorthAThread, fresh.size(), [&](std::size_t i) {
    const Program& program = workload_.programs[fresh[i]->program];
    EngineProgram& result = found[i];
    result = {.joinable = fresh[i]->joinable, .contracted = true};
    const MayJoin may_join = members(program, analysis_.calls(fresh[i]->program), result.joinable);
    const Known& like = like_[fresh[i]->program];
    // Searches can be reused only where the same collectives may be members.
    const bool same = like && like->contracted && like->joinable == result.joinable;
    result.regions = find_regions(program, may_join, analysis_.order(fresh[i]->program),
                                  same ? &like->regions : nullptr);
    result.successors = Successors(program, result.regions);
  });
  std::vector<Known> result;
  for (EngineProgram& known : found)
    result.push_back(std::make_shared<const EngineProgram>(std::move(known)));
  return result;
}

// The lock is held during the search, so that two threads that ask for the same programs do not
// both search them.
std::vector<std::shared_ptr<const EngineProgram>> EnginePrograms::contracted(
    const std::vector<Contraction>& asked) {
  const std::scoped_lock lock(mutex_);
  std::vector<Known> result;
  std::vector<const Contraction*> fresh;
  // By element of `asked`: the index in `fresh`, where no result exists yet.
  std::vector<std::size_t> number;
  for (const Contraction& one : asked) {
    result.push_back(of_same_template(one.program, true, one.joinable));
    // Programs of one template with equal joinable collectives are searched once.
    const auto same = std::ranges::find_if(fresh, [&](const Contraction* other) {
      return analysis_.template_of(other->program) == analysis_.template_of(one.program) &&
             other->joinable == one.joinable;
    });
    number.push_back(static_cast<std::size_t>(same - fresh.begin()));
    if (!result.back() && same == fresh.end()) fresh.push_back(&one);
  }
  const std::vector<Known> found = contract(fresh);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (!result[i]) result[i] = found[number[i]];
    programs_[asked[i].program] = result[i];
  }
  return result;
}

}  // namespace trainyard
