#include "sim/fold/parting_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "sim/workload/workload_text.hpp"

namespace trainyard {

std::string_view to_string(PartingCause cause) {
  switch (cause) {
    case PartingCause::First:
      return "first";
    case PartingCause::Gpu:
      return "gpu";
    case PartingCause::Program:
      return "program";
    case PartingCause::Group:
      return "group";
    case PartingCause::Calls:
      return "calls";
    case PartingCause::Latency:
      return "latency";
    case PartingCause::Chain:
      return "chain";
    case PartingCause::Link:
      return "link";
    case PartingCause::Count:
      return "count";
  }
  return "";
}

std::string PartingWords::kind(std::uint32_t vertex) const {
  if (vertex < folding_.groups) return "rank";
  if (vertex >= folding_.links) return "link";
  if (vertex >= folding_.shapes) return "chain";
  return fmt::format("{} group", to_string(workload_.groups[vertex - folding_.groups].kind));
}

std::string PartingWords::name(std::uint32_t vertex) const {
  if (vertex < folding_.groups) return std::to_string(vertex);
  if (vertex >= folding_.links) return link_name(link(vertex));
  if (vertex < folding_.shapes) return members(vertex - folding_.groups);
  const GroupId group = joint_.group_of_shape[vertex - folding_.shapes];
  return fmt::format("of {} {}", to_string(workload_.groups[group].kind), members(group));
}

PartingWord PartingWords::difference(std::uint32_t a, std::uint32_t b) const {
  if (a < folding_.groups) return of_ranks(a, b);
  if (a < folding_.shapes) return of_groups(a - folding_.groups, b - folding_.groups);
  if (a < folding_.links) return of_chains(a - folding_.shapes, b - folding_.shapes);
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

// Where the calls of two groups at one place differ.
PartingWord PartingWords::of_different_calls(std::uint32_t a, std::uint32_t b) const {
  const std::string here = call_text(a);
  const std::string there = call_text(b);
  return {PartingCause::Calls, here != there ? fmt::format("{}, not {}", here, there)
                                             : here + " with other bytes between its members"};
}

PartingWord PartingWords::of_ranks(RankId a, RankId b) const {
  const std::uint32_t here = workload_.ranks[a].program;
  const std::uint32_t there = workload_.ranks[b].program;
  if (here == there)
    return {PartingCause::Group, "slots that name one group, not two, or the other way round"};
  return {PartingCause::Program, program_difference(workload_, here, there)};
}

PartingWord PartingWords::of_groups(GroupId a, GroupId b) const {
  const Group& here = workload_.groups[a];
  const Group& there = workload_.groups[b];
  if (here.kind != there.kind) {
    return {PartingCause::Group,
            fmt::format("a {} group, not {}", to_string(here.kind), to_string(there.kind))};
  }
  if (here.members.size() != there.members.size()) {
    return {PartingCause::Group,
            fmt::format("{} ranks, not {}", here.members.size(), there.members.size())};
  }
  return of_calls(a, b);
}

PartingWord PartingWords::of_calls(GroupId a, GroupId b) const {
  const std::vector<GroupCall>& here = joint_.calls_of(a);
  const std::vector<GroupCall>& there = joint_.calls_of(b);
  const auto latency = [](const GroupCall& made) {
    double sum = 0.0;
    for (const ShapedPhase& phase : made.phases) sum += phase.latency_s;
    return sum;
  };
  for (std::size_t i = 0; i < std::min(here.size(), there.size()); ++i) {
    if (here[i].call != there[i].call) return of_different_calls(here[i].call, there[i].call);
    const auto key = [](const ShapedPhase& phase) { return rounded_key(phase.latency_s); };
    if (std::ranges::equal(here[i].phases, there[i].phases, {}, key, key)) continue;
    return {PartingCause::Latency,
            fmt::format("{} has a latency of {}, not {}", call_text(here[i].call),
                        to_text(Seconds{latency(here[i])}), to_text(Seconds{latency(there[i])}))};
  }
  return {PartingCause::Calls, fmt::format("{} kinds of calls, not {}", here.size(), there.size())};
}

std::vector<PartingWords::Use> PartingWords::uses(std::uint32_t shape) const {
  std::vector<Use> result;
  const GroupId group = joint_.group_of_shape[shape];
  for (const GroupCall& made : joint_.calls_of(group)) {
    for (std::size_t phase = 0; phase < made.phases.size(); ++phase) {
      for (const ShapedChain& chain : made.phases[phase].chains) {
        if (joint_.first_shape[group] + chain.shape == shape)
          result.push_back({made.call, phase, chain});
      }
    }
  }
  return result;
}

// With the link that leaves the chain the least.
std::string PartingWords::rate_text(const Use& use, std::uint32_t shape) const {
  std::string text = to_text(BytesPerSecond{use.chain.rate_cap_bytes_per_s});
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

PartingWord PartingWords::of_chains(std::uint32_t a, std::uint32_t b) const {
  const std::vector<Use> here = uses(a);
  const std::vector<Use> there = uses(b);
  const auto bytes_text = [](const Use& use) {
    return fmt::format("{} x {}", use.chain.count, to_text(Bytes{use.chain.payload_bytes}));
  };
  for (std::size_t i = 0; i < std::min(here.size(), there.size()); ++i) {
    const ShapedChain& x = here[i].chain;
    const ShapedChain& y = there[i].chain;
    if (here[i].call != there[i].call) return of_different_calls(here[i].call, there[i].call);
    if (here[i].phase != there[i].phase) break;
    if (rounded_key(x.payload_bytes) != rounded_key(y.payload_bytes) || x.count != y.count) {
      return {PartingCause::Chain, fmt::format("{} in {}, not {}", bytes_text(here[i]),
                                               call_text(here[i].call), bytes_text(there[i]))};
    }
    if (alone_key(x) == alone_key(y) &&
        rounded_key(x.rate_cap_bytes_per_s) == rounded_key(y.rate_cap_bytes_per_s))
      continue;
    return {PartingCause::Chain, fmt::format("{} at {}, not {}", call_text(here[i].call),
                                             rate_text(here[i], a), rate_text(there[i], b))};
  }
  return {PartingCause::Calls,
          fmt::format("a part in {} phases, not {}, or in others", here.size(), there.size())};
}

PartingWord PartingWords::of_links(const Link& a, const Link& b) const {
  if (a.kind != b.kind)
    return {PartingCause::Link, fmt::format("{}, not {}", to_string(a.kind), to_string(b.kind))};
  const bool usable = rounded_key(a.capacity.value()) != rounded_key(b.capacity.value());
  return {PartingCause::Link,
          usable ? fmt::format("{}, not {}", to_text(a.capacity), to_text(b.capacity))
                 : fmt::format("sold as {}, not {}", to_text(a.nominal), to_text(b.nominal))};
}

}  // namespace trainyard
