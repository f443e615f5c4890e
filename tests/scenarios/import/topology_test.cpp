// Clusters from descriptions that real servers print of themselves.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "scenarios/import/from_topo_matrix.hpp"
#include "scenarios/import/nccl_xml.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "topologies/custom_cluster.hpp"

namespace trainyard {
namespace {

using ::testing::HasSubstr;

std::string data(const std::string& name) {
  return std::string(TRAINYARD_SOURCE_DIRECTORY) + "/tests/scenarios/import/topologies/" + name;
}

Cluster imported(const std::string& name, const ImportChoice& choice = {}) {
  return imported_cluster(from_nccl_xml(read_file(data(name)), name), choice);
}

// Bandwidths in GB/s by the kinds of a link's endpoints, with the number of such links.
using Rates = std::map<std::tuple<DeviceKind, DeviceKind, std::int64_t>, int>;

Rates rates_of(const Cluster& cluster) {
  Rates rates;
  for (const Link& link : cluster.links())
    ++rates[{cluster.device(link.from).kind, cluster.device(link.to).kind,
             std::llround(link.capacity.value() / 1e3)}];
  return rates;
}

constexpr const char* kMinimal = R"(<system version="1">
<cpu numaid="0" affinity="0000ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
 <pci busid="0000:15:00.0" class="0x060400" vendor="0x1000" device="0xc030"
      link_speed="32.0 GT/s PCIe" link_width="16">
  <pci busid="0000:1b:00.0" class="0x030200" vendor="0x10de" device="0x2330"
       link_speed="32.0 GT/s PCIe" link_width="16">
   <gpu dev="0" sm="90" rank="0" gdr="1">
    <nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/></gpu></pci>
  <pci busid="0000:18:00.0" class="0x020700" vendor="0x15b3" device="0x1021"
       link_speed="32.0 GT/s PCIe" link_width="16">
   <nic><net name="mlx5_0" dev="0" speed="400000" port="1" latency="0" guid="0x1"
             maxconn="131072" gdr="1"/></nic></pci>
 </pci></cpu></system>)";

// Are the rates of the minimal file those of oracle 21?
TEST(ImportNcclXml, RatesOfTheMinimalFile) {
  const Cluster cluster = imported_cluster(from_nccl_xml(kMinimal, "minimal.xml"), {});
  const auto rate = [&](DeviceKind from, DeviceKind to) {
    for (const Link& link : cluster.links())
      if (cluster.device(link.from).kind == from && cluster.device(link.to).kind == to)
        return link.capacity.value() / 1e9;
    return 0.0;
  };
  EXPECT_DOUBLE_EQ(rate(DeviceKind::Gpu, DeviceKind::NvSwitch), 370.8);
  EXPECT_DOUBLE_EQ(rate(DeviceKind::Gpu, DeviceKind::PcieSwitch), 48.0);
  EXPECT_DOUBLE_EQ(rate(DeviceKind::PcieSwitch, DeviceKind::Nic), 48.0);
  EXPECT_DOUBLE_EQ(rate(DeviceKind::Nic, DeviceKind::LeafSwitch), 50.0);
  EXPECT_EQ(cluster.facts().gpu, "h100");
}

// Is a server of eight H100 read from NCCL's XML?
TEST(ImportNcclXml, EightH100) {
  const Rates rates = rates_of(imported("h100_x8.xml"));
  const auto count = [&](DeviceKind from, DeviceKind to, std::int64_t kilobytes) {
    const auto found = rates.find({from, to, kilobytes});
    return found == rates.end() ? 0 : found->second;
  };
  EXPECT_EQ(count(DeviceKind::Gpu, DeviceKind::NvSwitch, 370800000), 8);
  // The two levels of each PCIe switch are merged, and NCCL ignores an Ethernet port without a
  // device.
  EXPECT_EQ(count(DeviceKind::PcieSwitch, DeviceKind::Cpu, 48000000), 8);
  EXPECT_EQ(count(DeviceKind::Nic, DeviceKind::LeafSwitch, 50000000), 8);
  EXPECT_EQ(count(DeviceKind::Cpu, DeviceKind::Cpu, 22000000), 2);
}

// Is a server of eight A100 read? Six NVSwitches with two links each are one switch of twelve.
TEST(ImportNcclXml, EightA100) {
  const Cluster cluster = imported("a100_x8.xml");
  EXPECT_EQ(cluster.facts().gpu, "a100_80gb");
  const Route route = cluster.router().route(0, 7);
  ASSERT_EQ(route.size(), 2U);
  EXPECT_DOUBLE_EQ(cluster.link(route[0].link).capacity.value(), 240e9);
  EXPECT_EQ(cluster.link(route[0].link).cables, 12U);
}

// Does the export keep all link bandwidths (oracle 85), also through our own JSON?
TEST(ImportNcclXml, ExportKeepsAllLinkBandwidths) {
  for (const char* name : {"h100_x8.xml", "a100_x8.xml"}) {
    const Cluster first = imported(name);
    const std::string text = to_nccl_xml(first, 0);
    const Cluster again =
        imported_cluster(from_nccl_xml(text, "again.xml"), {.gpu = first.facts().gpu});
    EXPECT_EQ(rates_of(again), rates_of(first)) << name;
    JsonFile file = JsonFile::parse("cluster.json", to_custom_json(first).dump());
    EXPECT_EQ(rates_of(custom_cluster(file)), rates_of(first)) << name;
  }
}

// Are several kinds of GPUs read? A second card of another kind has its own profile and memory, and
// the exported file contains them.
TEST(ImportNcclXml, GpusOfSeveralKinds) {
  std::string text(kMinimal);
  text.insert(text.rfind("  <pci busid=\"0000:18:00.0\""),
              R"(  <pci busid="0000:1c:00.0" class="0x030200" vendor="0x10de" device="0x2335"
       link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="1" sm="90" rank="1" gdr="1"/></pci>
)");
  const Cluster cluster = imported_cluster(from_nccl_xml(text, "two.xml"), {});
  ASSERT_TRUE(cluster.has_mixed_gpus());
  EXPECT_EQ(cluster.gpu_kind(0).profile, "h100");
  EXPECT_EQ(cluster.gpu_kind(1).profile, "h200");
  EXPECT_GT(cluster.gpu_kind(1).memory, cluster.gpu_kind(0).memory);
  const Cluster again = imported_cluster(from_nccl_xml(to_nccl_xml(cluster, 0), "again.xml"), {});
  EXPECT_EQ(again.facts().mixed_gpus, cluster.facts().mixed_gpus);
  EXPECT_FALSE(imported_cluster(from_nccl_xml(text, "two.xml"), {.gpu = "h100"}).has_mixed_gpus());
}

// Are four nodes joined by rails?
TEST(ImportNcclXml, FourNodesOnRails) {
  const Cluster cluster = imported("h100_x8.xml", {.nodes = 4, .fabric = "rail_optimized"});
  EXPECT_EQ(cluster.gpus().size(), 32U);
  // A GPU reaches the GPU with the same local index over its own NIC and the rail's leaf switch.
  std::size_t nics = 0;
  for (const RouteHop& hop : cluster.router().route(3, 11)) {
    const Link& link = cluster.link(hop.link);
    if (cluster.device(link.from).kind == DeviceKind::Nic) {
      EXPECT_EQ(cluster.device(link.from).index, 3);
      ++nics;
    }
  }
  EXPECT_GE(nics, 2U) << "one on each side";
}

std::string refusal_of(const std::string& text) {
  try {
    (void)from_nccl_xml(text, "topo.xml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// Are invalid XML files refused?
TEST(ImportNcclXml, Refusals) {
  EXPECT_THAT(refusal_of("<system>\n<cpu>\n</system>"), HasSubstr("line 3"));
  EXPECT_THAT(refusal_of("<graphs/>"), HasSubstr("no <system>"));
  EXPECT_THAT(refusal_of("<system><cpu/></system>"), HasSubstr("no <gpu> with a rank"));
}

// Is a server of eight H100 read from the matrix of nvidia-smi?
TEST(ImportTopoMatrix, EightH100) {
  const std::string file = data("h100_x8_topo_m.txt");
  const Cluster cluster =
      imported_cluster(from_topo_matrix(read_file(file), {.file = file, .gpu = "h100"}), {});
  const Rates rates = rates_of(cluster);
  EXPECT_EQ(rates.at({DeviceKind::Gpu, DeviceKind::NvSwitch, 370800000}), 8);
  EXPECT_EQ(rates.at({DeviceKind::PcieSwitch, DeviceKind::Cpu, 48000000}), 8);
  EXPECT_EQ(rates.at({DeviceKind::Cpu, DeviceKind::Cpu, 22000000}), 2);
  EXPECT_EQ(rates.at({DeviceKind::Nic, DeviceKind::LeafSwitch, 48500000}), 8);
}

// Is an NVLink bridge read? Two GPUs are joined by four links in each direction, without a NIC.
TEST(ImportTopoMatrix, NvLinkBridge) {
  const Cluster cluster =
      imported_cluster(from_topo_matrix("\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n"
                                        "GPU0\t X \tNV4\t0-31\t0\nGPU1\tNV4\t X \t0-31\t0\n",
                                        {.file = "topo.txt", .gpu = "a100_80gb"}),
                       {});
  const Route route = cluster.router().route(0, 1);
  ASSERT_EQ(route.size(), 1U);
  EXPECT_DOUBLE_EQ(cluster.link(route[0].link).capacity.value(), 80e9);
}

// Do refusals name the line?
TEST(ImportTopoMatrix, RefusalsNameTheLine) {
  const auto refusal = [](const std::string& text) {
    try {
      (void)from_topo_matrix(text, {.file = "topo.txt", .gpu = "h100"});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal("nothing\n"), HasSubstr("no header"));
  EXPECT_THAT(refusal("\tGPU0\tGPU1\nGPU0\tX\tNV18\n"), HasSubstr("GPU1 has no row"));
  EXPECT_THAT(refusal("\tGPU0\tGPU1\nGPU0\tX\n"), HasSubstr("line 2"));
  EXPECT_THAT(refusal("\tGPU0\tGPU1\nGPU0\tX\tMIG\n"), HasSubstr("\"MIG\""));
}

std::string topo_refusal(const std::string& text) {
  try {
    (void)from_topo_matrix(text, {.file = "topo.txt", .gpu = "h100"});
  } catch (const InputError& error) {
    return error.what();
  }
  return "read";
}

// A matrix as nvidia-smi prints it, with NVLink between all GPUs.
std::string topo_matrix(int gpus) {
  std::string text;
  for (int gpu = 0; gpu < gpus; ++gpu) text += "\tGPU" + std::to_string(gpu);
  text += "\tCPU Affinity\tNUMA Affinity\n";
  for (int row = 0; row < gpus; ++row) {
    text += "GPU" + std::to_string(row);
    for (int gpu = 0; gpu < gpus; ++gpu) text += gpu == row ? "\tX" : "\tNV18";
    text += "\t0-31\t" + std::to_string(row / 4) + "\n";
  }
  return text;
}

// Is a node of thousands of GPUs read, and a larger one refused?
TEST(ImportTopoMatrix, ANodeOfThousandsOfGpusIsReadAndALargerOneRefused) {
  const Cluster cluster = imported_cluster(
      from_topo_matrix(topo_matrix(2000), {.file = "topo.txt", .gpu = "h100"}), {});
  EXPECT_EQ(cluster.facts().gpus_per_node, 2000U);
  EXPECT_EQ(topo_refusal(topo_matrix(2049)),
            "topo.txt: line 1: there are 2049 GPUs and NICs (a node has at most 2048)");
}

// Are long words and numbers refused?
TEST(ImportTopoMatrix, LongWordsAndNumbersAreRefusedAsAnyOther) {
  const std::string digits(100'000, '9');
  EXPECT_THAT(topo_refusal("\tGPU0\tGPU1\nGPU0\tX\tNV" + digits + "\n"),
              HasSubstr("line 2: GPU0 to GPU1 is \"NV99"));
  EXPECT_THAT(topo_refusal("\tGPU0\tmlx5_" + digits + "\nGPU0\tX\t" + digits + "\n"),
              HasSubstr("is \"99"));
}

// Are terminal colours ignored? They are removed; any other escape sequence stays, and is no
// device.
TEST(ImportTopoMatrix, ColoursOfATerminalAreNoWords) {
  EXPECT_EQ(topo_refusal("\t\x1b[4mGPU0\tGPU1\x1b[0m\nGPU0\tX\tNV4\nGPU1\tNV4\tX\n"), "read");
}

// Are the partial files of clouds read with the GPU that the user names? PCI classes tell GPUs and
// NICs, and NVLinks are those of the node type.
TEST(ImportNcclXml, PartialFilesAreReadWithTheGpu) {
  const ImportedNode node = from_nccl_xml(read_file(data("virtual_switches_a100.xml")), "topo.xml",
                                          {.gpu = "a100_80gb", .nic = BytesPerSecond{25e9}});
  const Cluster cluster = imported_cluster(node, {});
  const Rates rates = rates_of(cluster);
  EXPECT_EQ(rates.at({DeviceKind::Gpu, DeviceKind::NvSwitch, 240000000}), 8);
  EXPECT_EQ(rates.at({DeviceKind::Gpu, DeviceKind::PcieSwitch, 24000000}), 8);
  EXPECT_EQ(rates.at({DeviceKind::PcieSwitch, DeviceKind::Cpu, 24000000}), 4);
  EXPECT_EQ(rates.at({DeviceKind::Cpu, DeviceKind::Cpu, 16000000}), 2);
  EXPECT_EQ(rates.at({DeviceKind::Nic, DeviceKind::LeafSwitch, 23500000}), 8) << "94 % of 200 Gb/s";
  // Each GPU uses a NIC behind its own switch.
  for (std::uint32_t gpu = 0; gpu < 8; ++gpu)
    EXPECT_EQ(cluster.device(cluster.nic_of_gpu()[gpu]).index, static_cast<std::int32_t>(gpu));
  EXPECT_THAT(node.assumed, testing::Contains("every NIC has 200 Gb/s, as --nic says, 23.5 GB/s of "
                                              "it usable"));
}

// Are links and CPUs that a partial file leaves out those of the node type?
TEST(ImportNcclXml, PartialFilesWithoutLinksTakeThoseOfTheNodeType) {
  const ImportedNode node =
      from_nccl_xml(read_file(data("numa_groups_h100.xml")), "topo.xml", {.gpu = "h100"});
  const Rates rates = rates_of(imported_cluster(node, {}));
  EXPECT_EQ(rates.at({DeviceKind::Gpu, DeviceKind::PcieSwitch, 48000000}), 4);
  EXPECT_EQ(rates.at({DeviceKind::PcieSwitch, DeviceKind::Nic, 24000000}), 4);
  EXPECT_EQ(rates.at({DeviceKind::PcieSwitch, DeviceKind::Cpu, 48000000}), 2);
  EXPECT_EQ(rates.at({DeviceKind::Cpu, DeviceKind::Cpu, 22000000}), 2);
  EXPECT_EQ(rates.at({DeviceKind::Nic, DeviceKind::LeafSwitch, 48500000}), 4);
  EXPECT_THAT(node.assumed, testing::IsSupersetOf(
                                {HasSubstr("the file has 4 GPUs and a dgx_h100 has 8"),
                                 HasSubstr("400 Gb/s as in dgx_h100 (--nic names another rate)"),
                                 HasSubstr("2 PCI devices have no link_speed"),
                                 HasSubstr("2 CPUs have no vendor")}));
}

// Does the refusal of a partial file say what to add?
TEST(ImportNcclXml, PartialFilesWithoutAGpuNameAreRefused) {
  EXPECT_EQ(
      refusal_of(read_file(data("virtual_switches_a100.xml"))),
      "topo.xml: lists 8 GPUs as PCI devices, without ranks and NVLinks: it is a partial file, "
      "as clouds give them for NCCL_TOPO_FILE (say which GPU it is: --gpu h100 (trainyard list "
      "gpus), or dump the whole with NCCL_TOPO_DUMP_FILE)");
  EXPECT_THAT(refusal_of(read_file(data("nics_only.xml"))), HasSubstr("lists 2 NICs and no GPU"));
  try {
    (void)from_nccl_xml(read_file(data("virtual_switches_a100.xml")), "topo.xml", {.gpu = "a100"});
    FAIL() << "a100 is no profile";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean \"a100_40gb\" or \"a100_80gb\"?"));
  }
}

// Does --nic set the rate of NICs in a whole dump, and is a missing rate said?
TEST(ImportNcclXml, TheRateOfNicsMayComeFromTheUser) {
  std::string text(kMinimal);
  EXPECT_DOUBLE_EQ(from_nccl_xml(text, "f.xml", {.nic = BytesPerSecond{25e9}}).ports.at(0), 25e9);
  text.replace(text.find(" speed=\"400000\""), 15, "");
  const ImportedNode node = from_nccl_xml(text, "f.xml");
  EXPECT_DOUBLE_EQ(node.ports.at(0), 1.25e9);
  EXPECT_THAT(node.assumed, testing::Contains(HasSubstr("NCCL's default of 10 Gb/s")));
}

// Are rates of NICs read as people write them?
TEST(ImportedNode, RatesOfNicsAreReadAsPeopleWriteThem) {
  for (const char* text : {"200G", "200Gb", "200Gbps", "200 Gbps", "200Gb/s", "200 Gb/s",
                           "200Gbit/s", "25 GB/s", "0.2T", "0.2Tbps", "200000Mbps"})
    EXPECT_NEAR(parse_nic_rate(text, "--nic").value(), 25e9, 1.0) << text;
  for (const char* text : {"", "200", "fast", "-5G", "0G", "G", "200GHz", "nanG"})
    EXPECT_THROW((void)parse_nic_rate(text, "--nic"), InputError) << text;
  EXPECT_EQ(nic_rate_text(BytesPerSecond{50e9}), "400 Gb/s");
}

// Is a tray of an NVL72 read: four GPUs, chip-to-chip links, a column of GPU NUMA IDs? The NVLink
// domain ends at the tray, which is said.
TEST(ImportTopoMatrix, ATrayOfARack) {
  const ImportedNode node = from_topo_matrix(read_file(data("gb200_tray_topo_m.txt")),
                                             {.file = "topo.txt", .gpu = "gb200"});
  const Rates rates = rates_of(imported_cluster(node, {}));
  EXPECT_EQ(rates.at({DeviceKind::Gpu, DeviceKind::NvSwitch, 721800000}), 4);
  EXPECT_EQ(rates.at({DeviceKind::Gpu, DeviceKind::Cpu, 450000000}), 4);
  EXPECT_EQ(rates.at({DeviceKind::Nic, DeviceKind::Cpu, 48000000}), 4);
  EXPECT_EQ(rates.at({DeviceKind::Cpu, DeviceKind::Cpu, 6000000}), 2);
  EXPECT_THAT(node.assumed,
              testing::Contains(HasSubstr("a gb200_nvl72 has 72 in one NVLink domain: "
                                          "for the whole of it use")));
}

// Are NICs named by their driver read, the rate of NICs set, and NUMA nodes that are N/A left out?
TEST(ImportTopoMatrix, NicsByTheirDriversNamesAndTheirRate) {
  const ImportedNode node =
      from_topo_matrix(read_file(data("a100_x4_topo_m.txt")),
                       {.file = "topo.txt", .gpu = "A100-80GB", .nic = BytesPerSecond{25e9}});
  EXPECT_EQ(node.gpu, "a100_80gb");
  const Rates rates = rates_of(imported_cluster(node, {}));
  EXPECT_EQ(rates.at({DeviceKind::Nic, DeviceKind::LeafSwitch, 23500000}), 2);
  EXPECT_EQ(rates.at({DeviceKind::Gpu, DeviceKind::Gpu, 80000000}), 12)
      << "four links to each peer";
  EXPECT_EQ(rates.at({DeviceKind::Cpu, DeviceKind::Cpu, 16000000}), 2);
  EXPECT_THAT(node.assumed,
              testing::Contains("all 2 NICs join the fabric at 200 Gb/s, 23.5 GB/s of it usable"));
}

// Is a number that cannot be refused with its place, and only a missing one taken as the default?
TEST(ImportNcclXml, NumbersThatCannotBeAreRefused) {
  const auto changed = [](const std::string& from, const std::string& to) {
    std::string text(kMinimal);
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  const auto refusal = [&](const std::string& from, const std::string& to) -> std::string {
    try {
      (void)from_nccl_xml(changed(from, to), "f.xml");
    } catch (const InputError& error) {
      return error.what();
    }
    return "taken";
  };
  for (const char* count : {"abc", "-3", "99999999999999", "18 links"})
    EXPECT_THAT(
        refusal("count=\"18\"", fmt::format("count=\"{}\"", count)),
        HasSubstr(fmt::format(
            "f.xml: line 8: count of <nvlink> is \"{}\", no number from 0 to 1000000", count)));
  for (const char* speed : {"nan", "1e999", "-2"})
    EXPECT_THAT(refusal("400000", speed),
                HasSubstr(fmt::format("line 11: speed of <net> is \"{}\"", speed)));
  const auto first_port = [&](const std::string& from, const std::string& to) {
    return from_nccl_xml(changed(from, to), "f.xml").ports.at(0);
  };
  EXPECT_DOUBLE_EQ(first_port("speed=\"400000\"", ""), 1.25e9);
  EXPECT_DOUBLE_EQ(first_port("400000", "-1"), 1.25e9);
  // A GPU without links is joined to nothing but its PCIe switch, which has a NIC and a CPU, too.
  EXPECT_EQ(from_nccl_xml(kMinimal, "f.xml").wires.size(), 4U);
  EXPECT_EQ(from_nccl_xml(changed("count=\"18\"", "count=\"0\""), "f.xml").wires.size(), 3U);
}

}  // namespace
}  // namespace trainyard
