// The wiring of a cluster: links are numbered as they were drawn, for nodes that were stamped from
// a pattern and for nodes that were drawn one by one.
#include "sim/cluster/blueprint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"

namespace trainyard {
namespace {

constexpr Wire kBus{.kind = LinkKind::Pcie,
                    .capacity = BytesPerSecond{48e9},
                    .nominal = BytesPerSecond{64e9},
                    .latency = Seconds{1e-6}};
constexpr Wire kPort{.kind = LinkKind::NicPort, .capacity = BytesPerSecond{25e9}, .cables = 2};

// A GPU and its NIC; returns the NIC.
DeviceId add_pair(Blueprint& blueprint, std::int32_t node) {
  const DeviceId gpu = blueprint.add({.kind = DeviceKind::Gpu, .node = node});
  const DeviceId nic = blueprint.add({.kind = DeviceKind::Nic, .node = node});
  blueprint.cable(gpu, nic, kBus);
  return nic;
}

Wiring pair_alone() {
  Blueprint blueprint;
  add_pair(blueprint, 0);
  return std::move(blueprint).wiring();
}

// Three pairs on one leaf switch.
Wiring pairs(bool stamped) {
  Blueprint blueprint;
  const std::uint32_t pattern = stamped ? blueprint.add_pattern(pair_alone()) : 0;
  for (std::uint32_t node = 0; node < 3; ++node) {
    if (stamped) {
      EXPECT_EQ(blueprint.stamp(pattern, node), 2 * node);
    } else {
      add_pair(blueprint, static_cast<std::int32_t>(node));
    }
  }
  const DeviceId leaf = blueprint.add({.kind = DeviceKind::LeafSwitch}, "the leaf");
  for (const DeviceId nic : std::vector<DeviceId>{5, 3, 1}) blueprint.cable(nic, leaf, kPort);
  return std::move(blueprint).wiring();
}

std::vector<Link> all_links(const Wiring& wiring) {
  return {wiring.links().begin(), wiring.links().end()};
}

// Are links numbered by their start device, then in the order of drawing?
TEST(Blueprint, NumbersLinksByTheirStartThenAsDrawn) {
  const Wiring wiring = pairs(false);
  ASSERT_EQ(wiring.link_count(), 12U);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ends;
  for (const Link& link : wiring.links()) {
    EXPECT_EQ(wire_of(link), link.kind == LinkKind::Pcie ? kBus : kPort);
    ends.emplace_back(link.from, link.to);
  }
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> wanted{{0, 1}, {1, 0}, {1, 6}, {2, 3},
                                                                    {3, 2}, {3, 6}, {4, 5}, {5, 4},
                                                                    {5, 6}, {6, 5}, {6, 3}, {6, 1}};
  EXPECT_EQ(ends, wanted);
  EXPECT_EQ(wiring.links_from(6).size(), 3U);
  EXPECT_EQ(wiring.links_from(6).front().id, wiring.first_link_from(6));
}

// Does stamping a node give the same wiring as drawing it?
TEST(Blueprint, StampedNodesEqualDrawnOnes) {
  const Wiring drawn = pairs(false);
  const Wiring stamped = pairs(true);
  EXPECT_EQ(all_links(stamped), all_links(drawn));
  ASSERT_EQ(stamped.device_count(), drawn.device_count());
  for (DeviceId id = 0; id < drawn.device_count(); ++id) {
    EXPECT_EQ(stamped.device(id), drawn.device(id));
    EXPECT_EQ(stamped.name(id), drawn.name(id));
  }
  EXPECT_EQ(drawn.pattern_of(1), std::nullopt);
  EXPECT_EQ(stamped.pattern_of(1), stamped.pattern_of(2));
}

// A node of one or two pairs whose NICs are joined on the host side.
void add_node(Blueprint& blueprint, std::uint32_t pairs, std::int32_t node) {
  const DeviceId nic = add_pair(blueprint, node);
  if (pairs == 2) blueprint.cable(add_pair(blueprint, node), nic, kBus);
}

// Do runs of stamped nodes of two patterns hold the nodes from 0 on? Two nodes of one pair, then
// one of two pairs: the devices of node 2 follow the four of the others.
TEST(Blueprint, RunsOfTwoPatternsHoldTheNodesInOrder) {
  Blueprint two_pairs;
  add_node(two_pairs, 2, 0);
  Blueprint blueprint;
  const std::uint32_t small = blueprint.add_pattern(pair_alone());
  const std::uint32_t large = blueprint.add_pattern(std::move(two_pairs).wiring());
  blueprint.stamp(small, 0);
  blueprint.stamp(small, 1);
  blueprint.stamp(large, 2);
  const Wiring wiring = std::move(blueprint).wiring();
  EXPECT_TRUE(wiring.runs().are_nodes(3));
  EXPECT_FALSE(wiring.runs().are_nodes(2));
  EXPECT_FALSE(wiring.runs().are_nodes(4));
  EXPECT_EQ(wiring.runs().first_device_of(2), 4U);
  EXPECT_EQ(wiring.runs().devices_of(2), 4U);
}

// Nodes of two kinds in random order, with occasional switches between them, and random links:
// every node may differ from the previous one.
Wiring random_wiring(std::uint64_t seed, bool stamped) {
  Random random(seed);
  const auto draw = [&](std::uint32_t below) {
    return static_cast<std::uint32_t>(random.word() % below);
  };
  Blueprint blueprint;
  std::vector<std::uint32_t> patterns;
  for (const std::uint32_t pairs : {1U, 2U}) {
    Blueprint alone;
    add_node(alone, pairs, 0);
    patterns.push_back(blueprint.add_pattern(std::move(alone).wiring()));
  }
  const std::uint32_t nodes = 1 + draw(9);
  const std::uint32_t first_switch = draw(12);
  for (std::uint32_t node = 0; node < nodes; ++node) {
    if (node >= first_switch && draw(3) == 0) blueprint.add({.kind = DeviceKind::LeafSwitch});
    const std::uint32_t pairs = draw(4) == 0 ? 2 : 1;
    if (stamped) {
      blueprint.stamp(patterns[pairs - 1], node);
    } else {
      add_node(blueprint, pairs, static_cast<std::int32_t>(node));
    }
  }
  const DeviceId leaf = blueprint.add({.kind = DeviceKind::LeafSwitch});
  for (DeviceId device = 1; device < leaf; ++device)
    if (draw(8) > 0) blueprint.cable(device, leaf, kPort);
  for (std::uint32_t more = draw(6); more > 0; --more)
    blueprint.link(DeviceId{draw(leaf)}, DeviceId{draw(leaf)}, kPort);
  return std::move(blueprint).wiring();
}

// Are stamped nodes in any order and cabling numbered like drawn ones?
TEST(Blueprint, NumbersStampedNodesOfAnyOrderAndCablingAsDrawnOnes) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Wiring drawn = random_wiring(seed, false);
    Wiring stamped = random_wiring(seed, true);
    ASSERT_EQ(all_links(stamped), all_links(drawn)) << seed;
    ASSERT_EQ(stamped.device_count(), drawn.device_count()) << seed;
    for (DeviceId id = 0; id <= drawn.device_count(); ++id)
      ASSERT_EQ(stamped.first_link_from(id), drawn.first_link_from(id)) << seed;
    for (DeviceId id = 0; id < drawn.device_count(); ++id)
      ASSERT_EQ(stamped.device(id), drawn.device(id)) << seed;
    stamped.rewire([](const Link& link) {
      Wire wire = wire_of(link);
      if (link.id % 2 == 0) wire.latency = Seconds{1.0};
      return wire;
    });
    for (const Link& link : stamped.links()) {
      ASSERT_EQ(link.from, drawn.from(link.id)) << seed;
      ASSERT_EQ(link.to, drawn.to(link.id)) << seed;
      ASSERT_EQ(link.latency.value() == 1.0, link.id % 2 == 0) << seed;
    }
  }
}

