#include "sim/fold/fold_reasons.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/mixed.hpp"
#include "sim/base/refinement.hpp"
#include "sim/fold/folding_graph.hpp"
#include "sim/workload/workload_text.hpp"

namespace trainyard {

namespace {

// The colour of every vertex after every round of a refinement, and the round in which two vertices
// part.
//
//     const ColourHistory history(refine_with_history(graph, colours));
//     history.parting(3, 5);   // 2: of one colour after round 1, of two after round 2
class ColourHistory {
 public:
  explicit ColourHistory(Refinement refinement);

  [[nodiscard]] std::uint32_t colour(std::uint32_t vertex, std::uint32_t round) const;

  // The first round after which the two have different colours; kNone: they never part.
  [[nodiscard]] std::uint32_t parting(std::uint32_t a, std::uint32_t b) const;

 private:
  Refinement refinement_;
  // By vertex: the rounds that recoloured it, and the colours.
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> changes_;
};

// Names the vertices of a folding graph, and describes how two of them differ by themselves.
//
//     const PartingWords words(cluster, workload, found, folding);
//     words.name(vertex);        // "node 1 nic 2 -> leaf 0"
//     words.difference(a, b);    // {DifferenceCause::Link, "25 GB/s, not 50 GB/s"}
class PartingWords {
 public:
  PartingWords(const Cluster& cluster, const Workload& workload, const Contention& found,
               const FoldingGraph& folding)
      : cluster_(cluster),
        workload_(workload),
        joint_(*found.graph),
        traffic_(found.traffic),
        limits_(found.limits),
        folding_(folding) {}

  // The kind of the vertex: "rank", "data group", "flow", "link".
  [[nodiscard]] std::string kind(std::uint32_t vertex) const;
  [[nodiscard]] std::string name(std::uint32_t vertex) const;

  // REQUIRES: vertices of one kind whose first colours differ.
  [[nodiscard]] PartingWord difference(std::uint32_t a, std::uint32_t b) const;

 private:
  // One flow of a shape, with its call and phase.
  struct Use {
    std::uint32_t call = 0;
    std::size_t phase = 0;
    ShapedFlow flow = {};
  };

  [[nodiscard]] Link link(std::uint32_t vertex) const;
  [[nodiscard]] std::string link_name(const Link& link) const;
  [[nodiscard]] std::string members(GroupId group) const;
  [[nodiscard]] std::string call_text(std::uint32_t call) const;
  [[nodiscard]] PartingWord of_different_calls(std::uint32_t a, std::uint32_t b) const;
  [[nodiscard]] PartingWord of_ranks(RankId a, RankId b) const;
  [[nodiscard]] PartingWord of_groups(GroupId a, GroupId b) const;
  [[nodiscard]] PartingWord of_calls(GroupId a, GroupId b) const;
  [[nodiscard]] PartingWord of_flows(std::uint32_t a, std::uint32_t b) const;
  [[nodiscard]] PartingWord of_links(const Link& a, const Link& b) const;
  [[nodiscard]] std::vector<Use> uses(std::uint32_t shape) const;
  [[nodiscard]] std::string rate_text(const Use& use, std::uint32_t shape) const;

