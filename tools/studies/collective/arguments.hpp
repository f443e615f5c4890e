// Sizes, ranks and groups that communicate at the same time, in the words of the command line.
// Sizes are written as for nccl-tests' -b, -e and -f.
//
//   parse_sizes("8B:8GiB");       // 8, 16, 32 ... 8 589 934 592: 31 sizes
//   parse_sizes("1M:1G:4");       // as nccl-tests counts: K, M, G and T are powers of 1024
//   parse_sizes("48MiB");         // one size
//   parse_group("all_reduce/ring:0-56/8@64MiB", 64);     // ranks 0, 8, 16 ... 56, 64 MiB
//   split_groups("data=8", ranks);                       // 8 groups, each of every eighth rank
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard {

// FROM[:TO[:FACTOR]], ascending; the last is the largest that is not above TO. The factor is 2
// where none is given. Throws InputError, naming what cannot be read.
[[nodiscard]] std::vector<std::int64_t> parse_sizes(std::string_view text);

// "8B", "128KiB", "1GiB": the largest binary unit that divides it.
[[nodiscard]] std::string size_text(std::int64_t bytes);

struct CollectiveGroup {
  CollectiveOp op = CollectiveOp::AllReduce;
  std::string algorithm = {};              // empty: the study's
  std::vector<std::uint32_t> gpus = {};    // members by group rank
  std::optional<std::int64_t> bytes = {};  // nothing: the study's sizes
};

// "0,8,16", "0-7", "0-56/8" (every eighth), or several of these with commas. Throws InputError for
// what is no rank below `gpus`, or is there twice. `option` is named in the error.
[[nodiscard]] std::vector<std::uint32_t> parse_ranks(std::string_view text, std::size_t gpus,
                                                     const std::string& option);

// OP[/ALGORITHM]:RANKS[@SIZE]. Throws InputError, naming what cannot be read.
[[nodiscard]] CollectiveGroup parse_group(std::string_view text, std::size_t gpus);

// The ranks as parallel training groups them. "tensor=N": N neighbours each. "data=N": the groups
// across those, of the ranks at the same place of each N (with 8 GPUs a node and N = 8: one group
// for each rail). Throws InputError where N does not divide the ranks or leaves groups of one.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> split_groups(
    std::string_view text, std::span<const std::uint32_t> ranks);

// "0-7", "0,8,...,56": a short name for people.
[[nodiscard]] std::string ranks_text(std::span<const std::uint32_t> ranks);

// The operation of this name. Throws InputError with the nearest.
[[nodiscard]] CollectiveOp collective_named(const std::string& name, const std::string& option);

}  // namespace trainyard
