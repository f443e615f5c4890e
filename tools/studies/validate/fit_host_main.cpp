// fit_host TABLE HOST [STRIDE]: fits what a CPU needs to issue kernels, and prints how well.
//
//   fit_host measured/training/vtrain_single.csv eager 3
//
// Reads every STRIDE-th row of a table of measured steps (tools/studies/validate/dataset.hpp),
// starts from a host of models/hosts and prints the fitted constants in microseconds, their errors,
// and the errors on fifths of the rows that were left out of the fit.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <span>

#include "sim/base/error.hpp"
#include "tools/studies/validate/dataset.hpp"
#include "tools/studies/validate/host_fit.hpp"

namespace {

using namespace trainyard;

constexpr std::size_t kFolds = 5;

std::string to_text(const HostErrors& errors) {
  return fmt::format("{} rows, MAPE {:.2f} %, median {:.2f} %, bias {:+.2f} %", errors.rows,
                     100.0 * errors.mape, 100.0 * errors.median, 100.0 * errors.bias);
}

std::string to_text(const HostCosts& costs) {
  return fmt::format("forward kernel {:.2f} us, backward kernel {:.2f} us, collective {:.2f} us",
                     costs.forward_kernel.value() * 1e6, costs.backward_kernel.value() * 1e6,
                     costs.collective.value() * 1e6);
}

void fit(const HostRows& rows, const HostCosts& start) {
  const RowChoice all = every_row(rows);
  if (rows.refused() > 0) fmt::print("{} rows that no scenario expresses\n", rows.refused());
  fmt::print("as shipped: {}\n  {}\n", to_text(start), to_text(host_errors(rows, all, start)));
  const HostCosts fitted = fit_host(rows, all, start);
  fmt::print("fitted: {}\n  {}\n", to_text(fitted), to_text(host_errors(rows, all, fitted)));
  std::fflush(stdout);
  double mape = 0.0;
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    const HostCosts others = fit_host(rows, part_of(rows, fold, kFolds, true), fitted);
    const HostErrors left_out = host_errors(rows, part_of(rows, fold, kFolds, false), others);
    mape += left_out.mape / static_cast<double>(kFolds);
    fmt::print("left out, fifth {}: {}\n", fold + 1, to_text(left_out));
  }
  fmt::print("left out, all fifths: MAPE {:.2f} %\n", 100.0 * mape);
}

}  // namespace

int main(int count, char** values) {
  const std::span<char*> arguments(values, static_cast<std::size_t>(count));
  const std::size_t stride =
      arguments.size() == 4 ? std::strtoul(arguments[3], nullptr, 10) : std::size_t{1};
  if (arguments.size() < 3 || arguments.size() > 4 || stride == 0) {
    fmt::print(stderr, "usage: fit_host TABLE HOST [STRIDE]\n");
    return 2;
  }
  try {
    fit(prepare_host_rows(read_dataset(arguments[1]), stride), load_host_costs(arguments[2]));
  } catch (const InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
  return 0;
}
