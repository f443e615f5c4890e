// Trunks that a router has searched, for all who ask again, from several threads.
//
//   const auto trunk = cache.get(key, [&] { return searched(); });
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "sim/cluster/fabric_paths.hpp"

namespace trainyard {

class TrunkCache {
 public:
  // `most_hops`: of all trunks kept; when there are more, they are forgotten.
  explicit TrunkCache(std::size_t most_hops) : most_hops_(most_hops) {}

  template <class Search>
  std::shared_ptr<const Trunk> get(std::uint64_t key, const Search& search) {
    const std::scoped_lock lock(mutex_);
    if (const auto known = trunks_.find(key); known != trunks_.end()) return known->second;
    auto found = std::make_shared<const Trunk>(search());
    if (hops_ + found->bundles.size() > most_hops_) {
      trunks_.clear();
      hops_ = 0;
    }
    hops_ += found->bundles.size();
    return trunks_.emplace(key, std::move(found)).first->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<const Trunk>> trunks_;
  std::size_t hops_ = 0;  // of all of them
  std::size_t most_hops_;
};

}  // namespace trainyard