// Are the links outside patterns visited in order?
TEST(Wiring, VisitsLinksOutsidePatternsInOrder) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Wiring wiring = random_wiring(seed, true);
    std::vector<LinkId> told;
    wiring.for_each_outside_patterns([&](LinkId id, const LinkEnds& strand) {
      const Link link = wiring.link(id);
      ASSERT_EQ(std::pair(strand.from, strand.to), std::pair(link.from, link.to));
      told.push_back(id);
    });
    ASSERT_TRUE(std::ranges::is_sorted(told));
    for (const Link& link : wiring.links())
      ASSERT_TRUE(link.kind == LinkKind::Pcie || std::ranges::binary_search(told, link.id)) << seed;
    std::vector<LinkId> in_series;
    wiring.for_each_range([&](const StridedLinks& range) {
      for (std::uint32_t i = 0; i < range.links.count; ++i) {
        const Link link = wiring.link(LinkId{range.links[i]});
        ASSERT_EQ(link.from, range.from[i]);
        ASSERT_EQ(link.to, range.to[i]);
        ASSERT_EQ(wiring.wires()[range.wire], wire_of(link));
        ASSERT_EQ(wiring.device(link.from).kind, range.from_kind);
        ASSERT_EQ(wiring.device(link.to).kind, range.to_kind);
        in_series.push_back(link.id);
      }
    });
    std::ranges::sort(in_series);
    ASSERT_EQ(in_series, told) << seed;
  }
}

