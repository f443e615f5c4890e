// The published default cases of other simulators of failures, run beside ours.
//
// data/goodput_peers.json of the study `validate` gives each case as a block `reliability` with the
// length of its steps: nothing is simulated but the weeks around them. Its figures are compared
// where the row of the data set has them; otherwise ours stand alone.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/studies/goodput/goodput.hpp"

namespace trainyard {

// A figure of a case.
struct PeerFigure {
  std::string name;                 // "share of productive time"
  std::optional<double> published;  // by the peer
  Summary ours = {};
};

struct PeerCase {
  std::string row;   // its id in the data set
  std::string name;  // "Varuna in Oobleck's simulator"
  std::vector<PeerFigure> figures = {};
  std::string not_run = {};   // the reason why ours has no figures
  std::string supposed = {};  // what the row does not give
  std::string differs = {};   // where the two models differ
};

// Runs the cases of a row {id, setup, measured}; empty where it has none. Throws InputError for a
// data file that is malformed.
[[nodiscard]] std::vector<PeerCase> peer_cases(const nlohmann::ordered_json& entry);

// Tables of the figures, and what differs; empty without cases.
[[nodiscard]] std::string peers_text(const std::vector<PeerCase>& cases);
[[nodiscard]] nlohmann::ordered_json peers_json(const std::vector<PeerCase>& cases);

}  // namespace trainyard
