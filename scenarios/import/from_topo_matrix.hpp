// A server as `nvidia-smi topo -m` prints it: how every two of its GPUs and NICs are joined.
//
//           GPU0  GPU1  NIC0  CPU Affinity  NUMA Affinity
//   GPU0     X    NV18  PIX   0-51          0
//   GPU1    NV18   X    SYS   52-103        1
//   NIC0    PIX   SYS    X
//
// NV# is # NVLinks: to an NVSwitch where the GPU does not have as many for each peer, else to the
// peer itself. PIX and PXB share a PCIe switch, PHB and NODE a CPU, SYS neither. The text has no
// rates: they are those of the node type in topologies/data with the same GPU, which therefore has
// to be told.
//
//   const ImportedNode node = from_topo_matrix(text, {.file = "topo.txt", .gpu = "h100"});
#pragma once

#include <string>

#include "scenarios/import/imported_node.hpp"

namespace trainyard {

struct MatrixSource {
  std::string file;  // for messages
  std::string gpu;   // GPU profile
};

// Colour codes and the legend are skipped. Throws InputError, with the line, for a row that does
// not fit the header and for a word that joins nothing.
[[nodiscard]] ImportedNode from_topo_matrix(const std::string& text, const MatrixSource& source);

}  // namespace trainyard