// Two lists of devices, one of them not consecutive. Each device of the first is joined to each of
// the second.
Wiring two_tiers(bool at_once) {
  Blueprint blueprint;
  std::vector<DeviceId> lower;
  std::vector<DeviceId> upper;
  for (std::int32_t i = 0; i < 12; ++i) {
    const bool leaf = i % 3 > 0;
    (leaf ? lower : upper)
        .push_back(blueprint.add(
            {.kind = leaf ? DeviceKind::LeafSwitch : DeviceKind::SpineSwitch, .index = i}));
  }
  if (at_once) {
    blueprint.join(lower, upper, kPort);
  } else {
    for (const DeviceId below : lower)
      for (const DeviceId above : upper) blueprint.cable(below, above, kPort);
  }
  return std::move(blueprint).wiring();
}

// Does joining two tiers equal cabling them one by one?
TEST(Blueprint, JoiningTwoTiersEqualsCablingThem) {
  const Wiring at_once = two_tiers(true);
  EXPECT_EQ(at_once.link_count(), 64U);
  EXPECT_EQ(all_links(at_once), all_links(two_tiers(false)));
}

// Is a link from a device to itself numbered in order? Other devices are cabled to it as well.
TEST(Blueprint, NumbersLinksToTheSameDeviceInOrder) {
  Blueprint blueprint;
  for (std::int32_t i = 0; i < 3; ++i) blueprint.add({.kind = DeviceKind::LeafSwitch, .index = i});
  for (const DeviceId other : std::vector<DeviceId>{0, 1, 2}) blueprint.cable(1, other, kPort);
  const Wiring wiring = std::move(blueprint).wiring();
  std::vector<DeviceId> ends;
  for (const Link link : wiring.links_from(1)) ends.push_back(link.to);
  EXPECT_EQ(ends, (std::vector<DeviceId>{0, 1, 1, 2}));
}

// Does an unnamed device get its default name?
TEST(Blueprint, NamesUnnamedDevices) {
  const Wiring wiring = pairs(true);
  EXPECT_EQ(wiring.name(4), "node 2 gpu 0");
  EXPECT_EQ(wiring.name(6), "the leaf");
  EXPECT_EQ(usual_name({.kind = DeviceKind::PcieSwitch, .node = 1, .index = 3}),
            "node 1 pcie switch 3");
  EXPECT_EQ(usual_name({.kind = DeviceKind::CoreSwitch, .index = 12}), "core 12");
}

