// The search for graphs on a node (search_graphs() of communicator.hpp), after ncclTopoCompute in
// NVIDIA/nccl src/graph/search.cc.
//
// A graph has a number of channels, each with the same rate. Search lowers the rate until enough
// channels fit, then splits fast channels, then raises the rate again. ChannelPlacement decides
// whether channels fit: it adds them greedily, one by one, to the wires of the node (NodeLinks).
#include <algorithm>
#include <numeric>
#include <string>

#include "sim/base/check.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/collectives/algorithms/ring.hpp"
#include "sim/nccl/communicator.hpp"

namespace trainyard::nccl {

namespace {

using Order = std::vector<std::uint32_t>;  // the GPUs in the order in which a channel visits them

constexpr std::uint32_t kRingChannelsMost = 32;  // half of MAXCHANNELS: each is used twice
constexpr std::uint32_t kNvlsHeadsMost = 32;     // NCCL_MAX_NVLS_ARITY
constexpr std::uint32_t kEveryOrderMost = 6;     // GPUs of a mesh for which every order is tried
constexpr double kRateOfNoPath = 0.1;            // GB/s, the fallback of ncclTopoCompute

using Json = nlohmann::ordered_json;

enum class Pattern : std::uint8_t { Ring, BalancedTree, SimpleTree, Nvls };

bool is_tree(Pattern pattern) {
  return pattern == Pattern::BalancedTree || pattern == Pattern::SimpleTree;
}

std::vector<double> speeds_of(const NodeView& node) {
  const auto read = [](const std::filesystem::path& file) {
    return JsonFile::read(file).document().at("search");
  };
  const std::filesystem::path topology = data_file("sim/nccl/data", "topology");
  const Json& search = read_once<Json>(topology, read);
  const Json& lists = search.at(node.nics.empty() ? "one_node" : "network");
  const auto& chosen = lists.at(node.sm >= 100 ? "100" : node.sm >= 90 ? "90" : "0");
  return chosen.get<std::vector<double>>();
}

// The orders to try for a channel with a given first GPU. In a mesh, different orders use different
// wires.
std::vector<Order> orders(const NodeView& node, std::uint32_t first) {
  const auto count = static_cast<std::uint32_t>(node.gpus.size());
  std::vector<Order> made;
  Order natural(count);
  std::iota(natural.begin(), natural.end(), 0U);
  const bool mesh = node.scale_up == NodeView::ScaleUp::FullMesh && count > 2;
  if (!mesh) {
    made.push_back(natural);
  } else if (count <= kEveryOrderMost) {
    do made.push_back(natural);
    while (std::next_permutation(natural.begin() + 1, natural.end()));
  } else {
    made = disjoint_cycles(count);
  }
  for (Order& order : made)
    std::rotate(order.begin(), std::find(order.begin(), order.end(), first), order.end());
  return made;
}

// The graph for which one attempt searches.
struct Attempt {
  Pattern pattern = Pattern::Ring;
  double intra = 0.0;
  double inter = 0.0;
  PathType type_inter = PathType::Same;  // the most distant type of path to a NIC
  std::uint32_t channels_most = kRingChannelsMost;
};

// Adds the channels of one attempt to the wires.
class ChannelPlacement {
 public:
  // `orders`: by first GPU, the orders to try; empty where they were not asked for yet.
  ChannelPlacement(const NodeView& node, NodeLinks& links, const Attempt& attempt,
                   std::vector<std::vector<Order>>& orders)
      : node_(node), attempt_(attempt), links_(links), orders_(orders) {
    links_.free_all();
  }

  // Returns the number of channels that fit, and the number of wires that they use.
  std::pair<std::uint32_t, std::size_t> run() {
    std::uint32_t placed = 0;
    while (placed < attempt_.channels_most && place_channel(placed)) ++placed;
    return {placed, hops_};
  }

 private:
  bool place_channel(std::uint32_t channel) {
    if (attempt_.pattern == Pattern::Nvls) return place_head(channel);
    if (node_.nics.empty()) return place_order(channel, 0, {});
    const auto nics = static_cast<std::uint32_t>(node_.nics.size());
    // Channel c prefers NIC c (modulo their number), which spreads the channels over the NICs.
    for (std::uint32_t turn = 0; turn < nics; ++turn) {
      const std::uint32_t nic = (channel + turn) % nics;
      const std::uint32_t first = links_.nearest_gpu_of(nic);
      if (links_.from_nic(nic, first).type > attempt_.type_inter) continue;
      if (place_order(channel, first, nic)) return true;
    }
    return false;
  }

