// fit_nccl MEASURED [DATA DATE]: fits the machine model of NCCL and prints how well.
//
//   fit_nccl measured/collectives models/collectives/nccl/data 2026-11-21
//
// Reads the tables and logs below MEASURED and rewrites machine_ampere.json, machine_hopper.json,
// machine_blackwell.json and machine_network.json in DATA. With MEASURED alone nothing is written,
// and the shipped constants are judged. The same rows give the same bytes.
#include <fmt/format.h>

#include <cstdio>
#include <span>

#include "models/collectives/nccl/fit/fit_machine.hpp"
#include "models/collectives/nccl/fit/write_constants.hpp"
#include "sim/base/error.hpp"

namespace {

using namespace trainyard::nccl::fit;

void print(const char* title, const ErrorTable& table, bool lines) {
  fmt::print("{}: all sizes {}; from 1 MiB {}\n", title, to_text(table.all()),
             to_text(table.from_one_mebibyte()));
  if (lines) fmt::print("\n{}\n", table.to_markdown());
}

void report(const Constants& constants, const Samples& samples) {
  const auto judge = [&](const char* title, Rows kind) {
    const Selection rows = select(samples, kind);
    fmt::print("{}\n", title);
    print("NCCL's own model", unfitted_errors(rows), false);
    print("machine model", errors_of(constants, rows), true);
  };
  judge("One node", Rows::OneNode);
  judge("One node, a table that nobody fitted", Rows::Unfitted);
  judge("Several nodes", Rows::SeveralNodes);
}

void report_left_out(const Samples& samples) {
  const Selection alone = select(samples, Rows::OneNode);
  print("left out: every third row, one node", cross_validate(alone, Split::Thirds), false);
  print("left out: a number of ranks, one node", cross_validate(alone, Split::Ranks), false);
  print("left out: a log, one node", cross_validate(alone, Split::Source), false);
  const Selection several = select(samples, Rows::SeveralNodes);
  const ErrorTable thirds = cross_validate(select_fitted(samples), Split::Thirds, &several);
  print("left out: every third row, several nodes", thirds, true);
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
    report(constants, samples);
    if (!write) return 0;
    report_left_out(samples);
    write_constants(constants, rows, {.folder = arguments[2], .date = arguments[3]});
  } catch (const trainyard::InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
  return 0;
}
