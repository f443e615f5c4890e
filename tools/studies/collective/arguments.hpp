// Parses the sizes, the ranks and the groups that communicate at the same time from the command
// line. Sizes are written as for nccl-tests' -b, -e and -f.
//
//    parse_sizes("8B:8GiB");       // 8, 16, 32 ... 8 589 934 592: 31 sizes
//    parse_sizes("1M:1G:4");       // as nccl-tests counts: K, M, G and T are powers of 1024
//    parse_sizes("48MiB");         // one size
//    parse_sizes("8k,1M:4M");      // a list of these: 8 KiB, 1, 2 and 4 MiB
//    parse_group("all_reduce/ring:0-56/8@64MiB", 64);     // ranks 0, 8, 16 ... 56, 64 MiB
//    split_groups("data=8", ranks);                       // 8 groups, each of every eighth rank
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard {

// Parses FROM[:TO[:FACTOR]], or several of these separated by commas, into ascending sizes. The
// last size of a range is the largest one that is not above TO. The default factor is 2. Throws
// InputError that names the part it cannot read.
[[nodiscard]] std::vector<std::int64_t> parse_sizes(std::string_view text);

// A size as text with the largest binary unit that divides it: "8B", "128KiB", "1GiB".
[[nodiscard]] std::string size_text(std::int64_t bytes);

struct CollectiveGroup {
  CollectiveOp op = CollectiveOp::AllReduce;
  std::string algorithm = {};              // empty: the algorithm of the study
  std::vector<std::uint32_t> gpus = {};    // members by group rank
  std::optional<std::int64_t> bytes = {};  // no value: the sizes of the study
};

// Parses "0,8,16", "0-7", "0-56/8" (every eighth), or several of these separated by commas. Throws
// InputError for a number that is no rank below `gpus` or that occurs twice. The error names
// `option`.
[[nodiscard]] std::vector<std::uint32_t> parse_ranks(std::string_view text, std::size_t gpus,
                                                     const std::string& option);

// Parses OP[/ALGORITHM]:RANKS[@SIZE]. Throws InputError that names the part it cannot read.
[[nodiscard]] CollectiveGroup parse_group(std::string_view text, std::size_t gpus);

// The ranks in groups as in parallel training. "tensor=N" makes groups of N neighbours. "data=N"
// makes the N groups across them: each contains the ranks with the same index within their N
// neighbours (with 8 GPUs per node and N = 8: one group for each rail). Throws InputError if N does
// not divide the number of ranks, or leaves groups of one rank.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> split_groups(
    std::string_view text, std::span<const std::uint32_t> ranks);

// A short name of a list of ranks for tables: "0-7", "0,8,...,56".
[[nodiscard]] std::string ranks_text(std::span<const std::uint32_t> ranks);

// The operation of this name. Throws InputError that suggests the nearest name.
[[nodiscard]] CollectiveOp collective_named(const std::string& name, const std::string& option);

}  // namespace trainyard
