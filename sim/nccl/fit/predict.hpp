// All constants of the machine model together, and what they say of a measured sample.
//
//   const Constants shipped = shipped_constants();
//   const double us = predict_us(shipped, sample);
#pragma once

#include <array>
#include <map>
#include <string>

#include "sim/nccl/fit/samples.hpp"

namespace trainyard::nccl::fit {

// A network as the measured machines had it.
struct Fabric {
  double latency_us = 1.15;
  double efficiency = 1.0;      // of the NICs' nominal rate, in rings, trees and NVLSTree
  double exchange_share = 1.0;  // of that, in all_to_all
  double rendezvous_us = 0.0;   // Network's; zero where its messages do not meet in pairs
  double inject_us = 0.0;
};

struct Constants {
  std::map<Generation, MachineModel> machines;
  ProtocolModel protocols = {};
  MessageModel messages = {};
  std::map<std::string, Fabric> fabrics;
};

// Those of data/machine_*.json.
[[nodiscard]] Constants shipped_constants();

// False where nothing is fitted: Volta, and a fabric that is not known.
[[nodiscard]] bool can_predict(const Constants& constants, const Sample& sample);
// REQUIRES: can_predict.
[[nodiscard]] Prediction predicted(const Constants& constants, const Sample& sample);
[[nodiscard]] double predict_us(const Constants& constants, const Sample& sample);
// What NCCL's own model expects; nothing for operations that it does not tune.
[[nodiscard]] std::optional<double> unfitted_us(const Sample& sample);

}  // namespace trainyard::nccl::fit
