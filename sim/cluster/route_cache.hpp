// Routes that a cluster has searched, for all who ask again, from several threads.
//
//   const auto route = cache.way(key, [&] { return searched(); });
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/cluster/route.hpp"

namespace trainyard {

// A trunk is crossed by the traffic of every NIC that hangs on one switch alone, on its way to a
// target.
struct Trunk {
  Route bundles = {};                 // in the order of the walk
  std::vector<double> arriving = {};  // by number of the switch in its target
};

class RouteCache {
 public:
  // `most_hops`: of all trunks kept; when there are more, they are forgotten.
  explicit RouteCache(std::size_t most_hops) : most_hops_(most_hops) {}

  // Within a node. The route lives as long as the cache.
  template <class Search>
  const Route& way(std::uint64_t key, const Search& search) {
    const std::scoped_lock lock(mutex_);
    const auto [known, fresh] = ways_.try_emplace(key);
    if (fresh) known->second = search();
    return known->second;
  }

  template <class Search>
  std::shared_ptr<const Trunk> trunk(std::uint64_t key, const Search& search) {
    const std::scoped_lock lock(mutex_);
    if (const auto known = trunks_.find(key); known != trunks_.end()) return known->second;
    auto found = std::make_shared<const Trunk>(search());
    if (trunk_hops_ + found->bundles.size() > most_hops_) {
      trunks_.clear();
      trunk_hops_ = 0;
    }
    trunk_hops_ += found->bundles.size();
    return trunks_.emplace(key, std::move(found)).first->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, Route> ways_;
  std::unordered_map<std::uint64_t, std::shared_ptr<const Trunk>> trunks_;
  std::size_t trunk_hops_ = 0;  // of all of them
  std::size_t most_hops_;
};

}  // namespace trainyard
