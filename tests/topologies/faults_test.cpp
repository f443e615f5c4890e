// Clusters with something broken: what is slower, which paths traffic takes instead, and which
// faults are refused.
#include "topologies/faults.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/base/json_parse.hpp"
#include "sim/cluster/fabric_figures.hpp"
#include "tests/topologies/one_gpu_node.hpp"
#include "topologies/cluster_reader.hpp"
#include "topologies/custom_cluster.hpp"

namespace trainyard {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr auto kLink = Fault::Part::Link;
constexpr auto kRail = Fault::Part::Rail;
constexpr auto kDevice = Fault::Part::Device;

Cluster broken(std::vector<Fault> faults, const char* fabric = "rail_optimized",
               std::uint32_t nodes = 4) {
  ClusterSpec spec = nodes_of("dgx_h100", nodes, {.kind = fabric_named(fabric)});
  spec.faults = std::move(faults);
  return build_cluster(spec);
}

std::string faulty_refusal(std::vector<Fault> faults, const char* fabric = "rail_optimized") {
  return complaint([&] { (void)broken(std::move(faults), fabric); });
}

double capacity(const Cluster& cluster, const std::string& from, const std::string& to) {
  double sum = 0.0;
  for (const Link& link : cluster.links()) {
    const bool here = cluster.name(link.from) == from && cluster.name(link.to) == to;
    sum += here ? link.capacity.value() : 0.0;
  }
  return sum;
}

std::string nic_name(const Cluster& cluster, std::uint32_t gpu) {
  return cluster.name(cluster.nic_of_gpu()[gpu]);
}

// Does a slow link stay where it was?
TEST(Faults, SlowLinkKeepsItsPlace) {
  const Cluster cluster =
      broken({{.part = kLink, .from = "node 3 nic 2", .to = "leaf 2", .capacity_factor = 0.5}});
  EXPECT_DOUBLE_EQ(capacity(cluster, "node 3 nic 2", "leaf 2"), 48.5e9 / 2);
  EXPECT_DOUBLE_EQ(capacity(cluster, "leaf 2", "node 3 nic 2"), 48.5e9 / 2);
  EXPECT_DOUBLE_EQ(capacity(cluster, "node 3 nic 3", "leaf 3"), 48.5e9);
  EXPECT_THAT(cluster.facts().name, HasSubstr("1 fault"));
}

// Do the factors multiply?
TEST(Faults, FactorsMultiply) {
  const Cluster cluster =
      broken({{.part = kRail, .rail = 2, .capacity_factor = 0.5},
              {.part = kLink, .from = "node 3 nic 2", .to = "leaf 2", .capacity_factor = 0.5}});
  EXPECT_DOUBLE_EQ(capacity(cluster, "node 3 nic 2", "leaf 2"), 48.5e9 / 4);
  EXPECT_DOUBLE_EQ(capacity(cluster, "node 0 nic 2", "leaf 2"), 48.5e9 / 2);
}

// Does a near NIC replace a dead one? The other NICs of the CPU are equally near and serve one GPU
// each: the first takes over, over PCIe.
TEST(Faults, DeadNicIsReplacedByANearOne) {
  const Cluster cluster = broken({{.part = kDevice, .device = "node 3 nic 6"}});
  EXPECT_EQ(nic_name(cluster, 3 * 8 + 6), "node 3 nic 4");
  EXPECT_EQ(nic_name(cluster, 2 * 8 + 6), "node 2 nic 6");
  const Route route = cluster.router().route(3 * 8 + 6, 2 * 8 + 6);
  EXPECT_EQ(cluster.link(route[0].link).from, cluster.gpus()[3 * 8 + 6]);
  EXPECT_EQ(cluster.link(route[1].link).kind, LinkKind::Pcie);
}

// Do two others replace two dead NICs?
TEST(Faults, TwoDeadNicsGoToTwoOthers) {
  const Cluster cluster = broken(
      {{.part = kDevice, .device = "node 0 nic 2"}, {.part = kDevice, .device = "node 0 nic 3"}});
  EXPECT_EQ(nic_name(cluster, 2), "node 0 nic 0");
  EXPECT_EQ(nic_name(cluster, 3), "node 0 nic 1");
}

// Does a dead rail leave seven?
TEST(Faults, DeadRailLeavesSeven) {
  const Cluster cluster = broken({{.part = kRail, .rail = 2}});
  for (std::uint32_t node = 0; node < 4; ++node) {
    EXPECT_EQ(nic_name(cluster, node * 8 + 2), "node " + std::to_string(node) + " nic 0");
  }
  EXPECT_DOUBLE_EQ(bisection_bandwidth(cluster).value(), 2 * 7 * 48e9);
}

// Are planes crossed inside nodes? In planes, the GPU that changed its NIC changed its plane:
// others forward the data in their own node, or it receives through a neighbour.
TEST(Faults, PlanesAreCrossedInsideNodes) {
  const Cluster cluster = broken({{.part = kDevice, .device = "node 3 nic 2"}}, "multi_plane");
  for (const auto& [from, to] : {std::pair{2U, 26U}, std::pair{26U, 2U}, std::pair{26U, 10U},
                                 std::pair{5U, 26U}, std::pair{26U, 5U}}) {
    for (const bool aligned : {false, true}) {
      std::map<DeviceId, double> net;
      const Route route = aligned ? cluster.router().route_rail_aligned(from, to)
                                  : cluster.router().route(from, to);
      for (const RouteHop& hop : route) {
        net[cluster.link(hop.link).from] += hop.fraction;
        net[cluster.link(hop.link).to] -= hop.fraction;
      }
      EXPECT_FALSE(net.empty());
      for (const auto& [device, sum] : net) {
        const double wanted = device == cluster.gpus()[from] ? 1.0
                              : device == cluster.gpus()[to] ? -1.0
                                                             : 0.0;
        EXPECT_NEAR(sum, wanted, 1e-12) << from << " to " << to;
      }
    }
  }
}

// Can the PCIe link to the NIC be slow?
TEST(Faults, PcieToTheNicMayBeSlow) {
  const Cluster cluster = broken({{.part = kLink,
                                   .from = "node 0 gpu 1",
                                   .to = "node 0 pcie switch 1",
                                   .capacity_factor = 0.25}});
  EXPECT_DOUBLE_EQ(cluster.link(cluster.router().route(1, 9).front().link).capacity.value(), 12e9);
}

// Does a dead spine leave the others?
TEST(Faults, DeadSpineLeavesTheOthers) {
  ClusterSpec spec = one_gpu_nodes(64, {.kind = FatTree{.radix = 16}});
  const double whole = bisection_bandwidth(build_cluster(spec)).value();
  spec.faults = {{.part = kDevice, .device = "spine 0"}};
  const Cluster cluster = build_cluster(spec);
  EXPECT_DOUBLE_EQ(whole, 32 * 48e9);
  EXPECT_LT(bisection_bandwidth(cluster).value(), whole);
  EXPECT_FALSE(cluster.router().route(0, 63).empty());
}

// Are faults of missing parts refused?
TEST(Faults, RefusesWhatIsNotThere) {
  EXPECT_THAT(faulty_refusal({{.part = kDevice, .device = "node 3 nick 2"}}),
              AllOf(HasSubstr("/faults/0/device: there is no device \"node 3 nick 2\""),
                    HasSubstr("did you mean \"node 3 nic 2\"")));
  EXPECT_THAT(faulty_refusal({{.part = kDevice, .device = "?"}}),
              HasSubstr("`show topology --format dot` lists the devices"));
  EXPECT_THAT(faulty_refusal({{.part = kLink, .from = "node 3 nic 2", .to = "leaf 3"}}),
              AllOf(HasSubstr("/faults/0/link: no link joins"), HasSubstr("leaf 2")));
  EXPECT_THAT(faulty_refusal({{.part = kRail, .rail = 8}}),
              AllOf(HasSubstr("/faults/0/rail: there is no rail 8"), HasSubstr("0 to 7")));
}

// Are faults refused that leave the cluster unusable?
TEST(Faults, RefusesWhatCannotBeSurvived) {
  EXPECT_THAT(faulty_refusal({{.part = kDevice, .device = "node 1 gpu 0"}}),
              AllOf(HasSubstr("is a GPU"), HasSubstr("take its node out")));
  std::vector<Fault> all;
  for (std::uint32_t rail = 0; rail < 8; ++rail) all.push_back({.part = kRail, .rail = rail});
  EXPECT_THAT(faulty_refusal(all), HasSubstr("/faults: they leave node 0 gpu 0 without a way"));
  EXPECT_THAT(faulty_refusal({{.part = kDevice, .device = "leaf 0"}}, "fat_tree"),
              HasSubstr("without a way to the network"));
  ClusterSpec spec = one_gpu_nodes(8, {.kind = FatTree{.radix = 8}});
  spec.faults = {{.part = kLink, .from = "leaf 1", .to = "spine 0"}};
  EXPECT_EQ(complaint([&] { (void)build_cluster(spec); }),
            "/faults: with them node 0 gpu 0 and node 4 gpu 0 cannot reach each other over the "
            "fabric (leave a way between all GPUs alive, or take nodes out of the cluster)\n");
}

ClusterSpec read_faulty(const std::string& cluster) {
  JsonFile file = JsonFile::parse("s.json", "{\"cluster\": " + cluster + "}");
  ClusterSpec spec = read_cluster(file.root().object("cluster"));
  file.finish();
  return spec;
}

// Are faults read and written?
TEST(Faults, AreReadAndWritten) {
  const ClusterSpec spec = read_faulty(R"({"node": "dgx_h100", "nodes": 4,
      "fabric": {"kind": "rail_optimized"},
      "faults": [{"link": {"from": "node 3 nic 2", "to": "leaf 2"}, "capacity_factor": 0.5},
                 {"rail": 1, "dead": true}, {"device": "node 2 nic 4", "dead": true}]})");
  ASSERT_EQ(spec.faults.size(), 3U);
  EXPECT_EQ(spec.faults[1].part, kRail);
  const auto written = to_json(spec);
  EXPECT_EQ(written["faults"].size(), 3U);
  EXPECT_EQ(to_json(read_faulty(written.dump())), written);
}

