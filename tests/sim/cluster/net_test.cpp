// Distances through a network, up to the largest that can be represented.
#include "sim/cluster/net.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "sim/base/error.hpp"

namespace trainyard {
namespace {

// Devices in a line.
Net link_flow(std::uint32_t devices) {
  std::vector<NetLink> links;
  for (std::uint32_t i = 0; i + 1 < devices; ++i) links.push_back({.from = i, .to = i + 1});
  return laid_out(std::vector<bool>(devices, true), links, ArcOrder::OfLinks);
}

Hops hops_from_first(const Net& net) {
  const std::vector<std::uint32_t> starts{0};
  return search(net, net.out, starts);
}

// Is the longest distance computed that fits?
TEST(Net, ComputesTheLongestDistanceThatFits) {
  const std::uint32_t longest = kUnreachable - 1;
  EXPECT_EQ(hops_from_first(link_flow(longest + 1))[longest], longest);
}

// Are longer distances refused? They were once cut to 16 bits, so distant devices seemed close or
// unreachable.
TEST(Net, RefusesLongerDistances) {
  for (const std::uint32_t devices : {65536U, 65537U, 131073U}) {
    try {
      (void)hops_from_first(link_flow(devices));
      FAIL() << devices;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("crosses more than 65534 links"));
    }
  }
}

}  // namespace
}  // namespace trainyard
