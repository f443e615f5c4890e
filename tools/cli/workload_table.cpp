#include "tools/cli/workload_table.hpp"

#include <fmt/format.h>

#include <map>

#include "sim/render/text_table.hpp"

namespace trainyard {

namespace {

std::string program_table(const Workload& workload) {
  std::vector<std::size_t> ranks(workload.programs.size(), 0);
  for (const Rank& rank : workload.ranks) ++ranks[rank.program];
  TextTable table({"program", "ranks", "compute", "collectives", "sends", "receives", "FLOP"});
  for (std::size_t index = 0; index < workload.programs.size(); ++index) {
    std::map<OpKind, std::size_t> count;
    double work = 0.0;
    const Program& program = workload.programs[index];
    for (const Operation& op : program.operations) {
      ++count[op.kind];
      if (op.kind == OpKind::Compute)
        work += flops(workload.kernels[program.kernel_of(op)]).value();
    }
    table.row({workload.programs[index].name, fmt::to_string(ranks[index]),
               fmt::to_string(count[OpKind::Compute]), fmt::to_string(count[OpKind::Collective]),
               fmt::to_string(count[OpKind::Send]), fmt::to_string(count[OpKind::Recv]),
               fmt::format("{:.4g}", work)});
  }
  return table.text();
}

std::string group_table(const Workload& workload) {
  std::map<std::pair<GroupKind, std::size_t>, std::size_t> count;
  for (const Group& group : workload.groups) ++count[{group.kind, group.members.size()}];
  TextTable table({"group", "ranks", "groups"});
  for (const auto& [key, groups] : count) {
    table.row(
        {std::string(to_string(key.first)), fmt::to_string(key.second), fmt::to_string(groups)});
  }
  return table.text();
}

}  // namespace

std::string workload_table(const Workload& workload) {
  return fmt::format("{}\n{}\n{} distinct kernels, {} distinct calls\n", program_table(workload),
                     group_table(workload), workload.kernels.size(), workload.calls.size());
}

}  // namespace trainyard
