// `trainyard import ib-fabric`: makes a cluster from what ibnetdiscover or iblinkinfo print.
#include <fmt/format.h>

#include "scenarios/import/ib_cluster.hpp"
#include "scenarios/import/imported_node.hpp"
#include "sim/base/files.hpp"
#include "sim/base/utf8.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"

namespace trainyard {

namespace {

struct IbFabricChoice {
  std::string file;
  std::string out;  // empty: standard output
  std::string nic;  // as the user writes it; empty: not given
  IbChoice import;
};

std::string fabric_text(const IbFabricChoice& choice, const IbCluster& made,
                        const std::string& tool) {
  std::string text = "found:\n";
  for (const std::string& sentence : made.found) text += "  - " + sentence + "\n";
  return fmt::format("{} of {}: {}\n{}{}", tool, choice.file,
                     made.fabric.empty() ? "a fabric of its own" : made.fabric, text,
                     assumptions_text(made.assumed));
}

Exit import_fabric(IbFabricChoice choice) {
  refuse_outputs({choice.out}, {choice.file});
  if (!choice.nic.empty()) choice.import.nic = parse_nic_rate(choice.nic, "--nic");
  const IbFabric fabric = read_ib_fabric(as_utf8(read_file(choice.file)), choice.file);
  const IbCluster made = cluster_of_ib_fabric(fabric, choice.import);
  const std::string json = made.cluster.dump(1) + "\n";
  if (choice.out.empty()) {
    say("{}", json);
    tell(fabric_text(choice, made, fabric.tool));
    return Exit::Fine;
  }
  write_file(choice.out, json);
  say("{}Cluster  {}   (\"cluster\": {{\"file\": \"{}\"}} in a scenario)\n",
      fabric_text(choice, made, fabric.tool), choice.out, choice.out);
  return Exit::Fine;
}

}  // namespace

void add_import_ib_fabric(CLI::App& import, Action& action) {
  auto choice = std::make_shared<IbFabricChoice>();
  CLI::App* command = import.add_subcommand(
      "ib-fabric", "An InfiniBand fabric, as ibnetdiscover or iblinkinfo print it, as a cluster");
  command->add_option("file", choice->file, "The output of the tool")->required();
  command->add_option("-o,--output", choice->out, "The cluster file to write; else it is printed");
  command->add_option("--node", choice->import.node, "The node type of every host (trainyard list)")
      ->required();
  command->add_option("--hosts", choice->import.hosts, "Only hosts with such a name: 'dgx*'");
  command->add_option("--nic", choice->nic,
                      "The rate of cables whose speed the file does not tell: 800G");
  command->footer(
      "Example:\n  trainyard import ib-fabric tests/scenarios/import/ib_fabric/rails.txt --node "
      "dgx_h100 -o cluster.json");
  command->callback([choice, &action] { action = [choice] { return import_fabric(*choice); }; });
}

}  // namespace trainyard