  const Cluster& cluster_;
  const Workload& workload_;
  const JointGraph& joint_;
  const GroupTraffic& traffic_;
  const LinkLimits& limits_;
  const FoldingGraph& folding_;
};

}  // namespace

ColourHistory::ColourHistory(Refinement refinement)
    : refinement_(std::move(refinement)), changes_(refinement_.first.size()) {
  for (const Recolouring& change : refinement_.recolourings)
    changes_[change.vertex].emplace_back(change.round, change.colour);
}

std::uint32_t ColourHistory::colour(std::uint32_t vertex, std::uint32_t round) const {
  std::uint32_t colour = refinement_.first[vertex];
  for (const auto& [when, name] : changes_[vertex]) {
    if (when > round) break;
    colour = name;
  }
  return colour;
}

// The two can only part in a round that recolours one of them, so the other rounds are not
// compared. Once parted, vertices never get one colour again.
std::uint32_t ColourHistory::parting(std::uint32_t a, std::uint32_t b) const {
  if (refinement_.first[a] != refinement_.first[b]) return 0;
  std::uint32_t found = kNone;
  for (const std::uint32_t vertex : {a, b}) {
    for (const auto& [round, ignored] : changes_[vertex]) {
      if (colour(a, round) != colour(b, round)) found = std::min(found, round);
    }
  }
  return found;
}

std::string_view to_string(DifferenceCause cause) {
  switch (cause) {
    case DifferenceCause::First:
      return "first";
    case DifferenceCause::Gpu:
      return "gpu";
    case DifferenceCause::Program:
      return "program";
    case DifferenceCause::Group:
      return "group";
    case DifferenceCause::Calls:
      return "calls";
    case DifferenceCause::Latency:
      return "latency";
    case DifferenceCause::MultiLinkFlow:
      return "flow";
    case DifferenceCause::Link:
      return "link";
    case DifferenceCause::Count:
      return "count";
  }
  return "";
}

std::string PartingWords::kind(std::uint32_t vertex) const {
  if (vertex < folding_.groups) return "rank";
  if (vertex >= folding_.links) return "link";
  if (vertex >= folding_.shapes) return "flow";
  return fmt::format("{} group", to_string(workload_.groups[vertex - folding_.groups].kind));
}

std::string PartingWords::name(std::uint32_t vertex) const {
  if (vertex < folding_.groups) return std::to_string(vertex);
  if (vertex >= folding_.links) return link_name(link(vertex));
  if (vertex < folding_.shapes) return members(GroupId{vertex - folding_.groups});
  const GroupId group = joint_.group_of_shape[vertex - folding_.shapes];
  return fmt::format("of {} {}", to_string(workload_.groups[group].kind), members(group));
}

PartingWord PartingWords::difference(std::uint32_t a, std::uint32_t b) const {
  if (a < folding_.groups) return of_ranks(RankId{a}, RankId{b});
  if (a < folding_.shapes)
    return of_groups(GroupId{a - folding_.groups}, GroupId{b - folding_.groups});
  if (a < folding_.links) return of_flows(a - folding_.shapes, b - folding_.shapes);
  return of_links(link(a), link(b));
}

Link PartingWords::link(std::uint32_t vertex) const {
  return cluster_.link(joint_.links[folding_.contended[vertex - folding_.links]]);
}

std::string PartingWords::link_name(const Link& link) const {
  return fmt::format("{} -> {}", cluster_.name(link.from), cluster_.name(link.to));
}

std::string PartingWords::members(GroupId group) const {
  std::vector<RankId> ranks = workload_.groups[group].members;
  std::ranges::sort(ranks);
  return to_text(rank_blocks(ranks));
}

std::string PartingWords::call_text(std::uint32_t call) const {
  return fmt::format("{} of {}", to_string(op_of(workload_.calls[call])),
                     to_text(Bytes{static_cast<double>(bytes_of(workload_.calls[call]))}));
}

// The difference of the calls that two groups make at the same position.
PartingWord PartingWords::of_different_calls(std::uint32_t a, std::uint32_t b) const {
  const std::string here = call_text(a);
  const std::string there = call_text(b);
  return {DifferenceCause::Calls, here != there ? fmt::format("{}, not {}", here, there)
                                                : here + " with other bytes between its members"};
}

PartingWord PartingWords::of_ranks(RankId a, RankId b) const {
  const std::uint32_t here = workload_.ranks[a].program;
  const std::uint32_t there = workload_.ranks[b].program;
  const auto rates = [this](RankId rank) {
    return rates_of_gpu(cluster_.facts(), workload_.ranks[rank].gpu);
  };
  if (here == there && rates(a) != rates(b))
    return {DifferenceCause::Gpu, "a GPU with other timed faults"};
  if (here == there)
    return {DifferenceCause::Group, "slots that name one group, not two, or the other way round"};
  return {DifferenceCause::Program, program_difference(workload_, here, there)};
}

PartingWord PartingWords::of_groups(GroupId a, GroupId b) const {
  const Group& here = workload_.groups[a];
  const Group& there = workload_.groups[b];
  if (here.kind != there.kind) {
    return {DifferenceCause::Group,
            fmt::format("a {} group, not {}", to_string(here.kind), to_string(there.kind))};
  }
  if (here.members.size() != there.members.size()) {
    return {DifferenceCause::Group,
            fmt::format("{} ranks, not {}", here.members.size(), there.members.size())};
  }
  return of_calls(a, b);
}

PartingWord PartingWords::of_calls(GroupId a, GroupId b) const {
  const std::vector<GroupCall>& here = traffic_.of(a);
  const std::vector<GroupCall>& there = traffic_.of(b);
  const auto latency = [](const GroupCall& made) {
    double sum = 0.0;
    for (const ShapedPhase& phase : made.phases) sum += phase.latency_s;
    return sum;
  };
  for (std::size_t i = 0; i < std::min(here.size(), there.size()); ++i) {
    if (here[i].call != there[i].call) return of_different_calls(here[i].call, there[i].call);
    const auto key = [](const ShapedPhase& phase) { return rounded_key(phase.latency_s); };
    if (std::ranges::equal(here[i].phases, there[i].phases, {}, key, key)) continue;
    return {DifferenceCause::Latency,
            fmt::format("{} has a latency of {}, not {}", call_text(here[i].call),
                        to_text(Seconds{latency(here[i])}), to_text(Seconds{latency(there[i])}))};
  }
  return {DifferenceCause::Calls,
          fmt::format("{} kinds of calls, not {}", here.size(), there.size())};
}

std::vector<PartingWords::Use> PartingWords::uses(std::uint32_t shape) const {
  std::vector<Use> result;
  const GroupId group = joint_.group_of_shape[shape];
  for (const GroupCall& made : traffic_.of(group)) {
    for (std::size_t phase = 0; phase < made.phases.size(); ++phase) {
      for (const ShapedFlow& flow : made.phases[phase].flows) {
        if (joint_.first_shape[group] + flow.shape == shape)
          result.push_back({made.call, phase, flow});
      }
    }
  }
  return result;
}

// The rate cap, and the link that leaves the flow the least rate.
std::string PartingWords::rate_text(const Use& use, std::uint32_t shape) const {
  const std::string text = to_text(BytesPerSecond{use.flow.rate_cap_bytes_per_s});
  double least = std::numeric_limits<double>::infinity();
  std::optional<Link> slowest;
  for (const auto& [id, load] : joint_.shape(shape)) {
    const double left = cluster_.link(id).capacity.value() / joint_.loads[load];
    if (limits_.redundant[id] || left >= least) continue;
    least = left;
    slowest = cluster_.link(id);
  }
  return slowest ? text + " over " + link_name(*slowest) : text;
}

PartingWord PartingWords::of_flows(std::uint32_t a, std::uint32_t b) const {
  const std::vector<Use> here = uses(a);
  const std::vector<Use> there = uses(b);
  const auto bytes_text = [](const Use& use) {
    return fmt::format("{} x {}", use.flow.count, to_text(Bytes{use.flow.payload_bytes}));
  };
  for (std::size_t i = 0; i < std::min(here.size(), there.size()); ++i) {
    const ShapedFlow& x = here[i].flow;
    const ShapedFlow& y = there[i].flow;
    if (here[i].call != there[i].call) return of_different_calls(here[i].call, there[i].call);
    if (here[i].phase != there[i].phase) break;
    if (rounded_key(x.payload_bytes) != rounded_key(y.payload_bytes) || x.count != y.count) {
      return {DifferenceCause::MultiLinkFlow,
              fmt::format("{} in {}, not {}", bytes_text(here[i]), call_text(here[i].call),
                          bytes_text(there[i]))};
    }
    if (alone_key(x) == alone_key(y) &&
        rounded_key(x.rate_cap_bytes_per_s) == rounded_key(y.rate_cap_bytes_per_s))
      continue;
    return {DifferenceCause::MultiLinkFlow,
            fmt::format("{} at {}, not {}", call_text(here[i].call), rate_text(here[i], a),
                        rate_text(there[i], b))};
  }
  return {DifferenceCause::Calls,
          fmt::format("a part in {} phases, not {}, or in others", here.size(), there.size())};
}

PartingWord PartingWords::of_links(const Link& a, const Link& b) const {
  if (a.kind != b.kind)
    return {DifferenceCause::Link, fmt::format("{}, not {}", to_string(a.kind), to_string(b.kind))};
  if (rates_of_links(cluster_, a.id) != rates_of_links(cluster_, b.id))
    return {DifferenceCause::Link, "a link with other timed faults"};
  const bool usable = rounded_key(a.capacity.value()) != rounded_key(b.capacity.value());
  return {DifferenceCause::Link,
          usable ? fmt::format("{}, not {}", to_text(a.capacity), to_text(b.capacity))
                 : fmt::format("sold as {}, not {}", to_text(a.nominal), to_text(b.nominal))};
}

namespace {

// The label and the colour of neighbours.
struct LabelAndColour {
  std::uint32_t label = 0;
  std::uint32_t colour = 0;
  auto operator<=>(const LabelAndColour&) const = default;
};

// The most neighbours on each side that are compared in pairs, of those that only one side has.
constexpr std::size_t kMostCompared = 64;

// Finds why two ranks are in different classes, in the history of the refinement. The flows of a
// group are vertices of their own here (Flows::Apart), so that a path can name them.
class ReasonSearch {
 public:
  ReasonSearch(const Cluster& cluster, const Workload& workload, const Contention& found)
      : folding_(cluster, workload, found, Flows::Apart),
        graph_(folding_.graph(found)),
        history_(refine_with_history(graph_, folding_.colours)),
        words_(cluster, workload, found, folding_) {}

