// A cluster as a platform file of SimGrid (declared in views.hpp).
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

// Links that a message is dealt to in equal shares, as SimGrid, which knows one path, must see
// them: one link as fast as they are together.
struct Bundle {
  std::vector<LinkId> links;
  double fraction = 1.0;
  auto operator<=>(const Bundle&) const = default;
};

// Two dashes would end it.
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
    for (const Bundle& bundle : bundles(cluster_.router().route(from, to)))
      text += fmt::format("<link_ctn id=\"{}\"/>", link(bundle));
    return text + "</route>\n";
  }

  // Hops in order; those that share the message between the same tiers of devices are one.
  std::vector<Bundle> bundles(const Route& route) const {
    std::vector<Bundle> all;
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
      Bundle& bundle = all[place->second];
      bundle.links.push_back(hop.link);
      bundle.fraction = fresh ? hop.fraction : std::max(bundle.fraction, hop.fraction);
    }
    for (Bundle& bundle : all) std::sort(bundle.links.begin(), bundle.links.end());
    return all;
  }

  // Writes the link when it is first used.
  const std::string& link(const Bundle& bundle) {
    const auto [entry, fresh] = names_.try_emplace(bundle, fmt::format("l{}", names_.size()));
    if (!fresh) return entry->second;
    double bandwidth = 0.0;
    double latency = 0.0;
    for (const LinkId id : bundle.links) {
      const Link& one = cluster_.link(id);
      const double whole = one.capacity.value() / bundle.fraction;
      bandwidth = id == bundle.links.front() ? whole : std::min(bandwidth, whole);
      latency = std::max(latency, one.latency.value());
    }
    const Link& first = cluster_.link(bundle.links.front());
    links_ += fmt::format(
        "    <link id=\"{}\" bandwidth=\"{}Bps\" latency=\"{}s\"/> {}\n", entry->second, bandwidth,
        latency,
        comment(fmt::format(
            "{}: {} to {}{}", to_string(first.kind), cluster_.name(first.from),
            cluster_.name(first.to),
            bundle.links.size() > 1 ? fmt::format(" and {} more", bundle.links.size() - 1) : "")));
    return entry->second;
  }

  const Cluster& cluster_;
  FlopsPerSecond speed_;
  std::map<Bundle, std::string> names_;
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
