#include "sim/chakra/export.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/chakra/trace_file.hpp"
#include "sim/workload/workload_json.hpp"

namespace trainyard::chakra {

namespace {

using Json = nlohmann::ordered_json;

// Chakra's times are whole microseconds. The attribute "trainyard" has the exact ones.
std::uint64_t microseconds(double seconds) {
  return static_cast<std::uint64_t>(std::llround(seconds * 1e6));
}

// Converts the simulated step of one rank. Times are those of the rank's class.
class RankExport {
 public:
  RankExport(const RunView& view, RankId rank)
      : view_(view),
        id_(rank),
        rank_(view.workload.ranks.at(rank)),
        program_(view.workload.programs.at(rank_.program)),
        times_(view.timeline.classes.at(view.partition.class_of_rank.at(rank))) {}

  RankTrace trace() {
    trace_.attributes = {{"rank", std::int64_t{id_}},
                         {"world_size", static_cast<std::int64_t>(view_.workload.ranks.size())},
                         {"streams", view_.workload.streams},
                         {"trainyard", program_json().dump()}};
    trace_.nodes.reserve(program_.operations.size() + 1);
    trace_.nodes.push_back({.id = 0,
                            .name = "process groups",
                            .type = NodeType::Metadata,
                            .input_values = groups_json().dump()});
    // A control dependency on the previous operation expresses the order of a stream.
    std::vector<OpIndex> last_on_stream(view_.workload.streams.size(), kNone);
    for (OpIndex op = 0; op < program_.operations.size(); ++op) {
      OpIndex& before = last_on_stream.at(program_.operations[op].stream);
      add_operation(op, before);
      before = op;
    }
    return std::move(trace_);
  }

 private:
  // Node 0 is the metadata, so the nodes of operations start at 1.
  static std::uint64_t node_id(OpIndex op) { return std::uint64_t{op} + 1; }

  [[nodiscard]] Json program_json() const {
    Json resident = Json::array();
    for (const ResidentMemory& held : program_.resident)
      resident.push_back(
          {{"category", view_.workload.categories[held.category]}, {"bytes", held.bytes}});
    return {{"program", program_.name},
            {"stage", program_.stage},
            {"label", rank_.label},
            {"gpu", rank_.gpu},
            {"memory_categories", view_.workload.categories},
            {"resident", std::move(resident)}};
  }

  // Uses the field names of PyTorch's process groups.
  [[nodiscard]] Json groups_json() const {
    std::set<GroupId> groups;
    for (const SlotBinding& binding : rank_.slots)
      if (binding.group != kNone) groups.insert(binding.group);
    Json table = Json::array();
    for (const GroupId group : groups) {
      const Group& one = view_.workload.groups.at(group);
      table.push_back({{"pg_name", group_name(group)},
                       {"pg_desc", to_string(one.kind)},
                       {"ranks", one.members}});
    }
    return table;
  }

  // The standard attributes are for other tools. The attribute "trainyard" holds the operation
  // without loss.
  void add_operation(OpIndex index, OpIndex before) {
    const Operation& op = program_.operations[index];
    Node node{.id = node_id(index), .name = view_.workload.names.at(op.name)};
    for (const OpIndex earlier : program_.dependencies_of(index))
      node.data.push_back(node_id(earlier));
    if (before != kNone) node.control.push_back(node_id(before));
    // The dates of the simulated run. describe() replaces the duration of a kernel or a delay by
    // its own time.
    node.start_us = microseconds(times_.start_s.at(index));
    node.duration_us = microseconds(times_.end_s.at(index) - times_.start_s.at(index));
    node.attributes = {{"is_cpu_op", op.kind == OpKind::Delay},
                       {"stream", std::int64_t{op.stream}}};
    Json exact = operation_to_json(view_.workload, program_, index);
    describe(op, node, exact);
    node.attributes["trainyard"] = exact.dump();
    trace_.nodes.push_back(std::move(node));
  }

