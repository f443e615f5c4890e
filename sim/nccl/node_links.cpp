#include "sim/nccl/node_links.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/check.hpp"

namespace trainyard::nccl {

namespace {

// NCCL rounds what is left to three digits, so that sums of rates close.
double rounded(double rate) { return std::round(rate * 1000.0) / 1000.0; }

template <class Places, class Field>
std::uint32_t count_of(const Places& gpus, Field field) {
  std::uint32_t count = 0;
  for (const auto& gpu : gpus) count = std::max(count, field(gpu) + 1);
  return count;
}

constexpr auto kSwitchOf = [](const auto& device) { return device.pcie_switch; };
constexpr auto kSocketOf = [](const auto& device) { return device.socket; };

}  // namespace

NodeLinks::NodeLinks(const NodeView& node) : node_(node) {
  number_wires();
  left_ = rate_;
  find_paths();
}

void NodeLinks::number_wires() {
  const NodeView& node = node_;
  const auto gpus = static_cast<std::uint32_t>(node.gpus.size());
  const auto nics = static_cast<std::uint32_t>(node.nics.size());
  const auto add = [&](std::uint32_t wires, double rate) {
    const auto first = static_cast<std::uint32_t>(rate_.size());
    rate_.resize(rate_.size() + wires, rate);
    return first;
  };
  const bool mesh = node.scale_up == NodeView::ScaleUp::FullMesh;
  nvlink_ = add(mesh ? gpus * gpus : 2 * gpus, node.nvlink);
  gpu_pcie_ = add(2 * gpus, node.pcie);
  nic_pcie_ = add(2 * nics, node.pcie);
  port_ = add(2 * nics, 0.0);
  for (std::uint32_t i = 0; i < nics; ++i)
    rate_[port_ + 2 * i] = rate_[port_ + 2 * i + 1] = node.nics[i].rate;
  const std::uint32_t switches =
      std::max(count_of(node.gpus, kSwitchOf), count_of(node.nics, kSwitchOf));
  sockets_ = std::max(count_of(node.gpus, kSocketOf), count_of(node.nics, kSocketOf));
  switch_ = add(2 * switches, node.pcie);
  socket_ = add(sockets_ * sockets_, node.socket);
}

void NodeLinks::find_paths() {
  const auto gpus = static_cast<std::uint32_t>(node_.gpus.size());
  const auto nics = static_cast<std::uint32_t>(node_.nics.size());
  for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
    for (std::uint32_t peer = 0; peer < gpus; ++peer) peers_.push_back(between_gpus(gpu, peer));
    for (std::uint32_t nic = 0; nic < nics; ++nic) out_.push_back(over_pcie(gpu, nic));
    switch_ways_.push_back(path(PathType::NvLink, {nvlink_ + 2 * gpu}));
    switch_ways_.push_back(path(PathType::NvLink, {nvlink_ + 2 * gpu + 1}));
  }
  for (std::uint32_t nic = 0; nic < nics; ++nic) beside_.push_back(nearest_gpu(nic));
  for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
    for (std::uint32_t nic = 0; nic < nics; ++nic) {
      to_nic_.push_back(way_out(gpu, nic));
      from_nic_.push_back(way_back(nic, gpu));
    }
  }
}

NodePath NodeLinks::path(PathType type, std::vector<std::uint32_t> wires) const {
  NodePath made{.type = type,
                .rate = wires.empty() ? 5000.0 : rate_[wires.front()],
                .wires = std::move(wires)};
  for (const std::uint32_t wire : made.wires) made.rate = std::min(made.rate, rate_[wire]);
  return made;
}

PathType NodeLinks::host_type(const NodeGpu& from, const NodeGpu& to) const {
  if (from.pcie_switch == to.pcie_switch) return PathType::OneSwitch;
  return from.socket == to.socket ? PathType::HostBridge : PathType::AcrossSockets;
}

void NodeLinks::climb(std::vector<std::uint32_t>& wires, const NodeGpu& from,
                      const NodeGpu& to) const {
  if (from.pcie_switch == to.pcie_switch) return;
  wires.push_back(switch_ + 2 * from.pcie_switch);
  if (from.socket != to.socket) {
    wires.push_back(socket_ + from.socket * sockets_ + to.socket);
  }
  wires.push_back(switch_ + 2 * to.pcie_switch + 1);
}

const NodePath& NodeLinks::to_gpu(std::uint32_t from, std::uint32_t to) const {
  const std::size_t gpus = node_.gpus.size();
  TY_CHECK(from < gpus && to < gpus, from, to);
  return peers_[from * gpus + to];
}

const NodePath& NodeLinks::to_nic(std::uint32_t gpu, std::uint32_t nic) const {
  return to_nic_[gpu * node_.nics.size() + nic];
}

const NodePath& NodeLinks::from_nic(std::uint32_t nic, std::uint32_t gpu) const {
  return from_nic_[gpu * node_.nics.size() + nic];
}

const NodePath& NodeLinks::to_switch(std::uint32_t gpu) const {
  return switch_ways_[2 * std::size_t{gpu}];
}

const NodePath& NodeLinks::from_switch(std::uint32_t gpu) const {
  return switch_ways_[2 * std::size_t{gpu} + 1];
}

