// Published goodput and ETTR, interruptions, energy and training plans against predictions from
// their published set-ups, and the cases of other simulators beside ours.
//
// A row of the data set suffices if it gives a failure rate, a restart time and an interval between
// checkpoints (Kokolis et al.), or if data of the study `validate` describe it: job_rows.json its
// jobs, goodput_rows.json its preset. All other rows are listed with the reason.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/studies/goodput/goodput.hpp"
#include "tools/studies/validate/goodput/energy_rows.hpp"
#include "tools/studies/validate/goodput/job_rows.hpp"
#include "tools/studies/validate/goodput/peers.hpp"
#include "tools/studies/validate/goodput/plan_rows.hpp"
#include "tools/studies/validate/goodput/published_counts.hpp"

namespace trainyard {

struct PublishedGoodput {
  std::string id;
  std::string quality;  // of the source: A was read, B is quoted, C is recalled
  std::string source;
  double published = 0.0;
  bool bound = false;  // published as "more than"
  Summary predicted = {};
  std::string supposed = {};  // what the source does not give

  // Predicted minus published; 0 where the prediction keeps a bound.
  [[nodiscard]] double error() const;
};

struct GoodputRows {
  std::vector<PublishedGoodput> rows = {};
  std::vector<PublishedCount> counts = {};
  std::vector<PeerCase> peers = {};
  std::vector<EnergyRow> energy = {};
  std::vector<JobRow> jobs = {};
  std::vector<PlanRow> plans = {};
  std::vector<std::pair<std::string, std::string>> left_out;  // id and reason

  [[nodiscard]] bool empty() const {
    return rows.empty() && counts.empty() && peers.empty() && energy.empty() && jobs.empty() &&
           plans.empty();
  }
};

// Whether the file holds rows of whole runs: {id, topic, setup, measured, source, quality}.
[[nodiscard]] bool is_goodput_dataset(const std::filesystem::path& file);

// Predicts the chosen rows of the topics ETTR, failures, energy, step and heterogeneous, and runs
// those of other simulators. Throws InputError.
[[nodiscard]] GoodputRows validate_goodput(const std::filesystem::path& file,
                                           const std::function<bool(const std::string&)>& chosen);

[[nodiscard]] std::string goodput_rows_text(const GoodputRows& rows);
[[nodiscard]] nlohmann::ordered_json goodput_rows_json(const GoodputRows& rows);

}  // namespace trainyard
