#include "sim/graph/link_classes.hpp"

#include <algorithm>
#include <numeric>
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

// What crosses each link that no other stands for, in compressed rows.
class Crossings {
 public:
  Crossings(const JointGraph& joint, const Contention& contention,
            const std::vector<std::uint32_t>& shape_classes)
      : begin_(joint.links.size() + 1, 0) {
    std::vector<std::uint32_t> position(contention.stands.size(), kNone);
    for (std::uint32_t i = 0; i < joint.links.size(); ++i)
      if (contention.stands[joint.links[i]] == joint.links[i]) position[joint.links[i]] = i;
    for (const ShapeLoad& load : joint.shape_loads)
      if (position[load.link] != kNone) ++begin_[position[load.link] + std::size_t{1}];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    crossings_.resize(begin_.back());
    std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
    for (std::uint32_t shape = 0; shape < shape_classes.size(); ++shape) {
      for (std::size_t i = joint.shape_offsets[shape]; i < joint.shape_offsets[shape + 1]; ++i) {
        const auto [link, load] = joint.shape_loads[i];
        if (position[link] == kNone) continue;
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

// Lists of what classes of shapes put on a link, each known once.
class LoadLists {
 public:
  // Equal numbers for equal lists, but for the rounding of sums.
  std::uint32_t number(std::span<const Load> loads) {
    key_.clear();
    for (const auto& [shape_class, load] : loads)
      key_.insert(key_.end(), {shape_class, rounded_key(load.together), load.contended ? 1U : 0U});
    const auto next = static_cast<std::uint32_t>(lists_.size());
    const auto [entry, fresh] = numbers_.try_emplace(key_, next);
    if (fresh) {
      lists_.emplace_back(loads.begin(), loads.end());
      uncontended_.push_back(kNone);
    }
    return entry->second;
  }

  // The same where nobody meets.
  std::uint32_t uncontended(std::uint32_t list) {
    if (uncontended_[list] == kNone) {
      std::vector<Load> loads = lists_[list];
      for (Load& load : loads) load.sum.contended = false;
      const std::uint32_t found = number(loads);
      uncontended_[list] = found;
    }
    return uncontended_[list];
  }

  [[nodiscard]] std::span<const Load> list(std::uint32_t number) const { return lists_[number]; }

 private:
  std::unordered_map<std::vector<std::uint64_t>, std::uint32_t, KeyHash> numbers_;
  std::vector<std::vector<Load>> lists_;
  std::vector<std::uint32_t> uncontended_;
  std::vector<std::uint64_t> key_;
};

// The number in `lists` of what is on each link in use, by link of the cluster. A link that another
// stands for carries the same, and nobody meets on it.
std::vector<std::uint32_t> lists_by_link(const JointGraph& joint, const Contention& contention,
                                         const std::vector<std::uint32_t>& shape_classes,
                                         LoadLists& lists) {
  Crossings crossings(joint, contention, shape_classes);
  std::vector<std::uint32_t> list_of(contention.stands.size(), kNone);
  for (std::size_t i = 0; i < joint.links.size(); ++i)
    if (const LinkId link = joint.links[i]; contention.stands[link] == link)
      list_of[link] = lists.number(crossings.loads(joint, i));
  for (const LinkId link : joint.links)
    if (const LinkId other = contention.stands[link]; other != link)
      list_of[link] = lists.uncontended(list_of[other]);
  return list_of;
}

}  // namespace

LinkClasses classify_links(const JointGraph& joint, const Contention& contention,
                           const std::vector<std::uint32_t>& refined_links,
                           const std::vector<std::uint32_t>& shape_classes) {
  LoadLists lists;
  const std::vector<std::uint32_t> list_of = lists_by_link(joint, contention, shape_classes, lists);
  LinkClasses result;
  std::uint32_t shape_class_count = 0;
  for (const std::uint32_t shape_class : shape_classes) {
    shape_class_count = std::max(shape_class_count, shape_class + 1);
  }
  result.loads_of_shape_class.resize(shape_class_count);
  result.of_link.reserve(joint.links.size());
  std::unordered_map<std::uint64_t, std::uint32_t> names;
  for (std::size_t i = 0; i < joint.links.size(); ++i) {
    const std::uint32_t list = list_of[joint.links[i]];
    const auto [entry, fresh] = names.try_emplace(std::uint64_t{refined_links[i]} << 32U | list,
                                                  static_cast<std::uint32_t>(names.size()));
    result.of_link.push_back(entry->second);
    if (!fresh) continue;
    for (auto [shape_class, load] : lists.list(list)) {
      load.link_class = entry->second;
      result.loads_of_shape_class[shape_class].push_back(load);
    }
  }
  return result;
}

}  // namespace trainyard
