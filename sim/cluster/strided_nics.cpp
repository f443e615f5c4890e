#include "sim/cluster/strided_nics.hpp"

#include "sim/cluster/net.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

namespace {

// Devices of a node, at most: one is looked up by what its number leaves over.
constexpr std::uint32_t kStrideMost = 1U << 16U;

}  // namespace

std::optional<StridedNics> StridedNics::of(std::span<const DeviceId> nic_of_gpu,
                                           std::uint32_t gpus_per_node) {
  StridedNics nics;
  nics.gpus_ = static_cast<std::uint32_t>(nic_of_gpu.size());
  nics.gpus_per_node_ = gpus_per_node;
  if (nics.gpus_ <= gpus_per_node) return std::nullopt;
  nics.stride_ = nic_of_gpu[gpus_per_node] - nic_of_gpu[0];
  if (nics.stride_ == 0 || nics.stride_ > kStrideMost) return std::nullopt;
  nics.first_.assign(nics.stride_, {kNone, 0});
  for (std::uint32_t gpu = 0; gpu < gpus_per_node; ++gpu) {
    First& first = nics.first_[nic_of_gpu[gpu] % nics.stride_];
    if (first.nic != kNone) return std::nullopt;
    first = {nic_of_gpu[gpu], gpu};
  }
  for (std::size_t gpu = gpus_per_node; gpu < nic_of_gpu.size(); ++gpu)
    if (nic_of_gpu[gpu] - nic_of_gpu[gpu - gpus_per_node] != nics.stride_) return std::nullopt;
  return nics;
}

std::uint32_t StridedNics::gpu_of(DeviceId nic) const {
  const First& first = first_[nic % stride_];
  if (first.nic > nic) return kNone;
  const std::uint64_t gpu = std::uint64_t{(nic - first.nic) / stride_} * gpus_per_node_ + first.gpu;
  return gpu < gpus_ ? static_cast<std::uint32_t>(gpu) : kNone;
}

std::optional<Series> StridedNics::gpus_of(const Series& nics) const {
  if (nics.count > 1 && nics.step != stride_) return std::nullopt;
  const std::uint32_t first = gpu_of(nics.first);
  if (first == kNone || gpu_of(nics.last()) == kNone) return std::nullopt;
  return Series{first, gpus_per_node_, nics.count};
}

StridedCables::StridedCables(const StridedNics& nics)
    : nics_(nics),
      up_(nics.gpus(), kNoLink),
      down_(nics.gpus(), kNoLink),
      places_(nics.gpus(), kNone) {}

bool StridedCables::add(bool up, std::uint32_t place, const Series& nics, const Series& links) {
  const std::optional<Series> gpus = nics_.gpus_of(nics);
  if (!gpus) {
    bool some = false;
    for (std::uint32_t i = 0; i < nics.count && nics.count > 1; ++i)
      some = add(up, place, {nics[i]}, {links[i]}) || some;
    return some;
  }
  std::vector<LinkId>& side = up ? up_ : down_;
  for (std::uint32_t i = 0; i < gpus->count; ++i) {
    const std::uint32_t gpu = (*gpus)[i];
    one_each_ = one_each_ && side[gpu] == kNoLink;
    side[gpu] = links[i];
    if (!up) places_[gpu] = place;
  }
  told_ += gpus->count;
  return true;
}

}  // namespace trainyard
