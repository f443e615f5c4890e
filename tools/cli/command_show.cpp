// `trainyard show`: prints the cluster, the workload or the kernel costs of a scenario, for reading
// or as a file.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "kernels/gpu.hpp"
#include "scenarios/import/nccl_xml.hpp"
#include "scenarios/simulate/kernel_pricing.hpp"
#include "scenarios/simulate/lowered.hpp"
#include "scenarios/simulate/workload_files.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/render/text_table.hpp"
#include "sim/render/views/views.hpp"
#include "sim/workload/workload.hpp"
#include "sim/workload/workload_json.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/print.hpp"
#include "topologies/cluster_reader.hpp"

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

// Counts the groups of each kind and size.
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

// The programs and the groups of a workload, as two tables of counts.
std::string workload_table(const Workload& workload) {
  return fmt::format("{}\n{}\n{} distinct kernels, {} distinct calls\n", program_table(workload),
                     group_table(workload), workload.kernels.size(), workload.calls.size());
}

struct ShowChoice {
  ScenarioChoice scenario;
  std::string cluster;  // a cluster file instead of a scenario
  std::string format = "table";
  std::string output;  // empty: it is printed
};

// Writes the text to --output, or prints it.
Exit give(const ShowChoice& choice, const std::string& text) {
  if (choice.output.empty()) {
    say("{}", text);
  } else {
    write_file(choice.output, text);
  }
  return Exit::Fine;
}

// The cluster of --cluster has precedence over that of the scenario.
ClusterSpec cluster_of(const ShowChoice& choice) {
  if (!choice.cluster.empty()) return read_cluster_file(choice.cluster);
  if (choice.scenario.file.empty()) {
    throw InputError(
        Problem{.file = {},
                .pointer = {},
                .problem = "show topology takes a scenario or --cluster FILE",
                .hint = "trainyard show topology scenarios/llama3/llama3_8b_8xh100.json"});
  }
  return read(choice.scenario).cluster;
}

Exit show_topology(const ShowChoice& choice) {
  const ClusterSpec spec = cluster_of(choice);
  if (choice.format == "json") return give(choice, to_json(spec).dump(2) + "\n");
  const std::shared_ptr<const Cluster> shared = shared_cluster(spec);
  const Cluster& cluster = *shared;
  if (choice.format == "nccl-xml") return give(choice, to_nccl_xml(cluster, 0));
  if (choice.format == "simgrid-xml") {
    const GpuSheet gpu = load_gpu_sheet(cluster.facts().gpu);
    return give(choice, to_simgrid_xml(cluster, gpu.bf16.value() > 0.0 ? gpu.bf16 : gpu.fp16));
  }
  if (choice.format == "matrix") return give(choice, topology_matrix(cluster, 0));
  return give(choice, choice.format == "dot" ? topology_dot(cluster) : topology_table(cluster));
}

Exit show_workload(const ShowChoice& choice) {
  const Scenario scenario = read(choice.scenario);
  const Cluster cluster = build_cluster(scenario.cluster);
  const Workload workload = scenario_workload(scenario, cluster);
  if (choice.format == "json") return give(choice, to_json(workload));
  return give(choice, choice.format == "dot" ? to_dot(workload, {}) : workload_table(workload));
}

// A factor of the software on kernel times. The table leaves out a column whose factor is 1 for
// every kernel.
struct FactorColumn {
  const char* title;
  double KernelPrice::*factor;
};

std::vector<FactorColumn> factor_columns(const std::vector<KernelRow>& rows) {
  std::vector<FactorColumn> columns;
  for (const FactorColumn& column : {FactorColumn{"framework", &KernelPrice::framework},
                                     FactorColumn{"4 bits", &KernelPrice::four_bits},
                                     FactorColumn{"replicas", &KernelPrice::last_replica},
                                     FactorColumn{"dispatch", &KernelPrice::dispatch_slowdown}}) {
    if (std::ranges::any_of(rows,
                            [&](const KernelRow& row) { return row.price.*column.factor != 1.0; }))
      columns.push_back(column);
  }
  return columns;
}

