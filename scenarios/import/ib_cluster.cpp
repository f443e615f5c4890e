#include "scenarios/import/ib_cluster.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "scenarios/import/imported_node.hpp"
#include "sim/base/error.hpp"
#include "sim/base/json_reader.hpp"
#include "topologies/cluster_reader.hpp"
#include "topologies/custom_cluster.hpp"
#include "topologies/draft.hpp"
#include "topologies/node.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse_fabric(const std::string& file, std::string problem, std::string hint) {
  throw InputError(Problem{file, "", std::move(problem), std::move(hint)});
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

// Compares names with the numbers in them as numbers: "dgx2" is before "dgx10".
bool natural_less(std::string_view a, std::string_view b) {
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    const auto number = [](std::string_view text, std::size_t& at) {
      while (at < text.size() && text[at] == '0') ++at;
      const std::size_t begin = at;
      while (at < text.size() && is_digit(text[at])) ++at;
      return text.substr(begin, at - begin);
    };
    const std::string_view x = number(a, i);
    const std::string_view y = number(b, j);
    if (x.size() != y.size()) return x.size() < y.size();
    if (x != y) return x < y;
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;
}

struct NaturalLess {
  bool operator()(const std::string& a, const std::string& b) const { return natural_less(a, b); }
};

// "dgx01 mlx5_0" is the HCA mlx5_0 of the host dgx01.
std::pair<std::string, std::string> host_and_hca(const std::string& name) {
  const std::size_t end = name.find_last_not_of(' ');
  const std::size_t blank = end == std::string::npos ? end : name.rfind(' ', end);
  if (blank == std::string::npos) return {name, ""};
  std::string host = name.substr(0, blank);
  host.erase(host.find_last_not_of(' ') + 1);
  return {host, name.substr(blank + 1, end - blank)};
}

// A graph of NICs and switches, with one edge between two of them. NICs have the first numbers,
// node by node. A weight is the capacity in units of one NIC.
struct FabricGraph {
  struct Edge {
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    double weight = 0.0;
  };
  std::uint32_t nics = 0;
  std::uint32_t switches = 0;
  std::vector<Edge> edges = {};
};

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15ULL + b + 0x2545F4914F6CDD1DULL;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31U);
}

// Colour refinement (Weisfeiler-Leman). A NIC begins with its number, so it keeps a colour of its
// own; a switch gets the colour of what is cabled to it, up to the given distance.
std::vector<std::uint64_t> colours(const FabricGraph& graph) {
  constexpr int kRounds = 5;  // the distance between two NICs over cores is 6
  std::vector<std::uint64_t> colour(graph.nics + graph.switches, 1);
  for (std::uint32_t nic = 0; nic < graph.nics; ++nic) colour[nic] = mixed(nic, 2);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::uint64_t> sums(colour.size(), 0);
    for (const FabricGraph::Edge& edge : graph.edges) {
      const auto weight = static_cast<std::uint64_t>(std::llround(edge.weight * 1000.0));
      sums[edge.a] += mixed(colour[edge.b], weight);
      sums[edge.b] += mixed(colour[edge.a], weight);
    }
    for (std::size_t i = 0; i < colour.size(); ++i) colour[i] = mixed(colour[i], sums[i]);
  }
  return colour;
}

// Returns whether the graphs are equal but for the numbers of their switches.
class SameFabric {
 public:
  explicit SameFabric(const FabricGraph& graph) : graph_(graph), colours_(sorted(graph)) {}

  bool operator()(const FabricGraph& other) const {
    return other.switches == graph_.switches && other.edges.size() == graph_.edges.size() &&
           sorted(other) == colours_;
  }

 private:
  static std::vector<std::uint64_t> sorted(const FabricGraph& graph) {
    std::vector<std::uint64_t> all = colours(graph);
    std::sort(all.begin() + graph.nics, all.end());
    return all;
  }
  const FabricGraph& graph_;
  std::vector<std::uint64_t> colours_;
};

// A NIC of a host and the switches that it is cabled to.
struct HostNic {
  std::string name;
  std::vector<std::pair<std::size_t, BytesPerSecond>> cables = {};  // switch and rate
};

struct Host {
  std::string name;
  std::vector<HostNic> nics;
};

