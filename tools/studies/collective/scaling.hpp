// One collective on clusters of several numbers of nodes: how bus bandwidth changes with scale.
//
//    std::vector<ScaledStudy> studies = {{.nodes = 2, .study = a}, {.nodes = 4, .study = b}};
//    say("{}", scaling_text(studies, "dgx_h100, rail_optimized"));
//    write_file("busbw.svg", svg_plot(scaling_plot(studies, "all_reduce")));
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "sim/render/text_table.hpp"
#include "tools/studies/collective/plot.hpp"
#include "tools/studies/collective/study.hpp"

namespace trainyard {

// REQUIRES of a list of these: one collective, equal sizes and algorithms, ascending nodes.
struct ScaledStudy {
  std::uint32_t nodes = 1;
  CollectiveStudy study = {};
};

// For each algorithm a table of busbw in GB/s, by size and number of nodes. "-" stands where the
// algorithm cannot run; the reasons follow. `place` names node type and fabric.
[[nodiscard]] std::string scaling_text(std::span<const ScaledStudy> studies,
                                       const std::string& place);

// The table of one algorithm, and the reasons why algorithms cannot run.
[[nodiscard]] TextTable scaling_table(std::span<const ScaledStudy> studies, std::size_t algorithm);
[[nodiscard]] std::vector<std::string> scaling_refusals(std::span<const ScaledStudy> studies);

// The rows of study_json() and study_csv(), each with its number of nodes first.
[[nodiscard]] nlohmann::ordered_json scaling_json(std::span<const ScaledStudy> studies);
[[nodiscard]] std::string scaling_csv(std::span<const ScaledStudy> studies);

// Bus bandwidth over nodes: a curve for each algorithm at the largest size and, where there are
// several sizes, at the smallest one (dashed).
[[nodiscard]] SvgPlot scaling_plot(std::span<const ScaledStudy> studies, std::string title);

}  // namespace trainyard
