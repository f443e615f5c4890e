#include "sim/workload/rank_blocks.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard {

namespace {

constexpr std::size_t kMostShown = 6;

std::vector<RankBlocks> runs(const std::vector<RankId>& ranks) {
  std::vector<RankBlocks> result;
  for (const RankId rank : ranks) {
    if (!result.empty() && rank == result.back().first + result.back().length) {
      ++result.back().length;
    } else {
      result.push_back({.first = rank});
    }
  }
  return result;
}

std::string span_text(RankId first, std::uint32_t length) {
  if (length == 1) return std::to_string(first);
  return fmt::format("{}-{}", first, first + length - 1);
}

std::string block_text(const RankBlocks& block) {
  const std::string text = span_text(block.first, block.length);
  if (block.times == 1) return text;
  const RankId last = block.first + (block.times - 1) * block.every;
  const std::string end = span_text(last, block.length);
  return block.times == 2 ? fmt::format("{}, {}", text, end)
                          : fmt::format("{} and every {} to {}", text, block.every, end);
}

}  // namespace

std::vector<RankBlocks> rank_blocks(const std::vector<RankId>& ranks) {
  std::vector<RankBlocks> result;
  for (const RankBlocks& run : runs(ranks)) {
    if (!result.empty() && result.back().length == run.length) {
      RankBlocks& last = result.back();
      const std::uint32_t distance = run.first - (last.first + (last.times - 1) * last.every);
      if (last.times == 1 || last.every == distance) {
        last.every = distance;
        ++last.times;
        continue;
      }
    }
    result.push_back(run);
  }
  return result;
}

std::string to_text(const std::vector<RankBlocks>& blocks) {
  std::string text;
  const std::size_t shown = std::min(blocks.size(), kMostShown);
  for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : ", ") + block_text(blocks[i]);
  if (shown < blocks.size()) text += fmt::format(" and {} more blocks", blocks.size() - shown);
  return text;
}

}  // namespace trainyard
