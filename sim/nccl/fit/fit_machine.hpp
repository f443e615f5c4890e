// Fits the constants of the machine model to measured collectives, predicts measured samples with
// them, and computes the errors of the predictions.
//
// The constants of GPU generations and protocols come from rows of one node. Those of messages and
// fabrics come from rows of several nodes, with the former held fixed. All fits are robust least
// squares on log(predicted / measured). They are deterministic: the same rows give the same
// constants.
//
//    const Constants fitted = fit_constants(select_fitted(samples));
//    const double us = predict_us(shipped_constants(), sample);
//    fmt::print("{}", errors_of(fitted, rows).to_markdown());
//    cross_validate(rows, Split::Thirds);      // errors on rows that were left out
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "sim/nccl/fit/samples.hpp"

namespace trainyard::nccl::fit {

// The network of a measured machine.
struct Fabric {
  double latency_us = 1.15;
  double efficiency = 1.0;      // fraction of the NICs' nominal rate in rings, trees and NVLSTree
  double exchange_share = 1.0;  // fraction of that rate in all_to_all
  std::optional<double> rendezvous_us = {};  // see Network
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

// True if all constants are fitted that the sample needs. They are not for Volta and for an unknown
// fabric.
[[nodiscard]] bool can_predict(const Constants& constants, const Sample& sample);
// REQUIRES: can_predict.
[[nodiscard]] Prediction predicted(const Constants& constants, const Sample& sample);
[[nodiscard]] double predict_us(const Constants& constants, const Sample& sample);
// The time that NCCL's own model predicts; nothing for operations that it does not tune.
[[nodiscard]] std::optional<double> unfitted_us(const Sample& sample);

// Size bands of the buffer: up to 64 KiB, below 1 MiB, up to 64 MiB, more.
inline constexpr std::array kBands{"<= 64 KiB", "< 1 MiB", "<= 64 MiB", "> 64 MiB"};
[[nodiscard]] std::size_t band_of(double bytes);

// Sums of relative errors, predicted / measured - 1.
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

// Errors of predicted collectives, by machine, operation and size band.
class ErrorTable {
 public:
  void add(const ErrorKey& key, double ratio);
  [[nodiscard]] const ErrorSum& all() const { return all_; }
  [[nodiscard]] const ErrorSum& from_one_mebibyte() const { return large_; }
  // A Markdown table with one line per machine and operation and one column per band: "5.1 % (-0.4,
  // worst +17, n=60)".
  [[nodiscard]] std::string to_markdown() const;

 private:
  std::map<std::pair<std::string, std::string>, std::array<ErrorSum, kBands.size()>> cells_;
  ErrorSum all_;
  ErrorSum large_;
};

// "6.2 % (bias +0.1, worst -31, n=208)".
[[nodiscard]] std::string to_text(const ErrorSum& sum);

using Selection = std::vector<const Sample*>;
// The rows to fit, of one node or of several nodes, or the rows that are only used to evaluate the
// fit.
enum class Rows { OneNode, SeveralNodes, Unfitted };
[[nodiscard]] Selection select(const Samples& samples, Rows rows);
[[nodiscard]] Selection select_fitted(const Samples& samples);

// Fits from fixed initial values. A constant on which no row depends stays at its initial value.
[[nodiscard]] Constants fit_constants(const Selection& rows);

// The parts that cross-validation leaves out one after the other: every third row; all rows with
// one number of ranks; all rows of one log, or of one table and one release of NCCL; all rows of
// one cluster; all rows on more than 64 nodes (only these); or all rows between nodes over
// InfiniBand (only these), whose latency and rate are known. The error table has one line
// per part, with its name, for Source, and one line per fabric and number of nodes from Site on.
enum class Split { Thirds, Ranks, Source, Site, ManyNodes, Verbs };

// A row that was predicted without the part that it belongs to.
struct Residual {
  const Sample* sample = nullptr;
  double ratio = 1.0;  // predicted time over measured time
  std::string part = {};
};
// Predicts the rows that are left out. Rows are skipped if no row with their method or fabric is
// left, or if they are not in `judged` (where it is given).
[[nodiscard]] std::vector<Residual> left_out(const Selection& rows, Split split,
                                             const Selection* judged = nullptr);
// The errors of these rows.
[[nodiscard]] ErrorTable cross_validate(const Selection& rows, Split split,
                                        const Selection* judged = nullptr);

// Errors of the given constants, by the machine of the sample ("H100", "polaris_a100x4_n2_ofi").
[[nodiscard]] ErrorTable errors_of(const Constants& constants, const Selection& rows);
// The same by fabric and number of nodes ("infiniband, 9 to 64 nodes").
[[nodiscard]] ErrorTable errors_by_nodes(const Constants& constants, const Selection& rows);
// Errors of NCCL's own model, for the operations that it tunes.
[[nodiscard]] ErrorTable unfitted_errors(const Selection& rows);

[[nodiscard]] std::string machine_name(const Sample& sample);

}  // namespace trainyard::nccl::fit
