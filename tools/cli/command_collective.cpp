// `trainyard collective`: simulates one collective with several algorithms and message sizes, or
// several groups that communicate at the same time.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/files.hpp"
#include "sim/engine/engine.hpp"
#include "sim/nccl/nccl_model.hpp"
#include "sim/nccl/options.hpp"
#include "sim/report/result_json.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"
#include "tools/studies/collective/interference.hpp"
#include "tools/studies/collective/measured.hpp"
#include "tools/studies/collective/options.hpp"
#include "tools/studies/collective/page.hpp"
#include "tools/studies/collective/plot.hpp"
#include "tools/studies/collective/report.hpp"
#include "tools/studies/collective/scaling.hpp"
#include "tools/studies/collective/study.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

namespace {

// The options of the command: those of a study, and the outputs. An option that was not given is
// empty.
struct StudyChoice : StudyOptions {
  std::vector<std::uint32_t> node_counts;  // --nodes; one or none become StudyOptions::nodes
  std::string json, csv, svg, html;
  bool plot = false;

  [[nodiscard]] bool asks_for_groups() const { return !groups.empty() || !splits.empty(); }
};

// Studies one group. The result is Exit::Fine if at least one algorithm could run.
Exit one_group(const StudyChoice& choice, const Cluster& cluster,
               const CollectiveProfile* profile) {
  const std::optional<MeasuredTimes> log = chosen_measured(choice);
  const MeasuredTimes* measured = log ? &*log : nullptr;
  const CollectiveQuestion question = chosen_question(choice, cluster, profile, measured);
  const CollectiveStudy result = study_collective(cluster, question);
  const std::string& place = cluster.facts().name;
  if (!choice.json.empty()) write_file(choice.json, to_text(study_json(result, measured)));
  if (!choice.csv.empty()) write_file(choice.csv, study_csv(result, measured));
  if (!choice.svg.empty()) {
    write_file(choice.svg,
               svg_plot({.title = fmt::format("{} over {} ranks of {}", to_string(result.op),
                                              result.ranks, place),
                         .series = series_of(result, measured)}));
  }
  if (!choice.html.empty()) write_file(choice.html, collective_page(result, place, measured));
  say("{}", collective_text(result, place, measured));
  if (choice.plot) say("\n{}", plot_text(result, {}));
  const bool any = std::any_of(result.algorithms.begin(), result.algorithms.end(),
                               [](const AlgorithmStudy& algorithm) { return !algorithm.refusal; });
  return any ? Exit::Fine : Exit::RunSaysNo;
}

Exit groups_at_once(const StudyChoice& choice, const Cluster& cluster,
                    const CollectiveProfile* profile) {
  if (choice.plot)
    throw InputError(Problem{.file = "--plot",
                             .pointer = {},
                             .problem = "draws the algorithms of one group",
                             .hint = "leave it out, or use --svg"});
  InterferenceStudy result;
  for (const InterferenceQuestion& question : chosen_groups(choice, cluster, profile))
    for (GroupRow& row : study_interference(cluster, question).rows)
      result.rows.push_back(std::move(row));
  const std::string& place = cluster.facts().name;
  if (!choice.json.empty()) write_file(choice.json, to_text(interference_json(result)));
  if (!choice.csv.empty()) write_file(choice.csv, interference_csv(result));
  if (!choice.svg.empty())
    write_file(choice.svg,
               svg_plot({.title = "Groups at once on " + place, .series = series_of(result)}));
  if (!choice.html.empty()) write_file(choice.html, interference_page(result, place));
  say("{}", interference_text(result, place));
  return Exit::Fine;
}

// Studies one group on each number of nodes.
Exit several_scales(StudyChoice choice, const CollectiveProfile* profile) {
  if (choice.asks_for_groups() || !choice.measured.empty() || !choice.ranks.empty() ||
      choice.plot) {
    throw InputError(
        Problem{.file = "--nodes",
                .pointer = {},
                .problem = "several numbers of nodes go with one group of all GPUs",
                .hint = "leave out --group, --split, --ranks, --measured and --plot, or give one "
                        "number"});
  }
  std::vector<std::uint32_t> counts = choice.node_counts;
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  std::vector<ScaledStudy> studies;
  std::string place;
  for (const std::uint32_t nodes : counts) {
    choice.nodes = nodes;
    const std::shared_ptr<const Cluster> cluster = shared_cluster(chosen_cluster(choice));
    place = cluster->facts().name;
    studies.push_back(
        {.nodes = nodes,
         .study = study_collective(*cluster, chosen_question(choice, *cluster, profile, nullptr))});
  }
  // "4 x dgx_h100" without its number of nodes, which differs between the studies.
  place = place.substr(place.find(" x ") == std::string::npos ? 0 : place.find(" x ") + 3);
  if (!choice.json.empty()) write_file(choice.json, to_text(scaling_json(studies)));
  if (!choice.csv.empty()) write_file(choice.csv, scaling_csv(studies));
  if (!choice.svg.empty())
    write_file(choice.svg,
               svg_plot(scaling_plot(studies, fmt::format("{} on {}", choice.op, place))));
  if (!choice.html.empty()) write_file(choice.html, scaling_page(studies, place));
  say("{}", scaling_text(studies, place));
  return Exit::Fine;
}

Exit study(StudyChoice choice) {
  refuse_outputs({choice.json, choice.csv, choice.svg, choice.html},
                 {choice.cluster, choice.profile, choice.measured});
  const std::unique_ptr<CollectiveProfile> profile = chosen_profile(choice);
  if (choice.node_counts.size() > 1) return several_scales(std::move(choice), profile.get());
  if (!choice.node_counts.empty()) choice.nodes = choice.node_counts.front();
  const std::shared_ptr<const Cluster> cluster = shared_cluster(chosen_cluster(choice));
  return choice.asks_for_groups() ? groups_at_once(choice, *cluster, profile.get())
                                  : one_group(choice, *cluster, profile.get());
}

void add_cluster_options(CLI::App& command, StudyChoice& choice) {
  auto* file = command.add_option("--cluster", choice.cluster, "A file with a cluster object");
  command.add_option("--node", choice.node, "Node type (see `trainyard list nodes`)")
      ->capture_default_str()
      ->excludes(file);
  command
      .add_option(
          "--nodes", choice.node_counts,
          "Nodes (default: 1, or those of --cluster); a list such as 2,4,8 shows busbw over "
          "nodes")
      ->delimiter(',');
  command.add_option("--fabric", choice.fabric, "Fabric (see `trainyard list fabrics`)")
      ->capture_default_str()
      ->excludes(file);
  auto* ranks = command.add_option("--ranks", choice.ranks,
                                   "Ranks of the group: 0,8,16 or 0-7 or 0-56/8 (every eighth)");
  command
      .add_option("--ranks-per-node", choice.ranks_per_node,
                  "The first N GPUs of every node (default: all)")
      ->excludes(ranks);
  command
      .add_option("--split", choice.splits,
                  "Groups at once, of the ranks: tensor=N (N neighbours each) or data=N (the N "
                  "groups across those)")
      ->allow_extra_args(false);
  command
      .add_option("--group", choice.groups,
                  "A group at the same time, OP[/ALGORITHM]:RANKS[@SIZE]; may be repeated")
      ->allow_extra_args(false);
}

void add_nccl_options(CLI::App& command, StudyChoice& choice) {
  command.add_option("--nccl-version", choice.nccl_version, "NCCL's release, such as 2.27");
  command.add_option("--nccl-algo", choice.nccl_algo, "As NCCL_ALGO: Ring,Tree or ^NVLS");
  command.add_option("--nccl-proto", choice.nccl_proto, "As NCCL_PROTO: LL,Simple or ^LL128");
  const CLI::Validator channels = in_range(1, static_cast<int>(nccl::kChannelsMost));
  command.add_option("--nccl-min-nchannels", choice.nccl_channels_least, "As NCCL_MIN_NCHANNELS")
      ->check(channels);
  command.add_option("--nccl-max-nchannels", choice.nccl_channels_most, "As NCCL_MAX_NCHANNELS")
      ->check(channels);
  command.add_option("--profile", choice.profile,
                     "Times of nccl from a profile (`trainyard import nccl-tests`), where it has "
                     "as many ranks on as many nodes");
}

void add_output_options(CLI::App& command, StudyChoice& choice) {
  command.add_option("--measured", choice.measured,
                     "A log of nccl-tests (or a profile) to compare with the predictions");
  add_output_file(command, "--json", choice.json, "Write the rows as JSON");
  add_output_file(command, "--csv", choice.csv, "Write the rows as CSV");
  add_output_file(command, "--svg", choice.svg, "Write bus bandwidth over size as SVG");
  add_output_file(command, "--html", choice.html,
                  "Write a page: bus bandwidth over size or nodes, and all rows as tables");
  command.add_flag("--plot", choice.plot, "Draw bus bandwidth over size");
}

}  // namespace

