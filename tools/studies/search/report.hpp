// The result of a search as text, JSON and CSV.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tools/studies/search/search.hpp"

namespace trainyard {

struct SearchPrice {
  std::optional<double> per_gpu_hour;  // in any currency
};

// The cost of a million training tokens: price * GPUs * step time / 3600 s / tokens * 1e6. Example:
// 512 GPUs at 2 per hour and 15.6 s for 8.39e6 tokens cost 0.529.
[[nodiscard]] double cost_per_million_tokens(double price_per_gpu_hour, const SearchResult& result,
                                             double step_time_s);

// The result as text: the best layouts with the breakdown of their time, a mark on those with
// hardly any free memory, why the first layout wins, the Pareto front of time against memory, and
// how many layouts each bound pruned.
[[nodiscard]] std::string search_text(const SearchResult& result, const SearchPrice& price);
// The result as JSON:
// {best: [{layout, set, step_time_s, ...}], front: [...], counts: {...},
//  refused_first: {layout, message} or null}
[[nodiscard]] nlohmann::ordered_json search_json(const SearchResult& result,
                                                 const SearchPrice& price);
// The best layouts and the front, one line each: list, place, layout, figures, bounds, cost.
[[nodiscard]] std::string search_csv(const SearchResult& result, const SearchPrice& price);

}  // namespace trainyard