  bool place_order(std::uint32_t channel, std::uint32_t first, std::optional<std::uint32_t> nic) {
    std::vector<Order>& tried = orders_[first];
    if (tried.empty()) tried = orders(node_, first);
    for (std::size_t turn = 0; turn < tried.size(); ++turn) {
      order_ = tried[(channel + turn) % tried.size()];
      if (nic) bring_exit_near(order_, *nic);
      if (nic && links_.to_nic(exit_of(order_), *nic).type > attempt_.type_inter) continue;
      find_demands(order_, nic);
      if (commit(demands_)) return true;
    }
    return false;
  }

  // The GPU that sends to the NIC: the last one of a ring, the second one of a balanced tree.
  std::uint32_t exit_of(const Order& order) const {
    if (attempt_.pattern == Pattern::Ring) return order.back();
    if (attempt_.pattern == Pattern::SimpleTree || order.size() == 1) return order.front();
    return order[1];
  }

  // Moves a GPU that is behind the same switch as the NIC to the position from which the channel
  // leaves.
  void bring_exit_near(Order& order, std::uint32_t nic) const {
    if (order.size() < 3 || attempt_.pattern == Pattern::SimpleTree) return;
    for (std::size_t i = 1; i < order.size(); ++i) {
      if (links_.to_nic(order[i], nic).type > PathType::Switches) continue;
      const std::uint32_t near = order[i];
      order.erase(order.begin() + static_cast<std::ptrdiff_t>(i));
      order.insert(attempt_.pattern == Pattern::Ring ? order.end() : order.begin() + 1, near);
      return;
    }
  }

  // The rate that the channel needs on each path: between consecutive GPUs, and from and to the NIC
  // or back to the first GPU. A balanced tree sends to the NIC from two GPUs, half of the rate
  // each.
  void find_demands(const Order& order, std::optional<std::uint32_t> nic) {
    demands_.clear();
    for (std::size_t i = 0; i + 1 < order.size(); ++i)
      demands_.push_back({&links_.to_gpu(order[i], order[i + 1]), attempt_.intra});
    if (!nic) {
      if (attempt_.pattern == Pattern::Ring && order.size() > 1)
        demands_.push_back({&links_.to_gpu(order.back(), order.front()), attempt_.intra});
      return;
    }
    demands_.push_back({&links_.from_nic(*nic, order.front()), attempt_.inter});
    if (attempt_.pattern == Pattern::BalancedTree && order.size() > 1) {
      demands_.push_back({&links_.to_nic(order.front(), *nic), attempt_.inter / 2.0});
      demands_.push_back({&links_.to_nic(order[1], *nic), attempt_.inter / 2.0});
    } else {
      demands_.push_back({&links_.to_nic(exit_of(order), *nic), attempt_.inter});
    }
  }

  // Channel h of NVLS is the part of the buffer that GPU h reduces. All GPUs read and write it
  // through the switch; the head needs twice the rate (for its own data and for the sum).
  bool place_head(std::uint32_t channel) {
    if (channel >= node_.gpus.size()) return false;
    std::uint32_t head = channel;
    std::vector<Demand> made;
    if (!node_.nics.empty()) {
      if (channel >= node_.nics.size()) return false;
      head = links_.nearest_gpu_of(channel);
      const NodePath& in = links_.from_nic(channel, head);
      if (in.type > attempt_.type_inter) return false;
      made.push_back({&in, attempt_.inter});
      made.push_back({&links_.to_nic(head, channel), attempt_.inter});
    }
    for (std::uint32_t gpu = 0; gpu < node_.gpus.size(); ++gpu) {
      const double rate = gpu == head ? 2.0 * attempt_.intra : attempt_.intra;
      made.push_back({&links_.from_switch(gpu), rate});
      made.push_back({&links_.to_switch(gpu), rate});
    }
    return commit(made);
  }

  bool commit(const std::vector<Demand>& made) {
    if (!links_.take(made)) return false;
    for (const Demand& demand : made) hops_ += demand.path->wires.size();
    return true;
  }

