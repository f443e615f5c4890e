// `trainyard import nccl-topo` and `import topo-m`: make clusters from descriptions of real
// servers.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenarios/import/from_topo_matrix.hpp"
#include "scenarios/import/nccl_xml.hpp"
#include "sim/base/files.hpp"
#include "sim/base/utf8.hpp"
#include "sim/render/views/views.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"
#include "topologies/custom_cluster.hpp"

namespace trainyard {

namespace {

struct TopologyChoice {
  std::string file;
  std::string out;  // empty: standard output
  std::string nic;  // rate of every NIC, as the user writes it; empty: not given
  ImportChoice import;
};

std::optional<BytesPerSecond> nic_of(const TopologyChoice& choice) {
  if (choice.nic.empty()) return {};
  return parse_nic_rate(choice.nic, "--nic");
}

// Prints the cluster as JSON, or writes it to a file and prints a summary table. What was assumed
// goes to standard error where the cluster takes standard output.
Exit write_cluster(const TopologyChoice& choice, const ImportedNode& node) {
  const Cluster cluster = imported_cluster(node, choice.import);
  const std::string json = to_custom_json(cluster).dump(1) + "\n";
  if (choice.out.empty()) {
    say("{}", json);
    tell(assumptions_text(assumptions_of(node, choice.import)));
    return Exit::Fine;
  }
  write_file(choice.out, json);
  say("{}\n{}Cluster  {}   (\"cluster\": {{\"file\": \"{}\"}} in a scenario)\n",
      topology_table(cluster), assumptions_text(assumptions_of(node, choice.import)), choice.out,
      choice.out);
  return Exit::Fine;
}

Exit import_xml(const TopologyChoice& choice) {
  refuse_outputs({choice.out}, {choice.file});
  return write_cluster(choice, from_nccl_xml(read_file(choice.file), choice.file,
                                             {.gpu = choice.import.gpu, .nic = nic_of(choice)}));
}

Exit import_matrix(const TopologyChoice& choice) {
  refuse_outputs({choice.out}, {choice.file});
  return write_cluster(
      choice,
      from_topo_matrix(as_utf8(read_file(choice.file)),
                       {.file = choice.file, .gpu = choice.import.gpu, .nic = nic_of(choice)}));
}

void add_options(CLI::App& command, TopologyChoice& choice) {
  command.add_option("file", choice.file, "The description of one server")->required();
  command.add_option("-o,--output", choice.out, "The cluster file to write; else it is printed");
  command.add_option("--nodes", choice.import.nodes, "How many such servers")
      ->check(in_range(1, 65536));
  command.add_option("--fabric", choice.import.fabric, "How they are joined (trainyard list)");
  command.add_option("--nic", choice.nic, "The rate of every NIC: 200G, 400Gbps, \"50 GB/s\"");
}

}  // namespace

void add_import_nccl_topo(CLI::App& import, Action& action) {
  auto choice = std::make_shared<TopologyChoice>();
  CLI::App* command = import.add_subcommand("nccl-topo", "NCCL's XML of a server, as a cluster");
  add_options(*command, *choice);
  command->add_option("--gpu", choice->import.gpu,
                      "The GPU profile, where the file does not tell, as NCCL_TOPO_FILE of clouds");
  command->footer(
      "Example:\n  trainyard import nccl-topo tests/scenarios/import/topologies/h100_x8.xml "
      "--nodes 4 "
      "--fabric rail_optimized -o cluster.json");
  command->callback([choice, &action] { action = [choice] { return import_xml(*choice); }; });
}

void add_import_topo_m(CLI::App& import, Action& action) {
  auto choice = std::make_shared<TopologyChoice>();
  CLI::App* command =
      import.add_subcommand("topo-m", "The text of `nvidia-smi topo -m`, as a cluster");
  add_options(*command, *choice);
  command->add_option("--gpu", choice->import.gpu, "The GPU profile, which gives the rates")
      ->required();
  command->footer(
      "Example:\n  trainyard import topo-m tests/scenarios/import/topologies/h100_x8_topo_m.txt "
      "--gpu h100 "
      "-o cluster.json");
  command->callback([choice, &action] { action = [choice] { return import_matrix(*choice); }; });
}

}  // namespace trainyard
