// NICs of which each GPU has one of its own, in the same place in every node: whose a NIC is, its
// number tells. And their cables, while they are found (fabric_ports.cpp).
//
//   const auto nics = StridedNics::of(nic_of_gpu, gpus_per_node);
//   nics->gpu_of(nic_of_gpu[9]);   // 9
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/series.hpp"
#include "sim/cluster/wire.hpp"

namespace trainyard {

class StridedNics {
 public:
  // Nothing where NICs are not numbered so. REQUIRES: nic_of_gpu is not empty, its GPUs come node
  // by node.
  [[nodiscard]] static std::optional<StridedNics> of(std::span<const DeviceId> nic_of_gpu,
                                                     std::uint32_t gpus_per_node);

  [[nodiscard]] std::uint32_t gpus() const { return gpus_; }
  // kNone: it is no GPU's.
  [[nodiscard]] std::uint32_t gpu_of(DeviceId nic) const;
  // Those of several NICs, where they are a series too.
  [[nodiscard]] std::optional<Series> gpus_of(const Series& nics) const;

 private:
  struct First {
    DeviceId nic = 0;  // kNone: none
    std::uint32_t gpu = 0;
  };
  std::uint32_t gpus_ = 0;
  std::uint32_t gpus_per_node_ = 0;
  std::uint32_t stride_ = 0;  // from node to node
  std::vector<First> first_;  // by what is left of a NIC's number, that of the first node
};

// By GPU, for as long as each has one cable either way.
class StridedCables {
 public:
  // REQUIRES: the NICs outlive it.
  explicit StridedCables(const StridedNics& nics);

  // Cables up to a switch of the fabric or down from it, by its place there; whether some are
  // GPUs'.
  bool add(bool up, std::uint32_t place, const Series& nics, const Series& links);
  [[nodiscard]] bool are_all() const { return one_each_ && told_ == 2 * up_.size(); }

  // REQUIRES: are_all().
  [[nodiscard]] std::vector<LinkId> up() && { return std::move(up_); }
  [[nodiscard]] std::vector<LinkId> down() && { return std::move(down_); }
  // Of the switches that lead down.
  [[nodiscard]] std::vector<std::uint32_t> places() && { return std::move(places_); }

 private:
  const StridedNics& nics_;
  std::vector<LinkId> up_;
  std::vector<LinkId> down_;
  std::vector<std::uint32_t> places_;
  bool one_each_ = true;
  std::size_t told_ = 0;
};

}  // namespace trainyard
