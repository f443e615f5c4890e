// Writes a cluster as a SimGrid platform file (declared in views.hpp).
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/render/svg.hpp"
#include "sim/render/views/views.hpp"

namespace trainyard {

namespace {

// Links over which a message is spread in equal shares. SimGrid's routes have one path, so these
// links become one link that is as fast as all of them together.
struct ParallelSet {
  std::vector<LinkId> links;
  double fraction = 1.0;
  auto operator<=>(const ParallelSet&) const = default;
};

// Writes an XML comment. Two dashes would end it.
std::string comment(std::string text) {
  for (std::size_t at = text.find("--"); at != std::string::npos; at = text.find("--", at))
    text.replace(at, 2, "- -");
  return "<!-- " + text + " -->";
}

class PlatformText {
 public:
  PlatformText(const Cluster& cluster, FlopsPerSecond speed) : cluster_(cluster), speed_(speed) {}

  std::string write() {
    const auto gpus = static_cast<std::uint32_t>(cluster_.gpus().size());
    std::string routes;
    for (std::uint32_t from = 0; from < gpus; ++from)
      for (std::uint32_t to = 0; to < gpus; ++to)
        if (from != to) routes += route(from, to);
    std::string hosts;
    for (const DeviceId gpu : cluster_.gpus())
      hosts += fmt::format("    <host id=\"{}\" speed=\"{}f\"/>\n", name(gpu), speed_.value());
    return fmt::format(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
        "{}\n"
        "<platform version=\"4.1\">\n  <zone id=\"cluster\" routing=\"Full\">\n{}{}{}  </zone>\n"
        "</platform>\n",
        comment(cluster_.facts().name +
                "; each direction of a wire is a link; paths that share a message are one."),
        hosts, links_, routes);
  }

 private:
  std::string name(DeviceId device) const { return svg_escaped(cluster_.name(device)); }

  std::string route(std::uint32_t from, std::uint32_t to) {
    std::string text = fmt::format("    <route src=\"{}\" dst=\"{}\" symmetrical=\"NO\">",
                                   name(cluster_.gpus()[from]), name(cluster_.gpus()[to]));
    for (const ParallelSet& set : parallel_links(cluster_.router().route(from, to)))
      text += fmt::format("<link_ctn id=\"{}\"/>", link(set));
    return text + "</route>\n";
  }

  // Returns the hops in order. Hops that share the message between the same tiers of devices are
  // merged.
  std::vector<ParallelSet> parallel_links(const Route& route) const {
    std::vector<ParallelSet> all;
    std::map<std::pair<DeviceKind, DeviceKind>, std::size_t> shared;
    for (const RouteHop& hop : route) {
      if (hop.fraction >= 1.0) {
        all.push_back({{hop.link}, 1.0});
        continue;
      }
      const Link& link = cluster_.link(hop.link);
      const auto tiers = std::pair{cluster_.device(link.from).kind, cluster_.device(link.to).kind};
      const auto [place, fresh] = shared.try_emplace(tiers, all.size());
      if (fresh) all.push_back({});
      ParallelSet& set = all[place->second];
      set.links.push_back(hop.link);
      set.fraction = fresh ? hop.fraction : std::max(set.fraction, hop.fraction);
    }
    for (ParallelSet& set : all) std::sort(set.links.begin(), set.links.end());
    return all;
  }

  // Returns the name of a link and defines the link on first use.
  const std::string& link(const ParallelSet& set) {
    const auto [entry, fresh] = names_.try_emplace(set, fmt::format("l{}", names_.size()));
    if (!fresh) return entry->second;
    double bandwidth = 0.0;
    double latency = 0.0;
    for (const LinkId id : set.links) {
      const Link& one = cluster_.link(id);
      // A link of capacity c that carries the fraction f of a message limits the message to c / f.
      // The slowest link of the set determines the rate.
      const double whole = one.capacity.value() / set.fraction;
      bandwidth = id == set.links.front() ? whole : std::min(bandwidth, whole);
      latency = std::max(latency, one.latency.value());
    }
    const Link& first = cluster_.link(set.links.front());
    links_ += fmt::format(
        "    <link id=\"{}\" bandwidth=\"{}Bps\" latency=\"{}s\"/> {}\n", entry->second, bandwidth,
        latency,
        comment(fmt::format(
            "{}: {} to {}{}", to_string(first.kind), cluster_.name(first.from),
            cluster_.name(first.to),
            set.links.size() > 1 ? fmt::format(" and {} more", set.links.size() - 1) : "")));
    return entry->second;
  }

  const Cluster& cluster_;
  FlopsPerSecond speed_;
  std::map<ParallelSet, std::string> names_;
  std::string links_;
};

}  // namespace

std::string to_simgrid_xml(const Cluster& cluster, FlopsPerSecond speed) {
  const std::size_t gpus = cluster.gpus().size();
  if (gpus > kSimgridGpusMost) {
    throw InputError(Problem{
        .file = {},
        .pointer = {},
        .problem = fmt::format("a platform file of {} GPUs has {} routes", gpus, gpus * (gpus - 1)),
        .hint =
            fmt::format("write one of at most {} GPUs: --set cluster.nodes", kSimgridGpusMost)});
  }
  return PlatformText(cluster, speed).write();
}

}  // namespace trainyard
