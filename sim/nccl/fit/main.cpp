// fit_nccl MEASURED [DATA DATE]: fits the machine model of NCCL and prints how well.
//
//   fit_nccl measured/collectives sim/nccl/data 2026-11-21
//
// Reads the tables and logs below MEASURED and rewrites machine_ampere.json, machine_hopper.json,
// machine_blackwell.json, machine_protocols.json, machine_network.json and errors.md in DATA. With
// MEASURED alone nothing is written, and the shipped constants are judged. The same rows give the
// same bytes.
#include <fmt/format.h>

#include <cstdio>
#include <span>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/nccl/fit/report.hpp"
#include "sim/nccl/fit/write_constants.hpp"

namespace {

using namespace trainyard::nccl::fit;

// The page that goes beside the constants.
std::string page(const Constants& constants, const Samples& samples) {
  return "# Errors of the machine model of NCCL\n\n"
         "Predicted over measured times less one: the mean of its magnitude, its mean (bias), the "
         "worst and the rows.\nWritten by `fit_nccl measured/collectives "
         "sim/nccl/data DATE` together with the constants.\n" +
         errors_markdown(constants, samples) + left_out_markdown(samples);
}

}  // namespace

int main(int count, char** values) {
  const std::span<char*> arguments(values, static_cast<std::size_t>(count));
  if (arguments.size() != 2 && arguments.size() != 4) {
    fmt::print(stderr, "usage: fit_nccl MEASURED [DATA DATE]\n");
    return 2;
  }
  try {
    const Samples samples = read_samples(arguments[1]);
    const Selection rows = select_fitted(samples);
    const bool write = arguments.size() == 4;
    const Constants constants = write ? rounded(fit_constants(rows)) : shipped_constants();
    fmt::print("{}", errors_markdown(constants, samples));
    if (!write) return 0;
    write_constants(constants, rows, {.folder = arguments[2], .date = arguments[3]});
    trainyard::write_file(std::filesystem::path(arguments[2]) / "errors.md",
                          page(constants, samples));
  } catch (const trainyard::InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
  return 0;
}