// Do faults break a custom cluster, too?
TEST(Faults, BreakACustomClusterToo) {
  auto json = to_custom_json(build_cluster(nodes_of("dgx_h100", 2, {.kind = FatTree{}})));
  json["faults"] = {{{"device", "node 1 nic 3"}, {"dead", true}}};
  const Cluster cluster = build_cluster(read_faulty(json.dump()));
  EXPECT_EQ(nic_name(cluster, 11), "node 1 nic 0");
  const auto written = to_json(read_faulty(json.dump()));
  EXPECT_EQ(nic_name(build_cluster(read_faulty(written.dump())), 11), "node 1 nic 0");
}

// Does a custom cluster that is written out keep faults with dates and slow GPUs, which change no
// link?
TEST(Faults, OfACustomClusterAreWritten) {
  auto json = to_custom_json(build_cluster(nodes_of("dgx_h100", 2, {.kind = FatTree{}})));
  json["faults"] = {
      {{"device", "node 1 nic 3"}, {"dead", true}},
      {{"device", "node 0 gpu 1"}, {"capacity_factor", 0.5}, {"from", "1 s"}, {"until", "2 s"}},
      {{"device", "node 0 gpu 2"}, {"speed_factor", 0.8}}};
  const auto written = to_json(read_faulty(json.dump()));
  EXPECT_EQ(written["faults"].size(), 3U);
  EXPECT_EQ(written["links"], json["links"]);
  const ClusterSpec again = read_faulty(written.dump());
  EXPECT_EQ(again, read_faulty(json.dump()));
  EXPECT_EQ(build_cluster(again).facts().timed_faults.size(), 3U);  // two links and a GPU
}

