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

Selection one_node(const Selection& rows, bool wanted) {
  Selection chosen;
  for (const Sample* row : rows)
    if (row->one_node() == wanted) chosen.push_back(row);
  return chosen;
}

void report(const Constants& constants, const Selection& rows) {
  for (const bool alone : {true, false}) {
    const Selection some = one_node(rows, alone);
    fmt::print("{}\n", alone ? "One node" : "Several nodes");
    print("NCCL's own model", unfitted_errors(some), false);
    print("machine model", errors_of(constants, some), true);
  }
}

void report_left_out(const Selection& rows) {
  const Selection alone = one_node(rows, true);
  print("left out: every third row, one node", cross_validate(alone, Split::Thirds), false);
  print("left out: a number of ranks, one node", cross_validate(alone, Split::Ranks), false);
  print("left out: a source, one node", cross_validate(alone, Split::Source), false);
  print("left out: every third row, all", cross_validate(rows, Split::Thirds), false);
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
    const Selection rows = select_all(samples);
    const bool write = arguments.size() == 4;
    const Constants constants = write ? rounded(fit_constants(rows)) : shipped_constants();
    report(constants, rows);
    if (!write) return 0;
    report_left_out(rows);
    write_constants(constants, rows, {.folder = arguments[2], .date = arguments[3]});
  } catch (const trainyard::InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
  return 0;
}