  [[nodiscard]] std::uint32_t parting(RankId a, RankId b) const { return history_.parting(a, b); }

  // Follows the difference of the two ranks to its root. Each step goes to two neighbours that
  // parted in an earlier round, so the path ends. REQUIRES: they part, in a later round than 0.
  //
  // Example: two ranks part in round 3, their data groups in round 2, flows of these in round 1,
  // and links under the flows differ by themselves (round 0). The path has three steps, and the
  // difference is "25 GB/s, not 50 GB/s".
  PartingWord follow(RankId rank, RankId other, std::vector<DifferenceStep>& path) const {
    std::uint32_t a = rank;
    std::uint32_t b = other;
    for (;;) {
      const std::uint32_t round = history_.parting(a, b);
      TY_CHECK(round != kNone, a, b);
      if (round == 0) return words_.difference(a, b);
      const Difference found = difference(a, b, round - 1);
      if (!found.pair) return counted(found);
      std::tie(a, b) = *found.pair;
      path.push_back({words_.kind(a), words_.name(a), words_.name(b)});
    }
  }

 private:
  // Neighbours that only one side has: either two of a kind, where the path continues, or one class
  // with more members on one side.
  struct Difference {
    std::optional<std::pair<std::uint32_t, std::uint32_t>> pair = {};
    std::uint32_t neighbour = 0;
    std::size_t here = 0;
    std::size_t there = 0;
  };

