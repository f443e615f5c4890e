#include "sim/fold/fold.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/concurrency.hpp"
#include "sim/base/mixed.hpp"
#include "sim/contention/never_concurrent.hpp"  // IWYU pragma: keep (members)
#include "sim/fold/flow_classes.hpp"
#include "sim/fold/folding_graph.hpp"

namespace trainyard {

namespace {

using Classes = std::vector<std::uint32_t>;

// The class of every vertex of the joint graph, numbered by kind of vertex.
struct VertexClasses {
  Classes ranks;
  Classes groups;
  Classes shapes;
  Classes links;  // by position in JointGraph::links
};

// The class of each link in use: that of its vertex, or its colour where no use of it is contended.
// Classes of vertices are below `folding.end`, and colours are numbered from there on, so the two
// never coincide.
Classes link_classes(const FoldingGraph& folding, const Classes& classes) {
  Classes of_link = folding.colour_of_link;
  for (std::uint32_t& colour : of_link) colour += folding.end;
  for (std::uint32_t i = 0; i < folding.contended.size(); ++i)
    of_link[folding.contended[i]] = classes[folding.links + i];
  return of_link;
}

Classes shape_classes(const FoldingGraph& folding, const Classes& classes) {
  Classes of_shape;
  of_shape.reserve(folding.vertex_of_shape.size());
  for (const std::uint32_t vertex : folding.vertex_of_shape) of_shape.push_back(classes[vertex]);
  return numbered_by_lowest(of_shape);
}

VertexClasses refined(const FoldingGraph& folding, const LabelledGraph& graph) {
  const Classes classes = refine(graph, folding.colours);
  const auto part = [&](std::uint32_t begin, std::uint32_t end) {
    return numbered_by_lowest(std::span(classes).subspan(begin, end - begin));
  };
  return {.ranks = part(0, folding.groups),
          .groups = part(folding.groups, folding.shapes),
          .shapes = shape_classes(folding, classes),
          .links = link_classes(folding, classes)};
}

// Every rank, group, shape and link is its own class (FoldOptions::enabled is false).
VertexClasses unfolded_classes(const Workload& workload, const JointGraph& joint) {
  const auto numbers = [](std::size_t count) {
    Classes classes(count);
    std::iota(classes.begin(), classes.end(), 0U);
    return classes;
  };
  return {.ranks = numbers(workload.ranks.size()),
          .groups = numbers(workload.groups.size()),
          .shapes = numbers(joint.group_of_shape.size()),
          .links = numbers(joint.links.size())};
}

// The final classes of links, and the loads that each class of shapes puts on them.
struct LinkClasses {
  // By position in JointGraph::links; classes are numbered by their lowest link.
  std::vector<std::uint32_t> of_link;
  std::vector<std::vector<ClassLoad>> loads_of_shape_class;  // sorted by link class
};

// The load of a class of shapes on one link.
struct Load {
  std::uint32_t shape_class = 0;
  ClassLoad sum = {};
  bool operator==(const Load&) const = default;
};

// Sums up the loads on a link by class of shapes.
class LoadSums {
 public:
  LoadSums(const JointGraph& joint, const std::vector<std::uint32_t>& shape_classes,
           std::uint32_t classes)
      : joint_(joint), shape_classes_(shape_classes), place_(classes, kNone) {}

  // Returns the sums by class of shapes; valid until the next call. `contended`: by user.
  std::span<const Load> of(std::span<const LinkUsers::User> users,
                           std::span<const std::uint8_t> contended) {
    sums_.clear();
    for (std::size_t i = 0; i < users.size(); ++i) {
      const auto& [shape, load] = users[i];
      const std::uint32_t shape_class = shape_classes_[shape];
      std::uint32_t& place = place_[shape_class];
      if (place == kNone) {
        place = static_cast<std::uint32_t>(sums_.size());
        sums_.push_back({shape_class, ClassLoad{.contended = false}});
      }
      ClassLoad& sum = sums_[place].sum;
      sum.together += joint_.loads[load];
      sum.most = std::max(sum.most, joint_.loads[load]);
      sum.contended = sum.contended || contended[i] != 0;
    }
    // Only entries in use are reset: the cost is the users of the link, not all classes.
    for (const Load& load : sums_) place_[load.shape_class] = kNone;
    if (!std::ranges::is_sorted(sums_, {}, &Load::shape_class))
      std::ranges::sort(sums_, {}, &Load::shape_class);
    return sums_;
  }

 private:
  const JointGraph& joint_;
  const std::vector<std::uint32_t>& shape_classes_;
  std::vector<std::uint32_t> place_;  // by class, index in sums_; kNone between calls
  std::vector<Load> sums_;            // sums of the last call
};

// Distinct lists of the loads of shape classes on a link, each stored once.
class LoadLists {
 public:
  // Returns equal numbers for lists that are equal up to the rounding of sums.
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

