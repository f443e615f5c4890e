// Reads and writes NCCL's description of a server: the XML of NCCL_TOPO_DUMP_FILE and
// NCCL_TOPO_FILE.
//
// Rates are NCCL's: 18 NVLinks of an H100 are 370.8 GB/s, PCIe 5 x16 is 48 GB/s, and a net of 400
// 000 Mb/s is 50 GB/s. The reader omits GPUs without a rank and nets without a dev. NVLinks to
// NVSwitches end in one switch, and levels of PCIe switches with one device id are one switch. It
// ignores attributes that do not describe links.
//
//    const ImportedNode node = from_nccl_xml(read_file(file), file);
//    write_file("topo.xml", to_nccl_xml(cluster, 0));
#pragma once

#include <string>
#include <string_view>

#include "scenarios/import/imported_node.hpp"

namespace trainyard {

// Throws InputError for XML that is not well-formed (with the line), without a system, or without a
// GPU.
[[nodiscard]] ImportedNode from_nccl_xml(const std::string& text, const std::string& file);

// Writes one node of a cluster. Throws InputError for what the format cannot express: a link whose
// rate is not one of NCCL's.
[[nodiscard]] std::string to_nccl_xml(const Cluster& cluster, std::uint32_t node);

}  // namespace trainyard
