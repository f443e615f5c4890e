// Reads a server from the output of `nvidia-smi topo -m`: the kind of connection between every two
// of its GPUs and NICs.
//
//            GPU0  GPU1  NIC0  CPU Affinity  NUMA Affinity
//    GPU0     X    NV18  PIX   0-51          0
//    GPU1    NV18   X    SYS   52-103        1
//    NIC0    PIX   SYS    X
//
// NV# is # NVLinks: to an NVSwitch where the GPU has too few links for so many to every peer, else
// to the peer itself. PIX and PXB share a PCIe switch, PHB and NODE share a CPU, and SYS shares
// neither. Columns after the devices (affinities, GPU NUMA ID) may be missing; the second of them,
// the NUMA node, groups GPUs under a CPU. The text contains no rates. They come from the node type
// in topologies/data with the same GPU, so the caller must name the GPU; the caller may name the
// rate of the NICs. ImportedNode::assumed lists what was taken from there.
//
//    const ImportedNode node = from_topo_matrix(text, {.file = "topo.txt", .gpu = "h100"});
#pragma once

#include <optional>
#include <string>

#include "scenarios/import/imported_node.hpp"

namespace trainyard {

struct MatrixSource {
  std::string file;                        // for messages
  std::string gpu;                         // GPU profile
  std::optional<BytesPerSecond> nic = {};  // line rate of every NIC; else the node type's
};

// Skips colour codes and the legend. Throws InputError, with the line, for a row that does not fit
// the header and for an unknown kind of connection.
[[nodiscard]] ImportedNode from_topo_matrix(const std::string& text, const MatrixSource& source);

}  // namespace trainyard
