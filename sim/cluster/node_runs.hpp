// Nodes alike that are numbered one behind the other: what a device of theirs is and what a link of
// theirs joins, from its number.
//
// Nodes of a run have as many devices each, and each device as many links as its like in the other
// nodes, so device d of node n is first + n * devices + d, and links are numbered alike. Links
// within a node are kept once for the run. Where a link that leaves its node, an outlet, leads from
// node to node is a list of series.
//
// Worked: 16 384 nodes of 23 devices and 66 links, 8 of which lead to switches that 64 nodes share,
// are 66 entries and 8 lists of 256 series in place of 1 081 344 links.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "sim/cluster/link_series.hpp"

namespace trainyard {

class NodeRuns {
 public:
  using Outlet = SeriesList<Far>;  // by node of the run, the device it leads to

  // What one node of a run looks like, its devices numbered from 0.
  struct Node {
    std::vector<Device> devices;               // `node` is of no account
    std::vector<Strand> inner;                 // ascending by the device they start at
    std::vector<std::vector<Outlet>> outlets;  // by device; they come behind its inner links
  };

  // Adds a run of so many nodes behind those there are; the first has that number.
  void add(Node node, std::uint32_t first_node, std::uint32_t count);

  [[nodiscard]] std::uint32_t device_count() const { return devices_; }
  [[nodiscard]] std::uint32_t link_count() const { return links_; }
  // REQUIRES: id < device_count().
  [[nodiscard]] Device device(DeviceId id) const {
    const Run& run = of_device(id);
    Device device = run.inside[(id - run.first_device) % run.devices];
    device.node = static_cast<std::int32_t>(run.first_node + (id - run.first_device) / run.devices);
    return device;
  }
  // Among the devices of its node. REQUIRES: id < device_count().
  [[nodiscard]] std::uint32_t place_of(DeviceId id) const {
    const Run& run = of_device(id);
    return (id - run.first_device) % run.devices;
  }
  // Whether these are nodes 0, 1, ... to that number, in this order.
  [[nodiscard]] bool are_nodes(std::uint32_t count) const;
  // The other devices of the node follow it. REQUIRES: are_nodes(), of more than `node`.
  [[nodiscard]] DeviceId first_device_of(std::uint32_t node) const {
    const Run& run = of_node(node);
    return run.first_device + (node - run.first_node) * run.devices;
  }
  [[nodiscard]] std::uint32_t devices_of(std::uint32_t node) const { return of_node(node).devices; }
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
  // Calls use(node, first_node, count) with what add() was told of each run, but for its outlets.
  template <class Use>
  void for_each_run(Use use) const {
    for (const Run& run : runs_) use(inside_of(run), run.first_node, run.count);
  }
  // Calls use(link, strand) for each outlet, ascending.
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
  // Calls use(series) for all outlets, each once.
  template <class Use>
  void for_each_series(Use use) const {
    for (const Run& run : runs_)
      for (std::size_t outlet = 0; outlet < run.outlets.size(); ++outlet)
        for (const Outlet::Piece& piece : run.outlets[outlet].pieces())
          use(series_of(run, outlet, piece));
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
    std::uint32_t first_node = 0;
    std::uint32_t count = 0;
    std::uint32_t devices = 0;  // of one node
    std::uint32_t links = 0;
    std::vector<Device> inside = {};                // by device of a node
    std::vector<Entry> entries = {};                // by link of a node
    std::vector<std::uint32_t> first_link_of = {};  // by device of a node
    std::vector<std::uint32_t> outlet_links = {};   // those links of a node that are outlets
    std::vector<Outlet> outlets = {};               // these
  };

  template <class Use>
  std::invoke_result_t<Use, DeviceId, DeviceId, std::uint32_t> read(const Run& run,
                                                                    std::uint32_t node,
                                                                    std::uint32_t link,
                                                                    Use use) const {
    const Entry& entry = run.entries[link];
    const DeviceId first = run.first_device + node * run.devices;
    if (!entry.leaves) return use(first + entry.from, first + entry.to, entry.wire);
    const Outlet::Piece& piece = run.outlets[entry.to].piece_at(node);
    return use(first + entry.from, piece.series[node - piece.begin], piece.tag.wire);
  }
  [[nodiscard]] static Node inside_of(const Run& run);
  [[nodiscard]] static LinkSeries series_of(const Run& run, std::size_t outlet,
                                            const Outlet::Piece& piece);
  // Most clusters have one run.
  [[nodiscard]] const Run& of_link(LinkId id) const {
    return runs_.size() == 1 ? runs_.front() : last_from(id, &Run::first_link);
  }
  [[nodiscard]] const Run& of_device(DeviceId id) const {
    return runs_.size() == 1 ? runs_.front() : last_from(id, &Run::first_device);
  }
  [[nodiscard]] const Run& of_node(std::uint32_t node) const {
    return runs_.size() == 1 ? runs_.front() : last_from(node, &Run::first_node);
  }
  [[nodiscard]] const Run& last_from(std::uint32_t id, std::uint32_t Run::*first) const;

  std::vector<Run> runs_;
  std::uint32_t devices_ = 0;
  std::uint32_t links_ = 0;
};

}  // namespace trainyard
