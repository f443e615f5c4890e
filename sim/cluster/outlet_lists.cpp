#include "sim/cluster/outlet_lists.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace trainyard {

OutletLists::OutletLists(const Extent& extent) : extent_(extent), lists_(extent.devices) {}

void OutletLists::add(const Series& from, DeviceId to, const Far& far) {
  const auto place = [&](DeviceId id) { return (id - extent_.first) % extent_.devices; };
  const auto node = [&](DeviceId id) { return (id - extent_.first) / extent_.devices; };
  if (from.count == 1 || from.step == extent_.devices)
    return add_at(place(from.first), {node(from.first), from.count}, to, far);
  for (std::uint32_t i = 0; i < from.count; ++i)
    add_at(place(from[i]), {node(from[i]), 1}, to, far);
}

// A node's first link goes to the first list that has none of it, so that every list is longer than
// the next, or as long.
void OutletLists::add_at(std::uint32_t place, const Nodes& nodes, DeviceId to, const Far& far) {
  std::vector<NodeRuns::Outlet>& lists = lists_[place];
  const auto next = std::ranges::find_if(
      lists, [&](const NodeRuns::Outlet& list) { return list.size() <= nodes.begin; });
  const bool same_list =
      next == lists.begin() || std::prev(next)->size() >= nodes.begin + nodes.count;
  if (!same_list) {
    for (std::uint32_t i = 0; i < nodes.count; ++i) add_at(place, {nodes.begin + i, 1}, to, far);
    return;
  }
  NodeRuns::Outlet& list = next == lists.end() ? lists.emplace_back() : *next;
  if (list.size() == nodes.begin) {
    list.append({to, 0, nodes.count}, far);
  } else {
    in_turn_ = false;
  }
}

bool OutletLists::are_alike() const {
  return in_turn_ && std::ranges::all_of(lists_, [&](const auto& lists) {
           return std::ranges::all_of(
               lists, [&](const NodeRuns::Outlet& list) { return list.size() == extent_.nodes; });
         });
}

std::vector<std::vector<NodeRuns::Outlet>> OutletLists::taken() && { return std::move(lists_); }

}  // namespace trainyard