  using Neighbour = LabelledGraph::Neighbour;
  using Neighbours = std::map<LabelAndColour, std::vector<std::uint32_t>>;
  // The neighbours of a vertex by label and by their colour after a round.
  [[nodiscard]] Neighbours neighbours(std::uint32_t vertex, std::uint32_t round) const {
    Neighbours result;
    for (const auto& [neighbour, label] : graph_.neighbours(vertex))
      result[{label, history_.colour(neighbour, round)}].push_back(neighbour);
    return result;
  }

  [[nodiscard]] Difference difference(std::uint32_t a, std::uint32_t b, std::uint32_t round) const {
    // Vertices that part differ in how many neighbours they have of some label and colour
    // (refinement.hpp).
    const Neighbours of_a = neighbours(a, round);
    const Neighbours of_b = neighbours(b, round);
    // One neighbour for every kind (label and colour) of which this side has more than the other.
    const auto surplus = [](const Neighbours& mine, const Neighbours& others) {
      std::vector<Neighbour> more;  // one of each
      for (const auto& [kind, vertices] : mine) {
        const auto like = others.find(kind);
        const std::size_t theirs = like == others.end() ? 0 : like->second.size();
        if (vertices.size() > theirs) more.push_back({vertices.front(), kind.label});
        if (more.size() == kMostCompared) break;
      }
      return more;
    };
    const std::vector<Neighbour> only_a = surplus(of_a, of_b);
    const std::vector<Neighbour> only_b = surplus(of_b, of_a);
    Difference found{.pair = first_pair(only_a, only_b, round)};
    if (found.pair) return found;
    // No two neighbours of a kind can be paired, so one side has more members of one class. That
    // number is the difference.
    const Neighbour more = only_a.empty() ? only_b.front() : only_a.front();
    const LabelAndColour kind{more.label, history_.colour(more.vertex, round)};
    const auto count = [&kind](const Neighbours& of) {
      const auto those = of.find(kind);
      return those == of.end() ? 0 : those->second.size();
    };
    found.neighbour = more.vertex;
    found.here = count(of_a);
    found.there = count(of_b);
    return found;
  }

