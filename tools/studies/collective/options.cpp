#include "tools/studies/collective/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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
#include "tools/studies/collective/arguments.hpp"
#include "topologies/cluster_reader.hpp"

namespace trainyard {

namespace {

[[noreturn]] void refuse_option(std::string where, std::string problem, std::string hint) {
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
  refuse_option({}, fmt::format("there is no type \"{}\"", name), suggestion(name, names));
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
  refuse_option(option, fmt::format("there is no algorithm \"{}\" for {}", name, to_string(op)),
                suggestion(name, known));
}

std::vector<std::string> chosen_algorithms(const StudyOptions& choice, CollectiveOp op) {
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
    refuse_option("--ranks-per-node",
                  fmt::format("{} are more than the {} GPUs of a node", per_node, most),
                  fmt::format("use 1 to {}", most));
  }
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t gpu = 0; gpu < cluster.gpus().size(); ++gpu)
    if (per_node == 0 || cluster.local_index(gpu) < per_node) ranks.push_back(gpu);
  return ranks;
}

std::vector<std::uint32_t> listed_ranks(const StudyOptions& choice, const Cluster& cluster) {
  return choice.ranks.empty() ? ranks_of_nodes(cluster, choice.ranks_per_node)
                              : parse_ranks(choice.ranks, cluster.gpus().size(), "--ranks");
}

void check_ranks(CollectiveOp op, const std::vector<std::uint32_t>& ranks) {
  if (op == CollectiveOp::SendRecv && ranks.size() != 2) {
    refuse_option({}, fmt::format("send_recv is between 2 ranks, not {}", ranks.size()),
                  "name the sender and the receiver: --ranks 0,1");
  }
  if (ranks.size() < 2)
    refuse_option({}, "a collective needs 2 ranks or more", "choose more ranks");
}

std::vector<std::uint32_t> chosen_ranks(const StudyOptions& choice, const Cluster& cluster,
                                        CollectiveOp op) {
  std::vector<std::uint32_t> ranks = listed_ranks(choice, cluster);
  check_ranks(op, ranks);
  return ranks;
}

nccl::Options chosen_nccl(const StudyOptions& choice) {
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

std::string chosen_engine(const StudyOptions& choice) {
  std::vector<std::string> names;
  for (const EngineEntry& engine : engines()) names.emplace_back(engine.name);
  if (std::ranges::count(names, choice.engine) > 0) return choice.engine;
  refuse_option("--engine", fmt::format("there is no engine \"{}\"", choice.engine),
                suggestion(choice.engine, names));
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
  refuse_option(measured.file,
                fmt::format("measured {} ranks on {} nodes, and the group has {} on {}",
                            measured.ranks, measured.nodes, ranks.size(), count),
                "describe the cluster that was measured: --node, --nodes, --ranks-per-node");
}

}  // namespace

ClusterSpec chosen_cluster(const StudyOptions& choice) {
  if (choice.nodes && *choice.nodes == 0)
    refuse_option("--nodes", "0 nodes have no GPU", "use 1 or more");
  if (choice.nodes && *choice.nodes > kNodesMost)
    refuse_option("--nodes", fmt::format("{} are more than {}", *choice.nodes, kNodesMost),
                  "use as many as there are in a cluster");
  if (!choice.cluster.empty()) {
    ClusterSpec spec = read_cluster_file(choice.cluster);
    if (choice.nodes && spec.custom && *choice.nodes != spec.nodes)
      refuse_option("--nodes",
                    fmt::format("{} lists the devices of {} nodes", choice.cluster, spec.nodes),
                    "leave it out, or describe the cluster by a node type and a fabric");
    if (choice.nodes) spec.nodes = *choice.nodes;
    return spec;
  }
  const FabricEntry* fabric = find_fabric(choice.fabric);
  if (fabric == nullptr) {
    std::vector<std::string> fabric_names;
    for (const FabricEntry& known : fabrics()) fabric_names.emplace_back(known.name);
    refuse_option("--fabric", fmt::format("there is no fabric \"{}\"", choice.fabric),
                  suggestion(choice.fabric, fabric_names));
  }
  return {.node = load_node(choice.node),
          .nodes = choice.nodes.value_or(1),
          .fabric = {.kind = fabric->defaults}};
}

namespace {

// A log that does not name its operation is one of `op`.
std::vector<MeasuredRun> logged_runs(const std::string& file, const std::string& text,
                                     CollectiveOp op) {
  try {
    return read_nccl_log(file, text, {});
  } catch (const InputError&) {
    return read_nccl_log(file, text, {.op = op});
  }
}

}  // namespace

std::optional<MeasuredTimes> chosen_measured(const StudyOptions& choice) {
  if (choice.measured.empty()) return {};
  const CollectiveOp op = collective_named(choice.op, {});
  const std::string text = as_utf8(read_file(choice.measured));
  if (is_collective_profile(text))
    return measured_times(read_collective_profile(choice.measured).runs, op);
  return measured_times(logged_runs(choice.measured, text, op), op);
}

