// The "fabric" object of a cluster and the "routing" object within it.
//
//   {"kind": "fat_tree", "radix": 32, "routing": {"kind": "ecmp", "seed": 1,
//                                                 "flows_per_connection": 4}}
//   FabricSpec fabric = read_fabric(cluster.object("fabric"));
//
// Which fields a fabric has stands in its row of the registry; another one is an error.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "sim/base/json_reader.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

[[nodiscard]] FabricSpec read_fabric(JsonObject object);
// With every field that means something to the fabric; reading it gives an equal spec.
[[nodiscard]] nlohmann::ordered_json to_json(const FabricSpec& fabric);

// Sizes of the dimensions of a torus: [4, 4, 2]. Empty where what stands there was reported.
[[nodiscard]] std::vector<std::uint32_t> read_dims(JsonObject& object, std::string_view key);

[[nodiscard]] Routing read_routing(JsonObject object);
[[nodiscard]] nlohmann::ordered_json to_json(const Routing& routing);

}  // namespace trainyard