  const NodeView& node_;
  Attempt attempt_;
  NodeLinks& links_;
  std::vector<std::vector<Order>>& orders_;
  Order order_;                  // the one that is being tried
  std::vector<Demand> demands_;  // of that order
  std::size_t hops_ = 0;
};

// The search for one pattern of graph. `found_` is the best graph so far; Channels are the minimum
// and maximum number of channels.
class Search {
 public:
  struct Channels {
    std::uint32_t least = 1;
    std::uint32_t most = 1;
  };
  // REQUIRES: `links` are those of `node`.
  Search(const NodeView& node, NodeLinks& links, Pattern pattern, Channels channels)
      : node_(node),
        links_(links),
        pattern_(pattern),
        least_(channels.least),
        most_(channels.most),
        orders_(node.gpus.size()),
        speeds_(speeds_of(node)),
        best_rate_(links.best_rate()),
        total_rate_(links.total_rate()) {
    if (node.gpus.size() == 1 && is_tree(pattern_)) pattern_ = Pattern::SimpleTree;
  }

  ChannelGraph run() {
    lower_until_it_fits();
    if (found_.channels == 0) return fallback();
    split_fast_channels();
    raise_while_it_fits();
    finish();
    return found_;
  }

 private:
  // The first rate that can fit: no more than the best path carries, and the least number of
  // channels no more than all links of a GPU carry. Trees and NVLS of n GPUs need (n-1)/n of the
  // rate of a ring.
  std::size_t first_speed() const {
    const auto gpus = static_cast<double>(node_.gpus.size());
    const double share = gpus > 1.0 && pattern_ != Pattern::Ring ? gpus / (gpus - 1.0) : 1.0;
    std::size_t index = 0;
    while (index + 1 < speeds_.size() &&
           (speeds_[index] > best_rate_ || speeds_[index] * least_ > total_rate_ * share))
      ++index;
    return index;
  }

  void lower_until_it_fits() {
    for (std::size_t index = first_speed();; ++index) {
      if (try_types(speeds_[index])) return;
      // Continue as long as nothing fits, or the next rate is more than about half of the rate
      // found: twice as many channels at a lower rate can be better.
      const bool goes_on = index + 1 < speeds_.size() &&
                           (found_.channels == 0 || speeds_[index + 1] / found_.inter > 0.49);
      if (!goes_on) return;
    }
  }

  // Returns true if no better graph can be expected. A balanced tree is searched over all types of
  // path before a simple one; the worked numbers of NCCL's model imply this order.
  bool try_types(double speed) {
    if (try_types(pattern_, speed)) return true;
    const bool simpler = node_.sm >= 90 && pattern_ == Pattern::BalancedTree && !node_.nics.empty();
    return simpler && try_types(Pattern::SimpleTree, speed);
  }

  bool try_types(Pattern pattern, double speed) {
    if (node_.nics.empty()) return attempt(pattern, speed, speed, PathType::Same, most_);
    // Types up to PXN are always tried. Beyond that, a farther type is tried only while nothing
    // fits, or if the graph found so far already needs it.
    for (int type = static_cast<int>(PathType::OneSwitch);
         type <= static_cast<int>(PathType::AcrossSockets); ++type) {
      const auto limit = static_cast<PathType>(type);
      const bool worth =
          found_.channels == 0 || limit <= found_.type_inter || limit <= PathType::NicByPeer;
      if (!worth) break;
      if (attempt(pattern, speed, speed, limit, most_)) return true;
    }
    return false;
  }

  // Places the channels of one attempt and keeps the graph if it is better. Returns true if the
  // search can stop: as many channels fit as are wanted, or the graph uses all links of a GPU.
  bool attempt(Pattern pattern, double intra, double inter, PathType type, std::uint32_t most) {
    const auto [channels, hops] = ChannelPlacement(node_, links_,
                                                   {.pattern = pattern,
                                                    .intra = intra,
                                                    .inter = inter,
                                                    .type_inter = type,
                                                    .channels_most = most},
                                                   orders_)
                                      .run();
    const ChannelGraph made{.channels = channels,
                            .intra = intra,
                            .inter = inter,
                            .type_inter = type,
                            .simple_tree = pattern == Pattern::SimpleTree};
    const bool better = channels >= least_ && channels > 0 && is_better(made, hops);
    if (better) {
      found_ = made;
      hops_ = hops;
      if (channels == most) return true;
    }
    return found_.channels > 0 && found_.channels * found_.inter >= total_rate_;
  }

  bool is_better(const ChannelGraph& made, std::size_t hops) const {
    if (pattern_ == Pattern::Nvls)
      return made.channels > found_.channels ||
             made.channels * made.inter > found_.channels * found_.inter;
    const double gain = made.channels * made.intra - found_.channels * found_.intra;
    if (gain != 0.0) return gain > 0.0;
    return made.simple_tree == found_.simple_tree && hops < hops_;
  }

