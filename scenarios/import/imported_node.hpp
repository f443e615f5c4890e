// A real server as a tool describes it, before it becomes a cluster.
//
// The readers (nccl_xml.hpp, from_topo_matrix.hpp) fill it in. imported_cluster() repeats it, joins
// the copies by a fabric and adds what no description contains: memory and collective latencies,
// from the node type in topologies/data with the same GPU.
//
//    const ImportedNode node = from_nccl_xml(read_file("topo.xml"), "topo.xml");
//    const Cluster cluster = imported_cluster(node, {.nodes = 4, .fabric = "rail_optimized"});
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topologies/topology.hpp"

namespace trainyard {

struct ImportedNode {
  struct Part {
    DeviceKind kind = DeviceKind::Gpu;
    std::string name = {};
    std::string gpu = {};  // GPU profile; empty: as the node's
  };
  struct Wire {  // in both directions
    std::size_t from = 0;
    std::size_t to = 0;
    LinkKind kind = LinkKind::Pcie;
    BytesPerSecond capacity = {};
    std::uint32_t cables = 1;
  };
  std::string gpu = {};            // GPU profile of the first GPU; empty: not known
  std::vector<Part> parts = {};    // GPUs in the order of their ranks
  std::vector<Wire> wires = {};    // between parts
  std::vector<double> ports = {};  // bytes per second to the network, by NIC in order
  std::string file = {};           // file that it was read from, for messages
  // The reader's assumptions about facts that the file does not contain, one sentence each.
  std::vector<std::string> assumed = {};
};

// Values from the user, for a description that does not contain them.
struct NodeHints {
  std::string gpu = {};                    // GPU profile
  std::optional<BytesPerSecond> nic = {};  // line rate of every NIC; overrides the description
};

struct ImportChoice {
  std::uint32_t nodes = 1;
  std::string fabric = "single_switch";
  std::string gpu = {};  // GPU profile; empty: that of the description
};

// Throws InputError for a GPU that neither the description nor the choice names, for a GPU without
// a node type, and for what build_cluster refuses.
[[nodiscard]] Cluster imported_cluster(const ImportedNode& node, const ImportChoice& choice);

// Returns what imported_cluster() takes from elsewhere than the description, one sentence each:
// first what the reader assumed, then memory, latencies and the fabric.
[[nodiscard]] std::vector<std::string> assumptions_of(const ImportedNode& node,
                                                      const ImportChoice& choice);

// Returns the first node type in topologies/data with that GPU, for values that a description
// omits. Case, '-' and '_' do not count. Throws InputError with the names that are near.
[[nodiscard]] NodeSpec node_with_gpu(const std::string& gpu, const std::string& file);

// Loads the node type that the option --node names. Throws InputError, with the option as the file
// where no file is to blame.
[[nodiscard]] NodeSpec node_of_option(const std::string& name);

// Reads a NIC's line rate as people write it: "200G", "400Gbps", "200 Gb/s", "1.6T" are bits,
// "25 GB/s" are bytes. Throws InputError, with `option` as the file, for other text.
[[nodiscard]] BytesPerSecond parse_nic_rate(std::string_view text, const std::string& option);
// Writes a line rate in bits: "400 Gb/s".
[[nodiscard]] std::string nic_rate_text(BytesPerSecond rate);
// Returns the payload rate of a NIC with that line rate: the share that the NICs of `like` reach
// (97 % of a ConnectX-7's 400 Gb/s).
[[nodiscard]] BytesPerSecond usable_nic_rate(BytesPerSecond line_rate, const NodeSpec& like);

}  // namespace trainyard
