// Nodes alike that are numbered one behind the other: what a link of theirs joins, from its number.
//
// Nodes of a run have as many devices each, and each device as many links as its like in the other
// nodes, so device d of node n is first + n * devices + d, and links are numbered alike. Links
// within a node are kept once for the run. A link that leaves its node, an outlet, is kept with the
// device it leads to.
//
// Worked: 16 384 nodes of 23 devices and 66 links, 8 of which lead to switches, are 66 entries and
// 131 072 outlets of 8 bytes in place of 1 081 344 links.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "sim/cluster/wire.hpp"

namespace trainyard {

class NodeRuns {
 public:
  struct Outlet {
    DeviceId to = 0;
    std::uint32_t wire = 0;
  };

  // What one node of a run looks like, its devices numbered from 0.
  struct Node {
    std::vector<Strand> inner;           // ascending by the device they start at
    std::vector<std::uint32_t> outlets;  // by device, how many; they come behind its inner links
  };

  // Adds a run of so many nodes behind those there are. REQUIRES: node.outlets has an entry for
  // each device.
  void add(const Node& node, std::uint32_t count);
  // Of all runs, in the order of their links; whoever adds runs says where they lead.
  [[nodiscard]] std::span<Outlet> outlets() { return outlets_; }

  [[nodiscard]] std::uint32_t device_count() const { return devices_; }
  [[nodiscard]] std::uint32_t link_count() const { return links_; }
  // What use(from, to, wire) makes of the link. REQUIRES: id < link_count().
  template <class Use>
  std::invoke_result_t<Use, DeviceId, DeviceId, std::uint32_t> read(LinkId id, Use use) const {
    const Run& run = of_link(id);
    const std::uint32_t node = (id - run.first_link) / run.links;
    return read(run, node, (id - run.first_link) % run.links, use);
  }
  // REQUIRES: device < device_count().
  [[nodiscard]] LinkId first_link_from(DeviceId device) const {
    const Run& run = of_device(device);
    const std::uint32_t node = (device - run.first_device) / run.devices;
    const std::uint32_t place = (device - run.first_device) % run.devices;
    return run.first_link + node * run.links + run.first_link_of[place];
  }
  // Calls use(link, strand) for each, ascending.
  template <class Use>
  void for_each_outlet(Use use) const {
    for (const Run& run : runs_)
      for (std::uint32_t node = 0; node < run.count; ++node)
        for (const std::uint32_t link : run.outlet_links)
          use(run.first_link + node * run.links + link,
              read(run, node, link, [](DeviceId from, DeviceId to, std::uint32_t wire) {
                return Strand{from, to, wire};
              }));
  }

 private:
  struct Entry {
    std::uint32_t from = 0;  // in the node
    std::uint32_t to = 0;    // in the node; of an outlet its number among those of the node
    std::uint32_t wire = 0;
    bool leaves = false;
  };
  struct Run {
    DeviceId first_device = 0;
    LinkId first_link = 0;
    std::uint32_t first_outlet = 0;
    std::uint32_t count = 0;
    std::uint32_t devices = 0;  // of one node
    std::uint32_t links = 0;
    std::vector<Entry> entries = {};                // by link of a node
    std::vector<std::uint32_t> first_link_of = {};  // by device of a node
    std::vector<std::uint32_t> outlet_links = {};   // those links of a node that are outlets
  };

  template <class Use>
  std::invoke_result_t<Use, DeviceId, DeviceId, std::uint32_t> read(const Run& run,
                                                                    std::uint32_t node,
                                                                    std::uint32_t link,
                                                                    Use use) const {
    const Entry& entry = run.entries[link];
    const DeviceId first = run.first_device + node * run.devices;
    if (!entry.leaves) return use(first + entry.from, first + entry.to, entry.wire);
    const auto outlets = static_cast<std::uint32_t>(run.outlet_links.size());
    const Outlet& outlet = outlets_[run.first_outlet + node * outlets + entry.to];
    return use(first + entry.from, outlet.to, outlet.wire);
  }
  // Most clusters have one run.
  [[nodiscard]] const Run& of_link(LinkId id) const {
    return runs_.size() == 1 ? runs_.front() : last_from(id, &Run::first_link);
  }
  [[nodiscard]] const Run& of_device(DeviceId id) const {
    return runs_.size() == 1 ? runs_.front() : last_from(id, &Run::first_device);
  }
  [[nodiscard]] const Run& last_from(std::uint32_t id, std::uint32_t Run::*first) const;

  std::vector<Run> runs_;
  std::vector<Outlet> outlets_;
  std::uint32_t devices_ = 0;
  std::uint32_t links_ = 0;
};

}  // namespace trainyard
