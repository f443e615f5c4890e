// The answer of a search as text, JSON and CSV.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tools/studies/search/search.hpp"

namespace trainyard {

struct SearchPrice {
  std::optional<double> per_gpu_hour;  // in whatever currency
};

// Dollars (say) for a million training tokens: price * GPUs * step time / 3600 s / tokens * 1e6.
// 512 GPUs at 2 an hour, 15.6 s for 8.39e6 tokens: 0.529.
[[nodiscard]] double cost_per_million_tokens(double price_per_gpu_hour, const SearchResult& result,
                                             double step_time_s);

// The best with what their time is made of, those with hardly any memory to spare marked, why the
// first wins, the Pareto front of time against memory, and how much was pruned by what.
[[nodiscard]] std::string search_text(const SearchResult& result, const SearchPrice& price);
// {best: [{layout, set, step_time_s, ...}], front: [...], counts: {...}, refused_first: {layout,
// message} or null}
[[nodiscard]] nlohmann::ordered_json search_json(const SearchResult& result,
                                                 const SearchPrice& price);
// The best and the front, one line each: list, place, layout, figures, bounds.
[[nodiscard]] std::string search_csv(const SearchResult& result, const SearchPrice& price);

}  // namespace trainyard
