// `trainyard collective`: one collective by several algorithms and at several sizes.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "models/collectives/collective.hpp"
#include "scenarios/collective/plot.hpp"
#include "scenarios/collective/rows.hpp"
#include "scenarios/collective/sizes.hpp"
#include "scenarios/collective/study.hpp"
#include "scenarios/run/workload_question.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/nearest.hpp"
#include "sim/engine/engine.hpp"
#include "tools/cli/collective_text.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/outputs.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

namespace {

struct StudyChoice {
  std::string op;
  std::string cluster;
  std::string node = "dgx_h100";
  std::uint32_t nodes = 1;
  std::string fabric = "rail_optimized";
  std::vector<std::string> ranks;
  std::uint32_t ranks_per_node = 0;  // 0: all
  std::vector<std::string> algorithms;
  std::string sizes = "8B:8GiB";
  std::string type = "fp32";
  std::string engine = "simgrid";
  std::string nccl_version, nccl_algo, nccl_proto;
  std::string json, csv;
  bool plot = false;
};

[[noreturn]] void refuse(std::string where, std::string problem, std::string hint) {
  throw InputError(Problem{.file = std::move(where),
                           .pointer = {},
                           .problem = std::move(problem),
                           .hint = std::move(hint)});
}

// The value that one of `all` has under this name.
template <class Value>
Value named(std::string_view what, const std::string& name, const std::vector<Value>& all) {
  std::vector<std::string> names;
  for (const Value value : all) {
    names.emplace_back(to_string(value));
    if (names.back() == name) return value;
  }
  refuse({}, fmt::format("there is no {} \"{}\"", what, name), suggestion(name, names));
}

CollectiveOp chosen_op(const std::string& name) {
  std::vector<CollectiveOp> all;
  for (const CollectiveAlgorithm* algorithm : collective_algorithms())
    if (std::find(all.begin(), all.end(), algorithm->op()) == all.end())
      all.push_back(algorithm->op());
  return named("collective", name, all);
}

DataType chosen_type(const std::string& name) {
  return named<DataType>("type", name,
                         {DataType::Fp32, DataType::Bf16, DataType::Fp16, DataType::Fp8});
}

std::vector<std::string> chosen_algorithms(const StudyChoice& choice, CollectiveOp op) {
  const std::vector<std::string> known = study_algorithms(op);
  if (choice.algorithms.empty()) return known;
  std::vector<std::string> chosen;
  for (const std::string& name : choice.algorithms) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      refuse("--algorithms", fmt::format("there is no algorithm \"{}\" for {}", name, choice.op),
             suggestion(name, known));
    }
    if (std::find(chosen.begin(), chosen.end(), name) == chosen.end()) chosen.push_back(name);
  }
  return chosen;
}

ClusterSpec chosen_cluster(const StudyChoice& choice) {
  if (!choice.cluster.empty()) return read_cluster_file(choice.cluster);
  std::vector<std::string> fabric_names;
  for (const FabricEntry& fabric : fabrics()) fabric_names.emplace_back(fabric.name);
  if (std::find(fabric_names.begin(), fabric_names.end(), choice.fabric) == fabric_names.end()) {
    refuse("--fabric", fmt::format("there is no fabric \"{}\"", choice.fabric),
           suggestion(choice.fabric, fabric_names));
  }
  if (choice.nodes == 0) refuse("--nodes", "0 nodes have no GPU", "use 1 or more");
  return {.node = load_node(choice.node), .nodes = choice.nodes, .fabric = {.kind = choice.fabric}};
}

std::uint32_t rank_of(const std::string& text, std::size_t gpus) {
  std::uint32_t rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error != std::errc{} || end != text.data() + text.size() || rank >= gpus) {
    refuse("--ranks",
           fmt::format("\"{}\" is not a rank of the cluster, which has {} GPUs", text, gpus),
           fmt::format("use 0 to {}, or more nodes", gpus - 1));
  }
  return rank;
}

std::vector<std::uint32_t> listed_ranks(const std::vector<std::string>& texts, std::size_t gpus) {
  std::vector<std::uint32_t> ranks;
  std::set<std::uint32_t> seen;
  for (const std::string& text : texts) {
    ranks.push_back(rank_of(text, gpus));
    if (!seen.insert(ranks.back()).second)
      refuse("--ranks", fmt::format("{} is there twice", text), "name each rank once");
  }
  return ranks;
}

// The first GPUs of every node; all where none are chosen.
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

std::vector<std::uint32_t> chosen_ranks(const StudyChoice& choice, const Cluster& cluster,
                                        CollectiveOp op) {
  std::vector<std::uint32_t> ranks = choice.ranks.empty()
                                         ? ranks_of_nodes(cluster, choice.ranks_per_node)
                                         : listed_ranks(choice.ranks, cluster.gpus().size());
  if (op == CollectiveOp::SendRecv && ranks.size() != 2) {
    refuse({}, fmt::format("send_recv is between 2 ranks, not {}", ranks.size()),
           "name the sender and the receiver: --ranks 0,1");
  }
  if (ranks.size() < 2) refuse({}, "a collective needs 2 ranks or more", "choose more ranks");
  return ranks;
}

