// The result of a search as text, JSON, CSV and a page.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/render/text_table.hpp"
#include "tools/studies/search/search.hpp"

namespace trainyard {

struct SearchPrice {
  std::optional<double> per_gpu_hour;  // in any currency
};

// The cost of a million training tokens: price * GPUs * step time / 3600 s / tokens * 1e6. Example:
// 512 GPUs at 2 per hour and 15.6 s for 8.39e6 tokens cost 0.529.
[[nodiscard]] double cost_per_million_tokens(double price_per_gpu_hour, const SearchResult& result,
                                             const FoundLayout& found);

// Names the first layouts of a search: "The quickest layouts", "The layout of least cost".
[[nodiscard]] std::string best_layouts(SearchObjective objective, bool several);

// The result as text: the best layouts with the breakdown of their time, a mark on those with
// hardly any free memory, why the first layout wins, the Pareto front of time against memory, and
// how many layouts each bound pruned.
[[nodiscard]] std::string search_text(const SearchResult& result, const SearchPrice& price);

// Parts of it: the tables, the comparisons of the first layout with others, and the command that
// runs a layout.
[[nodiscard]] TextTable best_table(const SearchResult& result, const SearchPrice& price);
[[nodiscard]] TextTable front_table(const SearchResult& result);
[[nodiscard]] TextTable refined_table(const RefinedLayouts& refined);
// Compares the first layout with the best other layout that differs in a given size, for each size.
[[nodiscard]] std::vector<std::string> why_first(const SearchResult& result);
[[nodiscard]] std::string layout_command(const FoundLayout& found);

// The result as one HTML page that opens from disk: the best layouts, step time against memory, the
// sizes of the layouts, and what the search left out. `scenario` is the file that was searched.
[[nodiscard]] std::string search_page(const SearchResult& result, const SearchPrice& price,
                                      const std::string& scenario);

// The result as JSON:
// {best: [{layout, set, step_time_s, ...}], front: [...], counts: {...},
//  refused_first: {layout, message} or null}
[[nodiscard]] nlohmann::ordered_json search_json(const SearchResult& result,
                                                 const SearchPrice& price);
// The best layouts and the front, one line each: list, place, layout, figures, bounds, cost.
[[nodiscard]] std::string search_csv(const SearchResult& result, const SearchPrice& price);

}  // namespace trainyard
