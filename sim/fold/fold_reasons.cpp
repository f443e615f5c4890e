#include "sim/fold/fold_reasons.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/fold/colour_history.hpp"
#include "sim/fold/folding_graph.hpp"
#include "sim/workload/workload_text.hpp"

namespace trainyard {

namespace {

// Neighbours of one label and colour.
struct Alike {
  std::uint32_t label = 0;
  std::uint32_t colour = 0;
  auto operator<=>(const Alike&) const = default;
};

// Neighbours that the one has and the other has not are compared in pairs: of so many on a side.
constexpr std::size_t kMostCompared = 64;

class ReasonSearch {
 public:
  ReasonSearch(const Cluster& cluster, const Workload& workload, const Contention& found)
      : folding_(cluster, workload, found, Chains::Apart),
        history_(refine_with_history(folding_.graph, folding_.colours)),
        words_(cluster, workload, found, folding_) {}

  [[nodiscard]] std::uint32_t parting(RankId a, RankId b) const { return history_.parting(a, b); }

  // Follows what differs from the two ranks to its root. REQUIRES: they part, in a later round than
  // 0.
  PartingWord follow(RankId rank, RankId other, std::vector<PartingStep>& path) const {
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
  // Neighbours that the one has and the other has not: two of a kind to go on with, or one class of
  // which there are more on one side.
  struct Difference {
    std::optional<std::pair<std::uint32_t, std::uint32_t>> pair = {};
    std::uint32_t neighbour = 0;
    std::size_t here = 0;
    std::size_t there = 0;
  };

  using Neighbour = LabelledGraph::Neighbour;
  using Neighbours = std::map<Alike, std::vector<std::uint32_t>>;
  [[nodiscard]] Neighbours neighbours(std::uint32_t vertex, std::uint32_t round) const {
    Neighbours result;
    for (const auto& [neighbour, label] : folding_.graph.neighbours(vertex))
      result[{label, history_.colour(neighbour, round)}].push_back(neighbour);
    return result;
  }

  [[nodiscard]] Difference difference(std::uint32_t a, std::uint32_t b, std::uint32_t round) const {
    const Neighbours of_a = neighbours(a, round);
    const Neighbours of_b = neighbours(b, round);
    const auto surplus = [](const Neighbours& mine, const Neighbours& others) {
      std::vector<Neighbour> more;  // one of each
      for (const auto& [alike, vertices] : mine) {
        const auto like = others.find(alike);
        const std::size_t theirs = like == others.end() ? 0 : like->second.size();
        if (vertices.size() > theirs) more.push_back({vertices.front(), alike.label});
        if (more.size() == kMostCompared) break;
      }
      return more;
    };
    const std::vector<Neighbour> only_a = surplus(of_a, of_b);
    const std::vector<Neighbour> only_b = surplus(of_b, of_a);
    Difference found{.pair = first_pair(only_a, only_b, round)};
    if (found.pair) return found;
    const Neighbour more = only_a.empty() ? only_b.front() : only_a.front();
    const Alike alike{more.label, history_.colour(more.vertex, round)};
    const auto count = [&alike](const Neighbours& of) {
      const auto those = of.find(alike);
      return those == of.end() ? 0 : those->second.size();
    };
    found.neighbour = more.vertex;
    found.here = count(of_a);
    found.there = count(of_b);
    return found;
  }

  // Each of `a` beside the one of `b` that is most like it (the same label, if any; parted last);
  // of these pairs the one that parted first, by `round`.
  [[nodiscard]] std::optional<std::pair<std::uint32_t, std::uint32_t>> first_pair(
      std::span<const Neighbour> a, std::span<const Neighbour> b, std::uint32_t round) const {
    std::optional<std::pair<std::uint32_t, std::uint32_t>> first;
    std::uint32_t first_round = kNone;
    for (const Neighbour& x : a) {
      const Neighbour* like = nullptr;
      std::pair<bool, std::uint32_t> likeness{false, 0};
      for (const Neighbour& y : b) {
        if (words_.kind(x.vertex) != words_.kind(y.vertex)) continue;
        const std::pair here{x.label == y.label, history_.parting(x.vertex, y.vertex)};
        if (here.second > round || (like != nullptr && here <= likeness)) continue;
        like = &y;
        likeness = here;
      }
      if (like == nullptr || (first && likeness.second >= first_round)) continue;
      first = {x.vertex, like->vertex};
      first_round = likeness.second;
    }
    return first;
  }

  [[nodiscard]] PartingWord counted(const Difference& found) const {
    return {PartingCause::Count,
            fmt::format("{} like {} {} in the same role or by the same load, not {}", found.here,
                        words_.kind(found.neighbour), words_.name(found.neighbour), found.there)};
  }

  FoldingGraph folding_;
  ColourHistory history_;
  PartingWords words_;
};

// The earlier class that is most like this one: of the same program the one it parted from last,
// else of the same stage, else the first.
std::uint32_t most_alike(const Workload& workload, const Partition& partition,
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
  const std::uint32_t unlike = most_alike(workload, partition, search, rank_class);
  const RankClass& mine = partition.ranks[rank_class];
  const RankClass& other = partition.ranks[unlike];
  ClassReason reason{.rank_class = rank_class, .unlike = unlike};
  const GpuKind gpu = cluster.gpu_kind(workload.ranks[mine.representative].gpu);
  const GpuKind other_gpu = cluster.gpu_kind(workload.ranks[other.representative].gpu);
  if (mine.program == other.program) {
    reason.difference = search.follow(mine.representative, other.representative, reason.path);
  } else if (gpu != other_gpu) {
    reason.difference = {PartingCause::Gpu, difference_of(gpu, other_gpu)};
  } else {
    reason.difference = {PartingCause::Program,
                         program_difference(workload, mine.program, other.program)};
  }
  return reason;
}

}  // namespace

std::vector<ClassReason> fold_reasons(const Cluster& cluster, const Workload& workload,
                                      const Transport& transport, const FoldOptions& options,
                                      const Partition& partition) {
  TY_CHECK(options.enabled);
  const Contention found =
      find_contention(cluster, workload, transport, contention_options(options));
  const ReasonSearch search(cluster, workload, found);
  std::vector<ClassReason> reasons{{.rank_class = 0}};
  for (std::uint32_t rank_class = 1; rank_class < partition.ranks.size(); ++rank_class)
    reasons.push_back(reason_of(cluster, workload, partition, search, rank_class));
  return reasons;
}

}  // namespace trainyard
