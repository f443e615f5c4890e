#include "sim/graph/link_classes.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <unordered_map>
#include <utility>

namespace trainyard {

namespace {

// What a class of shapes puts on one link.
struct Load {
  std::uint32_t shape_class = 0;
  ClassLoad sum = {};
};

// Adds up what crosses a link by class of shapes.
class LoadSums {
 public:
  LoadSums(const JointGraph& joint, const std::vector<std::uint32_t>& shape_classes,
           std::uint32_t classes)
      : joint_(joint), shape_classes_(shape_classes), place_(classes, kNone) {}

  // By class; until the next link is asked for.
  std::span<const Load> of(std::span<const LinkCrossings::Crossing> crossings) {
    sums_.clear();
    for (const auto& [shape, load, contended] : crossings) {
      const std::uint32_t shape_class = shape_classes_[shape];
      std::uint32_t& place = place_[shape_class];
      if (place == kNone) {
        place = static_cast<std::uint32_t>(sums_.size());
        sums_.push_back({shape_class, ClassLoad{.contended = false}});
      }
      ClassLoad& sum = sums_[place].sum;
      sum.together += joint_.loads[load];
      sum.most = std::max(sum.most, joint_.loads[load]);
      sum.contended = sum.contended || contended;
    }
    for (const Load& load : sums_) place_[load.shape_class] = kNone;
    if (!std::ranges::is_sorted(sums_, {}, &Load::shape_class))
      std::ranges::sort(sums_, {}, &Load::shape_class);
    return sums_;
  }

 private:
  const JointGraph& joint_;
  const std::vector<std::uint32_t>& shape_classes_;
  std::vector<std::uint32_t> place_;  // by class, in sums_; kNone in between
  std::vector<Load> sums_;            // of the link last asked for
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
                                         const LinkCrossings& crossings, LoadSums& sums,
                                         LoadLists& lists) {
  std::vector<std::uint32_t> list_of(contention.stands.size(), kNone);
  std::size_t position = 0;
  for (const LinkId link : joint.links)
    if (contention.stands[link] == link)
      list_of[link] = lists.number(sums.of(crossings.of(position++)));
  for (const LinkId link : joint.links)
    if (const LinkId other = contention.stands[link]; other != link)
      list_of[link] = lists.uncontended(list_of[other]);
  return list_of;
}

}  // namespace

LinkCrossings::LinkCrossings(const JointGraph& joint, const Contention& contention) {
  std::vector<std::uint32_t> position(contention.stands.size(), kNone);
  std::uint32_t links = 0;
  for (const LinkId link : joint.links)
    if (contention.stands[link] == link) position[link] = links++;
  begin_.assign(links + std::size_t{1}, 0);
  for (const ShapeLoad& load : joint.shape_loads)
    if (position[load.link] != kNone) ++begin_[position[load.link] + std::size_t{1}];
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  crossings_.resize(begin_.back());
  std::vector<std::uint32_t> next(begin_.begin(), begin_.end() - 1);
  for (std::uint32_t shape = 0; shape < joint.group_of_shape.size(); ++shape) {
    for (std::size_t i = joint.shape_offsets[shape]; i < joint.shape_offsets[shape + 1]; ++i) {
      const auto [link, load] = joint.shape_loads[i];
      if (position[link] == kNone) continue;
      crossings_[next[position[link]]++] = {shape, load & kMostLoads,
                                            contention.contended[i] ? 1U : 0U};
    }
  }
}

LinkClasses classify_links(const JointGraph& joint, const Contention& contention,
                           const LinkCrossings& crossings,
                           const std::vector<std::uint32_t>& refined_links,
                           const std::vector<std::uint32_t>& shape_classes) {
  LinkClasses result;
  std::uint32_t shape_class_count = 0;
  for (const std::uint32_t shape_class : shape_classes) {
    shape_class_count = std::max(shape_class_count, shape_class + 1);
  }
  result.loads_of_shape_class.resize(shape_class_count);
  LoadSums sums(joint, shape_classes, shape_class_count);
  LoadLists lists;
  const std::vector<std::uint32_t> list_of =
      lists_by_link(joint, contention, crossings, sums, lists);
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