std::unique_ptr<CollectiveProfile> chosen_profile(const StudyOptions& choice) {
  if (choice.profile.empty()) return nullptr;
  return std::make_unique<CollectiveProfile>(read_collective_profile(choice.profile));
}

CollectiveQuestion chosen_question(const StudyOptions& choice, const Cluster& cluster,
                                   const CollectiveProfile* profile,
                                   const MeasuredTimes* measured) {
  if (choice.op.empty())
    refuse_option({}, "which collective?",
                  "trainyard collective all_reduce, or --group for several");
  const CollectiveOp op = collective_named(choice.op, {});
  CollectiveQuestion question{.op = op,
                              .gpus = chosen_ranks(choice, cluster, op),
                              .algorithms = chosen_algorithms(choice, op),
                              .sizes = parse_sizes(choice.sizes.empty() ? "8B:8GiB" : choice.sizes),
                              .dtype = chosen_type(choice.type),
                              .engine = chosen_engine(choice),
                              .nccl = chosen_nccl(choice),
                              .profile = profile,
                              .profile_name = choice.profile};
  if (measured != nullptr) check_shape(*measured, cluster, question.gpus);
  if (measured != nullptr && choice.sizes.empty()) question.sizes = sizes_of(*measured);
  return question;
}

namespace {

// The groups of --split, of the operation alone, and of --group.
std::vector<CollectiveGroup> listed_groups(const StudyOptions& choice, const Cluster& cluster) {
  std::vector<CollectiveGroup> groups;
  if (!choice.op.empty()) {
    const CollectiveOp op = collective_named(choice.op, {});
    const std::vector<std::uint32_t> ranks = listed_ranks(choice, cluster);
    for (const std::string& split : choice.splits)
      for (std::vector<std::uint32_t>& gpus : split_groups(split, ranks))
        groups.push_back({.op = op, .gpus = std::move(gpus)});
    if (choice.splits.empty()) groups.push_back({.op = op, .gpus = ranks});
    for (const CollectiveGroup& group : groups) check_ranks(op, group.gpus);
  }
  for (const std::string& group : choice.groups)
    groups.push_back(parse_group(group, cluster.gpus().size()));
  return groups;
}

// Options of several groups that would have no effect.
void refuse_idle_options(const StudyOptions& choice, const std::vector<CollectiveGroup>& groups) {
  const auto leave_out = [](const char* option, const char* problem) {
    refuse_option(option, problem, "leave it out");
  };
  if (!choice.measured.empty())
    refuse_option("--measured", "a log measures one group", "leave out --group and --split");
  if (choice.op.empty() && !choice.ranks.empty())
    leave_out("--ranks", "each --group has its own ranks");
  if (choice.op.empty() && choice.ranks_per_node > 0)
    leave_out("--ranks-per-node", "each --group has its own ranks");
  if (!choice.sizes.empty() &&
      std::ranges::all_of(groups, [](const auto& group) { return group.bytes.has_value(); }))
    leave_out("--sizes", "each --group has its own size");
  if (!choice.algorithms.empty() &&
      std::ranges::none_of(groups, [](const auto& group) { return group.algorithm.empty(); }))
    leave_out("--algorithms", "each --group has its own algorithm");
}

// Refuses options of nccl where no group runs it.
void refuse_idle_nccl_options(const StudyOptions& choice,
                              const std::vector<InterferenceQuestion>& questions) {
  for (const InterferenceQuestion& question : questions)
    for (const CollectiveGroup& group : question.groups)
      if ((group.algorithm.empty() ? question.algorithm : group.algorithm) == nccl::kNcclName)
        return;
  const std::pair<const char*, bool> options[] = {
      {"--nccl-version", !choice.nccl_version.empty()},
      {"--nccl-algo", !choice.nccl_algo.empty()},
      {"--nccl-proto", !choice.nccl_proto.empty()},
      {"--nccl-min-nchannels", choice.nccl_channels_least.has_value()},
      {"--nccl-max-nchannels", choice.nccl_channels_most.has_value()},
      {"--profile", !choice.profile.empty()}};
  for (const auto& [option, given] : options)
    if (given) refuse_option(option, "no group runs nccl", "leave it out, or add nccl");
}

}  // namespace

std::vector<InterferenceQuestion> chosen_groups(const StudyOptions& choice, const Cluster& cluster,
                                                const CollectiveProfile* profile) {
  InterferenceQuestion question{
      .sizes = parse_sizes(choice.sizes.empty() ? "1MiB:1GiB:4" : choice.sizes),
      .algorithm = std::string(nccl::kNcclName),
      .dtype = chosen_type(choice.type),
      .engine = chosen_engine(choice),
      .nccl = chosen_nccl(choice),
      .profile = profile,
      .profile_name = choice.profile};
  if (!choice.splits.empty() && choice.op.empty())
    refuse_option("--split", "which collective do its groups make?",
                  "name it first: trainyard collective all_reduce --split data=8");
  question.groups = listed_groups(choice, cluster);
  refuse_idle_options(choice, question.groups);
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
  refuse_idle_nccl_options(choice, questions);
  return questions;
}

}  // namespace trainyard
