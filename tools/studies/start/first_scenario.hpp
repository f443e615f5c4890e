// A first scenario from few answers: a model and nodes, with the usual sequence length and batch,
// and a layout that fits in memory.
//
//    FirstScenario first = first_scenario({.model = "llama3-8b", .node = "dgx_h100", .nodes = 2});
//    write_file("scenario.json", first.document.dump(2));
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace trainyard {

struct FirstQuestion {
  std::string name = "scenario.json";        // for messages
  std::string model = "llama3-8b";           // a name of models/data, or a config.json
  nlohmann::ordered_json node = "dgx_h100";  // as the field cluster.node
  std::int64_t nodes = 1;
  std::int64_t sequence = 0;  // tokens; 0: usual_sequence()
  std::int64_t batch = 0;  // sequences; 0: the tokens per step of published runs (models/batches)
};

// A division of the GPUs: tensor ranks within a node, pipeline stages across nodes, and
// data-parallel replicas on the remaining GPUs. Experts are divided over the replicas within a
// node.
struct FirstLayout {
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t expert = 1;
  std::int64_t zero_stage = 1;
  std::string recompute = "none";
};

struct FirstScenario {
  nlohmann::ordered_json document;
  FirstLayout layout;
  std::int64_t gpus = 0;
  double step_time_s = 0.0;
  bool fits = true;
};

// Takes the first layout that is legal and fits, in the order of their communication; where none
// fits, the first that is legal. Throws InputError for an unknown model or node.
[[nodiscard]] FirstScenario first_guess(FirstQuestion question);
// The same for a layout that must fit: throws RunError if none does.
[[nodiscard]] FirstScenario first_scenario(FirstQuestion question);
// Throws the RunError of a model for which no layout fits.
[[noreturn]] void refuse_unfitting(const std::string& model, std::int64_t gpus);

// The length of a sequence in tokens: 8192, or less where the model takes fewer. Throws InputError.
[[nodiscard]] std::int64_t usual_sequence(const std::string& model);

// The name of models/data for a model's name on Hugging Face (models/hub/names.json); other names
// and paths as they are. Throws InputError for OWNER/NAME that is neither known nor a file.
[[nodiscard]] std::string known_model(const std::string& name);

// The first node type with this GPU, or a part of one, that makes so many GPUs. Throws InputError
// for an unknown GPU and for a number that is not whole nodes.
struct NodesOfGpus {
  nlohmann::ordered_json node;  // as the field cluster.node
  std::int64_t nodes = 1;
};
[[nodiscard]] NodesOfGpus nodes_of_gpus(const std::string& gpu, std::int64_t gpus);

}  // namespace trainyard
