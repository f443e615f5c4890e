// `trainyard list`: prints every name that a scenario may use, from the registries and the data
// folders themselves.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/gpu.hpp"
#include "models/architecture/architecture.hpp"
#include "models/framework_file.hpp"
#include "models/host.hpp"
#include "models/schedules/schedule.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/collectives/collective.hpp"
#include "sim/engine/engine.hpp"
#include "sim/report/report.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/print.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

namespace {

struct Row {
  std::string name;
  std::string summary;
};
struct Listing {
  const char* name;
  const char* title;
  std::vector<Row> (*rows)();
};

// The names of a data folder; a file of the user has its path.
std::vector<Row> named_files(const char* folder, const std::vector<std::string>& names) {
  std::vector<Row> rows;
  for (const std::string& name : names) {
    const auto own = own_data_file(folder, name);
    rows.push_back({name, own ? own->string() : ""});
  }
  return rows;
}

// The table of any registry whose entries have a name and a summary.
template <class Entries>
std::vector<Row> entries(const Entries& registry) {
  std::vector<Row> rows;
  for (const auto& entry : registry)
    rows.push_back({std::string(entry.name), std::string(entry.summary)});
  return rows;
}

std::vector<Row> schedule_rows() {
  std::vector<Row> rows;
  for (const Schedule* schedule : schedules()) {
    rows.push_back({std::string(schedule->name()), std::string(schedule->summary())});
  }
  return rows;
}

std::vector<Row> collective_rows() {
  std::vector<Row> rows{{"any nccl", "whatever NCCL chooses for the group and the size"}};
  for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
    rows.push_back({fmt::format("{} {}", to_string(algorithm->op()), algorithm->name()),
                    std::string(algorithm->summary())});
  }
  return rows;
}

// The frameworks, each with the title in its file.
std::vector<Row> framework_rows() {
  std::vector<Row> rows;
  for (const std::string& name : data_names("models/frameworks")) {
    JsonFile file = framework_file(name);
    rows.push_back({name, file.root().text("title", "")});
  }
  return rows;
}

const std::vector<Listing>& listings() {
  static const std::vector<Listing> all{
      {"models", "Models", [] { return named_files("models/data", architecture_names()); }},
      {"nodes", "Node types", [] { return named_files("topologies/data", node_names()); }},
      {"fabrics", "Fabrics", [] { return entries(fabrics()); }},
      {"gpus", "GPU profiles", [] { return named_files("kernels/profiles", gpu_names()); }},
      {"frameworks", "Frameworks and their releases", framework_rows},
      {"hosts", "Hosts", [] { return named_files("models/hosts", host_names()); }},
      {"schedules", "Pipeline schedules", schedule_rows},
      {"collectives", "Collective algorithms", collective_rows},
      {"engines", "Engines", [] { return entries(engines()); }},
      {"reports", "Reports", [] { return entries(reports()); }},
  };
  return all;
}

void print(const Listing& listing) {
  say("{}\n", listing.title);
  const std::vector<Row> rows = listing.rows();
  std::size_t width = 0;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  for (const Row& row : rows) {
    if (row.summary.empty()) {
      say("  {}\n", row.name);
    } else {
      say("  {:{}}  {}\n", row.name, width, row.summary);
    }
  }
}

Exit list(const std::string& chosen) {
  bool first = true;
  for (const Listing& listing : listings()) {
    if (!chosen.empty() && chosen != listing.name) continue;
    if (!first) say("\n");
    first = false;
    print(listing);
  }
  return Exit::Fine;
}

}  // namespace

void add_list(CLI::App& app, Action& action) {
  auto chosen = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("list", "Show every name a scenario may use");
  std::vector<std::string> names;
  for (const Listing& listing : listings()) names.emplace_back(listing.name);
  command->add_option("kind", *chosen, "One kind only")->check(CLI::IsMember(names));
  command->footer("Example:\n  trainyard list schedules");
  command->callback([chosen, &action] { action = [chosen] { return list(*chosen); }; });
}

}  // namespace trainyard
