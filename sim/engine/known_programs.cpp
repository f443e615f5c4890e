#include "sim/engine/known_programs.hpp"

#include <utility>

#include "sim/base/beside.hpp"
#include "sim/base/check.hpp"
#include "sim/workload/call_order.hpp"
#include "sim/workload/call_sequences.hpp"
#include "sim/workload/program_templates.hpp"

namespace trainyard {
namespace {

// Operations from which on a second thread helps.
constexpr std::size_t kWorthAThread = 10'000;

// Computations, delays and the collectives named.
MayJoin members(const Program& program, const ProgramCalls& calls,
                const std::vector<bool>& joinable) {
  return [&](OpIndex op) {
    const std::uint32_t collective = calls.collective_of(op);
    return collective == kNone ? !communicates(program.operations[op].kind) : joinable[collective];
  };
}

}  // namespace

KnownPrograms::KnownPrograms(const Workload& workload, const CallOrder* orders)
    : workload_(workload),
      orders_(orders),
      template_of_(program_templates(workload.programs)),
      members_(template_of_.size()),
      calls_(template_of_.size()),
      programs_(template_of_.size()) {
  for (std::uint32_t program = 0; program < template_of_.size(); ++program)
    members_[template_of_[program]].push_back(program);
}

KnownPrograms::Known KnownPrograms::as_another(std::uint32_t program, bool contracted,
                                               const std::vector<bool>& joinable) const {
  for (const std::uint32_t member : members_[template_of_[program]]) {
    const Known& known = programs_[member];
    if (known && known->contracted == contracted && known->joinable == joinable) return known;
  }
  return nullptr;
}

const ProgramCalls& KnownPrograms::calls(std::uint32_t program) {
  const std::scoped_lock lock(mutex_);
  return its_calls(program);
}

const ProgramCalls& KnownPrograms::its_calls(std::uint32_t program) {
  std::unique_ptr<const ProgramCalls>& known = calls_.at(template_of_.at(program));
  if (!known) known = std::make_unique<const ProgramCalls>(workload_.programs[program].operations);
  return *known;
}

std::shared_ptr<const KnownProgram> KnownPrograms::plain(std::uint32_t program) {
  const std::scoped_lock lock(mutex_);
  Known& known = programs_.at(program);
  if (known && !known->contracted) return known;
  if (Known other = as_another(program, false, {})) return known = std::move(other);
  KnownProgram fresh;
  fresh.successors = Successors(workload_.programs[program]);
  known = std::make_shared<const KnownProgram>(std::move(fresh));
  return known;
}

std::vector<KnownPrograms::Known> KnownPrograms::contract(
    const std::vector<const Contraction*>& fresh) {
  std::vector<KnownProgram> found(fresh.size());
  std::size_t operations = 0;
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    (void)its_calls(fresh[i]->program);
    operations += workload_.programs[fresh[i]->program].operations.size();
  }
  share_out(operations > kWorthAThread, fresh.size(), [&](std::size_t i) {
    const Program& program = workload_.programs[fresh[i]->program];
    const ProgramCalls& made = *calls_[template_of_[fresh[i]->program]];
    KnownProgram& result = found[i];
    result = {.joinable = fresh[i]->joinable, .contracted = true};
    const MayJoin may_join = members(program, made, result.joinable);
    result.stretches = orders_ != nullptr
                           ? find_stretches(program, may_join, orders_->of(fresh[i]->program))
                           : find_stretches(program, may_join, ProgramOrder(program));
    result.successors = Successors(program, result.stretches);
  });
  std::vector<Known> result;
  for (KnownProgram& known : found)
    result.push_back(std::make_shared<const KnownProgram>(std::move(known)));
  return result;
}

std::vector<std::shared_ptr<const KnownProgram>> KnownPrograms::contracted(
    const std::vector<Contraction>& asked) {
  const std::scoped_lock lock(mutex_);
  std::vector<Known> result;
  std::vector<const Contraction*> fresh;
  std::vector<std::size_t> number;  // in `fresh`, of those that are not known
  for (const Contraction& one : asked) {
    result.push_back(as_another(one.program, true, one.joinable));
    const auto same = std::ranges::find_if(fresh, [&](const Contraction* other) {
      return template_of_[other->program] == template_of_[one.program] &&
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