// Prints every kernel of the workload with its time in a run, most expensive first: the time in the
// profile and the factors that multiply it.
Exit show_cost(const ShowChoice& choice) {
  const Scenario scenario = read(choice.scenario);
  const std::shared_ptr<const Cluster> cluster = shared_cluster(scenario.cluster);
  std::vector<KernelRow> rows = kernel_table(scenario, *cluster);
  std::ranges::stable_sort(rows, std::ranges::greater{},
                           [](const KernelRow& row) { return row.price.cost().time.value(); });
  const std::vector<FactorColumn> columns = factor_columns(rows);
  say("Kernels on {}, framework {}: time = profile x the factors to its right\n  {:>10}  {:>10}",
      cluster->facts().gpu, scenario.framework, "time", "profile");
  for (const FactorColumn& column : columns) say("  {:>9}", column.title);
  say("  {:<12}  shape\n", "known how");
  for (const KernelRow& row : rows) {
    const Cost cost = row.price.cost();
    say("  {:>10}  {:>10}", to_text(cost.time), to_text(row.price.profile.time));
    for (const FactorColumn& column : columns) say("  {:>9.4g}", row.price.*column.factor);
    const std::string gpu = cluster->has_mixed_gpus() ? " on " + row.gpu : "";
    say("  {:<12}  {}{}\n", to_string(cost.provenance), to_text(row.kernel), gpu);
  }
  return Exit::Fine;
}

// Adds --format with the formats' names, and --output.
void add_format_options(CLI::App& command, ShowChoice& choice, const std::string& help,
                        const std::vector<std::string>& formats) {
  command.add_option("--format", choice.format, help)
      ->type_name("NAME")
      ->check(CLI::IsMember(formats));
  command.add_option("-o,--output", choice.output, "Write it into this file (default: print it)")
      ->type_name("FILE");
}

}  // namespace

void add_show(CLI::App& app, Action& action) {
  auto choice = std::make_shared<ShowChoice>();
  CLI::App* show =
      app.add_subcommand("show", "Show the topology, workload or kernel costs of a scenario");
  show->require_subcommand(1);
  show->footer(
      "Example:\n  trainyard show topology scenarios/llama3/llama3_8b_8xh100.json --format matrix\n"
      "  trainyard show workload scenarios/first/two_gpus.json --format json -o step.json");

  CLI::App* topology = show->add_subcommand("topology", "Devices and links, as a table");
  add_scenario_options(*topology, choice->scenario, false);
  topology
      ->add_option("--cluster", choice->cluster,
                   "A file with a cluster object instead of a scenario")
      ->type_name("FILE");
  add_format_options(
      *topology, *choice,
      "table; matrix: the grid of `nvidia-smi topo -m`; dot: for Graphviz; json: a cluster object "
      "for a scenario; nccl-xml: the first node as NCCL_TOPO_FILE reads it; simgrid-xml: a "
      "platform file of SimGrid, with every GPU's route to every other",
      {"table", "matrix", "dot", "json", "nccl-xml", "simgrid-xml"});
  topology->footer(
      "Example:\n  trainyard show topology scenarios/llama3/llama3_8b_8xh100.json --format matrix\n"
      "  trainyard show topology scenarios/first/two_gpus.json --format json -o cluster.json");
  topology->callback([choice, &action] { action = [choice] { return show_topology(*choice); }; });

  CLI::App* workload = show->add_subcommand("workload", "Programs, groups and operations");
  add_scenario_options(*workload, choice->scenario);
  add_format_options(*workload, *choice,
                     "table; json: a file for `run --workload`; dot: for Graphviz",
                     {"table", "json", "dot"});
  workload->footer(
      "Example:\n  trainyard show workload scenarios/first/two_gpus.json\n"
      "  trainyard show workload scenarios/first/two_gpus.json --format json -o step.json");
  workload->callback([choice, &action] { action = [choice] { return show_workload(*choice); }; });

  CLI::App* cost = show->add_subcommand(
      "cost",
      "Every kernel with its time in a run, the factors that make it, and how well it is known");
  add_scenario_options(*cost, choice->scenario);
  cost->footer("Example:\n  trainyard show cost scenarios/llama3/llama3_8b_8xh100.json");
  cost->callback([choice, &action] { action = [choice] { return show_cost(*choice); }; });
}

}  // namespace trainyard
