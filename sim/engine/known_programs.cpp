#include "sim/engine/known_programs.hpp"

#include <utility>

namespace trainyard {

std::shared_ptr<const KnownProgram> KnownPrograms::program(const Workload& workload,
                                                           std::uint32_t index,
                                                           std::vector<bool> joinable) {
  programs_.resize(workload.programs.size());
  std::shared_ptr<const KnownProgram>& known = programs_.at(index);
  if (known && known->joinable == joinable) return known;
  const Program& program = workload.programs[index];
  ProgramStretches stretches;
  if (!joinable.empty()) stretches = find_stretches(program, joinable);
  Successors next = successors(program, stretches);
  known = std::make_shared<const KnownProgram>(
      KnownProgram{std::move(joinable), std::move(stretches), std::move(next)});
  return known;
}

}  // namespace trainyard