// The hosts and switches of a fabric, before hosts become nodes.
class Survey {
 public:
  Survey(const IbFabric& fabric, const IbChoice& choice) : fabric_(fabric), choice_(choice) {
    std::map<std::string, std::map<std::string, HostNic, NaturalLess>, NaturalLess> hosts;
    for (const IbCable& cable : fabric.cables) {
      const IbDevice& a = fabric.devices[cable.a.device];
      const IbDevice& b = fabric.devices[cable.b.device];
      if (a.is_switch && b.is_switch) {
        if (cable.a.device == cable.b.device) continue;
        between_[std::minmax(cable.a.device, cable.b.device)] += rate_of(cable).value();
      } else if (a.is_switch != b.is_switch) {
        note_hca(a.is_switch ? b : a, a.is_switch ? cable.a.device : cable.b.device, cable, hosts);
      } else {
        refuse_fabric(fabric.file,
                      fmt::format("\"{}\" and \"{}\" are cabled to each other without a switch",
                                  a.name, b.name),
                      "a fabric has at least one switch between hosts");
      }
    }
    for (auto& [name, nics] : hosts) {
      Host host{.name = name, .nics = {}};
      for (auto& [hca, nic] : nics) host.nics.push_back(std::move(nic));
      hosts_.push_back(std::move(host));
    }
  }

  [[nodiscard]] const std::vector<Host>& hosts() const { return hosts_; }
  using Pair = std::pair<std::size_t, std::size_t>;
  // Bytes per second between two switches.
  [[nodiscard]] const std::map<Pair, double>& between() const { return between_; }
  [[nodiscard]] std::size_t aggregation_nodes() const { return aggregation_nodes_; }
  [[nodiscard]] std::size_t unknown_rates() const { return unknown_rates_; }

 private:
  template <class Hosts>
  void note_hca(const IbDevice& hca, std::size_t at, const IbCable& cable, Hosts& hosts) {
    // A switch with SHARP has an HCA of its own inside.
    if (hca.name.find("Aggregation Node") != std::string::npos) {
      ++aggregation_nodes_;
      return;
    }
    auto [host, name] = host_and_hca(hca.name.empty() ? hca.key : hca.name);
    HostNic& nic = hosts[host].try_emplace(name, HostNic{.name = name}).first->second;
    nic.cables.emplace_back(at, rate_of(cable));
  }

  BytesPerSecond rate_of(const IbCable& cable) {
    if (cable.rate.value() > 0.0) return cable.rate;
    ++unknown_rates_;
    if (choice_.nic) return *choice_.nic;
    throw InputError(Problem{fabric_.file, fmt::format("line {}", cable.line),
                             "the file does not tell the speed of this cable",
                             "name the rate of such cables: --nic 800G"});
  }

  const IbFabric& fabric_;
  const IbChoice& choice_;
  std::vector<Host> hosts_;
  std::map<Pair, double> between_;
  std::size_t aggregation_nodes_ = 0;
  std::size_t unknown_rates_ = 0;  // number of cables
};

std::uint32_t servers_of(const NodeSpec& node) {
  const std::uint32_t gpus = std::max(node.gpus_per_cpu * node.cpus_per_host, 1U);
  const std::uint32_t servers = std::max(node.gpus / gpus, 1U);
  return node.nics % servers == 0 ? servers : 1;
}

// A node: one host, or the hosts of an NVLink domain; its NICs in order.
struct NodeHosts {
  std::vector<std::string> hosts;
  std::vector<const HostNic*> nics;
};

// Counts and sizes that the search for a known fabric begins with. Ports count cables of the rate of
// a NIC's cable.
struct Tiers {
  std::vector<std::size_t> leaves, spines, cores;  // devices of the fabric
  std::uint32_t nics_of_leaf = 0;                  // most NIC cables at one leaf
  std::uint32_t nodes_of_leaf = 0;                 // most nodes at one leaf
  double uplinks = 0.0;                            // of such a leaf
  double spine_down = 0.0, spine_up = 0.0;         // most of one spine
  double core_ports = 0.0;                         // most of one core
  std::uint32_t switch_ports = 0;                  // most of one switch, without management ports
  double peers = 0.0;                              // between leaves, most of one leaf
};

class Maker {
 public:
  Maker(const IbFabric& fabric, const IbChoice& choice)
      : fabric_(fabric), choice_(choice), survey_(fabric, choice), node_(named_node(choice.node)) {}

  IbCluster make() {
    choose_hosts();
    check_rates();
    list_switches();
    order_by_leaf();
    describe();
    made_.cluster = known_fabric();
    if (made_.cluster.is_null()) made_.cluster = custom();
    list_assumptions();
    check();
    return std::move(made_);
  }

 private:
  static NodeSpec named_node(const std::string& name) {
    try {
      return load_node(name);
    } catch (const InputError& error) {
      std::vector<Problem> problems = error.problems();
      for (Problem& problem : problems)
        if (problem.file.empty()) problem.file = "--node";
      throw InputError(std::move(problems));
    }
  }

