// `trainyard import launch`: takes the number of nodes and processes of a job from the script that
// launches it, and writes the cluster of a scenario.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "scenarios/import/job_shape.hpp"
#include "scenarios/reader/scenario.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/base/utf8.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/import_format.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"

namespace trainyard {

namespace {

struct JobChoice {
  std::string file;
  std::string out;       // empty: standard output
  std::string scenario;  // empty: the cluster alone is written
  std::string hostfile;
  std::vector<std::string> defines;  // NAME=VALUE
  std::optional<std::int64_t> per_node;
  LaunchMachine machine;
};

JobHints job_hints(const JobChoice& choice, const std::string& script) {
  JobHints hints;
  hints.defined = defined_variables(choice.defines, {{.name = choice.file, .text = script}});
  if (!choice.hostfile.empty()) {
    hints.hosts = as_utf8(read_file(choice.hostfile));
    hints.hosts_file = choice.hostfile;
  }
  return hints;
}

// The node type that the user names, else the first with the GPU that the job reserves.
std::string node_of_job(const JobChoice& choice, JobShape& shape) {
  if (!choice.machine.node.empty()) return choice.machine.node;
  const std::vector<std::string> nodes = nodes_with_gpu_named(shape.gpu);
  if (nodes.empty())
    throw InputError(Problem{choice.file, "",
                             shape.gpu.empty()
                                 ? std::string("does not say which GPUs it runs on")
                                 : fmt::format("no node type has the GPU \"{}\"", shape.gpu),
                             "name the node type: --node dgx_h100 (trainyard list nodes)"});
  if (nodes.size() > 1)
    shape.assumed.push_back(fmt::format("the GPU \"{}\" is that of {}; others have it, too: {}",
                                        shape.gpu, nodes.front(),
                                        fmt::join(nodes.begin() + 1, nodes.end(), ", ")));
  else
    shape.assumed.push_back(fmt::format("the GPU \"{}\" is that of {}", shape.gpu, nodes.front()));
  return nodes.front();
}

// The user's numbers take the place of those of the script, and of its contradictions. sizes_of()
// refuses a script that contradicts itself, so what the command line decides is taken out before.
LaunchedSizes chosen_sizes(const JobChoice& choice, JobShape& shape) {
  if (choice.per_node) shape.per_node = JobNumber{*choice.per_node, "--per-node"};
  if (choice.machine.nodes || choice.per_node) {
    for (const std::string& sentence : shape.contradictions)
      shape.assumed.push_back("the command line decides where " + sentence);
    shape.contradictions.clear();
    shape.world.reset();
  }
  LaunchedSizes sizes = sizes_of(shape, choice.file);
  if (choice.machine.nodes) shape.nodes = JobNumber{*choice.machine.nodes, "--nodes"};
  return sizes;
}

std::string shape_text(const JobShape& shape) {
  std::string text = fmt::format("launched by {}\n", shape.launcher);
  for (const auto& [word, number] :
       {std::pair{"nodes", &shape.nodes}, std::pair{"processes of a node", &shape.per_node},
        std::pair{"processes", &shape.world}})
    if (*number)
      text += fmt::format("  {:<20} {:>6}   {}\n", word, (*number)->value, (*number)->source);
  return text;
}

// A copy of the scenario on that cluster. Its own fabric stays, and its replicas fill the cluster
// where whole replicas do. Sentences for what it changes are added to `assumed`.
nlohmann::ordered_json scenario_on(const JobChoice& choice, LaunchedCluster launched,
                                   std::vector<std::string>& assumed) {
  const TrainingPlan plan = load_scenario(choice.scenario, {}).plan;
  nlohmann::ordered_json scenario = parse_json(choice.scenario, read_file(choice.scenario));
  const auto fabric = nlohmann::ordered_json::json_pointer("/cluster/fabric");
  if (scenario.contains(fabric) && launched.section["nodes"] > 1) {
    launched.section["fabric"] = scenario[fabric];
    std::erase_if(assumed, [](const std::string& one) { return one.starts_with("the fabric is"); });
    assumed.push_back("the fabric is that of " + choice.scenario);
  }
  scenario["cluster"] = launched.section;
  const std::int64_t replica = plan.world() / plan.parallelism.data;
  const std::int64_t replicas = launched.world / replica;
  if (launched.world % replica == 0 && replicas != plan.parallelism.data) {
    scenario["parallelism"]["data"] = replicas;
    assumed.push_back(
        fmt::format("parallelism.data is {}, not {}, so that replicas of {} GPUs fill "
                    "the cluster; the batch stays",
                    replicas, plan.parallelism.data, replica));
  }
  if (scenario.erase("published") > 0)
    assumed.push_back("published results of " + choice.scenario +
                      " are of another cluster: left out");
  if (!scenario.contains("assumptions") || !scenario["assumptions"].is_array())
    scenario["assumptions"] = nlohmann::ordered_json::array();
  scenario["assumptions"].push_back(fmt::format("nodes and processes as in {}", choice.file));
  for (const std::string& sentence : assumed) scenario["assumptions"].push_back(sentence);
  return scenario;
}

Exit import_job(const JobChoice& choice) {
  refuse_outputs({choice.out}, {choice.file, choice.hostfile});
  const std::string script = as_utf8(read_file(choice.file));
  JobShape shape = job_shape(script, choice.file, job_hints(choice, script));
  LaunchMachine machine = choice.machine;
  const LaunchedSizes sizes = chosen_sizes(choice, shape);
  machine.node = node_of_job(choice, shape);
  const LaunchedCluster launched = launched_cluster(machine, sizes, choice.file);
  const std::string numbers = shape_text(shape);
  for (const std::string& sentence : launched.assumed) shape.assumed.push_back(sentence);
  nlohmann::ordered_json written = launched.section;
  if (!choice.scenario.empty()) {
    written = scenario_on(choice, launched, shape.assumed);
    // A scenario that Trainyard cannot run is refused before anything is written.
    (void)read_scenario_document(choice.out.empty() ? choice.scenario : choice.out, written);
  }
  const std::string text = written.dump(2) + "\n";
  if (choice.out.empty()) {
    say("{}", text);
    tell(numbers + assumptions_text(shape.assumed));
    return Exit::Fine;
  }
  write_file(choice.out, text);
  say("{}{}", numbers, assumptions_text(shape.assumed));
  if (choice.scenario.empty())
    say("Cluster  {}   ({} GPUs; \"cluster\": {{\"file\": \"{}\"}} in a scenario)\n", choice.out,
        launched.world, choice.out);
  else
    say("Scenario  {}   ({} GPUs; trainyard run {})\n", choice.out, launched.world, choice.out);
  return Exit::Fine;
}

}  // namespace

void add_import_launch(CLI::App& import, Action& action) {
  auto choice = std::make_shared<JobChoice>();
  CLI::App* command = import.add_subcommand(
      "launch", "A job's nodes and processes, from Slurm, torchrun, mpirun, ... , as a cluster");
  command->add_option("file", choice->file, "The script, or a Python script of Ray Train")
      ->required();
  command->add_option("-o,--output", choice->out,
                      "The cluster (or scenario) to write; else printed");
  command->add_option("--node", choice->machine.node,
                      "The node type; else the first with the GPU that the job reserves");
  command->add_option("--scenario", choice->scenario, "Write this scenario on that cluster");
  command->add_option("--nodes", choice->machine.nodes, "How many nodes, whatever the script says");
  command->add_option("--per-node", choice->per_node, "Processes of a node, likewise");
  command->add_option("--hostfile", choice->hostfile, "The hostfile that the script names");
  command->add_option("--define", choice->defines, "What a variable of the script is, NAME=VALUE");
  command->footer(
      "Example:\n  trainyard import launch tests/scenarios/import/launch/slurm_torchrun.sh -o "
      "cluster.json");
  command->callback([choice, &action] { action = [choice] { return import_job(*choice); }; });
}

}  // namespace trainyard
