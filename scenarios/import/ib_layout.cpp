#include "scenarios/import/ib_layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "scenarios/import/imported_node.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

// The layout follows from the cables alone, in this order: hosts from the names of HCAs, those
// hosts that become nodes, the tier of each switch by its distance from the nodes' NICs, the counts
// of ports, and the order of the nodes.
namespace {

[[noreturn]] void refuse_layout(const std::string& file, std::string problem, std::string hint) {
  throw InputError(Problem{file, "", std::move(problem), std::move(hint)});
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

// Takes the number at a position, without leading zeros.
std::string_view take_digits(std::string_view text, std::size_t& at) {
  while (at < text.size() && text[at] == '0') ++at;
  const std::size_t begin = at;
  while (at < text.size() && is_digit(text[at])) ++at;
  return text.substr(begin, at - begin);
}

// Compares names with the numbers in them as numbers: "dgx2" is before "dgx10".
bool natural_less(std::string_view a, std::string_view b) {
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
      continue;
    }
    const std::string_view x = take_digits(a, i);
    const std::string_view y = take_digits(b, j);
    if (x.size() != y.size()) return x.size() < y.size();
    if (x != y) return x < y;
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  // Names that differ in leading zeros only ("n1", "n01") are in the order of their letters, so
  // that different names never count as equal.
  return a < b;
}

struct NaturalLess {
  bool operator()(const std::string& a, const std::string& b) const { return natural_less(a, b); }
};

// Cuts "dgx01 mlx5_0" at its last blank. A name without blanks is a host with one HCA.
std::pair<std::string, std::string> host_and_hca(const std::string& name) {
  const std::size_t end = name.find_last_not_of(' ');
  const std::size_t blank = end == std::string::npos ? end : name.rfind(' ', end);
  if (blank == std::string::npos) return {name, ""};
  std::string host = name.substr(0, blank);
  host.erase(host.find_last_not_of(' ') + 1);
  return {host, name.substr(blank + 1, end - blank)};
}

// Sorts the cables of a fabric into those of hosts and those between switches.
class Survey {
 public:
  Survey(const IbFabric& fabric, const IbLayoutChoice& choice) : fabric_(fabric), choice_(choice) {
    for (const IbCable& cable : fabric.cables) {
      const IbDevice& a = fabric.devices[cable.a.device];
      const IbDevice& b = fabric.devices[cable.b.device];
      if (!a.is_switch && !b.is_switch)
        refuse_layout(fabric.file,
                      fmt::format("\"{}\" and \"{}\" are cabled to each other without a switch",
                                  a.name, b.name),
                      "a fabric has at least one switch between hosts");
      if (a.is_switch != b.is_switch)
        add_hca(a.is_switch ? b : a, a.is_switch ? cable.a.device : cable.b.device, cable);
      else if (cable.a.device != cable.b.device)
        between_[std::minmax(cable.a.device, cable.b.device)] += rate_of(cable).value();
    }
  }

  // Returns the hosts in the order of their names.
  std::vector<IbHost> hosts() {
    std::vector<IbHost> all;
    for (auto& [name, nics] : hosts_) {
      IbHost& host = all.emplace_back(IbHost{.name = name});
      for (auto& [hca, nic] : nics) host.nics.push_back(std::move(nic));
    }
    return all;
  }
  std::map<IbSwitchPair, double> between() { return std::move(between_); }

  [[nodiscard]] std::vector<std::string> assumed() const {
    std::vector<std::string> all;
    if (unknown_rates_ > 0)
      all.push_back(fmt::format("{} cables without a known speed have {}, as --nic says",
                                unknown_rates_, nic_rate_text(*choice_.unknown_rate)));
    if (aggregation_nodes_ > 0)
      all.push_back(fmt::format(
          "{} switches can reduce in the network (SHARP), and the cluster does not: where jobs use "
          "it, add \"reduces\": true",
          aggregation_nodes_));
    return all;
  }

 private:
  void add_hca(const IbDevice& hca, std::size_t at, const IbCable& cable) {
    // A switch with SHARP has an HCA of its own inside.
    if (hca.name.find("Aggregation Node") != std::string::npos) {
      ++aggregation_nodes_;
      return;
    }
    const auto [host, name] = host_and_hca(hca.name.empty() ? hca.key : hca.name);
    IbNic& nic = hosts_[host].try_emplace(name, IbNic{.name = name}).first->second;
    nic.cables.emplace_back(at, rate_of(cable));
  }

  BytesPerSecond rate_of(const IbCable& cable) {
    if (cable.rate.value() > 0.0) return cable.rate;
    ++unknown_rates_;
    if (choice_.unknown_rate) return *choice_.unknown_rate;
    throw InputError(Problem{fabric_.file, fmt::format("line {}", cable.line),
                             "the file does not tell the speed of this cable",
                             "name the rate of such cables: --nic 800G"});
  }

