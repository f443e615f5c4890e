#include "sim/fold/selected_algorithms.hpp"

#include <vector>

namespace trainyard {

SelectedAlgorithms selected_algorithms(const Workload& workload, const Partition& partition,
                                       const CommunicationModel& communication) {
  SelectedAlgorithms table;
  for (std::uint32_t group_class = 0; group_class < partition.groups.size(); ++group_class) {
    const Group& group = workload.groups.at(partition.groups[group_class].representative);
    std::vector<std::uint32_t> gpus;
    gpus.reserve(group.members.size());
    for (const RankId member : group.members) gpus.push_back(workload.ranks.at(member).gpu);
    const auto& calls = partition.phases[group_class];
    for (std::uint32_t call = 0; call < calls.size(); ++call) {
      if (calls[call].empty()) continue;  // never made, or a group of one
      SelectedAlgorithm selected_algorithm =
          communication.selected_algorithm(workload.calls.at(call), gpus);
      if (selected_algorithm.label == algorithm_of(workload.calls.at(call))) continue;
      table.emplace(std::pair{group_class, call}, std::move(selected_algorithm));
    }
  }
  return table;
}

SelectedAlgorithm selected_algorithm_of(const SelectedAlgorithms& selected_algorithms,
                                        const Workload& workload, std::uint32_t group_class,
                                        std::uint32_t call) {
  const auto found = selected_algorithms.find({group_class, call});
  if (found != selected_algorithms.end()) return found->second;
  const std::string name(algorithm_of(workload.calls.at(call)));
  return {.algorithm = name, .label = name};
}

}  // namespace trainyard
