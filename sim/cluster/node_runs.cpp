#include "sim/cluster/node_runs.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace trainyard {

void NodeRuns::add(const Node& node, std::uint32_t count) {
  Run run{.first_device = devices_,
          .first_link = links_,
          .first_outlet = static_cast<std::uint32_t>(outlets_.size()),
          .count = count,
          .devices = static_cast<std::uint32_t>(node.outlets.size())};
  std::size_t next = 0;
  for (std::uint32_t device = 0; device < run.devices; ++device) {
    run.first_link_of.push_back(static_cast<std::uint32_t>(run.entries.size()));
    for (; next < node.inner.size() && node.inner[next].from == device; ++next)
      run.entries.push_back({device, node.inner[next].to, node.inner[next].wire});
    for (std::uint32_t i = 0; i < node.outlets[device]; ++i) {
      const auto number = static_cast<std::uint32_t>(run.outlet_links.size());
      run.outlet_links.push_back(static_cast<std::uint32_t>(run.entries.size()));
      run.entries.push_back({.from = device, .to = number, .leaves = true});
    }
  }
  run.links = static_cast<std::uint32_t>(run.entries.size());
  devices_ += count * run.devices;
  links_ += count * run.links;
  outlets_.resize(outlets_.size() + count * run.outlet_links.size());
  runs_.push_back(std::move(run));
}

// Those that hold no links begin where the next one does and are passed over.
const NodeRuns::Run& NodeRuns::last_from(std::uint32_t id, std::uint32_t Run::*first) const {
  return *std::prev(std::ranges::upper_bound(runs_, id, {}, first));
}

}  // namespace trainyard