// Are faults read strictly?
TEST(Faults, AreReadStrictly) {
  const auto text = [](const std::string& fault) {
    return complaint([&] {
      (void)read_faulty(R"({"node": "dgx_h100", "nodes": 2, "faults": [)" + fault + "]}");
    });
  };
  EXPECT_THAT(text(R"({"rail": 1})"), HasSubstr("/cluster/faults/0"));
  EXPECT_THAT(text(R"({"rail": 1, "device": "x", "dead": true})"), HasSubstr("names one of"));
  EXPECT_THAT(text(R"({"rail": 1, "dead": true, "capacity_factor": 0.5})"), HasSubstr("one of"));
  EXPECT_THAT(text(R"({"rail": 1, "capacity_factor": 0})"), HasSubstr("\"dead\": true"));
  EXPECT_THAT(text(R"({"rail": 1, "dead": false})"), HasSubstr("leave the fault out"));
  EXPECT_THAT(text(R"({"rail": 1, "capacity_factor": 1.5})"), HasSubstr("capacity_factor"));
  EXPECT_THAT(text(R"({"rail": 1, "dead": true, "why": "dust"})"), HasSubstr("unknown key"));
  EXPECT_THAT(text(R"({"rail": 1, "dead": true, "from": "1 s"})"), HasSubstr("give \"until\""));
  EXPECT_THAT(text(R"({"rail": 1, "capacity_factor": 0.5, "from": "2 s", "until": "1 s"})"),
              HasSubstr("/until: is not after"));
  EXPECT_THAT(text(R"({"rail": 1, "speed_factor": 0.5})"), HasSubstr("names none"));
  EXPECT_THAT(text(R"({"device": "node 0 gpu 0", "speed_factor": 0.5, "dead": true})"),
              HasSubstr("write two faults"));
}

