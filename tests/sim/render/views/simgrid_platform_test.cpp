// Does SimGrid read our platform files, and does a message take as long there as here?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <simgrid/s4u.hpp>

#include "sim/base/files.hpp"
#include "sim/base/processes.hpp"
#include "sim/render/views/views.hpp"
#include "tests/topologies/clusters.hpp"

namespace trainyard {
namespace {

namespace s4u = simgrid::s4u;

struct Message {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t bytes = 0;
};

// Seconds until all messages, sent at once, have arrived, on the platform file. It runs in a
// separate process, because SimGrid exists once per process.
double seconds_on(const std::string& xml, const Cluster& cluster,
                  const std::vector<Message>& messages) {
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / "trainyard_platform.xml";
  write_file(file, xml);
  const auto work = [&](std::size_t) {
    std::vector<std::string> words{"test", "--cfg=network/model:CM02", "--cfg=network/TCP-gamma:0",
                                   "--cfg=network/crosstraffic:0", "--log=root.thres:error"};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    auto count = static_cast<int>(arguments.size());
    s4u::Engine engine(&count, arguments.data());
    engine.load_platform(file.string());
    std::vector<s4u::CommPtr> sent;
    const auto host = [&](std::uint32_t gpu) {
      return engine.host_by_name(cluster.name(cluster.gpus()[gpu]));
    };
    for (const Message& one : messages) {
      sent.push_back(s4u::Comm::sendto_init(host(one.from), host(one.to)));
      sent.back()->set_payload_size(one.bytes)->start();
    }
    engine.run();
    return std::to_string(s4u::Engine::get_clock() * 1e9) + " " +
           std::to_string(engine.get_host_count());
  };
  std::string text;
  run_in_processes(1, {.work = work, .done = [&](std::size_t, const Answer& answer) {
                         EXPECT_EQ(answer.kind, Answer::Kind::Fine) << answer.text;
                         text = answer.text;
                       }});
  EXPECT_THAT(text, testing::EndsWith(" " + std::to_string(cluster.gpus().size())));
  return text.empty() ? 0.0 : std::stod(text) * 1e-9;
}

// Does a message take the time of its slowest link and the latency of all its links?
TEST(SimgridPlatform, AMessageTakesItsSlowestLinkAndTheLatencyOfAll) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 2));
  const std::string xml = to_simgrid_xml(cluster, FlopsPerSecond{312e12});
  constexpr std::uint64_t kBytes = 1'000'000'000;
  for (const std::uint32_t to : {1U, cluster.facts().gpus_per_node}) {
    double slowest = 1e18;
    double latency = 0.0;
    for (const RouteHop& hop : cluster.router().route(0, to)) {
      slowest = std::min(slowest, cluster.link(hop.link).capacity.value() / hop.fraction);
      if (hop.fraction == 1.0) latency += cluster.link(hop.link).latency.value();
    }
    const double expected = static_cast<double>(kBytes) / slowest;
    const double seconds = seconds_on(xml, cluster, {{0, to, kBytes}});
    EXPECT_NEAR(seconds, expected + latency, 1e-3 * expected);
    EXPECT_GE(seconds, expected);
  }
}

// Do messages share links as they do here? Two messages leave node 0 by the NICs of different GPUs,
// and two by the same NIC.
TEST(SimgridPlatform, SimGridSharesItsLinksAsTheEngineDoes) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 2));
  const std::string xml = to_simgrid_xml(cluster, FlopsPerSecond{312e12});
  const std::uint32_t node = cluster.facts().gpus_per_node;
  constexpr std::uint64_t kBytes = 1'000'000'000;
  const double one = seconds_on(xml, cluster, {{0, node, kBytes}});
  const double apart = seconds_on(xml, cluster, {{0, node, kBytes}, {1, node + 1, kBytes}});
  const double together = seconds_on(xml, cluster, {{0, node, kBytes}, {0, node, kBytes}});
  EXPECT_NEAR(apart, one, 1e-3 * one);
  EXPECT_NEAR(together, 2.0 * one, 1e-3 * one);
}

// Is a cluster with too many routes refused?
TEST(SimgridPlatform, RefusesAClusterWithTooManyRoutes) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 65));
  EXPECT_THAT(complaint([&] { (void)to_simgrid_xml(cluster, FlopsPerSecond{1e12}); }),
              testing::HasSubstr("520 GPUs has 269880 routes"));
}

}  // namespace
}  // namespace trainyard
