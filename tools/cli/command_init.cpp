// `trainyard init`: writes a commented scenario from a few answers, with a layout that fits in
// memory.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "models/architecture/architecture.hpp"
#include "models/architecture/published_batch.hpp"
#include "scenarios/import/model_file.hpp"
#include "scenarios/reader/scenario.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/base/nearest.hpp"
#include "sim/report/stage_summary.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"
#include "topologies/cluster_reader.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

struct InitChoice {
  std::string out = "scenario.json";
  std::string model = "llama3-8b";
  std::string node = "dgx_h100";
  std::int64_t nodes = 1;
  std::int64_t sequence = 0;  // 0: the limit of the model, but at most kUsualSequence
  std::int64_t batch = 0;     // 0: the tokens per step of published runs (models/batches)
  bool yes = false;
  bool force = false;
};

// The sequence length of Llama 3's training (Grattafiori et al. 2024, arXiv 2407.21783, section
// 3.4.1).
constexpr std::int64_t kUsualSequence = 8192;

// A division of the GPUs: tensor ranks within a node, pipeline stages across nodes, and
// data-parallel replicas on the remaining GPUs. Experts are divided over the replicas within a
// node.
struct Layout {
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t expert = 1;
  std::string recompute = "none";
};

std::string asked(const std::string& question, const std::string& otherwise) {
  tell(fmt::format("{} [{}] ", question, otherwise));
  std::string answer;
  std::getline(std::cin, answer);
  return answer.empty() ? otherwise : answer;
}

std::int64_t asked_number(const std::string& question, std::int64_t otherwise) {
  for (;;) {
    const std::string answer = asked(question, fmt::format("{}", otherwise));
    const bool digits = std::all_of(answer.begin(), answer.end(),
                                    [](char letter) { return letter >= '0' && letter <= '9'; });
    if (digits && answer.size() < 10 && std::stoll(answer) > 0) return std::stoll(answer);
    tell(fmt::format("\"{}\" is not a whole number above 0.\n", answer));
  }
}

std::string asked_name(const std::string& question, const std::string& otherwise,
                       const std::vector<std::string>& names) {
  for (;;) {
    const std::string answer = asked(question, otherwise);
    const bool path = answer.find('/') != std::string::npos || answer.ends_with(".json");
    if (path || std::find(names.begin(), names.end(), answer) != names.end()) return answer;
    tell(fmt::format("There is no \"{}\" ({}).\n", answer, suggestion(answer, names)));
  }
}

// Fills in the values that the user did not choose, from the model.
InitChoice with_defaults(InitChoice choice, const Architecture& model) {
  const bool unbounded = model.max_positions <= 0;
  if (choice.sequence == 0)
    choice.sequence = unbounded ? kUsualSequence : std::min(kUsualSequence, model.max_positions);
  return choice;
}

// The batch of published runs with a model of this size, as a number of sequences for these GPUs.
std::int64_t usual_batch(const InitChoice& choice, const Architecture& model, std::int64_t gpus) {
  const double tokens = published_tokens(static_cast<double>(parameter_count(model)));
  return sequences_of_step({.tokens = tokens, .sequence_length = choice.sequence, .gpus = gpus});
}

InitChoice with_answers(InitChoice choice) {
  choice.model = asked_name("Which model (a name of `trainyard list models`, or a config.json)?",
                            choice.model, architecture_names());
  choice.node =
      asked_name("Which nodes (a name of `trainyard list nodes`)?", choice.node, node_names());
  choice.nodes = asked_number("How many nodes?", choice.nodes);
  choice.sequence = asked_number("Tokens in a sequence?",
                                 with_defaults(choice, load_model(choice.model)).sequence);
  return choice;
}

