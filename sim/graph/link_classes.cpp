#include "sim/graph/link_classes.hpp"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>

namespace trainyard {

namespace {

// One shape on one link.
struct Crossing {
  std::uint32_t shape_class = 0;
  std::uint32_t load = 0;  // index into JointGraph::loads
  bool contended = false;
};

// What a class of shapes puts on one link.
struct Load {
  std::uint32_t shape_class = 0;
  ClassLoad sum = {};
};

// What crosses each link, in compressed rows.
class Crossings {
 public:
  Crossings(const JointGraph& joint, const Contention& contention,
            const std::vector<std::uint32_t>& shape_classes)
      : begin_(joint.links.size() + 1, 0), crossings_(joint.shape_loads.size()) {
    std::vector<std::uint32_t> position(joint.links.empty() ? 0 : joint.links.back() + 1, 0);
    for (std::uint32_t i = 0; i < joint.links.size(); ++i) position[joint.links[i]] = i;
    for (const ShapeLoad& load : joint.shape_loads) ++begin_[position[load.link] + 1];
    for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
    std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
    for (std::uint32_t shape = 0; shape < shape_classes.size(); ++shape) {
      for (std::size_t i = joint.shape_offsets[shape]; i < joint.shape_offsets[shape + 1]; ++i) {
        const auto [link, load] = joint.shape_loads[i];
        crossings_[next[position[link]]++] = {shape_classes[shape], load, contention.contended[i]};
      }
    }
  }

  // What each class of shapes puts on the link, by class; until the next link is asked for.
  std::span<const Load> loads(const JointGraph& joint, std::size_t position) {
    const std::span<Crossing> here =
        std::span(crossings_).subspan(begin_[position], begin_[position + 1] - begin_[position]);
    sort_by_class(here);
    sums_.clear();
    for (const Crossing& crossing : here) {
      if (sums_.empty() || sums_.back().shape_class != crossing.shape_class)
        sums_.push_back({crossing.shape_class, ClassLoad{.contended = false}});
      ClassLoad& sum = sums_.back().sum;
      const double load = joint.loads[crossing.load];
      sum.together += load;
      sum.most = std::max(sum.most, load);
      sum.contended = sum.contended || crossing.contended;
    }
    return sums_;
  }

 private:
  // Most links carry a handful; sorting those by insertion asks for no memory.
  static void sort_by_class(std::span<Crossing> crossings) {
    constexpr std::size_t kFew = 32;
    if (std::ranges::is_sorted(crossings, {}, &Crossing::shape_class)) return;
    if (crossings.size() > kFew)
      return static_cast<void>(std::ranges::stable_sort(crossings, {}, &Crossing::shape_class));
    for (std::size_t i = 1; i < crossings.size(); ++i)
      for (std::size_t j = i; j > 0; --j) {
        if (crossings[j - 1].shape_class <= crossings[j].shape_class) break;
        std::swap(crossings[j - 1], crossings[j]);
      }
  }

  std::vector<std::size_t> begin_;  // by position of the link
  std::vector<Crossing> crossings_;
  std::vector<Load> sums_;  // of the link last asked for
};

}  // namespace

LinkClasses classify_links(const JointGraph& joint, const Contention& contention,
                           const std::vector<std::uint32_t>& refined_links,
                           const std::vector<std::uint32_t>& shape_classes) {
  Crossings crossings(joint, contention, shape_classes);
  LinkClasses result;
  std::uint32_t shape_class_count = 0;
  for (const std::uint32_t shape_class : shape_classes) {
    shape_class_count = std::max(shape_class_count, shape_class + 1);
  }
  result.loads_of_shape_class.resize(shape_class_count);
  std::unordered_map<std::vector<std::uint64_t>, std::uint32_t, KeyHash> names;
  std::vector<std::uint64_t> key;
  for (std::size_t i = 0; i < joint.links.size(); ++i) {
    const std::span<const Load> loads = crossings.loads(joint, i);
    key.assign(1, refined_links[i]);
    for (const auto& [shape_class, load] : loads) {
      key.insert(key.end(), {shape_class, rounded_key(load.together), load.contended ? 1U : 0U});
    }
    const auto [entry, fresh] = names.try_emplace(key, static_cast<std::uint32_t>(names.size()));
    result.of_link.push_back(entry->second);
    if (!fresh) continue;
    for (auto [shape_class, load] : loads) {
      load.link_class = entry->second;
      result.loads_of_shape_class[shape_class].push_back(load);
    }
  }
  return result;
}

}  // namespace trainyard
