// Published numbers of interruptions against the failure rates of every preset.
//
// A row of the data set suffices if it gives nodes (or GPUs), a time and a count. Each preset then
// predicts the count of the row: its rates by component, on the row's nodes for the row's time.
// Where the rates of a preset come from that very count, the prediction says nothing and is not
// scored. The others hold if they are within the exact Poisson interval of the count.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/reliability/counts.hpp"

namespace trainyard {

struct PublishedCount {
  std::string id;
  std::string quality = {}, source = {};
  std::int64_t published = 0;
  double days = 0.0;
  reliability::MeanInterval interval = {};  // of 95 %
  std::string rates;                        // a preset, or "the row's own"
  double predicted = 0.0;
  bool same_count = false;    // the rates come from the published count
  std::string supposed = {};  // what the source does not give

  [[nodiscard]] bool within() const { return interval.contains(predicted); }
};

// Predicts a row {id, setup, measured, source, quality} into `rows`, by every preset that counts
// the failures of nodes; otherwise returns the reason why not. Throws InputError for a data file
// that is malformed.
[[nodiscard]] std::string predict_counts(const nlohmann::ordered_json& entry,
                                         std::vector<PublishedCount>& rows);

// A table and how many of the scored predictions are within their interval; empty without rows.
[[nodiscard]] std::string counts_text(const std::vector<PublishedCount>& rows);
[[nodiscard]] nlohmann::ordered_json counts_json(const std::vector<PublishedCount>& rows);

}  // namespace trainyard
