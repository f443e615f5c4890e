// Vertices of a folding graph in words, and in what two of them differ by themselves.
//
//   const PartingWords words(cluster, workload, priced, folding);
//   words.name(vertex);        // "node 1 nic 2 -> leaf 0"
//   words.difference(a, b);    // {PartingCause::Link, "25 GB/s, not 50 GB/s"}
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/fold/folding_graph.hpp"

namespace trainyard {

// What differs.
enum class PartingCause : std::uint8_t {
  First,    // the first class of all is unlike none
  Gpu,      // another kind of GPU
  Program,  // other operations
  Group,    // a group of another kind or size, or used in another way
  Calls,    // a group that makes other calls
  Latency,  // a call that takes other latency: a longer way
  Chain,    // bytes of a chain, or the rate that links leave it which it has to itself
  Link,     // the capacity or the kind of a link
  Count,    // more or fewer neighbours of one kind
};
[[nodiscard]] std::string_view to_string(PartingCause cause);

struct PartingWord {
  PartingCause cause = PartingCause::First;
  std::string because = {};
};

// Refers to what it is made of.
class PartingWords {
 public:
  PartingWords(const Cluster& cluster, const Workload& workload, const Contention& found,
               const FoldingGraph& folding)
      : cluster_(cluster),
        workload_(workload),
        joint_(found.joint),
        limits_(found.limits),
        folding_(folding) {}

  // "rank", "data group", "chain", "link".
  [[nodiscard]] std::string kind(std::uint32_t vertex) const;
  [[nodiscard]] std::string name(std::uint32_t vertex) const;

  // REQUIRES: vertices of one kind whose first colours differ.
  [[nodiscard]] PartingWord difference(std::uint32_t a, std::uint32_t b) const;

 private:
  // One chain of a shape, and where it belongs.
  struct Use {
    std::uint32_t call = 0;
    std::size_t phase = 0;
    ShapedChain chain = {};
  };

  [[nodiscard]] Link link(std::uint32_t vertex) const;
  [[nodiscard]] std::string link_name(const Link& link) const;
  [[nodiscard]] std::string members(GroupId group) const;
  [[nodiscard]] std::string call_text(std::uint32_t call) const;
  [[nodiscard]] PartingWord of_different_calls(std::uint32_t a, std::uint32_t b) const;
  [[nodiscard]] PartingWord of_ranks(RankId a, RankId b) const;
  [[nodiscard]] PartingWord of_groups(GroupId a, GroupId b) const;
  [[nodiscard]] PartingWord of_calls(GroupId a, GroupId b) const;
  [[nodiscard]] PartingWord of_chains(std::uint32_t a, std::uint32_t b) const;
  [[nodiscard]] PartingWord of_links(const Link& a, const Link& b) const;
  [[nodiscard]] std::vector<Use> uses(std::uint32_t shape) const;
  [[nodiscard]] std::string rate_text(const Use& use, std::uint32_t shape) const;

  const Cluster& cluster_;
  const Workload& workload_;
  const JointGraph& joint_;
  const LinkLimits& limits_;
  const FoldingGraph& folding_;
};

}  // namespace trainyard