  const IbFabric& fabric_;
  const IbLayoutChoice& choice_;
  std::map<std::string, std::map<std::string, IbNic, NaturalLess>, NaturalLess> hosts_;
  std::map<IbSwitchPair, double> between_;
  std::size_t aggregation_nodes_ = 0;
  std::size_t unknown_rates_ = 0;  // number of cables
};

// "2 hosts with 1 HCA are left out (ufm1, ufm2)".
std::string left_out_text(std::size_t nics, const std::vector<std::string>& names) {
  constexpr std::size_t kNamesMost = 4;
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamesMost));
  return fmt::format("{} host{} with {} HCA{} {} left out ({}{})", names.size(),
                     names.size() == 1 ? "" : "s", nics, nics == 1 ? "" : "s",
                     names.size() == 1 ? "is" : "are", fmt::join(names.begin(), end, ", "),
                     names.size() > kNamesMost ? ", ..." : "");
}

// Returns the usual number of NICs where a host has it, else the most frequent number; 0 without
// hosts.
std::uint32_t nics_of_hosts(const std::vector<IbHost>& hosts, std::uint32_t usual) {
  std::map<std::size_t, std::size_t> count;  // of hosts, by number of NICs
  for (const IbHost& host : hosts) ++count[host.nics.size()];
  if (count.contains(usual)) return usual;
  std::size_t best = 0;
  for (const auto& [nics, number] : count)
    // The larger one of two numbers with equally many hosts counts, because hosts for management
    // have few NICs.
    if (best == 0 || number >= count[best]) best = nics;
  return static_cast<std::uint32_t>(best);
}

// Moves the hosts that become nodes out of `all`, and lists the others.
std::vector<IbHost> chosen_hosts(std::vector<IbHost>& all, const std::string& file,
                                 const IbLayoutChoice& choice, IbLayout& layout) {
  std::vector<IbHost> chosen;
  std::vector<IbHost> others;
  for (IbHost& host : all)
    (choice.name_pattern.empty() || fnmatch(choice.name_pattern.c_str(), host.name.c_str(), 0) == 0
         ? chosen
         : others)
        .push_back(std::move(host));
  layout.nics_of_host = nics_of_hosts(chosen, choice.nics);
  // The hosts of an NVLink domain share its NICs, so their number is fixed.
  if (!chosen.empty() && choice.hosts_of_node > 1 && layout.nics_of_host != choice.nics)
    refuse_layout(file,
                  fmt::format("its hosts have {} HCAs; a host of that node type has {}",
                              layout.nics_of_host, choice.nics),
                  "name another --node, or choose hosts with --hosts 'rack1-*'");
  if (chosen.empty())
    refuse_layout(file,
                  "has no host" + (choice.name_pattern.empty()
                                       ? std::string()
                                       : fmt::format(" like \"{}\"", choice.name_pattern)),
                  "hosts are HCAs with a name and a cable to a switch");
  std::erase_if(chosen, [&](IbHost& host) {
    if (host.nics.size() == layout.nics_of_host) return false;
    others.push_back(std::move(host));
    return true;
  });
  std::map<std::size_t, std::vector<std::string>> left_out;  // names, by number of NICs
  for (const IbHost& host : others) left_out[host.nics.size()].push_back(host.name);
  for (const auto& [nics, names] : left_out) layout.assumed.push_back(left_out_text(nics, names));
  all = std::move(others);
  return chosen;
}

// Joins the hosts of an NVLink domain in the order of their names.
void group_hosts(std::vector<IbHost> hosts, const std::string& file, std::size_t of_node,
                 IbLayout& layout) {
  if (hosts.size() % of_node != 0)
    refuse_layout(
        file,
        fmt::format("has {} hosts, and a node of that type has {} of them", hosts.size(), of_node),
        "choose the hosts of whole nodes with --hosts 'rack1-*'");
  std::size_t cables = 0;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (i % of_node == 0) layout.nodes.emplace_back();
    layout.nodes.back().hosts.push_back(hosts[i].name);
    for (IbNic& nic : hosts[i].nics) {
      cables = std::max(cables, nic.cables.size());
      layout.nodes.back().nics.push_back(std::move(nic));
    }
  }
  if (of_node > 1)
    layout.assumed.push_back(
        fmt::format("every {} hosts, in the order of their names, are one node", of_node));
  if (cables > 1)
    layout.assumed.push_back(
        fmt::format("an HCA with {} cables is one NIC that uses them together", cables));
}