// Does a fault with dates leave the cluster as it is, with both ends of its links by name?
TEST(Faults, WithDatesAreTimedFaultsOfTheCluster) {
  const Cluster cluster =
      broken({{.part = kLink,
               .from = "node 3 nic 2",
               .to = "leaf 2",
               .capacity_factor = 0.5,
               .begins = Seconds{1.0},
               .ends = Seconds{2.0}},
              {.part = kDevice, .device = "node 1 gpu 2", .speed_factor = 0.8}});
  EXPECT_DOUBLE_EQ(capacity(cluster, "node 3 nic 2", "leaf 2"), 48.5e9);
  const std::vector<TimedFault>& timed = cluster.facts().timed_faults;
  ASSERT_EQ(timed.size(), 2U);
  EXPECT_EQ(timed[0].part, "node 3 nic 2 to leaf 2");
  EXPECT_DOUBLE_EQ(timed[0].rate_left, 0.5);
  EXPECT_EQ(timed[1].gpu, 8 + 2U);
  EXPECT_DOUBLE_EQ(timed[1].rate_left, 0.8);
  for (const Link& link : cluster.links()) {
    const bool is_hit =
        cluster.name(link.from) == "node 3 nic 2" && cluster.name(link.to) == "leaf 2";
    const bool is_back =
        cluster.name(link.to) == "node 3 nic 2" && cluster.name(link.from) == "leaf 2";
    EXPECT_EQ(rates_of_links(cluster, link.id).size(), is_hit || is_back ? 3U : 0U);
  }
}

