// Reads and writes NCCL's description of a server: the XML of NCCL_TOPO_DUMP_FILE and
// NCCL_TOPO_FILE.
//
// Rates are NCCL's: 18 NVLinks of an H100 are 370.8 GB/s, PCIe 5 x16 is 48 GB/s, and a net of 400
// 000 Mb/s is 50 GB/s. The reader omits GPUs without a rank and nets without a dev. NVLinks to
// NVSwitches end in one switch, and levels of PCIe switches with one device id are one switch. It
// ignores attributes that do not describe links.
//
// The files that clouds hand out for NCCL_TOPO_FILE are partial: PCI devices with a class, without
// ranks, NVLinks and rates of NICs, which NCCL looks up on the machine. They are read where the
// caller names the GPU. Class 0x0302 is a GPU there, 0x02 a NIC; the rest comes from the node type
// in topologies/data with that GPU, and ImportedNode::assumed lists it.
//
//    const ImportedNode node = from_nccl_xml(read_file(file), file);
//    write_file("topo.xml", to_nccl_xml(cluster, 0));
#pragma once

#include <string>
#include <string_view>

#include "scenarios/import/imported_node.hpp"

namespace trainyard {

// Throws InputError for XML that is not well-formed (with the line), without a system, without a
// GPU, and for a partial file where `hints` names no GPU.
[[nodiscard]] ImportedNode from_nccl_xml(const std::string& text, const std::string& file,
                                         const NodeHints& hints = {});

// Writes one node of a cluster. Throws InputError for what the format cannot express: a link whose
// rate is not one of NCCL's.
[[nodiscard]] std::string to_nccl_xml(const Cluster& cluster, std::uint32_t node);

}  // namespace trainyard