void note_rates(IbLayout& layout) {
  std::map<BytesPerSecond, std::size_t> count;  // of NICs
  for (const IbNode& node : layout.nodes)
    for (const IbNic& nic : node.nics) ++count[nic.rate()];
  layout.nic_rate =
      std::ranges::max_element(count, {}, [](const auto& entry) { return entry.second; })->first;
  for (const IbNode& node : layout.nodes)
    for (const IbNic& nic : node.nics)
      if (nic.rate() == layout.nic_rate) layout.cable_rate = nic.cables.front().second;
  layout.one_rate = count.size() == 1;
  if (layout.one_rate) return;
  std::vector<std::string> rates;
  for (const auto& [rate, number] : count)
    rates.push_back(fmt::format("{} with {}", number, nic_rate_text(rate)));
  layout.found.push_back(fmt::format("the NICs differ: {}", fmt::join(rates, ", ")));
}

// Calls `use(switch, node)` for each cable of a NIC.
template <class Use>
void for_each_nic_cable(const IbLayout& layout, Use&& use) {
  for (const IbNode& node : layout.nodes)
    for (const IbNic& nic : node.nics)
      for (const auto& cable : nic.cables) use(cable.first, node);
}

// Finds the tiers by their distance from the NICs: 1 for leaves, 2 for spines, more for cores (a
// search in breadth over the cables between switches). A switch of other hosts is not on the third
// tier: it is a leaf of theirs, such as one of storage.
void find_levels(const std::vector<IbHost>& others, IbLayout& layout) {
  std::set<std::size_t> of_others;
  for (const IbHost& host : others)
    for (const IbNic& nic : host.nics)
      for (const auto& cable : nic.cables) of_others.insert(cable.first);
  std::map<std::size_t, std::vector<std::size_t>> neighbours;
  for (const auto& [ends, rate] : layout.between) {
    neighbours[ends.first].push_back(ends.second);
    neighbours[ends.second].push_back(ends.first);
  }
  std::map<std::size_t, int>& level = layout.tiers.level;
  for_each_nic_cable(layout, [&](std::size_t at, const IbNode&) { level.try_emplace(at, 1); });
  std::vector<std::size_t> wave;
  for (const auto& [at, number] : level) wave.push_back(at);
  for (int next = 2; !wave.empty(); ++next) {
    std::vector<std::size_t> reached;
    for (const std::size_t at : wave)
      for (const std::size_t to : neighbours[at])
        if (!(next > 2 && of_others.contains(to)) && level.try_emplace(to, next).second)
          reached.push_back(to);
    wave = std::move(reached);
  }
  IbTiers& tiers = layout.tiers;
  for (const auto& [at, number] : level)
    (number == 1 ? tiers.leaves : number == 2 ? tiers.spines : tiers.cores).push_back(at);
}

// The cables of every switch, in cables of a NIC: 800 Gb/s to a spine are 2 cables where a NIC has
// 400.
struct SwitchPorts {
  std::map<std::size_t, std::uint32_t> nics = {};
  std::map<std::size_t, std::set<const IbNode*>> nodes = {};
  std::map<std::size_t, double> up = {}, down = {}, peers = {};
};

SwitchPorts ports_of(const IbLayout& layout) {
  SwitchPorts ports;
  for_each_nic_cable(layout, [&](std::size_t at, const IbNode& node) {
    ++ports.nics[at];
    ports.nodes[at].insert(&node);
  });
  const std::map<std::size_t, int>& level = layout.tiers.level;
  for (const auto& [ends, rate] : layout.between) {
    const auto a = level.find(ends.first);
    const auto b = level.find(ends.second);
    if (a == level.end() || b == level.end()) continue;
    const double cables = rate / layout.cable_rate.value();
    if (a->second == b->second) {
      ports.peers[ends.first] += cables;
      ports.peers[ends.second] += cables;
      continue;
    }
    const bool first_below = a->second < b->second;
    ports.up[first_below ? ends.first : ends.second] += cables;
    ports.down[first_below ? ends.second : ends.first] += cables;
  }
  return ports;
}

// The parameters of a fabric are those of its full switches, so each count is the largest of its
// tier. A leaf with few NICs may have all its uplinks, so uplinks count only at the fullest leaves.
void measure(const IbFabric& fabric, IbLayout& layout) {
  IbTiers& tiers = layout.tiers;
  SwitchPorts ports = ports_of(layout);
  for (const std::size_t leaf : tiers.leaves) {
    tiers.nics_of_leaf = std::max(tiers.nics_of_leaf, ports.nics[leaf]);
    tiers.nodes_of_leaf =
        std::max(tiers.nodes_of_leaf, static_cast<std::uint32_t>(ports.nodes[leaf].size()));
    tiers.peers = std::max(tiers.peers, ports.peers[leaf]);
  }
  for (const std::size_t leaf : tiers.leaves)
    if (ports.nics[leaf] == tiers.nics_of_leaf)
      tiers.uplinks = std::max(tiers.uplinks, ports.up[leaf]);
  for (const std::size_t spine : tiers.spines) {
    tiers.spine_down = std::max(tiers.spine_down, ports.down[spine]);
    tiers.spine_up = std::max(tiers.spine_up, ports.up[spine]);
  }
  for (const std::size_t core : tiers.cores)
    tiers.core_ports = std::max(tiers.core_ports, ports.down[core]);
  for (const auto& [at, number] : tiers.level)
    tiers.switch_ports =
        std::max(tiers.switch_ports, fabric.devices[at].ports - fabric.devices[at].ports % 2);
}

