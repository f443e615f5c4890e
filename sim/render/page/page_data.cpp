#include "sim/render/page/page_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/render/page/blocks.hpp"
#include "sim/render/svg.hpp"
#include "sim/report/stage_memory.hpp"
#include "sim/timeline/memory.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostBlocks = 60'000;
constexpr std::size_t kMostLanes = 16;
constexpr std::size_t kMostPoints = 1'000;
constexpr double kGib = 1073741824.0;

struct Lane {
  std::uint32_t rank_class = 0;
  std::vector<Bar> blocks;
};

std::vector<Lane> lanes_in(const RunView& view, Detail detail) {
  std::vector<Lane> lanes;
  for (const std::uint32_t one : chosen_lanes(view, kMostLanes))
    lanes.push_back({.rank_class = one, .blocks = bars_of(view, one, detail)});
  return lanes;
}

std::size_t count(const std::vector<Lane>& lanes) {
  return std::accumulate(
      lanes.begin(), lanes.end(), std::size_t{0},
      [](std::size_t sum, const Lane& lane) { return sum + lane.blocks.size(); });
}

Json lane_json(const RunView& view, const Lane& lane) {
  const RankClass& ranks = view.partition.ranks[lane.rank_class];
  Json streams = Json::array();
  for (const std::string& name : view.workload.streams) streams.push_back(name);
  Json blocks = Json::array();
  for (const Bar& block : lane.blocks) {
    blocks.push_back({std::llround(block.start_s * 1e9),
                      std::llround((block.end_s - block.start_s) * 1e9),
                      static_cast<int>(block.kind), block.stream, block.microbatch, block.layer,
                      block.name, block.operations});
  }
  return {{"title", fmt::format("stage {} (rank {}, like {} ranks)",
                                view.workload.programs[ranks.program].stage, ranks.representative,
                                ranks.members)},
          {"streams", std::move(streams)},
          {"blocks", std::move(blocks)}};
}

// Of each region of the step the point with most memory, so that no peak is lost.
std::vector<MemoryPoint> thinned(const std::vector<MemoryPoint>& curve) {
  if (curve.size() <= kMostPoints) return curve;
  const auto total = [](const MemoryPoint& point) {
    return std::accumulate(point.by_category.begin(), point.by_category.end(), std::int64_t{0});
  };
  std::vector<MemoryPoint> few;
  for (std::size_t part = 0; part < kMostPoints; ++part) {
    const auto begin =
        curve.begin() + static_cast<std::ptrdiff_t>(part * curve.size() / kMostPoints);
    const auto end =
        curve.begin() + static_cast<std::ptrdiff_t>((part + 1) * curve.size() / kMostPoints);
    few.push_back(*std::max_element(begin, end, [&](const MemoryPoint& a, const MemoryPoint& b) {
      return total(a) < total(b);
    }));
  }
  return few;
}

Json memory_json(const RunView& view, const StageMemory& stage) {
  const std::vector<MemoryPoint> curve = thinned(view.memory_curve_of(stage.rank_class));
  Json times = Json::array();
  std::vector<Json> values(view.workload.categories.size(), Json::array());
  for (const MemoryPoint& point : curve) {
    times.push_back(point.time_s);
    for (std::size_t category = 0; category < values.size(); ++category) {
      const double gib = static_cast<double>(point.by_category[category]) / kGib;
      values[category].push_back(std::round(gib * 1e4) / 1e4);
    }
  }
  return {{"title", fmt::format("stage {}", stage.stage)},
          {"capacity_gib", static_cast<double>(stage.capacity_bytes) / kGib},
          {"time_s", std::move(times)},
          {"gib", values}};
}

}  // namespace

Json page_data(const RunView& view) {
  std::vector<Lane> lanes = lanes_in(view, Detail::Operation);
  const bool joined = count(lanes) > kMostBlocks;
  if (joined) lanes = lanes_in(view, Detail::Microbatch);
  while (lanes.size() > 2 && count(lanes) > kMostBlocks)
    lanes.erase(lanes.begin() + static_cast<std::ptrdiff_t>(lanes.size() / 2));
  Json data{{"step_s", view.timeline.makespan_s},
            {"joined", joined},
            {"names", view.workload.names},
            {"kinds", Json::array()},
            {"lanes", Json::array()},
            {"memory", Json::array()},
            {"categories", Json::array()}};
  for (const BlockStyle& style : block_styles())
    data["kinds"].push_back({{"name", style.name}, {"colour", style.colour}});
  for (const Lane& lane : lanes) data["lanes"].push_back(lane_json(view, lane));
  for (std::size_t category = 0; category < view.workload.categories.size(); ++category) {
    data["categories"].push_back(
        {{"name", view.workload.categories[category]}, {"colour", svg_colour(category)}});
  }
  for (const StageMemory& stage : stage_memory(view))
    data["memory"].push_back(memory_json(view, stage));
  return data;
}

}  // namespace trainyard
