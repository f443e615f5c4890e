// `trainyard collective`: simulates one collective with several algorithms and message sizes, or
// several groups that communicate at the same time.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/import/nccl_log.hpp"
#include "scenarios/simulate/workload_files.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/nearest.hpp"
#include "sim/base/utf8.hpp"
#include "sim/collectives/collective.hpp"
#include "sim/engine/engine.hpp"
#include "sim/nccl/nccl_model.hpp"
#include "sim/nccl/options.hpp"
#include "sim/report/result_json.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"
#include "tools/studies/collective/arguments.hpp"
#include "tools/studies/collective/interference.hpp"
#include "tools/studies/collective/measured.hpp"
#include "tools/studies/collective/plot.hpp"
#include "tools/studies/collective/report.hpp"
#include "tools/studies/collective/scaling.hpp"
#include "tools/studies/collective/study.hpp"
#include "topologies/cluster_reader.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

namespace {

// The options as the user typed them. An option that was not given is empty.
struct StudyChoice {
  std::string op;
  std::string cluster;
  std::string node = "dgx_h100";
  std::vector<std::uint32_t> nodes;  // empty: those of --cluster, else 1
  std::string fabric = "rail_optimized";
  std::string ranks;
  std::uint32_t ranks_per_node = 0;  // 0: all GPUs of each node
  std::vector<std::string> groups, splits;
  std::vector<std::string> algorithms;
  std::string sizes;
  std::string type = "fp32";
  std::string engine = "simgrid";
  std::string nccl_version, nccl_algo, nccl_proto;
  std::optional<std::int64_t> nccl_channels_least, nccl_channels_most;
  std::string measured, profile;
  std::string json, csv, svg;
  bool plot = false;

  [[nodiscard]] bool asks_for_groups() const { return !groups.empty() || !splits.empty(); }
};

[[noreturn]] void refuse(std::string where, std::string problem, std::string hint) {
  throw InputError(Problem{.file = std::move(where),
                           .pointer = {},
                           .problem = std::move(problem),
                           .hint = std::move(hint)});
}

DataType chosen_type(const std::string& name) {
  std::vector<std::string> names;
  for (const DataType type : {DataType::Fp32, DataType::Bf16, DataType::Fp16, DataType::Fp8}) {
    names.emplace_back(to_string(type));
    if (names.back() == name) return type;
  }
  refuse({}, fmt::format("there is no type \"{}\"", name), suggestion(name, names));
}

// Whether the name is more than a name of the registry: the file of a user's algorithm, or a
// registered algorithm with an argument ("parameter_server:4").
bool is_file_or_has_argument(const std::string& name) {
  return name.ends_with(".json") || name.ends_with(".xml") || name.find(':') != std::string::npos;
}

void check_algorithm(const std::string& name, CollectiveOp op, const std::string& option) {
  const std::vector<std::string> known = study_algorithms(op);
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  if (is_file_or_has_argument(name) && find_algorithm(op, name) != nullptr) return;
  refuse(option, fmt::format("there is no algorithm \"{}\" for {}", name, to_string(op)),
         suggestion(name, known));
}

std::vector<std::string> chosen_algorithms(const StudyChoice& choice, CollectiveOp op) {
  if (choice.algorithms.empty()) return study_algorithms(op);
  std::vector<std::string> chosen;
  for (const std::string& name : choice.algorithms) {
    check_algorithm(name, op, "--algorithms");
    if (std::find(chosen.begin(), chosen.end(), name) == chosen.end()) chosen.push_back(name);
  }
  return chosen;
}

// The first `per_node` GPUs of every node, or all GPUs if `per_node` is 0.
std::vector<std::uint32_t> ranks_of_nodes(const Cluster& cluster, std::uint32_t per_node) {
  const std::uint32_t most = cluster.facts().gpus_per_node;
  if (per_node > most) {
    refuse("--ranks-per-node",
           fmt::format("{} are more than the {} GPUs of a node", per_node, most),
           fmt::format("use 1 to {}", most));
  }
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t gpu = 0; gpu < cluster.gpus().size(); ++gpu)
    if (per_node == 0 || cluster.local_index(gpu) < per_node) ranks.push_back(gpu);
  return ranks;
}

std::vector<std::uint32_t> listed_ranks(const StudyChoice& choice, const Cluster& cluster) {
  return choice.ranks.empty() ? ranks_of_nodes(cluster, choice.ranks_per_node)
                              : parse_ranks(choice.ranks, cluster.gpus().size(), "--ranks");
}

std::vector<std::uint32_t> chosen_ranks(const StudyChoice& choice, const Cluster& cluster,
                                        CollectiveOp op) {
  std::vector<std::uint32_t> ranks = listed_ranks(choice, cluster);
  if (op == CollectiveOp::SendRecv && ranks.size() != 2) {
    refuse({}, fmt::format("send_recv is between 2 ranks, not {}", ranks.size()),
           "name the sender and the receiver: --ranks 0,1");
  }
  if (ranks.size() < 2) refuse({}, "a collective needs 2 ranks or more", "choose more ranks");
  return ranks;
}