  void split_fast_channels() {
    if (pattern_ == Pattern::Nvls || found_.intra < 25.0) return;
    if (node_.sm > 80 && found_.intra < 50.0 && found_.channels > 4) return;
    const std::uint32_t doubled = std::min(2 * found_.channels, most_);
    if (doubled == found_.channels) return;
    found_.channels = doubled;
    found_.intra /= 2.0;
    found_.inter /= 2.0;
  }

  // Raises the rate of the whole graph for rings, towards the NIC for NVLS while it is below twice
  // the rate between GPUs, and between GPUs for trees while it is below twice the rate to the NIC.
  // Except for rings, a further step requires that the last one succeeded.
  void raise_while_it_fits() {
    least_ = found_.channels;
    const std::uint32_t most = pattern_ == Pattern::Nvls ? found_.channels : most_;
    std::size_t index = 0;
    while (index + 1 < speeds_.size() && speeds_[index] > found_.inter) ++index;
    double intra = speeds_[index];
    double inter = speeds_[index];
    // The rate after a split need not be in the list. Only rings are raised from such a rate.
    if (pattern_ != Pattern::Ring && speeds_[index] != found_.inter) return;
    while (index > 0) {
      if (pattern_ == Pattern::Nvls && !(inter == found_.inter && inter < 2.0 * found_.intra))
        return;
      if (is_tree(pattern_) && !(intra == found_.intra && intra < 2.0 * inter)) return;
      const double next = speeds_[--index];
      if (!is_tree(pattern_)) inter = next;
      if (pattern_ == Pattern::Nvls)
        intra = found_.intra;
      else
        intra = next;
      attempt(found_.simple_tree ? Pattern::SimpleTree : pattern_, intra, inter, found_.type_inter,
              most);
    }
  }

  void finish() {
    const auto gpus = static_cast<std::uint32_t>(node_.gpus.size());
    found_.type_intra = PathType::Same;
    for (std::uint32_t gpu = 0; gpu + 1 < gpus; ++gpu)
      found_.type_intra = std::max(found_.type_intra, links_.to_gpu(gpu, gpu + 1).type);
    found_.same_channels = node_.nics.empty() && node_.scale_up != NodeView::ScaleUp::FullMesh;
    if (!node_.nics.empty()) found_.net_latency_us = node_.nics.front().latency_us;
  }

  // If the wires are slower than the lowest rate of the search, NCCL uses one channel. (Its tuning
  // model then assumes 0.1 GB/s, but messages take the time that the wires need.)
  ChannelGraph fallback() const {
    if (pattern_ == Pattern::Nvls) return {};
    double intra = speeds_.back();
    for (std::uint32_t gpu = 0; gpu + 1 < node_.gpus.size(); ++gpu)
      intra = std::min(intra, links_.to_gpu(gpu, gpu + 1).rate);
    const double inter = node_.nics.empty() ? intra : std::min(best_rate_, speeds_.back());
    return {.channels = 1,
            .intra = std::max(intra, kRateOfNoPath),
            .inter = std::max(inter, kRateOfNoPath),
            .type_intra = PathType::AcrossSockets,
            .type_inter = PathType::AcrossSockets};
  }

  const NodeView& node_;
  NodeLinks& links_;
  Pattern pattern_;
  std::uint32_t least_;
  std::uint32_t most_;
  std::vector<std::vector<Order>> orders_;  // of ChannelPlacement
  std::vector<double> speeds_;
  double best_rate_ = 0.0;
  double total_rate_ = 0.0;
  ChannelGraph found_;
  std::size_t hops_ = 0;
};

}  // namespace

Graphs search_graphs(const NodeView& node) {
  TY_CHECK(!node.gpus.empty() && (node.gpus.size() > 1 || !node.nics.empty()), node.gpus.size());
  NodeLinks links(node);
  Graphs graphs;
  graphs.ring = Search(node, links, Pattern::Ring, {1, kRingChannelsMost}).run();
  const std::uint32_t channels = graphs.ring.channels;
  graphs.tree = Search(node, links, Pattern::BalancedTree, {channels, channels}).run();
  const bool nvls = node.scale_up == NodeView::ScaleUp::NvSwitch && node.sm >= 90;
  if (!nvls) return graphs;
  const auto heads = std::min(kNvlsHeadsMost, static_cast<std::uint32_t>(node.gpus.size()));
  const ChannelGraph found =
      Search(node, links, Pattern::Nvls, {node.nics.empty() ? heads : 1, heads}).run();
  if (found.channels > 0) graphs.nvls = found;
  return graphs;
}

}  // namespace trainyard::nccl
