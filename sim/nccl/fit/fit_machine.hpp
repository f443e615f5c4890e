// Fits the machine model's constants to measured collectives, predicts measured samples with them,
// and says how far off the predictions are.
//
// Constants of the GPU generations and of the protocols come from rows of one node, those of
// messages and fabrics from rows of several, with the others held fixed. Everything is least
// squares on log(predicted / measured), robust; the same rows give the same constants.
//
//   const Constants fitted = fit_constants(select_fitted(samples));
//   const double us = predict_us(shipped_constants(), sample);
//   fmt::print("{}", errors_of(fitted, rows).to_markdown());
//   cross_validate(rows, Split::Thirds);      // errors on rows that were left out
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "sim/nccl/fit/samples.hpp"

namespace trainyard::nccl::fit {

// A network as the measured machines had it.
struct Fabric {
  double latency_us = 1.15;
  double efficiency = 1.0;      // share of the NICs' nominal rate, in rings, trees and NVLSTree
  double exchange_share = 1.0;  // share of that, in all_to_all
  double rendezvous_us = 0.0;   // Network's; zero where its messages do not meet in pairs
  double inject_us = 0.0;
};

struct Constants {
  std::map<Generation, MachineModel> machines;
  ProtocolModel protocols = {};
  MessageModel messages = {};
  std::map<std::string, Fabric> fabrics;
};

// The constants of data/machine_*.json.
[[nodiscard]] Constants shipped_constants();

// Is everything fitted that the sample needs? It is not for Volta and for a fabric that is not
// known.
[[nodiscard]] bool can_predict(const Constants& constants, const Sample& sample);
// REQUIRES: can_predict.
[[nodiscard]] Prediction predicted(const Constants& constants, const Sample& sample);
[[nodiscard]] double predict_us(const Constants& constants, const Sample& sample);
// The time that NCCL's own model expects; nothing for operations that it does not tune.
[[nodiscard]] std::optional<double> unfitted_us(const Sample& sample);

// Bands of a buffer's size: to 64 KiB, to 1 MiB (exclusive), to 64 MiB, more.
inline constexpr std::array kBands{"<= 64 KiB", "< 1 MiB", "<= 64 MiB", "> 64 MiB"};
[[nodiscard]] std::size_t band_of(double bytes);

// The sum of relative errors, predicted / measured - 1.
struct ErrorSum {
  std::size_t rows = 0;
  double absolute = 0.0;
  double signed_sum = 0.0;
  double worst = 0.0;  // signed, of the largest magnitude

  void add(double relative);
  [[nodiscard]] double mean_absolute() const {
    return rows == 0 ? 0.0 : absolute / static_cast<double>(rows);
  }
  [[nodiscard]] double bias() const {
    return rows == 0 ? 0.0 : signed_sum / static_cast<double>(rows);
  }
};

struct ErrorKey {
  std::string machine;
  std::string op;
  double bytes = 0.0;
};

// How far predicted collectives lie from measured ones, by machine, operation and size band.
class ErrorTable {
 public:
  void add(const ErrorKey& key, double ratio);
  [[nodiscard]] const ErrorSum& all() const { return all_; }
  [[nodiscard]] const ErrorSum& from_one_mebibyte() const { return large_; }
  // A line by machine and operation, a column by band: "5.1 % (-0.4, worst +17, n=60)".
  [[nodiscard]] std::string to_markdown() const;

 private:
  std::map<std::pair<std::string, std::string>, std::array<ErrorSum, kBands.size()>> cells_;
  ErrorSum all_;
  ErrorSum large_;
};

// "6.2 % (bias +0.1, worst -31, n=208)".
[[nodiscard]] std::string to_text(const ErrorSum& sum);

using Selection = std::vector<const Sample*>;
// Rows of one node or of several that are fitted, or those that are only judged.
enum class Rows { OneNode, SeveralNodes, Unfitted };
[[nodiscard]] Selection select(const Samples& samples, Rows rows);
[[nodiscard]] Selection select_fitted(const Samples& samples);

// From fixed guesses. A constant that no row depends on keeps its guess.
[[nodiscard]] Constants fit_constants(const Selection& rows);

// The parts that are left out, one after the other: every third row, all rows of one number of
// ranks, or all of one table (of one release of NCCL) or log, whose errors then are a line by its
// name.
enum class Split { Thirds, Ranks, Source };
// Errors of the rows left out. Rows by a method, or over a fabric, of which no row is left are not
// judged, nor are those that are not in `judged`, where it is given.
[[nodiscard]] ErrorTable cross_validate(const Selection& rows, Split split,
                                        const Selection* judged = nullptr);

// Errors of given constants; by the sample's machine ("H100", "polaris_a100x4_n2_ofi").
[[nodiscard]] ErrorTable errors_of(const Constants& constants, const Selection& rows);
// Errors of NCCL's own model, for the operations that it tunes.
[[nodiscard]] ErrorTable unfitted_errors(const Selection& rows);

[[nodiscard]] std::string machine_name(const Sample& sample);

}  // namespace trainyard::nccl::fit