  // Pairs each neighbour of `a` with the most similar one of `b`: of the same label if there is
  // one, and parted last. Returns the pair that parted first, not later than `round`.
  [[nodiscard]] std::optional<std::pair<std::uint32_t, std::uint32_t>> first_pair(
      std::span<const Neighbour> a, std::span<const Neighbour> b, std::uint32_t round) const {
    std::optional<std::pair<std::uint32_t, std::uint32_t>> first;
    std::uint32_t first_round = kNone;
    for (const Neighbour& x : a) {
      const Neighbour* like = nullptr;
      // How similar the best candidate is: first whether it has the same label, then the round in
      // which the two part. The greatest pair is the most similar.
      std::pair<bool, std::uint32_t> equivalence_class{false, 0};
      for (const Neighbour& y : b) {
        if (words_.kind(x.vertex) != words_.kind(y.vertex)) continue;
        const std::pair here{x.label == y.label, history_.parting(x.vertex, y.vertex)};
        // Two neighbours that part only later, or never (kNone), cannot be the reason.
        if (here.second > round || (like != nullptr && here <= equivalence_class)) continue;
        like = &y;
        equivalence_class = here;
      }
      if (like == nullptr || (first && equivalence_class.second >= first_round)) continue;
      first = {x.vertex, like->vertex};
      first_round = equivalence_class.second;
    }
    return first;
  }

  [[nodiscard]] PartingWord counted(const Difference& found) const {
    return {
        DifferenceCause::Count,
        fmt::format("{} like {} {} at the same position or by the same load, not {}", found.here,
                    words_.kind(found.neighbour), words_.name(found.neighbour), found.there)};
  }

  FoldingGraph folding_;
  LabelledGraph graph_;
  ColourHistory history_;
  PartingWords words_;
};

// The earlier class that is most similar: among those of the same program the one that parted last,
// else one of the same stage, else the first.
std::uint32_t most_similar_class(const Workload& workload, const Partition& partition,
                                 const ReasonSearch& search, std::uint32_t rank_class) {
  const RankClass& mine = partition.ranks[rank_class];
  std::uint32_t best = kNone;
  std::uint32_t latest = 0;
  for (std::uint32_t other = 0; other < rank_class; ++other) {
    if (partition.ranks[other].program != mine.program) continue;
    const std::uint32_t round =
        search.parting(mine.representative, partition.ranks[other].representative);
    if (best != kNone && round <= latest) continue;
    best = other;
    latest = round;
  }
  if (best != kNone) return best;
  for (std::uint32_t other = 0; other < rank_class; ++other) {
    if (workload.programs[partition.ranks[other].program].stage ==
        workload.programs[mine.program].stage)
      return other;
  }
  return 0;
}

std::string difference_of(const GpuKind& gpu, const GpuKind& other) {
  if (gpu.profile != other.profile) return fmt::format("{}, not {}", gpu.profile, other.profile);
  return fmt::format("{} with {}, not {}", gpu.profile, to_text(gpu.memory), to_text(other.memory));
}

ClassReason reason_of(const Cluster& cluster, const Workload& workload, const Partition& partition,
                      const ReasonSearch& search, std::uint32_t rank_class) {
  const std::uint32_t unlike = most_similar_class(workload, partition, search, rank_class);
  const RankClass& mine = partition.ranks[rank_class];
  const RankClass& other = partition.ranks[unlike];
  ClassReason reason{.rank_class = rank_class, .unlike = unlike};
  const GpuKind gpu = cluster.gpu_kind(workload.ranks[mine.representative].gpu);
  const GpuKind other_gpu = cluster.gpu_kind(workload.ranks[other.representative].gpu);
  if (mine.program == other.program) {
    reason.difference = search.follow(mine.representative, other.representative, reason.path);
  } else if (gpu != other_gpu) {
    reason.difference = {DifferenceCause::Gpu, difference_of(gpu, other_gpu)};
  } else {
    reason.difference = {DifferenceCause::Program,
                         program_difference(workload, mine.program, other.program)};
  }
  return reason;
}

}  // namespace

std::vector<ClassReason> fold_reasons(const Cluster& cluster, const Workload& workload,
                                      const CommunicationModel& communication,
                                      const FoldOptions& options, const Partition& partition) {
  TY_CHECK(options.enabled);
  const Contention found =
      find_contention(cluster, workload, join(cluster, workload, communication, options.known),
                      options.contention());
  const ReasonSearch search(cluster, workload, found);
  std::vector<ClassReason> reasons{{.rank_class = 0}};
  for (std::uint32_t rank_class = 1; rank_class < partition.ranks.size(); ++rank_class)
    reasons.push_back(reason_of(cluster, workload, partition, search, rank_class));
  return reasons;
}

}  // namespace trainyard