  // Returns the number of the same list with no load contended.
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
  std::unordered_map<std::vector<std::uint64_t>, std::uint32_t, ListHash> numbers_;
  std::vector<std::vector<Load>> lists_;
  std::vector<std::uint32_t> uncontended_;
  std::vector<std::uint64_t> key_;
};

// Returns, by link of the cluster, the number in `lists` of the loads on each link in use. A link
// that another implies carries the same loads, and none of them is contended there. Two threads
// take one half of the links each, with separate lists. The lists of the upper half are then
// numbered after those of the lower half, so the result is that of one thread.
std::vector<std::uint32_t> lists_by_link(const Cluster& cluster, const JointGraph& joint,
                                         const LinkLimits& limits,
                                         const std::vector<std::uint32_t>& shape_classes,
                                         std::uint32_t classes, LoadLists& lists) {
  std::vector<std::uint32_t> list_of(limits.implied_by.size(), kNone);
  const std::span<const std::uint8_t> contended = limits.concurrency->contended;
  const auto take = [&](std::span<const LinkId> links, LoadLists& found) {
    LoadSums sums(joint, shape_classes, classes);
    for (const LinkId link : links)
      if (limits.implied_by[link] == link)
        list_of[link] = found.number(
            sums.of(limits.users->of(link), contended.subspan(limits.users->first(link))));
  };
  const auto lower = std::span(joint.links).first(joint.links.size() / 2);
  const auto upper = std::span(joint.links).subspan(lower.size());
  LoadLists of_upper;
  run_concurrently(
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

// Numbers of link classes.
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

// Splits the refined link classes. A final class holds links of one refined class that also carry
// the same loads of the same flow classes, contended or not: "how many bytes" then has one answer
// per class. Refinement does not look at uncontended loads: where nothing is contended, all NIC
// ports of one kind are one refined class, although those of the last pipeline stage carry less
// than the others. `refined_links`: by position in JointGraph::links; `shape_classes`: by shape.
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

// Describes the classes, given the class of each vertex.
class ClassDescriber {
 public:
  ClassDescriber(const Workload& workload, const JointGraph& joint, VertexClasses classes)
      : workload_(workload), joint_(joint), of_(std::move(classes)) {}

  // Classes are numbered by their lowest member. A pass in ascending order therefore meets class n
  // first when n classes are known, and that member is the representative.
  FoldClasses described(const Cluster& cluster, const LinkLimits& limits) {
    LinkClasses links = classify_links(cluster, joint_, limits, of_.links, of_.shapes);
    run_concurrently(
        is_large(cluster), [&] { describe_links(cluster, links); },
        [&] {
          describe_ranks();
          describe_groups();
        });
    result_.class_of_rank = std::move(of_.ranks);
    result_.class_of_group = std::move(of_.groups);
    FoldClasses classes{.partition = std::move(result_),
                        .of_shape = std::move(of_.shapes),
                        .loads = std::move(links.loads_of_shape_class)};
    classes.members_of_shape_class.assign(classes.loads.size(), 0);
    for (const std::uint32_t shape_class : classes.of_shape)
      ++classes.members_of_shape_class[shape_class];
    return classes;
  }

 private:
  // Writes the parts of the result that concern links alone.
  void describe_links(const Cluster& cluster, const LinkClasses& links) {
    std::vector<std::uint32_t>& class_of = result_.class_of_link;
    class_of.assign(cluster.links().size(), kNone);
    for (std::size_t i = 0; i < joint_.links.size(); ++i) {
      const std::uint32_t link_class = links.of_link[i];
      class_of[joint_.links[i]] = link_class;
      if (link_class == result_.links.size()) {
        result_.links.push_back({.representative = joint_.links[i], .members = 0});
      }
      result_.links[link_class].members += joint_.placed->parallel->count[joint_.links[i]];
    }
    // Each link of a set of parallel links is in the class of the lowest.
    for (LinkId link = 0; link < class_of.size(); ++link)
      class_of[link] = class_of[joint_.placed->parallel->lowest[link]];
  }

  void describe_ranks() {
    for (RankId rank = 0; rank < workload_.ranks.size(); ++rank) {
      const std::uint32_t rank_class = of_.ranks[rank];
      if (rank_class == result_.ranks.size()) {
        result_.ranks.push_back(
            {.representative = rank, .members = 0, .program = workload_.ranks[rank].program});
      }
      ++result_.ranks[rank_class].members;
    }
  }

  void describe_groups() {
    for (GroupId group = 0; group < workload_.groups.size(); ++group) {
      const std::uint32_t group_class = of_.groups[group];
      if (group_class == result_.groups.size()) {
        result_.groups.push_back({.representative = group, .members = 0, .participants = {}});
      }
      ++result_.groups[group_class].members;
    }
    describe_participants();
    describe_places();
  }

  void describe_participants() {
    using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint16_t>;
    std::vector<std::map<Key, std::uint32_t>> participants(result_.groups.size());
    for (const Membership& member : joint_.placed->memberships) {
      const std::uint32_t group_class = of_.groups[member.group];
      // Groups of a class have equal participants, so the representative's are enough.
      if (result_.groups[group_class].representative != member.group) continue;
      ++participants[group_class][{member.group_rank, of_.ranks[member.rank], member.slot}];
    }
    for (std::uint32_t group = 0; group < participants.size(); ++group) {
      for (const auto& [key, count] : participants[group]) {
        const auto& [group_rank, rank_class, slot] = key;
        result_.groups[group].participants.push_back(
            {.rank_class = rank_class, .slot = slot, .group_rank = group_rank, .count = count});
      }
    }
  }

  void describe_places() {
    for (std::uint32_t rank_class = 0; rank_class < result_.ranks.size(); ++rank_class) {
      const RankId rank = result_.ranks[rank_class].representative;
      std::vector<SlotTarget> places;
      const std::vector<std::uint32_t>& slots = joint_.placed->slot_of[rank];
      for (std::size_t slot = 0; slot < slots.size(); ++slot) {
        const std::uint32_t known = slots[slot];
        places.push_back(
            known == kNone
                ? SlotTarget{}
                : place(rank_class, of_.groups[workload_.ranks[rank].slots[slot].group], known));
      }
      result_.places.push_back(std::move(places));
    }
  }

  [[nodiscard]] SlotTarget place(std::uint32_t rank_class, std::uint32_t group_class,
                                 std::uint32_t slot) const {
    const std::vector<Participant>& participants = result_.groups[group_class].participants;
    const auto participant = std::ranges::find_if(participants, [&](const Participant& candidate) {
      return candidate.rank_class == rank_class && candidate.slot == slot;
    });
    TY_CHECK(participant != participants.end(), rank_class, group_class, slot);
    return {.group_class = group_class,
            .participant = static_cast<std::uint32_t>(participant - participants.begin())};
  }

  const Workload& workload_;
  const JointGraph& joint_;
  VertexClasses of_;
  Partition result_;
};

}  // namespace

// The steps: find the loads that matter (contention), refine the colours of the joint graph, split
// the classes of links by what they carry, describe one representative of each class, and add bytes
// and rates.
Partition fold(const Cluster& cluster, const Workload& workload,
               const CommunicationModel& communication, const FoldOptions& options) {
  const Contention found =
      find_contention(cluster, workload, join(cluster, workload, communication, options.known),
                      options.contention());
  const JointGraph& joint = *found.graph;
  const auto described = [&](VertexClasses classes) {
    return ClassDescriber(workload, joint, std::move(classes)).described(cluster, found.limits);
  };
  if (!options.enabled) {
    const FoldClasses classes = described(unfolded_classes(workload, joint));
    return with_flows(workload, found, classes, false);
  }
  const FoldingGraph folding(cluster, workload, found, Flows::InGroups);
  Memo once{0};
  Memo& memo = options.known.memo != nullptr ? *options.known.memo : once;
  // The memo key identifies which vertices look equal, but holds no bytes or rates: a cluster with
  // other rates often has the same classes. with_flows() adds bytes and rates from the present
  // traffic.
  const auto classes = memo.get<FoldClasses>(
      [&] { return described(refined(folding, folding.graph(found))); }, found.graph,
      found.limits.concurrency, found.limits.implied_by, folding.colours, folding.colour_of_link);
  return with_flows(workload, found, *classes, true);
}

double flow_seconds_alone(const Cluster& cluster, const Partition& partition,
                          const FlowClass& flow) {
  double rate = flow.rate_alone.value_or(flow.rate_cap_bytes_per_s);
  for (const FlowClass::Weight& weight : flow.weights) {
    if (!weight.contended) continue;  // its limit is in the cap, or it cannot limit
    const Link& link = cluster.link(partition.links[weight.link_class].representative);
    rate = std::min(rate, link.capacity.value() / weight.flow_load);
  }
  TY_CHECK(rate > 0.0, rate);
  return flow.payload_bytes / rate;
}

double call_seconds_alone(const Cluster& cluster, const Partition& partition,
                          std::uint32_t group_class, std::uint32_t call) {
  const auto& calls = partition.phases.at(group_class);
  if (call >= calls.size()) return 0.0;
  double seconds = 0.0;
  for (const FoldedPhase& phase : calls[call]) {
    double longest = 0.0;
    for (const std::uint32_t flow : phase.flows) {
      if (partition.flows[flow].payload_bytes <= 0.0) continue;
      longest = std::max(longest, flow_seconds_alone(cluster, partition, partition.flows[flow]));
    }
    seconds += phase.latency_s + longest;
  }
  return seconds;
}

}  // namespace trainyard
