// The cables of NICs one way: from the NIC of each GPU to the fabric, or back. Most NICs have one,
// and 4 bytes say so.
//
//   const PortLinks up = std::move(nic_links).as_they_are();
//   for (LinkId link : up.of(gpu)) use(link);
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "sim/cluster/net.hpp"

namespace trainyard {

// By GPU. Of a NIC that is part of the fabric itself kNoLink stands for all.
class PortLinks {
 public:
  PortLinks() = default;
  // One each.
  explicit PortLinks(std::vector<LinkId> links) : links_(std::move(links)) {}
  // Those of a GPU are links[begin[gpu] .. begin[gpu + 1]).
  PortLinks(std::vector<LinkId> links, std::vector<std::uint32_t> begin)
      : links_(std::move(links)), begin_(std::move(begin)) {}

  [[nodiscard]] bool one_each() const { return begin_.empty(); }
  [[nodiscard]] std::span<const LinkId> of(std::uint32_t gpu) const {
    const std::span<const LinkId> all(links_);
    return one_each() ? all.subspan(gpu, 1)
                      : all.subspan(begin_[gpu], begin_[gpu + 1] - begin_[gpu]);
  }

 private:
  std::vector<LinkId> links_;
  std::vector<std::uint32_t> begin_;
};

// The same by NIC, while they are found.
class NicLinks {
 public:
  explicit NicLinks(std::uint32_t nics) : first_(nics, kNoLink) {}

  // REQUIRES: those of one NIC in their order.
  void add(std::uint32_t nic, LinkId link) {
    if (first_[nic] == kNoLink) {
      first_[nic] = link;
    } else {
      more_.emplace_back(nic, link);
    }
  }
  [[nodiscard]] bool has(std::uint32_t nic) const { return first_[nic] != kNoLink; }
  [[nodiscard]] bool one_each() const {
    return more_.empty() && std::ranges::find(first_, kNoLink) == first_.end();
  }
  // REQUIRES: one_each(), and NICs are numbered as their GPUs are.
  [[nodiscard]] PortLinks as_they_are() && { return PortLinks(std::move(first_)); }
  // nic_of(gpu) is the number of a NIC; kNoNic: it is part of the fabric.
  static constexpr std::uint32_t kNoNic = std::numeric_limits<std::uint32_t>::max();
  template <class NicOf>
  [[nodiscard]] PortLinks by_gpu(std::uint32_t gpus, NicOf nic_of) &&;

 private:
  std::vector<LinkId> first_;
  std::vector<std::pair<std::uint32_t, LinkId>> more_;  // than the first: NIC, link
};

template <class NicOf>
PortLinks NicLinks::by_gpu(std::uint32_t gpus, NicOf nic_of) && {
  std::ranges::stable_sort(more_, {}, &std::pair<std::uint32_t, LinkId>::first);
  std::vector<LinkId> links;
  std::vector<std::uint32_t> begin{0};
  for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
    const std::uint32_t nic = nic_of(gpu);
    if (nic == kNoNic) {
      links.push_back(kNoLink);
    } else if (has(nic)) {
      links.push_back(first_[nic]);
      for (const auto& [of, link] :
           std::ranges::equal_range(more_, nic, {}, &std::pair<std::uint32_t, LinkId>::first))
        links.push_back(link);
    }
    begin.push_back(static_cast<std::uint32_t>(links.size()));
  }
  return {std::move(links), std::move(begin)};
}

}  // namespace trainyard
