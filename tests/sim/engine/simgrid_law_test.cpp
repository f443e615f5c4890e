// SimGrid itself, with our settings and with its own (oracle 30; silent defaults). Settings belong
// to the process, so every measurement runs in a new one: a gtest "threadsafe" death test starts
// the program anew for it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "sim/engine/simgrid/shim.hpp"

namespace trainyard {
namespace {

namespace s4u = simgrid_shim::s4u;

struct Message {
  double bytes = 0.0;
  double bandwidth = 0.0;
  double latency_s = 0.0;
};

// The arrival times of the messages. They start together on one link, each with its own latency.
std::vector<double> arrivals(bool our_settings, const std::vector<Message>& messages) {
  s4u::Engine engine("law");
  if (our_settings) simgrid_shim::configure();
  s4u::NetZone* zone = simgrid_shim::make_zone(engine, "world");
  const s4u::Link* shared =
      simgrid_shim::make_link(zone, "shared", messages.front().bandwidth, true);
  std::vector<s4u::CommPtr> comms;
  std::vector<std::pair<s4u::Host*, s4u::Host*>> ends;
  for (std::size_t index = 0; index < messages.size(); ++index) {
    const std::string name = std::to_string(index);
    s4u::Link* own = simgrid_shim::make_link(zone, "own " + name, 1e18, false);
    own->set_latency(messages[index].latency_s);
    ends.emplace_back(simgrid_shim::make_host(zone, "from " + name),
                      simgrid_shim::make_host(zone, "to " + name));
    // In both directions, so that a reverse flow (crosstraffic) would be visible.
    const std::vector<s4u::LinkInRoute> route = {s4u::LinkInRoute(own), s4u::LinkInRoute(shared)};
    simgrid_shim::make_route(zone, ends.back().first, ends.back().second, route);
    simgrid_shim::make_route(zone, ends.back().second, ends.back().first, route);
  }
  zone->seal();
  std::vector<double> result(messages.size(), 0.0);
  simgrid_shim::on_comm_completion([&](const s4u::Activity& activity) {
    *activity.get_data<double>() = s4u::Engine::get_clock();
  });
  for (std::size_t index = 0; index < messages.size(); ++index) {
    comms.push_back(s4u::Comm::sendto_init(ends[index].first, ends[index].second));
    comms.back()->set_data(&result[index]);
    comms.back()->set_payload_size(static_cast<std::uint64_t>(messages[index].bytes));
    comms.back()->start();
  }
  engine.run();
  return result;
}

// Ends the process, with 0 if the messages arrived at the expected times.
[[noreturn]] void measure(bool our_settings, const std::vector<Message>& messages,
                          const std::vector<double>& expected, double tolerance) {
  int wrong = 0;
  const std::vector<double> measured = arrivals(our_settings, messages);
  for (std::size_t index = 0; index < expected.size(); ++index) {
    if (std::abs(measured[index] / expected[index] - 1.0) <= tolerance) continue;
    std::fprintf(stderr, "message %zu: %.12g s instead of %.12g s\n", index, measured[index],
                 expected[index]);
    wrong = 1;
  }
  std::_Exit(wrong);
}

class SimgridLaw : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

// Is the time latency plus bytes over bandwidth with our settings?
TEST_F(SimgridLaw, OursIsLatencyPlusBytesOverBandwidth) {
  EXPECT_EXIT(measure(true, {{100e3, 125e3, 0.01}}, {0.81}, 1e-9), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(measure(true, {{450e6, 450e9, 1e-6}}, {1.001e-3}, 1e-9), testing::ExitedWithCode(0),
              "");
  EXPECT_EXIT(measure(true, {{450e6, 450e9, 10e-6}}, {1.010e-3}, 1e-9), testing::ExitedWithCode(0),
              "");
}

// Is SimGrid's default a TCP model, which we must not use?
TEST_F(SimgridLaw, TheDefaultIsATcpModelWeMustNotUse) {
  EXPECT_EXIT(measure(false, {{100e3, 125e3, 0.01}}, {0.996079}, 1e-6), testing::ExitedWithCode(0),
              "");
}

// Does latency on links distort the shares? Latency is not put on links that carry payload, because
// shares would follow its inverse.
TEST_F(SimgridLaw, LatencyOnLinksDistortsShares) {
  EXPECT_EXIT(measure(true, {{1e9, 1e9, 1e-6}, {1e9, 1e9, 10e-6}}, {1.1, 2.0}, 1e-3),
              testing::ExitedWithCode(0), "");
  EXPECT_EXIT(measure(true, {{1e9, 1e9, 0.0}, {1e9, 1e9, 0.0}}, {2.0, 2.0}, 1e-12),
              testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace trainyard
