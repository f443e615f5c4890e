// InfiniBand fabrics from the output of ibnetdiscover and iblinkinfo. The files in ib_fabric/ are
// written after their manual pages.
#include "scenarios/import/ib_fabric.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "scenarios/import/ib_cluster.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "topologies/cluster_reader.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;
using testing::Contains;
using testing::HasSubstr;

std::string fabric_text(const std::string& name) {
  return read_file(std::string(TRAINYARD_SOURCE_DIRECTORY) + "/tests/scenarios/import/ib_fabric/" +
                   name);
}

IbCluster cluster_of(const std::string& text, const IbChoice& choice) {
  return cluster_of_ib_fabric(read_ib_fabric(text, "fabric.txt"), choice);
}

std::string fabric_refusal(const std::string& text, const IbChoice& choice = {.node = "dgx_h100"}) {
  try {
    (void)cluster_of(text, choice);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

Cluster built(const Json& cluster) {
  JsonFile file = JsonFile::parse("cluster.json", Json{{"cluster", cluster}}.dump());
  const ClusterSpec spec = read_cluster(file.root().object("cluster"));
  file.finish();
  return build_cluster(spec);
}

// Are devices, cables and rates read from the topology file of ibnetdiscover?
TEST(IbFabric, ReadsIbnetdiscover) {
  const IbFabric fabric = read_ib_fabric(fabric_text("rails.txt"), "rails.txt");
  EXPECT_EQ(fabric.tool, "ibnetdiscover");
  std::map<std::pair<bool, bool>, int> cables;  // by whether the ends are switches
  for (const IbCable& cable : fabric.cables)
    ++cables[{fabric.devices[cable.a.device].is_switch, fabric.devices[cable.b.device].is_switch}];
  EXPECT_EQ((cables[{true, true}]), 32);
  // 32 NICs, 8 SHARP nodes and a management host.
  EXPECT_EQ((cables[{true, false}]) + (cables[{false, true}]), 41);
  EXPECT_EQ(fabric.devices[0].name, "MF0;leaf01:MQM9700/U1");
  EXPECT_EQ(fabric.devices[0].ports, 65U);
  EXPECT_DOUBLE_EQ(fabric.cables[0].rate.value(), 50e9);
}

// Do both forms of iblinkinfo give the same fabric?
TEST(IbFabric, BothFormsOfIblinkinfoAreOneFabric) {
  const IbFabric blocks = read_ib_fabric(fabric_text("fat_tree_iblinkinfo.txt"), "a.txt");
  const IbFabric lines = read_ib_fabric(fabric_text("fat_tree_iblinkinfo_l.txt"), "b.txt");
  EXPECT_EQ(blocks.tool, "iblinkinfo");
  EXPECT_EQ(blocks.devices, lines.devices);
  ASSERT_EQ(blocks.cables.size(), 48U);  // 32 NICs, 16 between switches
  ASSERT_EQ(lines.cables.size(), 48U);
  for (std::size_t i = 0; i < blocks.cables.size(); ++i) {
    EXPECT_EQ(blocks.cables[i].a, lines.cables[i].a);
    EXPECT_EQ(blocks.cables[i].b, lines.cables[i].b);
    EXPECT_DOUBLE_EQ(blocks.cables[i].rate.value(), 25e9);
  }
}

// Are widths and speeds those of the specification? 4xQDR loses a fifth to 8b/10b.
TEST(IbFabric, RatesAreWidthTimesTheDataRateOfALane) {
  const auto gigabits = [](const char* text) { return ib_rate(text, "f", 1).value() * 8e-9; };
  EXPECT_DOUBLE_EQ(gigabits("1xSDR"), 2.0);
  EXPECT_DOUBLE_EQ(gigabits("4xDDR"), 16.0);
  EXPECT_DOUBLE_EQ(gigabits("4xQDR"), 32.0);
  EXPECT_DOUBLE_EQ(gigabits("4xFDR10"), 40.0);
  EXPECT_NEAR(gigabits("4xFDR"), 54.545, 1e-3);
  EXPECT_DOUBLE_EQ(gigabits("4xEDR"), 100.0);
  EXPECT_DOUBLE_EQ(gigabits("2xHDR"), 100.0);
  EXPECT_DOUBLE_EQ(gigabits("4xHDR"), 200.0);
  EXPECT_DOUBLE_EQ(gigabits("4xNDR"), 400.0);
  EXPECT_DOUBLE_EQ(gigabits("4xXDR"), 800.0);
  EXPECT_DOUBLE_EQ(gigabits("4x???"), 0.0);
  EXPECT_THROW((void)ib_rate("4xABC", "f", 1), InputError);
  EXPECT_THROW((void)ib_rate("3xNDR", "f", 1), InputError);
}

// Are rails recognised, and hosts without GPUs left out?
TEST(IbFabric, RailsAreRecognised) {
  const IbCluster made = cluster_of(fabric_text("rails.txt"), {.node = "dgx_h100"});
  EXPECT_EQ(made.fabric, "rail_optimized");
  EXPECT_EQ(made.cluster["nodes"], 4);
  EXPECT_EQ(made.cluster["node"], "dgx_h100");
  EXPECT_FALSE(made.cluster.contains("nic")) << "400 Gb/s are those of the node type";
  EXPECT_THAT(made.assumed, Contains("1 host with 1 HCA is left out (ufm1)"));
  EXPECT_THAT(made.assumed, Contains(HasSubstr("node 0 is dgx9, node 3 is dgx12")));
  EXPECT_THAT(made.assumed, Contains(HasSubstr("8 switches can reduce in the network (SHARP)")));
  // Three of the four hosts leave a port of each leaf empty.
  const IbCluster three =
      cluster_of(fabric_text("rails.txt"), {.node = "dgx_h100", .hosts = "dgx1?"});
  EXPECT_EQ(three.fabric, "rail_optimized");
  EXPECT_EQ(three.cluster["nodes"], 3);
}

// Is a fat-tree with another NIC than the node type's recognised?
TEST(IbFabric, AFatTreeIsRecognised) {
  const IbCluster made = cluster_of(fabric_text("fat_tree_iblinkinfo_l.txt"), {.node = "dgx_h100"});
  EXPECT_EQ(made.fabric, "fat_tree");
  EXPECT_EQ(made.cluster["node"]["nic"]["count"], 4);
  EXPECT_EQ(made.cluster["nic"]["nominal"], "25 GB/s");
  EXPECT_EQ(made.cluster["fabric"]["oversubscription"], 2.0);
  const Cluster cluster = built(made.cluster);
  EXPECT_EQ(cluster.facts().nodes, 8U);
}

// Is a fabric that equals none of Trainyard's described cable by cable?
TEST(IbFabric, AnIrregularFabricIsDescribedCableByCable) {
  const IbCluster made = cluster_of(fabric_text("missing_cable.txt"), {.node = "dgx_h100"});
  EXPECT_EQ(made.fabric, "");
  const Cluster cluster = built(made.cluster);
  std::map<DeviceKind, int> devices;
  for (DeviceId id = 0; id < cluster.device_count(); ++id) ++devices[cluster.device(id).kind];
  EXPECT_EQ(devices[DeviceKind::LeafSwitch], 8);
  EXPECT_EQ(devices[DeviceKind::SpineSwitch], 4);
  EXPECT_EQ(devices[DeviceKind::Nic], 32);
  int between = 0;
  for (const Link& link : cluster.links()) between += link.kind == LinkKind::LeafSpine ? 1 : 0;
  EXPECT_EQ(between, 2 * 31) << "of 32 cables one is missing; each has two directions";
}

// The fabric of a cluster as ibnetdiscover prints it, with 4xNDR cables. Names are by number, and a
// NIC of two ports is an HCA of two ports.
std::string as_ibnetdiscover(const Cluster& cluster) {
  const auto key = [&](DeviceId id) {
    const bool nic = cluster.device(id).kind == DeviceKind::Nic;
    return fmt::format("{}-{:016x}", nic ? 'H' : 'S', 0x1000U + id);
  };
  const auto name = [&](DeviceId id) {
    const Device device = cluster.device(id);
    return device.kind == DeviceKind::Nic ? fmt::format("host{} mlx5_{}", device.node, device.index)
                                          : fmt::format("switch {}", id);
  };
  std::map<DeviceId, std::string> lines;
  std::map<DeviceId, int> ports;
  for (const Link& link : cluster.links()) {
    if (!is_fabric_side(link.kind) || link.from > link.to) continue;
    for (std::uint32_t cable = 0; cable < link.cables; ++cable) {
      const int a = ++ports[link.from];
      const int b = ++ports[link.to];
      for (const auto& [from, from_port, to, to_port] :
           {std::tuple(link.from, a, link.to, b), std::tuple(link.to, b, link.from, a)})
        lines[from] += fmt::format("[{}]\t\"{}\"[{}]\t\t# \"{}\" lid 1 4xNDR\n", from_port, key(to),
                                   to_port, name(to));
    }
  }
  std::string text = "#\n# Topology file: generated on Thu Jan 15 10:00:00 2026\n#\n";
  for (const auto& [id, own] : lines)
    text += fmt::format("\n{}\t{} \"{}\"\t\t# \"{}\"\n{}",
                        cluster.device(id).kind == DeviceKind::Nic ? "Ca" : "Switch", ports[id],
                        key(id), name(id), own);
  return text;
}

// Is every fabric of the registry that is printed and read again the same fabric?
TEST(IbFabric, EveryFabricThatIsPrintedIsRecognised) {
  struct Case {
    FabricKind kind;
    std::uint32_t nodes;
  };
  const std::vector<Case> cases = {
      {SingleSwitch{}, 4},
      {RailOptimized{.radix = 16}, 16},
      {RailOptimized{.radix = 16, .oversubscription = 3.0}, 24},
      {RailOptimized{.radix = 8}, 16},  // three tiers
      {RailOptimized{.radix = 64, .nodes_per_unit = 4}, 10},
      {FatTree{.radix = 32}, 16},
      {FatTree{.radix = 32, .oversubscription = 2.0}, 16},
      {FatTree3{.radix = 16}, 12},
      {FatTree3{.radix = 16, .oversubscription = 1.0, .core_oversubscription = 3.0}, 24},
      {MultiPlane{{.radix = 8}}, 12},
      {DualTor{{.radix = 16}}, 12},
      {Torus{.dims = {4, 3}}, 12},
      {Dragonfly{.radix = 15, .nics_per_router = 4, .routers_per_group = 4}, 24}};
  for (const Case& one : cases) {
    const ClusterSpec spec{
        .node = load_node("dgx_h100"), .nodes = one.nodes, .fabric = {.kind = one.kind}};
    SCOPED_TRACE(to_json(spec.fabric).dump());
    const Cluster first = build_cluster(spec);
    // The two ports of a NIC have half its rate each, and are printed as whole ones.
    const bool dual = std::holds_alternative<DualTor>(one.kind);
    const IbCluster made = cluster_of(as_ibnetdiscover(first), {.node = "dgx_h100"});
    EXPECT_EQ(made.fabric, fabric_entry(one.kind).name);
    const Cluster again = built(made.cluster);
    ASSERT_EQ(again.device_count(), first.device_count());
    ASSERT_EQ(again.links().size(), first.links().size());
    double first_sum = 0.0, again_sum = 0.0;
    for (const Link& link : first.links())
      if (is_fabric_side(link.kind)) first_sum += link.capacity.value();
    for (const Link& link : again.links())
      if (is_fabric_side(link.kind)) again_sum += link.capacity.value();
    EXPECT_NEAR(again_sum, first_sum * (dual ? 2.0 : 1.0), 1e-6 * again_sum);
  }
  EXPECT_EQ(cases.size(), 13U);
}

// Are the hosts of an NVLink domain joined?
TEST(IbFabric, TheHostsOfARackAreOneNode) {
  const ClusterSpec spec{
      .node = load_node("gb200_nvl72"), .nodes = 2, .fabric = {.kind = RailOptimized{}}};
  std::string text = as_ibnetdiscover(build_cluster(spec));
  EXPECT_THAT(fabric_refusal(text, {.node = "gb200_nvl72"}), HasSubstr("its hosts have 72 HCAs"));
  for (int node = 0; node < 2; ++node)  // four HCAs are a host
    for (int nic = 71; nic >= 0; --nic) {
      const std::string old_name = fmt::format("\"host{} mlx5_{}\"", node, nic);
      const std::string new_name = fmt::format("\"tray{} mlx5_{}\"", node * 18 + nic / 4, nic % 4);
      for (std::size_t at = text.find(old_name); at != std::string::npos; at = text.find(old_name))
        text.replace(at, old_name.size(), new_name);
    }
  const IbCluster made = cluster_of(text, {.node = "gb200_nvl72"});
  EXPECT_EQ(made.fabric, "rail_optimized");
  EXPECT_EQ(made.cluster["nodes"], 2);
  EXPECT_THAT(made.assumed, Contains(HasSubstr("every 18 hosts")));
}

// Is a cable without a known speed asked for?
TEST(IbFabric, AnUnknownSpeedIsAskedFor) {
  std::string text = fabric_text("single_switch.txt");
  for (std::size_t at = text.find("4xHDR"); at != std::string::npos; at = text.find("4xHDR"))
    text.replace(at, 5, "4x?\?\?");
  EXPECT_THAT(fabric_refusal(text), HasSubstr("line 11: the file does not tell the speed"));
  const IbCluster made =
      cluster_of(text, {.node = "dgx_h100", .hosts = {}, .nic = BytesPerSecond{100e9}});
  EXPECT_EQ(made.cluster["nic"]["nominal"], "100 GB/s");
  EXPECT_THAT(made.assumed,
              Contains("16 cables without a known speed have 800 Gb/s, as --nic says"));
}

// Are other files refused: empty, binary, of another tool, cut, or two runs in one?
TEST(IbFabric, FilesThatAreNoFabricAreRefused) {
  const std::string neither = "is the output of neither ibnetdiscover nor iblinkinfo";
  EXPECT_THAT(fabric_refusal(""), HasSubstr(neither));
  EXPECT_THAT(fabric_refusal(std::string("\0\1\2[1]\xff", 6)), HasSubstr(neither));
  EXPECT_THAT(fabric_refusal("Switch\t: 0x0002c90200404e08 ports 36 devid 0xbd36 \"name\"\n"),
              HasSubstr(neither));
  const std::string rails = fabric_text("rails.txt");
  EXPECT_THAT(fabric_refusal(rails.substr(0, rails.find("leaf03:MQM9700/U1\" enh") + 200)),
              HasSubstr("line "));
  // Cut after whole lines: the spines have no sections.
  EXPECT_THAT(fabric_refusal(rails.substr(0, rails.find("\nvendid", rails.find("leaf08")))),
              HasSubstr("which has no section (give the whole output of ibnetdiscover; this one is "
                        "cut)"));
  std::string twice = rails;
  const std::size_t port = twice.find("[1]\t\"H-946dae0300200080\"");
  EXPECT_EQ(port, std::string::npos);
  const std::size_t second = twice.find("[2]\t\"H-946dae0300200080\"");
  twice.replace(second, 3, "[1]");
  EXPECT_THAT(fabric_refusal(twice),
              HasSubstr("line 12: port 1 of \"MF0;leaf01:MQM9700/U1\" has a cable to port 1 of "
                        "\"dgx10 mlx5_0\", and to port 1 of \"dgx9 mlx5_0\" in line 11"));
  const std::string blocks = fabric_text("fat_tree_iblinkinfo.txt");
  const std::size_t spines = blocks.find("Switch: 0xb83fd20300100100");
  ASSERT_NE(spines, std::string::npos);
  EXPECT_THAT(fabric_refusal(blocks.substr(0, spines)),
              HasSubstr("which is not listed as a switch"));
  EXPECT_THAT(fabric_refusal(rails, {.node = "dgx_x"}), HasSubstr("--node"));
  EXPECT_THAT(fabric_refusal(rails, {.node = "dgx_h100", .hosts = "gpu*"}),
              HasSubstr("has no host like \"gpu*\""));
}

// Are hosts that cannot reach each other refused?
TEST(IbFabric, HostsThatCannotReachEachOtherAreRefused) {
  std::string text;
  for (int host = 0; host < 2; ++host) {
    text += fmt::format("Switch\t40 \"S-000000000000000{}\"\t\t# \"leaf{}\"\n", host, host);
    for (int nic = 0; nic < 8; ++nic)
      text += fmt::format("[{}]\t\"H-0000000000000{}{}0\"[1](1)\t\t# \"n{} mlx5_{}\" lid 1 4xNDR\n",
                          nic + 1, host, nic, host, nic);
  }
  EXPECT_THAT(fabric_refusal(text), HasSubstr("reach"));
}

}  // namespace
}  // namespace trainyard