Json document_of(const InitChoice& choice, const Layout& layout, std::int64_t gpus) {
  const std::int64_t data = gpus / (layout.tensor * layout.pipeline);
  Json cluster{{"node", choice.node}, {"nodes", choice.nodes}};
  if (choice.nodes > 1) cluster["fabric"] = {{"kind", "rail_optimized"}};
  Json parallelism{{"tensor", layout.tensor},
                   {"sequence_parallel", layout.tensor > 1},
                   {"pipeline", layout.pipeline},
                   {"data", data},
                   {"zero_stage", 1}};
  if (layout.expert > 1) parallelism["expert"] = layout.expert;
  return {{"model", choice.model},
          {"cluster", std::move(cluster)},
          {"parallelism", std::move(parallelism)},
          {"training",
           {{"sequence_length", choice.sequence},
            {"micro_batch_size", 1},
            {"global_batch_size", choice.batch},
            {"recompute", layout.recompute}}}};
}

// The largest number of ranks of a node, among powers of two, that divides both the experts and the
// replicas evenly.
std::int64_t expert_ranks(std::int64_t experts, std::int64_t replicas, std::int64_t most) {
  std::int64_t ranks = 1;
  while (2 * ranks <= most && experts % (2 * ranks) == 0 && replicas % (2 * ranks) == 0) ranks *= 2;
  return ranks;
}

// All candidate layouts, in the order of their communication: less tensor x pipeline parallelism
// first; for an equal product, less recomputation, then fewer stages. The sort is stable and keeps
// the order of the loops among equal products.
std::vector<Layout> layouts(std::int64_t gpus, std::int64_t gpus_per_node, std::int64_t experts) {
  std::vector<Layout> all;
  for (const char* recompute : {"none", "selective", "full"})
    for (std::int64_t pipeline = 1; pipeline <= gpus; pipeline *= 2)
      for (std::int64_t tensor = 1; tensor <= gpus_per_node; tensor *= 2)
        if (gpus % (tensor * pipeline) == 0 && gpus_per_node % tensor == 0)
          all.push_back({.tensor = tensor,
                         .pipeline = pipeline,
                         .expert = experts > 0 ? expert_ranks(experts, gpus / (tensor * pipeline),
                                                              gpus_per_node / tensor)
                                               : 1,
                         .recompute = recompute});
  std::stable_sort(all.begin(), all.end(), [](const Layout& a, const Layout& b) {
    return a.tensor * a.pipeline < b.tensor * b.pipeline;
  });
  return all;
}

bool fits(const Result& run) {
  const std::vector<StageMemory> stages = stage_memory(run.view());
  return std::all_of(stages.begin(), stages.end(),
                     [](const StageMemory& stage) { return stage.fits; });
}

struct Found {
  Layout layout;
  Json document;
  double step_time_s = 0.0;
};

// The first layout that is legal and fits in memory. Throws RunError if no layout fits.
Found first_that_fits(const InitChoice& choice, const ClusterFacts& facts,
                      const Architecture& model) {
  const auto gpus = static_cast<std::int64_t>(facts.nodes) * facts.gpus_per_node;
  std::optional<InputError> refused;
  bool ran = false;
  for (const Layout& layout : layouts(gpus, facts.gpus_per_node, model.experts)) {
    const Json document = document_of(choice, layout, gpus);
    try {
      const Result run = simulate(read_scenario_document(choice.out, document), {});
      ran = true;
      if (fits(run)) return {layout, document, run.timeline.makespan_s};
    } catch (const InputError& error) {
      refused = error;  // illegal for this model; the next layout may be legal
    }
  }
  if (!ran && refused) throw InputError(*refused);
  throw RunError(
      fmt::format("no layout of {} on {} GPUs fits their memory: take more nodes, or shorter "
                  "sequences",
                  choice.model, gpus));
}

// One field of the document as text, after a comment line.
std::string commented(const std::string& comment, const std::string& key, const Json& value,
                      bool last = false) {
  return fmt::format("\n  // {}\n  \"{}\": {}{}\n", comment, key, value.dump(), last ? "" : ",");
}

