// A random scenario on a node type of the repository, and one improvement of its hardware.
//
//    Scenario scenario = read_scenario_document("seed 7", random_document(dice));
//    const Improvement better = random_improvement(dice, document);
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "dice.hpp"
#include "scenarios/simulate/what_if.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard::test {

using Document = nlohmann::ordered_json;

// A quantity times a factor: "48.5 GB/s" times 2 is "97 GB/s".
inline std::string times(const std::string& quantity, double factor) {
  const std::size_t space = quantity.find(' ');
  return fmt::format("{}{}", std::stod(quantity.substr(0, space)) * factor, quantity.substr(space));
}

inline Document random_model(Dice& dice) {
  const std::int64_t heads = dice.one_of({8, 16, 32});
  const std::int64_t hidden = heads * dice.one_of({64, 128});
  return {{"name", "random"},
          {"layers", dice.one_of({4, 8, 12})},
          {"hidden", hidden},
          {"heads", heads},
          {"kv_heads", 8},
          {"ffn", hidden * dice.one_of({3, 4})},
          {"vocab", 50257},
          {"max_positions", 8192},
          {"gated_ffn", dice.coin()},
          {"tied_embeddings", false}};
}

inline Document random_cluster(Dice& dice) {
  const std::string name = dice.one_of<const char*>(
      {"dgx_a100_80gb", "dgx_h100", "dgx_h100", "hgx_h800", "dgx_h200", "dgx_b200"});
  return {{"node", JsonFile::read(data_file("topologies/data", name)).document()},
          {"nodes", dice.one_of({1, 1, 2, 3, 4})},
          {"fabric", {{"kind", dice.one_of<const char*>({"single_switch", "rail_optimized"})}}}};
}

// Degrees of parallelism with the cluster's number of GPUs as their product.
inline Document random_parallelism(Dice& dice, std::int64_t gpus) {
  const std::int64_t tensor = dice.one_of({1, 2, 4, 8});
  const std::int64_t context = gpus / tensor % 2 == 0 ? dice.one_of({1, 1, 2}) : 1;
  const std::int64_t left = gpus / tensor / context;
  std::int64_t pipeline = dice.one_of({1, 1, 2, 4});
  while (left % pipeline != 0) pipeline /= 2;
  const std::int64_t data = left / pipeline;
  Document made{{"tensor", tensor},
                {"sequence_parallel", tensor > 1 && dice.coin()},
                {"pipeline", pipeline},
                {"data", data},
                {"context", context},
                {"zero_stage", data > 1 ? dice.one_of({0, 1, 3}) : 0},
                {"overlap_grad_reduce", dice.coin()},
                {"overlap_p2p", dice.coin()}};
  if (pipeline > 1) made["schedule"] = dice.one_of<const char*>({"1f1b", "gpipe"});
  if (pipeline > 1 && made["zero_stage"] == 3) made["zero_stage"] = 1;
  return made;
}

inline Document random_document(Dice& dice) {
  Document cluster = random_cluster(dice);
  const std::int64_t gpus =
      cluster["node"]["gpus"].get<std::int64_t>() * cluster["nodes"].get<std::int64_t>();
  const Document parallelism = random_parallelism(dice, gpus);
  const std::int64_t micro = dice.one_of({1, 1, 2});
  const std::int64_t batch = parallelism["data"].get<std::int64_t>() * micro *
                             parallelism["pipeline"].get<std::int64_t>() * dice.one_of({1, 2, 3});
  return {{"model", random_model(dice)},
          {"cluster", std::move(cluster)},
          {"parallelism", parallelism},
          {"training",
           {{"sequence_length", dice.one_of({1024, 2048, 4096})},
            {"micro_batch_size", micro},
            {"global_batch_size", batch},
            {"recompute", dice.one_of<const char*>({"none", "selective", "full"})}}}};
}

struct Improvement {
  std::string name;     // "NVLink's rate x 2"
  Document document;    // the scenario with the improvement
  WhatIf what_if = {};  // an improvement that a scenario cannot express
};

inline Improvement random_improvement(Dice& dice, Document document) {
  const double factor = dice.one_of<double>({1.05, 1.1, 1.25, 1.5, 2.0, 3.0});
  const std::string part = dice.one_of<const char*>(
      {"scale_up rate", "scale_up rate", "nic rate", "nic rate", "pcie rate", "scale_up latency",
       "nic latency", "pcie latency", "gemm", "attention", "memory bound"});
  Improvement made{.name = fmt::format("{} x {}", part, factor), .document = std::move(document)};
  Document& node = made.document["cluster"]["node"];
  const std::string link = part.substr(0, part.find(' '));
  if (part.ends_with("rate")) {
    for (const char* key : {"usable", "nominal"})
      node[link][key] = times(node[link][key].get<std::string>(), factor);
  } else if (part.ends_with("latency")) {
    node[link]["latency"] = times(node[link]["latency"].get<std::string>(), 1.0 / factor);
  } else {
    (part == "gemm"        ? made.what_if.gemm
     : part == "attention" ? made.what_if.attention
                           : made.what_if.memory_bound) = 1.0 / factor;
  }
  return made;
}

}  // namespace trainyard::test