// Does a fault with dates hit a link of one direction that runs from a later device to an earlier
// one, and two links between the same devices once, not twice?
TEST(Faults, WithDatesHitEveryLinkOnce) {
  auto json = parse_unchecked_json(R"({
    "gpu": "h100", "gpu_memory": "80 GiB",
    "collective_latency": {"launch": "8.4 us", "intra_step": "3.4 us", "inter_step": "14 us"},
    "devices": [{"name": "a", "kind": "gpu", "node": 0}, {"name": "b", "kind": "gpu", "node": 0}],
    "links": [{"from": "b", "to": "a", "kind": "nvlink", "capacity": "50 GB/s", "duplex": false},
              {"from": "a", "to": "b", "kind": "nvlink", "capacity": "50 GB/s", "duplex": false}],
    "faults": [{"link": {"from": "b", "to": "a"}, "capacity_factor": 0.5, "from": "1 s"}]})");
  const auto faults = [&json] {
    return build_cluster(read_faulty(json.dump())).facts().timed_faults;
  };
  ASSERT_EQ(faults().size(), 1U);
  EXPECT_DOUBLE_EQ(faults()[0].rate_left, 0.5);

  json["devices"].push_back({{"name", "s"}, {"kind", "nvswitch"}, {"node", 0}});
  const nlohmann::ordered_json to_switch = {
      {"from", "a"}, {"to", "s"}, {"kind", "nvlink"}, {"capacity", "50 GB/s"}};
  for (const char* gpu : {"a", "a", "b"}) {
    json["links"].push_back(to_switch);
    json["links"].back()["from"] = gpu;
  }
  json["links"].erase(1);  // the way back goes through the switch
  EXPECT_EQ(faults().size(), 1U);
  json["faults"][0] = {
      {"link", {{"from", "a"}, {"to", "s"}}}, {"capacity_factor", 0.5}, {"from", "1 s"}};
  EXPECT_EQ(faults().size(), 1U);
}

// Does a flap last whole retransmission timeouts, 4.096 us x 2^20 each, of which there are seven?
TEST(Faults, AFlapLastsWholeRetransmissionTimeouts) {
  const auto flap = [](const char* device, double seconds) {
    return Fault{
        .part = kDevice, .device = device, .begins = Seconds{1.0}, .ends = Seconds{1.0 + seconds}};
  };
  const double timeout_s = 4.096e-6 * 1048576;
  EXPECT_DOUBLE_EQ(broken({flap("node 1 nic 2", 0.1)}).facts().timed_faults.at(0).until_s,
                   1.0 + timeout_s);
  EXPECT_DOUBLE_EQ(broken({flap("node 1 nic 2", 5.0)}).facts().timed_faults.at(0).until_s,
                   1.0 + 2 * timeout_s);
  EXPECT_THAT(faulty_refusal({flap("node 1 nic 2", 31.0)}), HasSubstr("7 tries"));
  EXPECT_THAT(faulty_refusal({flap("node 1 nvswitch 0", 1.0)}), HasSubstr("inside a node"));
  // Two outages that touch are one of 40 s to the transport; with 10 s between them they are not.
  const auto two = [&](double between_s) {
    Fault second = flap("node 1 nic 2", 20.0);
    second.begins = Seconds{21.0 + between_s};
    second.ends = Seconds{41.0 + between_s};
    return std::vector{flap("node 1 nic 2", 20.0), second};
  };
  EXPECT_THAT(faulty_refusal(two(0.0)), HasSubstr("7 tries"));
  EXPECT_EQ(faulty_refusal(two(10.0)), "");
}

// Are faults with dates written and read back?
TEST(Faults, WithDatesAreReadBack) {
  const std::vector<Fault> faults = {
      {.part = kDevice,
       .device = "node 1 gpu 2",
       .capacity_factor = 1.0,
       .speed_factor = 0.8,
       .begins = Seconds{0.5},
       .ends = Seconds{2.0}},
      {.part = kRail, .rail = 1, .begins = Seconds{1.0}, .ends = Seconds{1.5}}};
  const nlohmann::ordered_json cluster = {
      {"node", "dgx_h100"}, {"nodes", 2}, {"faults", to_json(std::span<const Fault>(faults))}};
  EXPECT_EQ(read_faulty(cluster.dump()).faults, faults);
}

}  // namespace
}  // namespace trainyard