  // --- hosts ---

  void choose_hosts() {
    std::vector<const Host*> chosen;
    std::map<std::size_t, std::vector<std::string>> left_out;  // names, by number of NICs
    for (const Host& host : survey_.hosts()) {
      if (choice_.hosts.empty() || fnmatch(choice_.hosts.c_str(), host.name.c_str(), 0) == 0)
        chosen.push_back(&host);
      else
        left_out[host.nics.size()].push_back(host.name);
    }
    const std::size_t wanted = nics_of_host(chosen);
    std::erase_if(chosen, [&](const Host* host) {
      if (host->nics.size() == wanted) return false;
      left_out[host->nics.size()].push_back(host->name);
      return true;
    });
    for (const auto& [nics, names] : left_out) {
      made_.assumed.push_back(fmt::format(
          "{} host{} with {} HCA{} {} left out ({}{})", names.size(), names.size() == 1 ? "" : "s",
          nics, nics == 1 ? "" : "s", names.size() == 1 ? "is" : "are",
          fmt::join(
              names.begin(),
              names.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(names.size(), 4)),
              ", "),
          names.size() > 4 ? ", ..." : ""));
    }
    group(chosen);
  }

  // Returns the number of NICs of the hosts that become nodes: the node type's, or the most usual
  // number where no host has that many.
  std::size_t nics_of_host(const std::vector<const Host*>& hosts) {
    std::map<std::size_t, std::size_t> count;  // of hosts, by number of NICs
    for (const Host* host : hosts) ++count[host->nics.size()];
    const std::size_t usual = node_.nics / servers_of(node_);
    if (count.contains(usual)) return usual;
    std::size_t best = 0;
    for (const auto& [nics, number] : count)
      if (best == 0 || number >= count[best]) best = nics;
    if (best == 0)
      refuse_fabric(
          fabric_.file,
          "has no host" +
              (choice_.hosts.empty() ? std::string() : fmt::format(" like \"{}\"", choice_.hosts)),
          "hosts are HCAs with a name and a cable to a switch");
    if (servers_of(node_) > 1 || node_.gpus % best != 0)
      refuse_fabric(
          fabric_.file,
          fmt::format("its hosts have {} HCAs; a host of {} has {} NICs for {} GPUs", best,
                      node_.name, usual, node_.gpus / servers_of(node_)),
          "name another --node, or choose hosts with --hosts 'dgx*'; HCAs of one host share the "
          "first words of their names (\"dgx01 mlx5_0\")");
    made_.assumed.push_back(
        fmt::format("a host has {} NICs here, not the {} of {}", best, node_.nics, node_.name));
    node_.nics = static_cast<std::uint32_t>(best);
    changed_nics_ = true;
    return best;
  }

  // Joins the hosts of an NVLink domain in the order of their names.
  void group(const std::vector<const Host*>& hosts) {
    const std::size_t servers = servers_of(node_);
    if (hosts.size() % servers != 0)
      refuse_fabric(
          fabric_.file,
          fmt::format("has {} hosts, and a {} has {} of them", hosts.size(), node_.name, servers),
          "choose the hosts of whole nodes with --hosts 'rack1-*'");
    for (std::size_t begin = 0; begin < hosts.size(); begin += servers) {
      NodeHosts& node = nodes_.emplace_back();
      for (std::size_t i = begin; i < begin + servers; ++i) {
        node.hosts.push_back(hosts[i]->name);
        for (const HostNic& nic : hosts[i]->nics) node.nics.push_back(&nic);
      }
    }
    if (servers > 1)
      made_.assumed.push_back(fmt::format("every {} hosts, in the order of their names, are one {}",
                                          servers, node_.name));
    std::size_t ports = 0;
    for (const NodeHosts& node : nodes_)
      for (const HostNic* nic : node.nics) ports = std::max(ports, nic->cables.size());
    if (ports > 1)
      made_.assumed.push_back(
          fmt::format("an HCA with {} cables is one NIC that uses them together", ports));
  }

  // The rate of a NIC is that of its cables together.
  static BytesPerSecond rate_of(const HostNic& nic) {
    BytesPerSecond sum;
    for (const auto& cable : nic.cables) sum += cable.second;
    return sum;
  }

  void check_rates() {
    std::map<double, std::size_t> count;  // of NICs, by rate
    for (const NodeHosts& node : nodes_)
      for (const HostNic* nic : node.nics) ++count[rate_of(*nic).value()];
    const auto usual =
        std::ranges::max_element(count, {}, [](const auto& entry) { return entry.second; });
    nic_rate_ = BytesPerSecond{usual->first};
    for (const NodeHosts& node : nodes_)
      for (const HostNic* nic : node.nics)
        if (rate_of(*nic) == nic_rate_) cable_rate_ = nic->cables.front().second;
    one_rate_ = count.size() == 1;
    if (one_rate_) return;
    std::vector<std::string> rates;
    for (const auto& [rate, number] : count)
      rates.push_back(fmt::format("{} with {}", number, nic_rate_text(BytesPerSecond{rate})));
    made_.found.push_back(fmt::format("the NICs differ: {}", fmt::join(rates, ", ")));
  }

  // --- switches ---

  // Sorts switches by their distance from the NICs, and leaves out those that only other hosts use.
  void list_switches() {
    std::map<std::size_t, int> level;
    std::vector<std::size_t> wave;
    for (const NodeHosts& node : nodes_)
      for (const HostNic* nic : node.nics)
        for (const auto& [at, rate] : nic->cables)
          if (level.try_emplace(at, 1).second) wave.push_back(at);
    std::map<std::size_t, std::vector<std::size_t>> neighbours;
    for (const auto& [ends, rate] : survey_.between()) {
      neighbours[ends.first].push_back(ends.second);
      neighbours[ends.second].push_back(ends.first);
    }
    const std::set<std::size_t> others = switches_of_other_hosts();
    for (int next = 2; !wave.empty(); ++next) {
      std::vector<std::size_t> reached;
      for (const std::size_t at : wave)
        for (const std::size_t to : neighbours[at])
          if (!(next > 2 && others.contains(to)) && level.try_emplace(to, next).second)
            reached.push_back(to);
      wave = std::move(reached);
    }
    for (const auto& [at, number] : level)
      (number == 1 ? tiers_.leaves : number == 2 ? tiers_.spines : tiers_.cores).push_back(at);
    level_ = std::move(level);
    measure();
  }

  std::set<std::size_t> switches_of_other_hosts() const {
    std::set<std::string> own;
    for (const NodeHosts& node : nodes_) own.insert(node.hosts.begin(), node.hosts.end());
    std::set<std::size_t> switches;
    for (const Host& host : survey_.hosts())
      if (!own.contains(host.name))
        for (const HostNic& nic : host.nics)
          for (const auto& [at, rate] : nic.cables) switches.insert(at);
    return switches;
  }

  void measure() {
    std::map<std::size_t, std::uint32_t> nics;                  // cables to NICs, by switch
    std::map<std::size_t, std::set<const NodeHosts*>> of_leaf;  // nodes, by switch
    for (const NodeHosts& node : nodes_)
      for (const HostNic* nic : node.nics)
        for (const auto& [at, rate] : nic->cables) {
          tiers_.nics_of_leaf = std::max(tiers_.nics_of_leaf, ++nics[at]);
          of_leaf[at].insert(&node);
        }
    for (const auto& [at, nodes] : of_leaf)
      tiers_.nodes_of_leaf =
          std::max(tiers_.nodes_of_leaf, static_cast<std::uint32_t>(nodes.size()));
    std::map<std::size_t, double> up, down, level_peers;  // in cables of a NIC's rate, by switch
    for (const auto& [ends, rate] : survey_.between()) {
      const auto a = level_.find(ends.first);
      const auto b = level_.find(ends.second);
      if (a == level_.end() || b == level_.end()) continue;
      const double cables = rate / cable_rate_.value();
      const bool first_below = a->second < b->second;
      if (a->second == b->second) {
        level_peers[ends.first] += cables;
        level_peers[ends.second] += cables;
        continue;
      }
      up[first_below ? ends.first : ends.second] += cables;
      down[first_below ? ends.second : ends.first] += cables;
    }
    for (const std::size_t leaf : tiers_.leaves) {
      if (nics[leaf] == tiers_.nics_of_leaf) tiers_.uplinks = std::max(tiers_.uplinks, up[leaf]);
      tiers_.peers = std::max(tiers_.peers, level_peers[leaf]);
    }
    for (const std::size_t spine : tiers_.spines) {
      tiers_.spine_down = std::max(tiers_.spine_down, down[spine]);
      tiers_.spine_up = std::max(tiers_.spine_up, up[spine]);
    }
    for (const std::size_t core : tiers_.cores)
      tiers_.core_ports = std::max(tiers_.core_ports, down[core]);
    for (const auto& [at, number] : level_) {
      // An odd port more than a round number is for SHARP or for management: 41, 65.
      const std::uint32_t ports = fabric_.devices[at].ports;
      tiers_.switch_ports = std::max(tiers_.switch_ports, ports - ports % 2);
    }
  }

  // --- order of the nodes ---

  // The smallest switch number in the part of the fabric below the cores that a switch is in. The
  // parts are the pods of a fabric of three levels.
  std::map<std::size_t, std::size_t> pods() const {
    std::map<std::size_t, std::size_t> pod;
    for (const auto& [at, number] : level_)
      if (number <= 2) pod[at] = at;
    const auto root = [&](std::size_t at) {
      while (pod[at] != at) at = pod[at] = pod[pod[at]];
      return at;
    };
    for (const auto& [ends, rate] : survey_.between()) {
      if (!pod.contains(ends.first) || !pod.contains(ends.second)) continue;
      const auto [low, high] = std::minmax(root(ends.first), root(ends.second));
      pod[high] = low;
    }
    for (auto& [at, of] : pod) of = root(at);
    return pod;
  }

  // Puts nodes of one pod, and within it those at the same leaves, next to each other: full groups
  // first, then by name.
  void order_by_leaf() {
    const std::map<std::size_t, std::size_t> pod = pods();
    using Key = std::vector<std::size_t>;
    const auto leaves_of = [](const NodeHosts& node) {
      std::set<std::size_t> all;
      for (const HostNic* nic : node.nics)
        for (const auto& cable : nic->cables) all.insert(cable.first);
      return Key(all.begin(), all.end());
    };
    const auto pods_of = [&](const Key& leaves) {
      std::set<std::size_t> all;
      for (const std::size_t leaf : leaves) all.insert(pod.at(leaf));
      return Key(all.begin(), all.end());
    };
    struct Place {
      Key pods, leaves;
      NodeHosts node;
    };
    std::vector<Place> places;
    std::map<Key, std::pair<std::size_t, std::string>> in_pod, at_leaf;  // number, first host
    const auto count = [](auto& groups, const Key& key, const std::string& host) {
      auto& [number, first] = groups.try_emplace(key, 0, host).first->second;
      ++number;
      if (natural_less(host, first)) first = host;
    };
    for (NodeHosts& node : nodes_) {
      Key leaves = leaves_of(node);
      Key of = pods_of(leaves);
      count(in_pod, of, node.hosts.front());
      count(at_leaf, leaves, node.hosts.front());
      places.push_back({std::move(of), std::move(leaves), std::move(node)});
    }
    const auto before = [](const auto& a, const auto& b) {  // of two groups
      if (a.first != b.first) return a.first > b.first;
      return natural_less(a.second, b.second);
    };
    std::ranges::sort(places, [&](const Place& a, const Place& b) {
      if (a.pods != b.pods) return before(in_pod.at(a.pods), in_pod.at(b.pods));
      if (a.leaves != b.leaves) return before(at_leaf.at(a.leaves), at_leaf.at(b.leaves));
      return natural_less(a.node.hosts.front(), b.node.hosts.front());
    });
    nodes_.clear();
    for (Place& place : places) nodes_.push_back(std::move(place.node));
  }

  // Puts the nodes into the order of their switches' names, as in fabrics without levels.
  void order_by_switch() {
    const auto name = [&](const NodeHosts& node) -> const std::string& {
      return fabric_.devices[node.nics.front()->cables.front().first].name;
    };
    std::ranges::stable_sort(nodes_, [&](const NodeHosts& a, const NodeHosts& b) {
      if (name(a) != name(b)) return natural_less(name(a), name(b));
      return natural_less(a.hosts.front(), b.hosts.front());
    });
  }

  // --- known fabrics ---

  FabricGraph observed() const {
    FabricGraph graph{.nics = static_cast<std::uint32_t>(nodes_.size()) * node_.nics};
    std::map<std::size_t, std::uint32_t> number;
    for (const auto& [at, level] : level_) number.try_emplace(at, graph.nics + graph.switches++);
    std::uint32_t nic = 0;
    for (const NodeHosts& node : nodes_)
      for (const HostNic* one : node.nics) {
        std::map<std::size_t, double> to;
        for (const auto& [at, rate] : one->cables) to[at] += rate / nic_rate_;
        for (const auto& [at, weight] : to) graph.edges.push_back({nic, number[at], weight});
        ++nic;
      }
    for (const auto& [ends, rate] : survey_.between())
      if (number.contains(ends.first) && number.contains(ends.second))
        graph.edges.push_back({number[ends.first], number[ends.second], rate / nic_rate_.value()});
    return graph;
  }

  ClusterSpec spec_with(const FabricKind& kind) const {
    ClusterSpec spec{.node = node_,
                     .nodes = static_cast<std::uint32_t>(nodes_.size()),
                     .fabric = {.kind = kind}};
    spec.node.nic = usable_nic_rate(nic_rate_, node_);
    spec.node.nic_nominal = nic_rate_;
    return spec;
  }

  // Returns the graph that Trainyard draws; nothing where the fabric cannot hold the nodes.
  std::optional<FabricGraph> drawn(const FabricKind& kind) const {
    const ClusterSpec spec = spec_with(kind);
    Draft draft;
    for (std::uint32_t nic = 0; nic < spec.nodes * node_.nics; ++nic)
      draft.nics.push_back(
          draft.blueprint.add({.kind = DeviceKind::Nic,
                               .node = static_cast<std::int32_t>(nic / node_.nics),
                               .index = static_cast<std::int32_t>(nic % node_.nics)}));
    try {
      draw_fabric(spec, draft);
    } catch (const InputError&) {
      return {};
    }
    FabricGraph graph{.nics = static_cast<std::uint32_t>(draft.nics.size())};
    const Wiring wiring = std::move(draft.blueprint).wiring();
    graph.switches = wiring.device_count() - graph.nics;
    if (graph.switches != level_.size()) return graph;  // not this one: no need for its links
    for (const Link& link : wiring.links())
      if (link.from < link.to)
        graph.edges.push_back({link.from, link.to, link.nominal / nic_rate_});
    return graph;
  }

  std::vector<std::uint32_t> radices() const {
    const auto whole = [](double ports) { return static_cast<std::uint32_t>(std::lround(ports)); };
    std::vector<std::uint32_t> all;
    for (const std::uint32_t radix :
         {tiers_.switch_ports, whole(tiers_.nics_of_leaf + tiers_.uplinks),
          whole(tiers_.spine_down + tiers_.spine_up), whole(tiers_.core_ports), 36U, 40U, 64U,
          128U})
      if (radix >= 2 && std::ranges::find(all, radix) == all.end()) all.push_back(radix);
    return all;
  }

  std::vector<FabricKind> tree_kinds() const {
    const double leaf =
        tiers_.uplinks > 0.0 ? std::max(tiers_.nics_of_leaf / tiers_.uplinks, 1.0) : 1.0;
    const double spine =
        tiers_.spine_up > 0.0 ? std::max(tiers_.spine_down / tiers_.spine_up, 1.0) : 1.0;
    std::vector<FabricKind> kinds;
    if (level_.size() == 1) kinds.emplace_back(SingleSwitch{});
    for (const std::uint32_t radix : radices()) {
      for (const std::uint32_t unit : {0U, tiers_.nodes_of_leaf}) {
        const RailOptimized rails{.radix = radix,
                                  .oversubscription = leaf,
                                  .core_oversubscription = spine,
                                  .nodes_per_unit = unit};
        kinds.emplace_back(rails);
        // Two cables of half a NIC's rate: ports count cables.
        kinds.emplace_back(DualTor{rails});
      }
      const FatTree tree{.radix = radix, .oversubscription = leaf};
      kinds.emplace_back(tree);
      kinds.emplace_back(
          FatTree3{.radix = radix, .oversubscription = leaf, .core_oversubscription = spine});
      kinds.emplace_back(MultiPlane{tree});
    }
    return kinds;
  }

  std::vector<FabricKind> flat_kinds() const {
    std::vector<FabricKind> kinds;
    const auto nodes = static_cast<std::uint32_t>(nodes_.size());
    const auto peers = static_cast<std::uint32_t>(std::lround(tiers_.peers));
    if (tiers_.leaves.size() == nodes)
      for (std::uint32_t dimensions = 1; dimensions <= 4; ++dimensions)
        for (const std::uint32_t cables : {0U, peers / (2 * dimensions)})
          kinds.emplace_back(Torus{.dims = {}, .dimensions = dimensions, .cables = cables});
    for (std::uint32_t group = 2; group <= std::min(peers + 1, 64U); ++group)
      if (tiers_.leaves.size() % group == 0)
        kinds.emplace_back(
            Dragonfly{.radix = std::max(tiers_.switch_ports, tiers_.nics_of_leaf + peers),
                      .nics_per_router = tiers_.nics_of_leaf,
                      .routers_per_group = group,
                      .global_links = std::max(peers + 1 - group, 1U)});
    return kinds;
  }

  // Draws the fabrics that the counts allow, and takes the first that equals the file's.
  Json known_fabric() {
    if (!one_rate_) return {};
    const bool flat = tiers_.peers > 0.0 && tiers_.spines.empty();
    if (flat) order_by_switch();
    const FabricGraph graph = observed();
    const SameFabric same(graph);
    for (const FabricKind& kind : flat ? flat_kinds() : tree_kinds()) {
      const std::optional<FabricGraph> candidate = drawn(kind);
      if (!candidate || !same(*candidate)) continue;
      made_.fabric = fabric_entry(kind).name;
      made_.found.push_back(fmt::format("the switches and cables are those of {}", made_.fabric));
      ClusterSpec spec = spec_with(kind);
      const bool usual_nic = nic_rate_ == node_.nic_nominal;
      Json json = {{"node", node_json()}, {"nodes", spec.nodes}};
      if (!usual_nic)
        json["nic"] = {{"usable", exact_text(spec.node.nic)},
                       {"nominal", exact_text(spec.node.nic_nominal)}};
      json["fabric"] = to_json(spec.fabric);
      return json;
    }
    return {};
  }

  Json node_json() const {
    if (!changed_nics_) return choice_.node;
    Json json = to_json(node_);
    json["name"] = node_.name;
    return json;
  }

  // --- a fabric of its own ---

  Json custom() {
    Draft draft;
    const DrawnNode node = draw_node(node_);
    const std::uint32_t pattern = draft.blueprint.add_pattern(node.wiring);
    for (std::uint32_t number = 0; number < nodes_.size(); ++number) {
      const DeviceId first = draft.blueprint.stamp(pattern, number);
      for (const DeviceId gpu : node.gpus) draft.gpus.push_back(DeviceId{first + gpu});
      for (const DeviceId nic : node.nics) draft.nics.push_back(DeviceId{first + nic});
    }
    const std::map<std::size_t, DeviceId> switches = draw_switches(draft);
    draw_cables(switches, draft);
    std::vector<DeviceId> nic_of_gpu;
    for (std::size_t gpu = 0; gpu < draft.gpus.size(); ++gpu)
      nic_of_gpu.push_back(
          draft.nics[gpu / node_.gpus * node_.nics +
                     nic_index(node_, static_cast<std::uint32_t>(gpu % node_.gpus))]);
    const auto nodes = static_cast<std::uint32_t>(nodes_.size());
    ClusterFacts facts{.name = fmt::format("{} x {}, as {} shows", nodes, node_.name, fabric_.tool),
                       .node = node_.name,
                       .gpu = node_.gpu,
                       .nodes = nodes,
                       .gpus_per_node = node_.gpus,
                       .gpu_memory = node_.gpu_memory,
                       .host_memory = node_.host_memory,
                       .latency = node_.latency};
    made_.found.emplace_back(
        "no fabric of Trainyard equals it: the cluster lists every switch and cable");
    return to_custom_json(Cluster(std::move(facts), std::move(draft.blueprint).wiring(),
                                  std::move(draft.gpus), std::move(nic_of_gpu)));
  }

  // Adds the switches with their own names; two of one name get their GUID, too.
  std::map<std::size_t, DeviceId> draw_switches(Draft& draft) const {
    std::map<std::string, int> names;
    for (const auto& [at, level] : level_) ++names[fabric_.devices[at].name];
    std::map<std::size_t, DeviceId> ids;
    std::array<std::int32_t, kDeviceKinds> next{};
    for (const auto& [at, level] : level_) {
      const DeviceKind kind = level == 1   ? DeviceKind::LeafSwitch
                              : level == 2 ? DeviceKind::SpineSwitch
                                           : DeviceKind::CoreSwitch;
      const IbDevice& device = fabric_.devices[at];
      const bool unique = !device.name.empty() && names.at(device.name) == 1;
      ids[at] =
          draft.blueprint.add({.kind = kind, .index = next.at(static_cast<std::size_t>(kind))++},
                              unique ? device.name : fmt::format("{} {}", device.name, device.key));
    }
    return ids;
  }

  void draw_cables(const std::map<std::size_t, DeviceId>& switches, Draft& draft) const {
    const auto wire = [&](LinkKind kind, BytesPerSecond rate, Seconds latency) {
      return Wire{
          .kind = kind,
          .capacity = usable_nic_rate(rate, node_),
          .nominal = rate,
          .latency = latency,
          .cables = kind == LinkKind::NicPort
                        ? 1U
                        : std::max(1U, static_cast<std::uint32_t>(std::lround(rate / nic_rate_)))};
    };
    std::size_t number = 0;
    for (const NodeHosts& node : nodes_)
      for (const HostNic* nic : node.nics) {
        for (const auto& [at, rate] : nic->cables)
          draft.cable(draft.nics[number], switches.at(at),
                      wire(LinkKind::NicPort, rate, node_.nic_latency));
        ++number;
      }
    for (const auto& [ends, rate] : survey_.between()) {
      if (!switches.contains(ends.first) || !switches.contains(ends.second)) continue;
      const auto [low, high] = std::minmax(level_.at(ends.first), level_.at(ends.second));
      const LinkKind kind = low == high ? LinkKind::Local
                            : high == 2 ? LinkKind::LeafSpine
                                        : LinkKind::SpineCore;
      draft.cable(switches.at(ends.first), switches.at(ends.second),
                  wire(kind, BytesPerSecond{rate}, kUsualHopLatency));
    }
  }

  // --- what is printed ---

  void describe() {
    made_.found.insert(made_.found.begin(),
                       fmt::format("{} hosts with {} NICs of {}", nodes_.size() * servers_of(node_),
                                   node_.nics / servers_of(node_), nic_rate_text(nic_rate_)));
    made_.found.push_back(fmt::format("{} leaf, {} spine and {} core switches",
                                      tiers_.leaves.size(), tiers_.spines.size(),
                                      tiers_.cores.size()));
    std::string leaf = fmt::format("a leaf has cables to {} NICs of {} nodes", tiers_.nics_of_leaf,
                                   tiers_.nodes_of_leaf);
    if (tiers_.uplinks > 0.0)
      leaf += fmt::format(" and {:.4g} uplinks: oversubscription {:.3g}", tiers_.uplinks,
                          tiers_.nics_of_leaf / tiers_.uplinks);
    made_.found.push_back(std::move(leaf));
    if (tiers_.spine_up > 0.0)
      made_.found.push_back(fmt::format("a spine has {:.4g} ports down and {:.4g} up",
                                        tiers_.spine_down, tiers_.spine_up));
  }

  void list_assumptions() {
    std::vector<std::string>& all = made_.assumed;
    all.push_back(fmt::format("every host is {} {}: GPUs, NVLink, PCIe and memory are its own",
                              servers_of(node_) > 1 ? "a part of a" : "a", node_.name));
    all.emplace_back(
        "NIC 0 is the first HCA of a host in the order of the names, and each GPU uses the NIC of "
        "its number");
    all.push_back(
        fmt::format("{} of a cable's rate is usable, as of the NIC of {}; a hop between "
                    "switches takes {}",
                    fmt::format("{:.3g} %", 100.0 * (node_.nic / node_.nic_nominal)), node_.name,
                    to_text(kUsualHopLatency)));
    all.push_back(fmt::format(
        "nodes are numbered by leaf: node 0 is {}{}", nodes_.front().hosts.front(),
        nodes_.size() > 1
            ? fmt::format(", node {} is {}", nodes_.size() - 1, nodes_.back().hosts.front())
            : ""));
    if (survey_.unknown_rates() > 0)
      all.push_back(fmt::format("{} cables without a known speed have {}, as --nic says",
                                survey_.unknown_rates(), nic_rate_text(*choice_.nic)));
    if (survey_.aggregation_nodes() > 0)
      all.push_back(fmt::format(
          "{} switches can reduce in the network (SHARP), and the cluster does not: where jobs use "
          "it, add \"reduces\": true",
          survey_.aggregation_nodes()));
  }

  // Throws InputError where the cluster cannot run, for example where hosts cannot reach each
  // other.
  void check() const {
    try {
      JsonFile file = JsonFile::parse(fabric_.file, Json{{"cluster", made_.cluster}}.dump());
      const ClusterSpec spec = read_cluster(file.root().object("cluster"));
      file.finish();
      (void)shared_cluster(spec);
    } catch (const InputError& error) {
      std::vector<Problem> problems = error.problems();
      for (Problem& problem : problems) problem.file = fabric_.file;
      throw InputError(std::move(problems));
    }
  }

  const IbFabric& fabric_;
  const IbChoice& choice_;
  Survey survey_;
  NodeSpec node_;
  bool changed_nics_ = false;
  std::vector<NodeHosts> nodes_;
  BytesPerSecond nic_rate_;
  BytesPerSecond cable_rate_;  // of one of its cables, where a NIC has two
  bool one_rate_ = true;
  std::map<std::size_t, int> level_;  // distance from NICs, by switch; other switches are not used
  Tiers tiers_;
  IbCluster made_;
};

}  // namespace

IbCluster cluster_of_ib_fabric(const IbFabric& fabric, const IbChoice& choice) {
  return Maker(fabric, choice).make();
}

}  // namespace trainyard