nccl::Options chosen_nccl(const StudyChoice& choice) {
  nccl::Options options;
  if (!choice.nccl_version.empty()) options.version = choice.nccl_version;
  options.algorithms = nccl::parse_algorithms(choice.nccl_algo);
  options.protocols = nccl::parse_protocols(choice.nccl_proto);
  return options;
}

// Fine where at least one algorithm could run.
Exit study(const StudyChoice& choice) {
  const CollectiveOp op = chosen_op(choice.op);
  CollectiveQuestion question{.op = op,
                              .algorithms = chosen_algorithms(choice, op),
                              .sizes = parse_sizes(choice.sizes),
                              .dtype = chosen_type(choice.type),
                              .engine = choice.engine,
                              .nccl = chosen_nccl(choice)};
  Outputs outputs;
  if (!choice.json.empty()) outputs.json = choice.json;
  if (!choice.csv.empty()) outputs.trace = choice.csv;  // one file, not a folder of tables
  refuse_unwritable(outputs);
  const Cluster cluster = build_cluster(chosen_cluster(choice));
  question.gpus = chosen_ranks(choice, cluster, op);
  const CollectiveStudy result = study_collective(cluster, question);
  if (!choice.json.empty()) write_file(choice.json, study_json(result).dump(2) + "\n");
  if (!choice.csv.empty()) write_file(choice.csv, study_csv(result));
  fmt::print("{}", collective_text(result, cluster.facts().name));
  if (choice.plot) fmt::print("\n{}", plot_text(result, {}));
  const bool any = std::any_of(result.algorithms.begin(), result.algorithms.end(),
                               [](const AlgorithmStudy& algorithm) { return !algorithm.refusal; });
  return any ? Exit::Fine : Exit::RunSaysNo;
}

void add_cluster_options(CLI::App& command, StudyChoice& choice) {
  auto* file = command.add_option("--cluster", choice.cluster, "A file with a cluster object");
  command.add_option("--node", choice.node, "Node type (see `trainyard list nodes`)")
      ->capture_default_str()
      ->excludes(file);
  command.add_option("--nodes", choice.nodes, "Nodes")->capture_default_str()->excludes(file);
  command.add_option("--fabric", choice.fabric, "Fabric (see `trainyard list fabrics`)")
      ->capture_default_str()
      ->excludes(file);
  auto* ranks =
      command.add_option("--ranks", choice.ranks, "Ranks of the group: 0,8,16")->delimiter(',');
  command
      .add_option("--ranks-per-node", choice.ranks_per_node,
                  "The first N GPUs of every node (default: all)")
      ->excludes(ranks);
}

}  // namespace

void add_collective(CLI::App& app, Action& action) {
  auto choice = std::make_shared<StudyChoice>();
  CLI::App* command = app.add_subcommand(
      "collective", "Compare the algorithms of a collective, size by size, as nccl-tests would");
  command->add_option("op", choice->op, "all_reduce, all_gather, reduce_scatter, ...")->required();
  add_cluster_options(*command, *choice);
  command
      ->add_option("--algorithms", choice->algorithms,
                   "Algorithms, and nccl for NCCL's own choice (default: all)")
      ->delimiter(',');
  command->add_option("--sizes", choice->sizes, "FROM:TO[:FACTOR], or one size")
      ->capture_default_str();
  command->add_option("--type", choice->type, "Data type: fp32, bf16, fp16, fp8")
      ->capture_default_str();
  std::vector<std::string> engine_names;
  for (const EngineEntry& engine : engines()) engine_names.emplace_back(engine.name);
  command->add_option("--engine", choice->engine, "simgrid (contention) or ideal (without)")
      ->check(CLI::IsMember(engine_names));
  command->add_option("--nccl-version", choice->nccl_version, "NCCL's release, such as 2.27");
  command->add_option("--nccl-algo", choice->nccl_algo, "As NCCL_ALGO: Ring,Tree or ^NVLS");
  command->add_option("--nccl-proto", choice->nccl_proto, "As NCCL_PROTO: LL,Simple or ^LL128");
  command->add_option("--json", choice->json, "Write the rows as JSON");
  command->add_option("--csv", choice->csv, "Write the rows as CSV");
  command->add_flag("--plot", choice->plot, "Draw bus bandwidth over size");
  command->footer(
      "Example:\n  trainyard collective all_reduce --node dgx_h100 --nodes 2 "
      "--algorithms ring,hierarchical,tree,nccl --plot");
  command->callback([choice, &action] { action = [choice] { return study(*choice); }; });
}

}  // namespace trainyard
