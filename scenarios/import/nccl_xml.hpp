// A server as NCCL describes it: the XML of NCCL_TOPO_DUMP_FILE and NCCL_TOPO_FILE, read and
// written.
//
// Rates are NCCL's: 18 NVLinks of an H100 are 370.8 GB/s, PCIe 5 x16 is 48 GB/s, a
// net of 400 000 Mb/s is 50 GB/s. GPUs without a rank and nets without a dev are left out, NVLinks
// to NVSwitches end in one switch, levels of PCIe switches of one device id are one switch;
// attributes that say nothing about links are not read.
//
//   const ImportedNode node = from_nccl_xml(read_file(file), file);
//   write_file("topo.xml", to_nccl_xml(cluster, 0));
#pragma once

#include <string>
#include <string_view>

#include "scenarios/import/imported_node.hpp"

namespace trainyard {

// Throws InputError: XML that is not well-formed (with its line), no system in it, no GPU.
[[nodiscard]] ImportedNode from_nccl_xml(const std::string& text, const std::string& file);

// One node of a cluster. Throws InputError for what the form cannot say: a PCIe or CPU link whose
// rate is none of NCCL's.
[[nodiscard]] std::string to_nccl_xml(const Cluster& cluster, std::uint32_t node);

}  // namespace trainyard