void add_collective(CLI::App& app, Action& action) {
  auto choice = std::make_shared<StudyChoice>();
  CLI::App* command = app.add_subcommand(
      "collective", "Compare the algorithms of a collective, size by size, as nccl-tests would");
  command->add_option("op", choice->op, "all_reduce, all_gather, reduce_scatter, ...");
  add_cluster_options(*command, *choice);
  command
      ->add_option("--algorithms", choice->algorithms,
                   "Algorithms, files of your own (.json, .xml), and nccl for NCCL's own choice "
                   "(default: all; nccl for several groups)")
      ->delimiter(',');
  command->add_option(
      "--sizes", choice->sizes,
      "FROM:TO[:FACTOR], one size, or a list of these (default: 8B:8GiB; the log's with "
      "--measured; 1MiB:1GiB:4 for several groups)");
  command->add_option("--type", choice->type, "Data type: fp32, bf16, fp16, fp8")
      ->capture_default_str();
  command->add_option("--engine", choice->engine, "simgrid (contention) or ideal (without)")
      ->check(CLI::IsMember(engine_names()));
  add_nccl_options(*command, *choice);
  add_output_options(*command, *choice);
  command->footer(
      "Example:\n  trainyard collective all_reduce --node dgx_h100 --nodes 2 "
      "--algorithms ring,hierarchical,tree,nccl --plot\n"
      "  trainyard collective all_reduce --nodes 2,4,8 --algorithms ring,tree --sizes 1M,1G\n"
      "  trainyard collective all_reduce --nodes 8 --split data=8 --svg rails.svg\n"
      "  trainyard collective --nodes 2 --group all_reduce/ring:0-15 "
      "--group all_to_all/direct:0-15@64MiB\n"
      "  trainyard collective all_reduce --measured tests/scenarios/import/h8.log");
  command->callback([choice, &action] { action = [choice] { return study(*choice); }; });
}

}  // namespace trainyard