nccl::Options chosen_nccl(const StudyChoice& choice) {
  nccl::Settings settings{.algo = choice.nccl_algo,
                          .proto = choice.nccl_proto,
                          .min_channels = choice.nccl_channels_least,
                          .max_channels = choice.nccl_channels_most};
  if (!choice.nccl_version.empty()) settings.version = choice.nccl_version;
  try {
    return nccl::options_of(settings);
  } catch (const InputError& error) {
    std::vector<Problem> problems = error.problems();
    // the pointer "/min_channels" belongs to --nccl-min-nchannels
    for (Problem& problem : problems) {
      std::string name = problem.pointer.empty() ? std::string() : problem.pointer.substr(1);
      if (name == "min_channels") name = "min-nchannels";
      if (name == "max_channels") name = "max-nchannels";
      if (!name.empty()) problem.file = "--nccl-" + name;
      problem.pointer.clear();
    }
    throw InputError(std::move(problems));
  }
}

std::vector<std::int64_t> sizes_of(const MeasuredTimes& measured) {
  std::vector<std::int64_t> sizes;
  for (const MeasuredTime& time : measured.times) sizes.push_back(time.bytes);
  return sizes;
}

// A comparison with a log is meaningful only for a group of the same shape.
void check_shape(const MeasuredTimes& measured, const Cluster& cluster,
                 const std::vector<std::uint32_t>& ranks) {
  std::vector<std::uint32_t> nodes;
  for (const std::uint32_t rank : ranks) nodes.push_back(cluster.node_of(rank));
  std::sort(nodes.begin(), nodes.end());
  const auto count = std::unique(nodes.begin(), nodes.end()) - nodes.begin();
  if (measured.ranks == ranks.size() && measured.nodes == count) return;
  refuse(measured.file,
         fmt::format("measured {} ranks on {} nodes, and the group has {} on {}", measured.ranks,
                     measured.nodes, ranks.size(), count),
         "describe the cluster that was measured: --node, --nodes, --ranks-per-node");
}

void check_nodes(const std::vector<std::uint32_t>& all) {
  for (const std::uint32_t nodes : all) {
    if (nodes == 0) refuse("--nodes", "0 nodes have no GPU", "use 1 or more");
    if (nodes > kNodesMost)
      refuse("--nodes", fmt::format("{} are more than {}", nodes, kNodesMost),
             "use as many as there are in a cluster");
  }
}

// The cluster with `nodes` nodes. No value: as many as the file of --cluster says, else 1.
ClusterSpec chosen_cluster(const StudyChoice& choice, std::optional<std::uint32_t> nodes) {
  if (!choice.cluster.empty()) {
    ClusterSpec spec = read_cluster_file(choice.cluster);
    if (nodes) spec.nodes = *nodes;
    return spec;
  }
  const FabricEntry* fabric = find_fabric(choice.fabric);
  if (fabric == nullptr) {
    std::vector<std::string> fabric_names;
    for (const FabricEntry& known : fabrics()) fabric_names.emplace_back(known.name);
    refuse("--fabric", fmt::format("there is no fabric \"{}\"", choice.fabric),
           suggestion(choice.fabric, fabric_names));
  }
  return {.node = load_node(choice.node),
          .nodes = nodes.value_or(1),
          .fabric = {.kind = fabric->defaults}};
}

// The times of the operation in the log or profile of --measured. There is no value without that
// option.
std::optional<MeasuredTimes> chosen_measured(const StudyChoice& choice) {
  if (choice.measured.empty()) return {};
  const CollectiveOp op = collective_named(choice.op, {});
  const std::string text = as_utf8(read_file(choice.measured));
  if (is_collective_profile(text))
    return measured_times(read_collective_profile(choice.measured).runs, op);
  return measured_times(read_nccl_log(choice.measured, text, {.op = op}), op);
}

// The profile of --profile. The result is nullptr without that option.
std::unique_ptr<CollectiveProfile> chosen_profile(const StudyChoice& choice) {
  if (choice.profile.empty()) return nullptr;
  return std::make_unique<CollectiveProfile>(read_collective_profile(choice.profile));
}

// The study of one group with several algorithms. `profile` may be nullptr, and must outlive the
// study. This function and the ones that it calls throw InputError.
CollectiveQuestion chosen_question(const StudyChoice& choice, const Cluster& cluster,
                                   const CollectiveProfile* profile,
                                   const MeasuredTimes* measured) {
  if (choice.op.empty())
    refuse({}, "which collective?", "trainyard collective all_reduce, or --group for several");
  const CollectiveOp op = collective_named(choice.op, {});
  CollectiveQuestion question{.op = op,
                              .gpus = chosen_ranks(choice, cluster, op),
                              .algorithms = chosen_algorithms(choice, op),
                              .sizes = parse_sizes(choice.sizes.empty() ? "8B:8GiB" : choice.sizes),
                              .dtype = chosen_type(choice.type),
                              .engine = choice.engine,
                              .nccl = chosen_nccl(choice),
                              .profile = profile,
                              .profile_name = choice.profile};
  if (measured != nullptr) check_shape(*measured, cluster, question.gpus);
  if (measured != nullptr && choice.sizes.empty()) question.sizes = sizes_of(*measured);
  return question;
}