// Returns, for each switch below the cores, the smallest number in its part of the fabric below the
// cores. These parts are the pods of a fabric of three levels. They are found by union-find: a
// switch points to one of its part, the smallest points to itself, and root() shortens the paths.
std::map<std::size_t, std::size_t> pods_of(const IbLayout& layout) {
  std::map<std::size_t, std::size_t> pod;
  for (const auto& [at, number] : layout.tiers.level)
    if (number <= 2) pod[at] = at;
  const auto root = [&](std::size_t at) {
    while (pod[at] != at) at = pod[at] = pod[pod[at]];
    return at;
  };
  for (const auto& [ends, rate] : layout.between) {
    if (!pod.contains(ends.first) || !pod.contains(ends.second)) continue;
    const std::size_t a = root(ends.first);
    const std::size_t b = root(ends.second);
    pod[std::max(a, b)] = std::min(a, b);
  }
  for (auto& [at, of] : pod) of = root(at);
  return pod;
}

// Nodes at the same switches: how many, and the first of them by name.
struct LeafGroup {
  std::size_t nodes = 0;
  std::string first = {};
};
using Key = std::vector<std::size_t>;  // switches

// Full groups come first, then the order of names.
bool is_before(const LeafGroup& a, const LeafGroup& b) {
  if (a.nodes != b.nodes) return a.nodes > b.nodes;
  return natural_less(a.first, b.first);
}

void add_to(std::map<Key, LeafGroup>& groups, const Key& key, const std::string& host) {
  LeafGroup& group = groups.try_emplace(key, LeafGroup{.nodes = 0, .first = host}).first->second;
  ++group.nodes;
  if (natural_less(host, group.first)) group.first = host;
}

void order_by_leaf(IbLayout& layout) {
  const std::map<std::size_t, std::size_t> pod = pods_of(layout);
  struct Place {
    Key pods, leaves;
    IbNode node;
  };
  std::vector<Place> places;
  std::map<Key, LeafGroup> in_pod, at_leaf;
  for (IbNode& node : layout.nodes) {
    std::set<std::size_t> leaves, pods;
    for (const IbNic& nic : node.nics)
      for (const auto& cable : nic.cables) {
        leaves.insert(cable.first);
        pods.insert(pod.at(cable.first));
      }
    Place& place = places.emplace_back(
        Place{Key(pods.begin(), pods.end()), Key(leaves.begin(), leaves.end()), std::move(node)});
    add_to(in_pod, place.pods, place.node.hosts.front());
    add_to(at_leaf, place.leaves, place.node.hosts.front());
  }
  std::ranges::sort(places, [&](const Place& a, const Place& b) {
    if (a.pods != b.pods) return is_before(in_pod.at(a.pods), in_pod.at(b.pods));
    if (a.leaves != b.leaves) return is_before(at_leaf.at(a.leaves), at_leaf.at(b.leaves));
    return natural_less(a.node.hosts.front(), b.node.hosts.front());
  });
  layout.nodes.clear();
  for (Place& place : places) layout.nodes.push_back(std::move(place.node));
}

}  // namespace

BytesPerSecond IbNic::rate() const {
  BytesPerSecond sum;
  for (const auto& cable : cables) sum += cable.second;
  return sum;
}

IbLayout layout_of(const IbFabric& fabric, const IbLayoutChoice& choice) {
  Survey survey(fabric, choice);
  IbLayout layout{.between = survey.between()};
  std::vector<IbHost> others = survey.hosts();
  std::vector<IbHost> hosts = chosen_hosts(others, fabric.file, choice, layout);
  group_hosts(std::move(hosts), fabric.file, choice.hosts_of_node, layout);
  for (std::string& sentence : survey.assumed()) layout.assumed.push_back(std::move(sentence));
  note_rates(layout);
  find_levels(others, layout);
  measure(fabric, layout);
  order_by_leaf(layout);
  return layout;
}

void order_by_switch(const IbFabric& fabric, IbLayout& layout) {
  const auto name = [&](const IbNode& node) -> const std::string& {
    return fabric.devices[node.nics.front().cables.front().first].name;
  };
  std::ranges::stable_sort(layout.nodes, [&](const IbNode& a, const IbNode& b) {
    if (name(a) != name(b)) return natural_less(name(a), name(b));
    return natural_less(a.hosts.front(), b.hosts.front());
  });
}

}  // namespace trainyard