  void describe(const Operation& op, Node& node, Json& exact) const {
    switch (op.kind) {
      case OpKind::Compute:
        return describe_kernel(op, node, exact);
      case OpKind::Delay:
        node.type = NodeType::Compute;
        node.duration_us = microseconds(view_.workload.delays.at(op.payload).value());
        return;
      case OpKind::Collective:
      case OpKind::Send:
      case OpKind::Recv:
        return describe_call(op, node);
    }
  }

  // Writes the duration of the kernel alone. The importing simulator models what slows the kernel
  // down.
  void describe_kernel(const Operation& op, Node& node, Json& exact) const {
    const std::uint32_t number = program_.kernel_of(op);
    const Kernel& kernel = view_.workload.kernels.at(number);
    const double seconds = view_.kernel_costs[number].time.value();
    node.type = NodeType::Compute;
    node.duration_us = microseconds(seconds);
    node.attributes["num_ops"] = static_cast<std::int64_t>(std::llround(flops(kernel).value()));
    node.attributes["tensor_size"] =
        static_cast<std::uint64_t>(std::llround(hbm_bytes(kernel).value()));
    exact["seconds"] = seconds;
  }

  void describe_call(const Operation& op, Node& node) const {
    const Call& call = view_.workload.calls.at(op.payload);
    const GroupId group = rank_.slots.at(op.slot).group;
    const std::vector<RankId>& members = view_.workload.groups.at(group).members;
    if (const auto* copy = std::get_if<HostCopyCall>(&call)) {
      const bool leaves = copy->direction == HostDirection::ToHost;
      node.type = leaves ? NodeType::MemStore : NodeType::MemLoad;
      node.attributes["tensor_size"] = static_cast<std::uint64_t>(copy->bytes);
      return;
    }
    node.attributes["pg_name"] = group_name(group);
    node.attributes["comm_size"] = input_bytes(call, members.size());
    if (op.kind == OpKind::Collective) {
      node.type = NodeType::Collective;
      node.attributes["comm_type"] = collective_number(op_of(call));
      return;
    }
    node.type = op.kind == OpKind::Send ? NodeType::Send : NodeType::Recv;
    node.attributes["comm_src"] = static_cast<std::int32_t>(members.front());
    node.attributes["comm_dst"] = static_cast<std::int32_t>(members.back());
    // The tag distinguishes messages of different groups between the same two ranks.
    node.attributes["comm_tag"] = static_cast<std::int32_t>(group);
  }

  const RunView& view_;
  RankId id_;
  const Rank& rank_;
  const Program& program_;
  const OpTimes& times_;
  RankTrace trace_;
};

// Returns the groups as ASTRA-sim's --comm-group-configuration reads them.
std::string comm_groups(const Workload& workload) {
  Json table = Json::object();
  for (GroupId group = 0; group < workload.groups.size(); ++group)
    table[group_name(group)] = workload.groups[group].members;
  return table.dump() + "\n";
}

}  // namespace

RankTrace trace_of(const RunView& view, RankId rank) { return RankExport(view, rank).trace(); }

void write_traces(const RunView& view, const std::filesystem::path& folder,
                  const std::vector<RankId>& ranks) {
  const std::size_t world = view.workload.ranks.size();
  std::vector<RankId> chosen = ranks;
  for (RankId rank = 0; ranks.empty() && rank < world; ++rank) chosen.push_back(rank);
  // All ranks are checked before the first file is written.
  for (const RankId rank : chosen) {
    if (rank < world) continue;
    throw InputError(Problem{.file = folder.string(),
                             .pointer = {},
                             .problem = fmt::format("rank {} does not exist", rank),
                             .hint = fmt::format("the run has ranks 0 to {}", world - 1)});
  }
  for (const RankId rank : chosen)
    write_file(folder / fmt::format("step.{}.et", rank), to_bytes(trace_of(view, rank)));
  write_file(folder / "comm_groups.json", comm_groups(view.workload));
}

}  // namespace trainyard::chakra
