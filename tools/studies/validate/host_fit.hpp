// Fitting a host (models/host.hpp) to measured steps that wait for their CPU.
//
// A row's step is lowered, folded and priced once; only the replay is repeated with other costs of
// issuing. Fitted is one constant, seconds of a forward kernel; a backward kernel keeps its share
// of it, because steps that all recompute every layer issue both in one proportion and cannot tell
// them apart, and a collective its cost: a layer has four to six beside some forty kernels, and
// left free they end at none. Everything else of the prediction stays as it is.
//
//   const HostRows rows = prepare_host_rows(read_dataset("vtrain_single.csv"), 3);
//   const HostCosts fitted = fit_host(rows, every_row(rows), load_host_costs("eager"));
//   host_errors(rows, every_row(rows), fitted).mape;
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "models/host.hpp"
#include "tools/studies/validate/measured_row.hpp"

namespace trainyard {

struct PreparedStep;  // a row's step, ready to be replayed

class HostRows {
 public:
  HostRows();
  ~HostRows();
  HostRows(HostRows&&) noexcept;
  HostRows& operator=(HostRows&&) noexcept;
  [[nodiscard]] std::size_t size() const { return steps_.size(); }
  [[nodiscard]] std::size_t refused() const { return refused_; }  // that no scenario expresses
  // Predicted over measured time of a row's step under a host.
  [[nodiscard]] double ratio(std::size_t row, const HostCosts& costs) const;

 private:
  friend HostRows prepare_host_rows(const std::vector<MeasuredRow>& rows, std::size_t stride);
  std::vector<std::unique_ptr<PreparedStep>> steps_;
  std::size_t refused_ = 0;
};

// Every `stride`-th row that can be simulated. Throws InputError when none can. REQUIRES: stride >
// 0.
[[nodiscard]] HostRows prepare_host_rows(const std::vector<MeasuredRow>& rows, std::size_t stride);

using RowChoice = std::vector<std::size_t>;
[[nodiscard]] RowChoice every_row(const HostRows& rows);
// The rows whose number leaves `part` when divided by `parts`, or with `others` all but those.
[[nodiscard]] RowChoice part_of(const HostRows& rows, std::size_t part, std::size_t parts,
                                bool others);

// The constant that serves the chosen rows best, by robust least squares on logarithms,
// starting from that of `start`, whose other figures are kept.
[[nodiscard]] HostCosts fit_host(const HostRows& rows, const RowChoice& chosen,
                                 const HostCosts& start);

struct HostErrors {
  std::size_t rows = 0;
  double mape = 0.0;    // mean of |predicted / measured - 1|
  double median = 0.0;  // of the same
  double bias = 0.0;    // mean of predicted / measured - 1
};
[[nodiscard]] HostErrors host_errors(const HostRows& rows, const RowChoice& chosen,
                                     const HostCosts& costs);

}  // namespace trainyard
