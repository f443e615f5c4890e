// Draws a cluster for Graphviz (declared in views.hpp).
#include <fmt/format.h>

#include <boost/graph/graphviz.hpp>
#include <map>
#include <sstream>
#include <tuple>

#include "sim/render/views/views.hpp"

namespace trainyard {

namespace {

struct Box {
  std::string label = {};
  std::string shape = {};
};
struct Line {
  std::string label = {};
};
// One vertex per box, and one edge for both directions of a link.
using Drawing = boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS, Box, Line>;

std::string shape_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::Gpu:
      return "box";
    case DeviceKind::Nic:
      return "cds";
    case DeviceKind::Cpu:
      return "octagon";
    case DeviceKind::NvSwitch:
    case DeviceKind::PcieSwitch:
      return "diamond";
    case DeviceKind::LeafSwitch:
    case DeviceKind::SpineSwitch:
    case DeviceKind::CoreSwitch:
      return "ellipse";
  }
  return "box";
}

// The vertex of each device: its own, or the box of its node.
struct Places {
  Drawing drawing = {};
  std::vector<std::size_t> of_device = {};
};

Places place(const Cluster& cluster, bool collapsed) {
  Places places;
  std::map<std::int32_t, std::size_t> box_of_node;
  for (DeviceId id = 0; id < cluster.device_count(); ++id) {
    const Device& device = cluster.device(id);
    const bool joins = collapsed && device.node >= 0;
    if (const auto box = box_of_node.find(device.node); joins && box != box_of_node.end()) {
      places.of_device.push_back(box->second);
      continue;
    }
    const Box box = joins ? Box{fmt::format("node {}", device.node), "box3d"}
                          : Box{cluster.name(id), shape_of(device.kind)};
    const std::size_t vertex = boost::add_vertex(box, places.drawing);
    if (joins) box_of_node.emplace(device.node, vertex);
    places.of_device.push_back(vertex);
  }
  return places;
}

void draw_lines(const Cluster& cluster, Places& places) {
  // Parallel links of one kind and rate between the same two boxes are one line, for both
  // directions.
  std::map<std::tuple<std::size_t, std::size_t, LinkKind, double>, std::uint32_t> lines;
  for (const Link& link : cluster.links()) {
    const auto [a, b] = std::minmax(places.of_device[link.from], places.of_device[link.to]);
    if (a != b) ++lines[{a, b, link.kind, link.capacity.value()}];
  }
  for (const auto& [key, directions] : lines) {
    const auto& [a, b, kind, capacity] = key;
    const std::uint32_t count = (directions + 1) / 2;
    const std::string times = count > 1 ? fmt::format("{} x ", count) : "";
    boost::add_edge(
        a, b,
        Line{fmt::format("{}{} {}", times, to_string(kind), to_text(BytesPerSecond{capacity}))},
        places.drawing);
  }
}

}  // namespace

std::string topology_dot(const Cluster& cluster) {
  const bool collapsed = cluster.facts().nodes > kDotNodesMost;
  Places places = place(cluster, collapsed);
  draw_lines(cluster, places);
  const Drawing& drawing = places.drawing;
  std::string title = cluster.facts().name;
  if (collapsed) {
    title += fmt::format(" (each node is one box: there are more than {})", kDotNodesMost);
  }
  const auto quoted = [](const std::string& text) { return boost::escape_dot_string(text); };
  std::ostringstream out;
  boost::write_graphviz(
      out, drawing,
      [&](std::ostream& stream, std::size_t vertex) {
        stream << "[label=" << quoted(drawing[vertex].label) << ", shape=" << drawing[vertex].shape
               << "]";
      },
      [&](std::ostream& stream, const auto& edge) {
        stream << "[label=" << quoted(drawing[edge].label) << "]";
      },
      [&](std::ostream& stream) {
        stream << "label=" << quoted(title) << ";\nlayout=sfdp;\noverlap=false;\n";
      });
  return out.str();
}

}  // namespace trainyard