NodePath NodeLinks::between_gpus(std::uint32_t from, std::uint32_t to) const {
  const auto gpus = static_cast<std::uint32_t>(node_.gpus.size());
  if (from == to) return path(PathType::Same, {});
  if (node_.scale_up == NodeView::ScaleUp::NvSwitch)
    return path(PathType::NvLink, {nvlink_ + 2 * from, nvlink_ + 2 * to + 1});
  if (node_.scale_up == NodeView::ScaleUp::FullMesh)
    return path(PathType::NvLink, {nvlink_ + from * gpus + to});
  std::vector<std::uint32_t> wires{gpu_pcie_ + 2 * from};
  climb(wires, node_.gpus[from], node_.gpus[to]);
  wires.push_back(gpu_pcie_ + 2 * to + 1);
  return path(host_type(node_.gpus[from], node_.gpus[to]), std::move(wires));
}

NodePath NodeLinks::over_pcie(std::uint32_t gpu, std::uint32_t nic) const {
  const NodeGpu from = node_.gpus[gpu];
  const NodeGpu to{.pcie_switch = node_.nics[nic].pcie_switch, .socket = node_.nics[nic].socket};
  if (node_.nics_by_chip_to_chip && from.socket == to.socket)
    return path(PathType::ChipToChipNic, {nic_pcie_ + 2 * nic + 1, port_ + 2 * nic});
  std::vector<std::uint32_t> wires{gpu_pcie_ + 2 * gpu};
  climb(wires, from, to);
  wires.push_back(nic_pcie_ + 2 * nic + 1);
  wires.push_back(port_ + 2 * nic);
  return path(host_type(from, to), std::move(wires));
}

NodePath NodeLinks::way_out(std::uint32_t gpu, std::uint32_t nic) const {
  const NodePath& direct = out_[gpu * node_.nics.size() + nic];
  const std::uint32_t beside = gpu_beside(nic);
  const bool helps = beside != gpu && direct.type > PathType::NicByPeer &&
                     node_.scale_up != NodeView::ScaleUp::None;
  if (!helps) return direct;
  const NodePath& last = out_[beside * node_.nics.size() + nic];
  if (last.type > PathType::ChipToChipNic) return direct;
  std::vector<std::uint32_t> wires = to_gpu(gpu, beside).wires;
  wires.insert(wires.end(), last.wires.begin(), last.wires.end());
  return path(PathType::NicByPeer, std::move(wires));
}

NodePath NodeLinks::way_back(std::uint32_t nic, std::uint32_t gpu) const {
  NodePath back = out_[gpu * node_.nics.size() + nic];
  for (std::uint32_t& wire : back.wires) {
    if (wire >= socket_) continue;  // between two sockets either way is alike
    wire = wire % 2 == gpu_pcie_ % 2 ? wire + 1 : wire - 1;
  }
  return back;
}

std::uint32_t NodeLinks::nearest_gpu(std::uint32_t nic) const {
  std::vector<std::uint32_t> nearest;
  PathType best = PathType::None;
  for (std::uint32_t gpu = 0; gpu < node_.gpus.size(); ++gpu) {
    const PathType type = out_[gpu * node_.nics.size() + nic].type;
    if (type < best) nearest.clear();
    best = std::min(best, type);
    if (type == best) nearest.push_back(gpu);
  }
  // Which of the NICs that hang there is it?
  std::uint32_t turn = 0;
  for (std::uint32_t other = 0; other < nic; ++other)
    if (node_.nics[other].pcie_switch == node_.nics[nic].pcie_switch) ++turn;
  return nearest[turn % nearest.size()];
}

double NodeLinks::best_rate() const {
  double best = 0.0;
  const auto gpus = static_cast<std::uint32_t>(node_.gpus.size());
  for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
    for (std::uint32_t nic = 0; nic < node_.nics.size(); ++nic)
      best = std::max(best, to_nic(gpu, nic).rate);
    if (!node_.nics.empty()) continue;
    for (std::uint32_t peer = 0; peer < gpus; ++peer)
      if (peer != gpu) best = std::max(best, to_gpu(gpu, peer).rate);
  }
  return best;
}

double NodeLinks::total_rate() const {
  const double peers = static_cast<double>(node_.gpus.size()) - 1.0;
  const double nvlink = node_.scale_up == NodeView::ScaleUp::None       ? 0.0
                        : node_.scale_up == NodeView::ScaleUp::FullMesh ? peers * node_.nvlink
                                                                        : node_.nvlink;
  return std::max(nvlink, node_.pcie);
}

bool NodeLinks::take(const std::vector<Demand>& demands) {
  taken_.clear();
  for (const Demand& demand : demands) {
    for (const std::uint32_t wire : demand.path->wires) {
      if (left_[wire] < demand.rate) {
        for (auto entry = taken_.rbegin(); entry != taken_.rend(); ++entry)
          left_[entry->first] = entry->second;
        return false;
      }
      taken_.emplace_back(wire, left_[wire]);
      left_[wire] = rounded(left_[wire] - demand.rate);
    }
  }
  return true;
}

}  // namespace trainyard::nccl
