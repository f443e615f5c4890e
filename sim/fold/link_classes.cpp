#include "sim/fold/link_classes.hpp"

#include <algorithm>
#include <span>
#include <unordered_map>

#include "sim/base/beside.hpp"

namespace trainyard {

namespace {

// What a class of shapes puts on one link.
struct Load {
  std::uint32_t shape_class = 0;
  ClassLoad sum = {};
  bool operator==(const Load&) const = default;
};

// Adds up what crosses a link by class of shapes.
class LoadSums {
 public:
  LoadSums(const JointGraph& joint, const std::vector<std::uint32_t>& shape_classes,
           std::uint32_t classes)
      : joint_(joint), shape_classes_(shape_classes), place_(classes, kNone) {}

  // By class; until the next link is asked for.
  std::span<const Load> of(std::span<const LinkUsers::User> users) {
    sums_.clear();
    for (const auto& [shape, load, contended] : users) {
      const std::uint32_t shape_class = shape_classes_[shape];
      std::uint32_t& place = place_[shape_class];
      if (place == kNone) {
        place = static_cast<std::uint32_t>(sums_.size());
        sums_.push_back({shape_class, ClassLoad{.contended = false}});
      }
      ClassLoad& sum = sums_[place].sum;
      sum.together += joint_.loads[load];
      sum.most = std::max(sum.most, joint_.loads[load]);
      sum.contended = sum.contended || contended != 0;
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
  // Gives equal numbers to equal lists, but for the rounding of sums.
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
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(lists_.size()); }

 private:
  std::unordered_map<std::vector<std::uint64_t>, std::uint32_t, KeyHash> numbers_;
  std::vector<std::vector<Load>> lists_;
  std::vector<std::uint32_t> uncontended_;
  std::vector<std::uint64_t> key_;
};

// The number in `lists` of what is on each link in use, by link of the cluster. A link that another
// implies carries the same, and nobody meets on it. The lists of the upper half of the links are
// found apart and then joined, as if they had been found after those of the lower.
std::vector<std::uint32_t> lists_by_link(const Cluster& cluster, const JointGraph& joint,
                                         const LinkLimits& limits,
                                         const std::vector<std::uint32_t>& shape_classes,
                                         std::uint32_t classes, LoadLists& lists) {
  std::vector<std::uint32_t> list_of(limits.implied_by.size(), kNone);
  const auto take = [&](std::span<const LinkId> links, LoadLists& found) {
    LoadSums sums(joint, shape_classes, classes);
    for (const LinkId link : links)
      if (limits.implied_by[link] == link)
        list_of[link] = found.number(sums.of(limits.users.of(link)));
  };
  const auto lower = std::span(joint.links).first(joint.links.size() / 2);
  const auto upper = std::span(joint.links).subspan(lower.size());
  LoadLists of_upper;
  beside(
      is_large(cluster), [&] { take(upper, of_upper); }, [&] { take(lower, lists); });
  std::vector<std::uint32_t> joined;
  for (std::uint32_t list = 0; list < of_upper.size(); ++list)
    joined.push_back(lists.number(of_upper.list(list)));
  for (const LinkId link : upper)
    if (limits.implied_by[link] == link) list_of[link] = joined[list_of[link]];
  for (const LinkId link : joint.links)
    if (const LinkId other = limits.implied_by[link]; other != link)
      list_of[link] = lists.uncontended(list_of[other]);
  return list_of;
}

// Numbers of classes of links.
class ClassNames {
 public:
  struct Named {
    std::uint32_t number = 0;
    bool fresh = false;
  };
  Named of(std::uint32_t refined, std::uint32_t list) {
    const std::uint64_t key = std::uint64_t{refined} << 32U | list;
    const auto [entry, fresh] = names_.try_emplace(key, static_cast<std::uint32_t>(names_.size()));
    return {entry->second, fresh};
  }

 private:
  std::unordered_map<std::uint64_t, std::uint32_t> names_;
};

}  // namespace

LinkClasses classify_links(const Cluster& cluster, const JointGraph& joint,
                           const LinkLimits& limits,
                           const std::vector<std::uint32_t>& refined_links,
                           const std::vector<std::uint32_t>& shape_classes) {
  LinkClasses result;
  std::uint32_t shape_class_count = 0;
  for (const std::uint32_t shape_class : shape_classes) {
    shape_class_count = std::max(shape_class_count, shape_class + 1);
  }
  result.loads_of_shape_class.resize(shape_class_count);
  LoadLists lists;
  const std::vector<std::uint32_t> list_of =
      lists_by_link(cluster, joint, limits, shape_classes, shape_class_count, lists);
  result.of_link.reserve(joint.links.size());
  ClassNames names;
  for (std::size_t i = 0; i < joint.links.size(); ++i) {
    const std::uint32_t list = list_of[joint.links[i]];
    const auto [link_class, fresh] = names.of(refined_links[i], list);
    result.of_link.push_back(link_class);
    if (!fresh) continue;
    for (auto [shape_class, load] : lists.list(list)) {
      load.link_class = link_class;
      result.loads_of_shape_class[shape_class].push_back(load);
    }
  }
  return result;
}

}  // namespace trainyard