std::string scenario_text(const InitChoice& choice, const Found& found) {
  const Json& document = found.document;
  const std::string title = fmt::format("{} on {} x {}", choice.model, choice.nodes, choice.node);
  return fmt::format("{{\n  \"description\": {},\n", Json(title).dump()) +
         commented(
             "A name (trainyard list models), the config.json of a model on Hugging "
             "Face, or a shape.",
             "model", document["model"]) +
         commented("Node type (trainyard list nodes), how many, and how they are joined.",
                   "cluster", document["cluster"]) +
         commented(
             "tensor x pipeline x data is the number of GPUs. This is the first layout that "
             "fits;\n  // `trainyard search` finds the best.",
             "parallelism", document["parallelism"]) +
         commented(
             "recompute: none, selective or full. More: precision, recipe, optimizer "
             "(trainyard schema).",
             "training", document["training"], true) +
         "}\n";
}

// Builds the cluster of the answers only, because the layout is not known yet.
ClusterFacts facts_of(const InitChoice& choice) {
  JsonFile json = JsonFile::parse(choice.out, document_of(choice, {}, choice.nodes).dump());
  JsonObject root = json.root();
  const ClusterSpec spec = read_cluster(root.object("cluster"));
  for (const std::string& key : root.keys())
    if (key != "cluster") root.ignore(key);
  json.finish();
  return build_cluster(spec).facts();
}

bool is_there(const std::filesystem::path& file) {
  std::error_code error;  // refuse_unwritable() has reported paths that cannot be read
  return std::filesystem::exists(file, error);
}

Exit init(InitChoice choice) {
  refuse_unwritable(outputs_of({.json = choice.out}));
  if (!choice.force && is_there(choice.out)) {
    throw InputError(Problem{.file = choice.out,
                             .pointer = {},
                             .problem = "is already there",
                             .hint = "name another file with --output, or say --force"});
  }
  if (!choice.yes && isatty(STDIN_FILENO) != 0) choice = with_answers(std::move(choice));
  const Architecture model = load_model(choice.model);
  choice = with_defaults(std::move(choice), model);
  const ClusterFacts facts = facts_of(choice);
  if (choice.batch == 0)
    choice.batch = usual_batch(choice, model, std::int64_t{facts.nodes} * facts.gpus_per_node);
  const Found found = first_that_fits(choice, facts, model);
  write_file(choice.out, scenario_text(choice, found));
  say("Scenario  {}   ({} GPUs: {} tensor x {} pipeline x {} data, recompute {}; a step of {})\n"
      "Next: trainyard run {} ; trainyard search {}\n",
      choice.out, facts.nodes * facts.gpus_per_node, found.layout.tensor, found.layout.pipeline,
      found.document["parallelism"]["data"].get<std::int64_t>(), found.layout.recompute,
      to_text(Seconds{found.step_time_s}), choice.out, choice.out);
  return Exit::Fine;
}

}  // namespace

void add_init(CLI::App& app, Action& action) {
  auto choice = std::make_shared<InitChoice>();
  CLI::App* command = app.add_subcommand(
      "init", "Write a commented scenario from a few answers, that runs as it is");
  const auto with_default = [&](const char* name, auto& value, const char* what,
                                const char* type) {
    return command->add_option(name, value, what)->capture_default_str()->type_name(type);
  };
  with_default("-o,--output", choice->out, "The scenario to write", "FILE");
  with_default("--model", choice->model, "A name of `trainyard list models`, or a config.json",
               "NAME");
  with_default("--node", choice->node, "A name of `trainyard list nodes`", "NAME");
  with_default("--nodes", choice->nodes, "How many", "N")->check(in_range(1, 65536));
  command
      ->add_option("--sequence", choice->sequence,
                   "Tokens in a sequence (default: 8192, or what the model takes)")
      ->type_name("N")
      ->check(in_range(1, 1 << 24));
  command
      ->add_option("--batch", choice->batch,
                   "Sequences in a step (default: the tokens of published runs of its size)")
      ->type_name("N")
      ->check(in_range(1, 1 << 24));
  command->add_flag("-y,--yes", choice->yes, "Ask nothing: take the options and their defaults");
  command->add_flag("--force", choice->force, "Replace a scenario that is there");
  command->footer(
      "Example:\n  trainyard init --yes --model llama3-8b --node dgx_h100 --nodes 2 "
      "--output mine.json\nOn a terminal it asks for what --yes would take for granted.");
  command->callback([choice, &action] { action = [choice] { return init(*choice); }; });
}

}  // namespace trainyard
