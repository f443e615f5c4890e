// The GPUs that a job gets on a cluster that it shares.
//
//    FreeGpus free(cluster);
//    free.take({.kind = PlacementKind::Spread}, 16);   // two nodes of 8 under different leaves
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/json_reader.hpp"
#include "sim/cluster/cluster.hpp"

namespace trainyard {

// Packed: free nodes in order. Spread: free nodes under each leaf in turn. Fragmented: free nodes
// in random order. Leaves: free nodes under the leaves given, in order. Nodes, Gpus: those given.
// With: the GPUs of another job, for traffic beside it.
enum class PlacementKind : std::uint8_t { Packed, Spread, Fragmented, Leaves, Nodes, Gpus, With };

struct PlacementSpec {
  PlacementKind kind = PlacementKind::Packed;
  std::vector<std::uint32_t> chosen = {};  // Leaves, Nodes, Gpus: their numbers
  std::uint64_t seed = 0;                  // Fragmented
  std::string job = {};                    // With
  bool operator==(const PlacementSpec&) const = default;
};

// Reads a placement: "packed", "spread", {"fragmented": SEED}, {"leaves": [...]}, {"nodes": [...]},
// {"gpus": [...]} or {"with": JOB}. Absent: packed. Reports anything else.
[[nodiscard]] PlacementSpec read_placement(JsonObject& job, std::string_view key);
// Returns the JSON Schema of that field.
[[nodiscard]] nlohmann::ordered_json placement_schema();
[[nodiscard]] std::string to_text(const PlacementSpec& placement);

// Returns the number of the leaf of every node, in the order of the first node under each. Nodes
// whose NICs are connected to the same switches are under one leaf: with rails, these are all the
// leaf switches of a pod.
[[nodiscard]] std::vector<std::uint32_t> leaves_of_nodes(const Cluster& cluster);

// Returns whether the placement names its GPUs itself.
[[nodiscard]] bool names_gpus(const PlacementSpec& placement);
// Returns the GPUs (indices into Cluster::gpus()) that the placement names, free or not. Throws
// RunError where they do not exist or are not `count`. REQUIRES: names_gpus(placement).
[[nodiscard]] std::vector<std::uint32_t> named_gpus(const Cluster& cluster,
                                                    const PlacementSpec& placement,
                                                    std::uint32_t count);

// The GPUs that no job has yet. A job of whole nodes takes nodes that are wholly free. A smaller
// job takes the first node with enough free GPUs, and any other job whole nodes and then a part
// of one.
class FreeGpus {
 public:
  explicit FreeGpus(const Cluster& cluster);
  // Returns `count` GPUs (indices into Cluster::gpus()) in the order of the job's ranks. Throws
  // RunError with what is missing: free GPUs, a leaf or a node of that number, a GPU that another
  // job has. REQUIRES: the placement is not With.
  [[nodiscard]] std::vector<std::uint32_t> take(const PlacementSpec& placement,
                                                std::uint32_t count);

 private:
  [[nodiscard]] std::vector<std::uint32_t> node_order(const PlacementSpec& placement) const;
  [[nodiscard]] std::vector<std::uint32_t> free_of_node(std::uint32_t node) const;
  [[nodiscard]] std::vector<std::uint32_t> found(const PlacementSpec& placement,
                                                 std::uint32_t count) const;

  const Cluster& cluster_;
  std::vector<std::uint32_t> leaf_of_;  // by node
  std::vector<bool> taken_;             // by GPU
};

}  // namespace trainyard
