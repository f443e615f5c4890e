#include "sim/engine/known_programs.hpp"

#include <optional>
#include <utility>

#include "sim/graph/call_order.hpp"
#include "sim/graph/call_sequences.hpp"
#include "sim/graph/program_forms.hpp"

namespace trainyard {
namespace {

// By operation: computations, delays and the collectives named.
std::vector<bool> members(const Program& program, const ProgramCalls& calls,
                          const std::vector<bool>& joinable) {
  std::vector<bool> result(program.operations.size());
  for (OpIndex op = 0; op < program.operations.size(); ++op) {
    const std::uint32_t collective = calls.collective_of[op];
    result[op] =
        collective == kNone ? !communicates(program.operations[op].kind) : joinable[collective];
  }
  return result;
}

}  // namespace

void KnownPrograms::find_forms(const Workload& workload) {
  const std::size_t count = workload.programs.size();
  if (form_of_.size() == count) return;
  form_of_ = program_forms(workload.programs);
  members_.resize(count);
  calls_.resize(count);
  programs_.resize(count);
  for (std::uint32_t program = 0; program < count; ++program)
    members_[form_of_[program]].push_back(program);
}

KnownPrograms::Known KnownPrograms::as_another(std::uint32_t program, bool contracted,
                                               const std::vector<bool>& joinable) const {
  for (const std::uint32_t member : members_[form_of_[program]]) {
    const Known& known = programs_[member];
    if (known && known->contracted == contracted && known->joinable == joinable) return known;
  }
  return nullptr;
}

const ProgramCalls& KnownPrograms::calls(const Workload& workload, std::uint32_t program) {
  find_forms(workload);
  std::unique_ptr<const ProgramCalls>& known = calls_.at(form_of_.at(program));
  if (!known) known = std::make_unique<const ProgramCalls>(calls_of(workload.programs[program]));
  return *known;
}

std::shared_ptr<const KnownProgram> KnownPrograms::plain(const Workload& workload,
                                                         std::uint32_t program) {
  find_forms(workload);
  Known& known = programs_.at(program);
  if (known && !known->contracted) return known;
  if (Known other = as_another(program, false, {})) return known = std::move(other);
  KnownProgram fresh;
  fresh.successors = successors(workload.programs[program]);
  known = std::make_shared<const KnownProgram>(std::move(fresh));
  return known;
}

std::shared_ptr<const KnownProgram> KnownPrograms::contracted(const Workload& workload,
                                                              std::uint32_t program,
                                                              std::vector<bool> joinable) {
  find_forms(workload);
  Known& known = programs_.at(program);
  if (known && known->contracted && known->joinable == joinable) return known;
  if (Known other = as_another(program, true, joinable)) return known = std::move(other);
  const Program& written = workload.programs[program];
  KnownProgram fresh{.joinable = std::move(joinable), .contracted = true};
  std::optional<ProgramOrder> order;
  if (orders != nullptr) order = orders->take_order(program);
  if (!order) order.emplace(written);
  fresh.stretches = find_stretches(
      written, members(written, calls(workload, program), fresh.joinable), *std::move(order));
  fresh.successors = successors(written, fresh.stretches);
  known = std::make_shared<const KnownProgram>(std::move(fresh));
  return known;
}

}  // namespace trainyard
