// Laws for every algorithm of the registry, on groups of many sizes and placements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <set>
#include <tuple>

#include "sim/collectives/switches.hpp"
#include "sim/collectives/symbolic_check.hpp"
#include "test_clusters.hpp"

namespace trainyard {
namespace {

using namespace testing;

struct Case {
  std::string name;
  Shape shape;
  std::vector<std::uint32_t> gpus;
};

std::vector<Case> cases() {
  std::vector<Case> cases;
  std::vector<std::uint32_t> ranks_of_cases{2, 3, 4, 6, 8, 13};
  if (std::getenv("TRAINYARD_FULL") != nullptr)
    ranks_of_cases = {2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16};
  for (const std::uint32_t n : ranks_of_cases) {
    const std::string ranks = std::to_string(n) + " ranks, ";
    cases.push_back({ranks + "one node", {.nodes = 1, .gpus = n}, gpus_of(n)});
    cases.push_back({ranks + "full mesh", {.nodes = 1, .gpus = n, .mesh = true}, gpus_of(n)});
    cases.push_back({ranks + "a rail", {.nodes = n, .gpus = 2}, gpus_of(n, 2)});
    if (n % 2 == 0) {
      cases.push_back({ranks + "two nodes", {.nodes = 2, .gpus = n / 2}, gpus_of(n)});
      cases.push_back(
          {ranks + "two meshes", {.nodes = 2, .gpus = n / 2, .mesh = true}, gpus_of(n)});
    }
    if (n % 4 == 0) {
      const Shape leaves{.nodes = n / 2, .gpus = 2, .nodes_per_leaf = n / 4};
      cases.push_back({ranks + "two leaves", leaves, gpus_of(n)});
    }
    if (n % 3 == 0) {
      cases.push_back({ranks + "nodes of 3", {.nodes = n / 3, .gpus = 3}, gpus_of(n)});
    }
    if (n > 2) {
      cases.push_back({ranks + "uneven", {.nodes = 2, .gpus = n - 1}, gpus_of(n)});
    }
    std::vector<std::uint32_t> backwards = gpus_of(n);
    std::reverse(backwards.begin(), backwards.end());
    cases.push_back({ranks + "backwards", {.nodes = 4, .gpus = (n + 3) / 4}, backwards});
  }
  return cases;
}

// The number of registered algorithms that refuse no group of these sizes: rings, doubling, trees,
// chains, PAT and direct exchanges. Seven of them are all_reduces.
constexpr std::size_t kNeverRefuse = 19;

// Calls check(algorithm, placed) for every algorithm that accepts the group of every case.
template <class Check>
void for_every_algorithm_and_place(Check check) {
  std::size_t checked = 0;
  for (const Case& a_case : cases()) {
    Shape shape = a_case.shape;
    shape.reduces = true;
    const Cluster cluster = make_cluster(shape);
    const PlacedGroup placed{.cluster = cluster, .gpus = a_case.gpus};
    for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
      if (algorithm->refusal(placed)) {
        continue;
      }
      SCOPED_TRACE(std::string(to_string(algorithm->op())) + " " + std::string(algorithm->name()) +
                   ", " + a_case.name);
      check(*algorithm, placed);
      ++checked;
    }
  }
  EXPECT_GE(checked, kNeverRefuse * cases().size());
}

constexpr double kFewBytes = 1e5;  // a few chunks of every pipeline

// Does every rank end with exactly the result of the operation?
TEST(Law, EveryRankEndsWithTheResultOfTheOperation) {
  std::set<const CollectiveAlgorithm*> seen;
  for_every_algorithm_and_place(
      [&](const CollectiveAlgorithm& algorithm, const PlacedGroup& placed) {
        EXPECT_EQ(symbolic_fault(algorithm, placed, Bytes{kFewBytes}).value_or(""), "");
        seen.insert(&algorithm);
      });
  EXPECT_EQ(seen.size(), collective_algorithms().size());
}

// Do phases and messages put the same bytes on every link?
TEST(Law, PhasesAndMessagesPutTheSameBytesOnEveryLink) {
  for_every_algorithm_and_place(
      [](const CollectiveAlgorithm& algorithm, const PlacedGroup& placed) {
        const std::vector<double> fluid =
            bytes_on_links(placed.cluster, algorithm.phases(placed, Bytes{1e6}));
        std::vector<double> stepwise(placed.cluster.links().size(), 0.0);
        const std::vector<DeviceId> switches = algorithm.switches(placed);
        for (const Message& message : algorithm.messages(placed, Bytes{1e6})) {
          for (const RouteHop& hop : hop_between(placed, switches, message.from, message.to)) {
            const LinkLoad load{hop.link, hop.fraction * message.bytes, hop.parallel_count};
            for (const LinkLoad& each : every_link(placed.cluster, std::span(&load, 1)))
              stepwise[each.link] += each.bytes;
          }
        }
        for (std::size_t link = 0; link < fluid.size(); ++link) {
          EXPECT_NEAR(fluid[link], stepwise[link], 1e-9 * 1e6) << "link " << link;
        }
      });
}

// A message as its sender and receiver see it; `after` by the received messages.
using Known = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, bool, double,
                         std::uint32_t, std::uint32_t, std::vector<std::array<std::uint32_t, 3>>>;

// The messages of `self` among `messages`, with all group ranks and pieces rotated.
std::set<Known> known_to(std::span<const Message> messages, std::uint32_t self,
                         std::uint32_t moved_by, std::uint32_t n, std::uint32_t pieces) {
  const auto group_rank = [&](std::uint32_t of) { return (of + moved_by) % n; };
  std::set<Known> known;
  for (const Message& message : messages) {
    if (message.from != self && message.to != self) continue;
    std::vector<std::array<std::uint32_t, 3>> after;
    for (const std::uint32_t before : message.after) {
      if (message.from != self) break;
      const Message& came = messages[before];
      after.push_back({group_rank(came.from), group_rank(came.to), came.step});
    }
    const std::uint32_t piece = (message.piece_begin + moved_by * (pieces / n)) % pieces;
    known.emplace(group_rank(message.from), group_rank(message.to), message.step, message.channel,
                  message.reduce, message.bytes, piece, message.piece_count(), std::move(after));
  }
  return known;
}

// Do rotated members do the same as the first ones?
TEST(Law, RotatedMembersSendWhatTheFirstOnesSend) {
  std::set<std::uint32_t> turns;
  for_every_algorithm_and_place(
      [&](const CollectiveAlgorithm& algorithm, const PlacedGroup& placed) {
        const RotatedMessages turned = algorithm.rotated_messages(placed, Bytes{1e6});
        if (turned.turn() == 0) return;
        turns.insert(turned.turn());
        const std::vector<Message> all = algorithm.messages(placed, Bytes{1e6});
        const auto n = static_cast<std::uint32_t>(placed.gpus.size());
        const std::uint32_t pieces = algorithm.pieces(placed);
        for (std::uint32_t group_rank = 0; group_rank < n; ++group_rank) {
          const std::uint32_t like = group_rank % turned.turn();
          EXPECT_EQ(known_to(turned.of_group_rank[like], like, group_rank - like, n, pieces),
                    known_to(all, group_rank, 0, n, pieces))
              << group_rank;
        }
      });
  EXPECT_TRUE(turns.contains(1));
  EXPECT_GE(turns.size(), 2U) << "nodes of several members, too";
}

// Are flows sorted, and is every load positive?
TEST(Law, FlowsAreSortedAndEveryLoadCounts) {
  std::size_t neighbours = 0;
  for_every_algorithm_and_place(
      [&](const CollectiveAlgorithm& algorithm, const PlacedGroup& placed) {
        for (const Phase& phase : algorithm.phases(placed, Bytes{1e6})) {
          for (const MultiLinkFlow& link_flow : phase.flows) {
            EXPECT_FALSE(link_flow.loads.empty());
            for (std::size_t i = 0; i < link_flow.loads.size(); ++i) {
              EXPECT_GT(link_flow.loads[i].bytes, 0.0);
              if (i > 0) {
                const auto holder_of = [](const LinkLoad& load) {
                  return std::pair(load.link, load.parallel_count);
                };
                EXPECT_LT(holder_of(link_flow.loads[i - 1]), holder_of(link_flow.loads[i]));
                ++neighbours;
              }
            }
          }
        }
      });
  EXPECT_GE(neighbours, cases().size()) << "a route has two links, except in a mesh";
}

double sent_by_busiest(const std::vector<Message>& messages, std::size_t ranks) {
  std::vector<double> sent(ranks, 0.0);
  for (const Message& message : messages) {
    sent[message.from] += message.bytes;
  }
  return *std::max_element(sent.begin(), sent.end());
}

double latency_of(const std::vector<Phase>& phases) {
  double latency = 0.0;
  for (const Phase& phase : phases) {
    latency += phase.latency.value();
  }
  return latency;
}

// Does no all_reduce beat its bounds (oracle 14)? With one peer per rank and step, no all_reduce
// takes fewer than ceil(log2 n) steps; direct ones take one.
TEST(Law, NoAllReduceBeatsItsBounds) {
  std::size_t all_reduces = 0;
  for_every_algorithm_and_place([&](const CollectiveAlgorithm& algorithm,
                                    const PlacedGroup& placed) {
    const bool by_ranks_alone = algorithm.switches(placed).empty();
    if (algorithm.op() != CollectiveOp::AllReduce || !by_ranks_alone) {
      return;
    }
    const auto n = static_cast<double>(placed.gpus.size());
    const double most = sent_by_busiest(algorithm.messages(placed, Bytes{1e6}), placed.gpus.size());
    EXPECT_GE(most, 2.0 * (n - 1.0) / n * 1e6 * (1.0 - 1e-9));
    const bool direct = algorithm.name() == "one_shot" || algorithm.name() == "two_shot" ||
                        algorithm.name() == "parameter_server";
    const double steps = direct ? 1.0 : std::ceil(std::log2(n));
    EXPECT_GE(latency_of(algorithm.phases(placed, Bytes{1e6})), steps * 5e-6 * (1.0 - 1e-9));
    ++all_reduces;
  });
  EXPECT_GE(all_reduces, 7U * cases().size());
}

// Do loads scale with the bytes? With sub-rings, cycles and chunks of one size, twice the bytes put
// twice the load on every link.
TEST(Law, LoadsScaleWithTheBytes) {
  for_every_algorithm_and_place(
      [](const CollectiveAlgorithm& algorithm, const PlacedGroup& placed) {
        const auto once = bytes_on_links(placed.cluster, algorithm.phases(placed, Bytes{1e6}));
        const auto twice = bytes_on_links(placed.cluster, algorithm.phases(placed, Bytes{2e6}));
        for (std::size_t link = 0; link < once.size(); ++link) {
          EXPECT_NEAR(twice[link], 2.0 * once[link], 1e-3);
        }
      });
}

// Does a call without bytes take only its latency? It still has its steps; a pipeline has more of
// them for more bytes.
TEST(Law, NoBytesMeansLatencyOnly) {
  std::size_t of_equal_steps = 0;
  for_every_algorithm_and_place(
      [&](const CollectiveAlgorithm& algorithm, const PlacedGroup& placed) {
        const std::vector<Phase> none = algorithm.phases(placed, Bytes{0.0});
        const std::vector<Phase> some = algorithm.phases(placed, Bytes{1e6});
        if (none.size() == some.size()) {
          EXPECT_DOUBLE_EQ(latency_of(none), latency_of(some));
          ++of_equal_steps;
        }
        EXPECT_GT(latency_of(none), 0.0);
        EXPECT_LE(latency_of(none), latency_of(some) * (1.0 + 1e-12));
        for (const Phase& phase : none) {
          EXPECT_TRUE(phase.flows.empty());
        }
      });
  EXPECT_GE(of_equal_steps, cases().size()) << "a ring has the same steps for any size";
}

// Are the names of algorithms unique?
TEST(Law, NamesAreUnique) {
  EXPECT_GE(collective_algorithms().size(), 38U);
  std::set<std::pair<CollectiveOp, std::string_view>> names;
  for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
    EXPECT_TRUE(names.emplace(algorithm->op(), algorithm->name()).second) << algorithm->name();
    EXPECT_EQ(find_algorithm(algorithm->op(), algorithm->name()), algorithm);
    EXPECT_FALSE(algorithm->summary().empty());
  }
}

}  // namespace
}  // namespace trainyard