// The study of several groups at the same time: one question for each algorithm.
std::vector<InterferenceQuestion> chosen_groups(const StudyChoice& choice, const Cluster& cluster,
                                                const CollectiveProfile* profile) {
  if (!choice.measured.empty())
    refuse("--measured", "a log measures one group", "leave out --group and --split");
  InterferenceQuestion question{
      .sizes = parse_sizes(choice.sizes.empty() ? "1MiB:1GiB:4" : choice.sizes),
      .algorithm = std::string(nccl::kNcclName),
      .dtype = chosen_type(choice.type),
      .engine = choice.engine,
      .nccl = chosen_nccl(choice),
      .profile = profile,
      .profile_name = choice.profile};
  if (!choice.splits.empty() && choice.op.empty())
    refuse("--split", "which collective do its groups make?",
           "name it first: trainyard collective all_reduce --split data=8");
  const std::vector<std::uint32_t> ranks = listed_ranks(choice, cluster);
  for (const std::string& split : choice.splits)
    for (std::vector<std::uint32_t>& gpus : split_groups(split, ranks))
      question.groups.push_back({.op = collective_named(choice.op, {}), .gpus = std::move(gpus)});
  if (choice.splits.empty() && !choice.op.empty())
    question.groups.push_back({.op = collective_named(choice.op, {}), .gpus = ranks});
  for (const std::string& group : choice.groups)
    question.groups.push_back(parse_group(group, cluster.gpus().size()));
  std::vector<InterferenceQuestion> questions;
  for (const std::string& algorithm :
       choice.algorithms.empty() ? std::vector{question.algorithm} : choice.algorithms) {
    for (const CollectiveGroup& group : question.groups)
      check_algorithm(group.algorithm.empty() ? algorithm : group.algorithm, group.op,
                      group.algorithm.empty() ? "--algorithms" : "--group");
    // All names are checked before the first simulation.
    questions.push_back(question);
    questions.back().algorithm = algorithm;
  }
  return questions;
}

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
  say("{}", collective_text(result, place, measured));
  if (choice.plot) say("\n{}", plot_text(result, {}));
  const bool any = std::any_of(result.algorithms.begin(), result.algorithms.end(),
                               [](const AlgorithmStudy& algorithm) { return !algorithm.refusal; });
  return any ? Exit::Fine : Exit::RunSaysNo;
}

Exit groups_at_once(const StudyChoice& choice, const Cluster& cluster,
                    const CollectiveProfile* profile) {
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
  say("{}", interference_text(result, place));
  return Exit::Fine;
}

// Studies one group on each number of nodes.
Exit several_scales(const StudyChoice& choice, const CollectiveProfile* profile) {
  if (choice.asks_for_groups() || !choice.measured.empty() || !choice.ranks.empty() || choice.plot)
    refuse("--nodes", "several numbers of nodes go with one group of all GPUs",
           "leave out --group, --split, --ranks, --measured and --plot, or give one number");
  std::vector<std::uint32_t> counts = choice.nodes;
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  std::vector<ScaledStudy> studies;
  std::string place;
  for (const std::uint32_t nodes : counts) {
    const std::shared_ptr<const Cluster> cluster = shared_cluster(chosen_cluster(choice, nodes));
    place = cluster->facts().name;
    studies.push_back(
        {.nodes = nodes,
         .study = study_collective(*cluster, chosen_question(choice, *cluster, profile, nullptr))});
  }
  place = place.substr(place.find(" x ") == std::string::npos ? 0 : place.find(" x ") + 3);
  if (!choice.json.empty()) write_file(choice.json, to_text(scaling_json(studies)));
  if (!choice.csv.empty()) write_file(choice.csv, scaling_csv(studies));
  if (!choice.svg.empty())
    write_file(choice.svg,
               svg_plot(scaling_plot(studies, fmt::format("{} on {}", choice.op, place))));
  say("{}", scaling_text(studies, place));
  return Exit::Fine;
}

Exit study(const StudyChoice& choice) {
  for (const std::string& file : {choice.json, choice.csv, choice.svg}) refuse_unwritable(file);
  check_nodes(choice.nodes);
  const std::unique_ptr<CollectiveProfile> profile = chosen_profile(choice);
  if (choice.nodes.size() > 1) return several_scales(choice, profile.get());
  const std::optional<std::uint32_t> nodes =
      choice.nodes.empty() ? std::nullopt : std::optional(choice.nodes.front());
  const std::shared_ptr<const Cluster> cluster = shared_cluster(chosen_cluster(choice, nodes));
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
          "--nodes", choice.nodes,
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
  const CLI::Range channels(1, static_cast<int>(nccl::kChannelsMost));
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
  std::vector<std::string> engine_names;
  for (const EngineEntry& engine : engines()) engine_names.emplace_back(engine.name);
  command->add_option("--engine", choice->engine, "simgrid (contention) or ideal (without)")
      ->check(CLI::IsMember(engine_names));
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
