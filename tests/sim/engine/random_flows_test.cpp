// Random transfers against independent progressive filling (oracles 23, 24, 27, 29, 78,
// 79, 84).
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "tests/sim/engine/filling.hpp"

namespace trainyard::test {
namespace {

constexpr std::uint32_t kInstances = 150;

struct RandomFlows {
  std::vector<double> capacities;
  std::vector<Transfer> transfers;
};

double between(std::mt19937& random, double least, double most) {
  return least +
         (most - least) * static_cast<double>(random()) / static_cast<double>(std::mt19937::max());
}

// Loads are quarters of the payload, so weights are whole numbers of quarters and nothing is
// rounded.
RandomFlows random_flows(std::uint32_t seed, double scale = 1.0, double rate_scale = 1.0) {
  std::mt19937 random(seed);
  RandomFlows result;
  const std::size_t links = 2 * (1 + random() % 4);
  for (std::size_t link = 0; link < links; ++link) {
    result.capacities.push_back(between(random, 1e9, 40e9) * rate_scale);
  }
  const std::size_t flows = 1 + random() % 12;
  for (std::size_t flow = 0; flow < flows; ++flow) {
    Transfer transfer;
    const double bytes = std::floor(between(random, 1e6, 1e9)) * 4.0 * scale;
    for (LinkId link = 0; link < links; ++link) {
      if (random() % 2 == 0)
        transfer.link_flow.loads.push_back(
            {link, bytes * std::floor(between(random, 1.0, 4.9)) / 4.0});
    }
    if (transfer.link_flow.loads.empty()) transfer.link_flow.loads.push_back({0, bytes});
    transfer.start_s = random() % 3 == 0 ? 0.0 : between(random, 0.0, 0.3) * scale / rate_scale;
    if (random() % 3 == 0)
      transfer.link_flow.rate_cap_bytes_per_s = between(random, 1e9, 10e9) * rate_scale;
    result.transfers.push_back(std::move(transfer));
  }
  return result;
}

std::vector<FillingFlow> filling_flows(const RandomFlows& instance) {
  std::vector<FillingFlow> flows;
  for (const Transfer& transfer : instance.transfers) {
    flows.push_back(filling_flow(transfer, instance.capacities.size()));
  }
  return flows;
}

// Do random flows end at the times of progressive filling?
TEST(RandomFlows, EndWhenProgressiveFillingSays) {  // oracle 24, through its consequence
  for (std::uint32_t seed = 0; seed < kInstances; ++seed) {
    const RandomFlows instance = random_flows(seed);
    const std::vector<double> expected = filled_ends(instance.capacities, filling_flows(instance));
    for (const auto& engine : {make_engine("simgrid"), simgrid_without_components()}) {
      const std::vector<double> ends = ends_of(*engine, instance.capacities, instance.transfers);
      ASSERT_EQ(ends.size(), expected.size());
      for (std::size_t flow = 0; flow < ends.size(); ++flow) {
        ASSERT_NEAR(ends[flow], expected[flow], kAgreement * expected[flow]) << "seed " << seed;
      }
    }
  }
}

// Do the rates satisfy the max-min condition? Between two events rates are constant: the bytes of
// the interval over its length. Every flow must be at its cap or cross a full link on which no flow
// is faster.
TEST(RandomFlows, RatesCarryTheMaxMinCertificate) {  // oracle 24
  for (std::uint32_t seed = 0; seed < kInstances; ++seed) {
    const RandomFlows instance = random_flows(seed);
    const std::vector<FillingFlow> flows = filling_flows(instance);
    const std::vector<double> rates =
        filled_rates(instance.capacities, flows, std::vector<bool>(flows.size(), true));
    // The same flows, all from time 0 and with equal duration: sizes in the ratio of the rates.
    RandomFlows together = instance;
    for (std::size_t flow = 0; flow < flows.size(); ++flow) {
      together.transfers[flow].start_s = 0.0;
      for (LinkLoad& load : together.transfers[flow].link_flow.loads) {
        load.bytes = flows[flow].weight[load.link] * rates[flow];
      }
    }
    const std::vector<double> ends =
        ends_of(*make_engine("simgrid"), together.capacities, together.transfers);
    std::vector<double> used(instance.capacities.size(), 0.0);
    for (std::size_t flow = 0; flow < flows.size(); ++flow) {
      for (std::size_t link = 0; link < used.size(); ++link) {
        used[link] += flows[flow].weight[link] * rates[flow] / ends[flow];
      }
    }
    for (std::size_t flow = 0; flow < flows.size(); ++flow) {
      const double rate = rates[flow] / ends[flow];
      bool held = rate >= flows[flow].cap * (1.0 - kAgreement);
      for (std::size_t link = 0; link < used.size() && !held; ++link) {
        if (flows[flow].weight[link] == 0.0) continue;
        bool fastest = used[link] >= instance.capacities[link] * (1.0 - kAgreement);
        for (std::size_t other = 0; other < flows.size() && fastest; ++other) {
          fastest = flows[other].weight[link] == 0.0 ||
                    rates[other] / ends[other] <= rate * (1.0 + kAgreement);
        }
        held = fastest;
      }
      ASSERT_TRUE(held) << "seed " << seed << " flow " << flow;
    }
  }
}

// Are the bytes on links those of the flows?
TEST(RandomFlows, BytesOnLinksAreThoseOfTheFlows) {  // oracles 23 and 78
  std::size_t contended = 0;
  for (std::uint32_t seed = 0; seed < kInstances; ++seed) {
    const RandomFlows instance = random_flows(seed);
    std::vector<double> expected(instance.capacities.size(), 0.0);
    for (const Transfer& transfer : instance.transfers) {
      for (const LinkLoad& load : transfer.link_flow.loads) expected[load.link] += load.bytes;
    }
    Script script = transfers_script(instance.capacities, instance.transfers);
    const Partition partition = script.fold_it(false);
    for (const EngineEntry& entry : engines()) {
      const Timeline timeline = script.run(*entry.make(), partition);
      for (std::size_t link_class = 0; link_class < partition.links.size(); ++link_class) {
        const LinkId link = partition.links[link_class].representative;
        const LinkUse& use = timeline.links[link_class];
        ASSERT_NEAR(use.bytes, expected[link], kAgreement * expected[link]) << "seed " << seed;
        ASSERT_GE(use.peak_utilisation, 0.0);
        ASSERT_LE(use.peak_utilisation, 1.0 + kAgreement);
        ASSERT_LE(use.busy_s, timeline.makespan_s * (1.0 + kAgreement));
        if (entry.name == "ideal") continue;
        ASSERT_GE(use.busy_s * (1.0 + kAgreement), expected[link] / instance.capacities[link]);
        ASSERT_GE(use.peak_utilisation * (1.0 + kAgreement) * use.busy_s,
                  expected[link] / instance.capacities[link]);
        ++contended;
      }
    }
  }
  EXPECT_GE(contended, kInstances) << "every instance uses a link";
}

// Is a flow never faster than alone?
TEST(RandomFlows, NeverFasterThanAlone) {
  for (std::uint32_t seed = 0; seed < kInstances; ++seed) {
    const RandomFlows instance = random_flows(seed);
    const auto alone = ends_of(*make_engine("ideal"), instance.capacities, instance.transfers);
    const auto together = ends_of(*make_engine("simgrid"), instance.capacities, instance.transfers);
    for (std::size_t flow = 0; flow < alone.size(); ++flow) {
      ASSERT_GE(together[flow] * (1.0 + kAgreement), alone[flow]) << "seed " << seed;
    }
  }
}

// Do times scale with sizes and capacities?
TEST(RandomFlows, ScaleWithSizesAndCapacities) {  // oracles 27 and 84
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const RandomFlows plain = random_flows(seed);
    const RandomFlows larger = random_flows(seed, 4.0);
    const RandomFlows faster = random_flows(seed, 1.0, 8.0);
    const auto ends = ends_of(*make_engine("simgrid"), plain.capacities, plain.transfers);
    const auto larger_ends = ends_of(*make_engine("simgrid"), larger.capacities, larger.transfers);
    const auto faster_ends = ends_of(*make_engine("simgrid"), faster.capacities, faster.transfers);
    for (std::size_t flow = 0; flow < ends.size(); ++flow) {
      ASSERT_NEAR(larger_ends[flow], 4.0 * ends[flow], kAgreement * larger_ends[flow])
          << "seed " << seed;
      ASSERT_NEAR(faster_ends[flow], ends[flow] / 8.0, kAgreement * faster_ends[flow])
          << "seed " << seed;
    }
  }
}

// Does the number of active flows integrate to their durations?
TEST(RandomFlows, FlowsInFlightIntegrateToTheirDurations) {  // oracle 29, Little's law
  for (std::uint32_t seed = 0; seed < kInstances; ++seed) {
    const RandomFlows instance = random_flows(seed);
    const Timeline timeline =
        transfers_script(instance.capacities, instance.transfers).run(*make_engine("simgrid"));
    ASSERT_EQ(timeline.flows.size(), instance.transfers.size());
    std::vector<double> dates;
    double durations = 0.0;
    for (const FlowSpan& flow : timeline.flows) {
      durations += flow.end_s - flow.start_s;
      dates.insert(dates.end(), {flow.start_s, flow.end_s});
    }
    std::sort(dates.begin(), dates.end());
    double integral = 0.0;
    for (std::size_t date = 0; date + 1 < dates.size(); ++date) {
      const double middle = 0.5 * (dates[date] + dates[date + 1]);
      const auto in_flight = std::count_if(
          timeline.flows.begin(), timeline.flows.end(),
          [&](const FlowSpan& flow) { return flow.start_s < middle && middle < flow.end_s; });
      integral += static_cast<double>(in_flight) * (dates[date + 1] - dates[date]);
    }
    ASSERT_NEAR(integral, durations, kAgreement * durations) << "seed " << seed;
    ASSERT_TRUE(
        std::is_sorted(timeline.flows.begin(), timeline.flows.end(),
                       [](const FlowSpan& a, const FlowSpan& b) { return a.start_s < b.start_s; }));
  }
}

// Does renumbering change nothing (oracle 79)? The time of sharing must not depend on the order of
// flows and links.
TEST(RandomFlows, RenumberingChangesNothing) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const RandomFlows instance = random_flows(seed);
    RandomFlows renumbered = instance;
    std::reverse(renumbered.transfers.begin(), renumbered.transfers.end());
    std::reverse(renumbered.capacities.begin(), renumbered.capacities.end());
    const auto last_link = static_cast<std::uint32_t>(instance.capacities.size() - 1);
    for (Transfer& transfer : renumbered.transfers) {
      for (LinkLoad& load : transfer.link_flow.loads) load.link = LinkId{last_link - load.link};
      std::reverse(transfer.link_flow.loads.begin(), transfer.link_flow.loads.end());
    }
    const auto ends = ends_of(*make_engine("simgrid"), instance.capacities, instance.transfers);
    auto other = ends_of(*make_engine("simgrid"), renumbered.capacities, renumbered.transfers);
    std::reverse(other.begin(), other.end());
    for (std::size_t flow = 0; flow < ends.size(); ++flow) {
      ASSERT_NEAR(ends[flow], other[flow], kAgreement * ends[flow]) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace trainyard::test
