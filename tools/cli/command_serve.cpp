// `trainyard serve`: a page on this machine on which one changes a scenario and sees the step.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "models/architecture/architecture.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/print.hpp"
#include "tools/serve/server.hpp"
#include "tools/serve/worker.hpp"

namespace trainyard {

namespace {

struct ServeChoice {
  ScenarioChoice scenario;
  std::string host = "127.0.0.1";
  int port = 0;
  std::size_t processes = 0;
  std::uint64_t most_gpus = 131'072;
};

// The first argument of a worker process. It is no subcommand, since no person types it.
constexpr std::string_view kWorker = "serve-worker";

// Address space of a worker process. A run of 131,072 GPUs takes about 2 GiB.
constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 30U;

// A login node with many cores is not there for one page.
constexpr std::size_t kMostProcesses = 8;

std::size_t processes_of(const ServeChoice& choice) {
  if (choice.processes > 0) return choice.processes;
  return std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMostProcesses);
}

void say_address(const serve::Address& address) {
  say("Open  http://{}:{}/?token={}\n", address.host, address.port, address.token);
  say("      The token keeps out other users of this machine. Ctrl-C ends the server.\n");
  if (std::getenv("SSH_CONNECTION") != nullptr) {
    const std::string name = serve::machine_name();
    say("      From your own machine, forward the port first:\n"
        "      ssh -N -L {0}:127.0.0.1:{0} {1}\n",
        address.port, name.empty() ? "THIS_MACHINE" : name);
  }
  (void)std::fflush(stdout);
}

// The scenario with every default, since a page cannot read the files that it names. A shipped
// model keeps its name, so that the page shows it in its list.
nlohmann::ordered_json document_of(const Scenario& scenario) {
  nlohmann::ordered_json document = resolved(scenario);
  const Architecture& model = scenario.plan.architecture;
  const std::vector<std::string> names = architecture_names();
  if (std::ranges::find(names, model.name) != names.end() && load_architecture(model.name) == model)
    document["model"] = model.name;
  return document;
}

Exit run_server(const ServeChoice& choice) {
  const ScenarioChoice& scenario = choice.scenario;
  if (scenario.file.empty() && (scenario.ideal || !scenario.sets.empty()))
    throw InputError(Problem{.file = {},
                             .pointer = {},
                             .problem = fmt::format("{} changes a scenario, and there is none",
                                                    scenario.ideal ? "--ideal" : "--set"),
                             .hint = "name the scenario: trainyard serve scenario.json"});
  serve::ServerOptions options{
      .host = choice.host,
      .port = choice.port,
      // serve_worker() reads these by their position.
      .worker = {program_file().string(), std::string(kWorker), std::to_string(choice.most_gpus),
                 std::to_string(kMostBytes)},
      .processes = processes_of(choice)};
  if (!scenario.file.empty()) options.scenario = document_of(read(scenario));
  if (choice.host != "127.0.0.1" && choice.host != "localhost")
    tell(
        fmt::format("warning: everybody who reaches {} and has the token can use this server, and "
                    "the connection is not encrypted\n",
                    choice.host));
  serve::serve_pages(options, say_address);
  return Exit::Fine;
}

}  // namespace

void add_serve(CLI::App& app, Action& action) {
  auto choice = std::make_shared<ServeChoice>();
  CLI::App* command =
      app.add_subcommand("serve", "Open a page on which a changed scenario is simulated at once");
  add_scenario_options(*command, choice->scenario, false);
  command->add_option("--host", choice->host, "Address to listen on")
      ->capture_default_str()
      ->type_name("NAME");
  command
      ->add_option("--port", choice->port,
                   fmt::format("Port to listen on (default: the first free one from {} on)",
                               serve::kFirstPort))
      ->type_name("N")
      ->check(in_range(1, 65535));
  add_processes_option(*command, choice->processes);
  command->add_option("--most-gpus", choice->most_gpus, "Refuse larger clusters")
      ->capture_default_str()
      ->type_name("N")
      ->check(in_range(1, 1 << 20));
  command->footer("Example:\n  trainyard serve scenarios/llama3/llama3_8b_8xh100.json");
  command->callback([choice, &action] { action = [choice] { return run_server(*choice); }; });
}

bool is_serve_worker(std::span<char*> arguments) {
  return arguments.size() > 1 && std::string_view(arguments[1]) == kWorker;
}

Exit serve_worker(std::span<char*> arguments) {
  const auto number = [&](std::size_t at) {
    return at < arguments.size() ? std::strtoull(arguments[at], nullptr, 10) : 0;
  };
  serve::serve_requests(
      {.most_gpus = number(2), .most_bytes = number(3), .background = arguments.size() > 4});
  return Exit::Fine;
}

}  // namespace trainyard