// Does a change of a wire change all its links?
TEST(Wiring, ChangesAllLinksOfAWireAtOnce) {
  Wiring wiring = pairs(true);
  EXPECT_EQ(wiring.wires().size(), 2U);
  wiring.change_wires([](Wire& wire) {
    if (wire.kind == LinkKind::NicPort) wire.capacity *= 2.0;
  });
  for (const Link& link : wiring.links())
    EXPECT_EQ(link.capacity.value(), link.kind == LinkKind::Pcie ? 48e9 : 50e9);
}

// Are more devices or links refused than a number can represent? Many nodes of 65 536 GPUs are
// stamped; the numbers of devices and links once wrapped around.
TEST(Blueprint, RefusesMoreDevicesAndLinksThanItCanNumber) {
  constexpr std::uint32_t kGpus = 65536;
  Blueprint node;
  for (std::uint32_t i = 0; i < kGpus; ++i) {
    node.add({.kind = DeviceKind::Gpu, .node = 0, .index = static_cast<std::int32_t>(i)});
    if (i > 0) node.cable(DeviceId{i - 1}, DeviceId{i}, kBus);
  }
  Blueprint blueprint;
  const std::uint32_t pattern = blueprint.add_pattern(std::move(node).wiring());
  const auto refuses = [](const auto& act, const std::string& problem) {
    try {
      act();
      ADD_FAILURE() << problem;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(problem));
    }
  };
  for (std::uint32_t i = 0; i + 1 < kGpus; ++i) blueprint.stamp(pattern, i);
  refuses([&] { blueprint.stamp(pattern, kGpus - 1); }, "more than 2^32 devices");
  EXPECT_EQ(blueprint.add({.kind = DeviceKind::LeafSwitch}), kGpus * (kGpus - 1));
  refuses([&] { (void)std::move(blueprint).wiring(); }, "more than 2^32 links");
}

// Do nodes keep their pattern if their inside does not change? A fault changes the internal link of
// the second pair and the port of the third; the inside of the third is unchanged.
TEST(Redrawn, KeepsThePatternOfNodesWithUnchangedInnerLinks) {
  const Wiring wiring =
      with_replaced_links(pairs(true), [](const Link& link, Blueprint& blueprint) {
        const bool broken = (link.from == 2 && link.to == 3) || (link.from == 5 && link.to == 6);
        if (!broken) blueprint.link(link.from, link.to, wire_of(link));
      });
  EXPECT_EQ(wiring.link_count(), 10U);
  EXPECT_EQ(wiring.pattern_of(1), std::nullopt);
  ASSERT_NE(wiring.pattern_of(0), std::nullopt);
  EXPECT_EQ(wiring.pattern_of(0), wiring.pattern_of(2));
  EXPECT_EQ(wiring.name(6), "the leaf");
}

// Does redrawing only the links outside nodes equal redrawing link by link? Ports are split,
// removed or kept.
TEST(RedrawnOutside, EqualsRedrawingLinkByLink) {
  const auto draw = [](const Link& link, Blueprint& blueprint) {
    const std::uint32_t times = link.kind == LinkKind::NicPort ? (link.from + link.to) % 3 : 1;
    for (std::uint32_t i = 0; i < times; ++i) blueprint.link(link.from, link.to, wire_of(link));
  };
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Wiring whole = random_wiring(seed, true);
    const Wiring wanted = with_replaced_links(whole, draw);
    const Wiring outside = with_replaced_outer_links(whole, draw);
    ASSERT_EQ(all_links(outside), all_links(wanted)) << seed;
    ASSERT_EQ(outside.device_count(), wanted.device_count()) << seed;
    for (DeviceId id = 0; id < wanted.device_count(); ++id)
      ASSERT_EQ(outside.device(id), wanted.device(id)) << seed;
    for (std::uint32_t node = 0; node < 10; ++node)
      ASSERT_EQ(outside.pattern_of(node), wanted.pattern_of(node)) << seed;
  }
}

}  // namespace
}  // namespace trainyard
