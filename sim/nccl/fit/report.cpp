#include "sim/nccl/fit/report.hpp"

#include <fmt/format.h>

namespace trainyard::nccl::fit {

namespace {

std::string line(const char* title, const ErrorTable& table) {
  return fmt::format("| {} | {} | {} |\n", title, to_text(table.all()),
                     to_text(table.from_one_mebibyte()));
}

std::string heading(const char* title) {
  return fmt::format("\n## {}\n\n| | all sizes | from 1 MiB |\n|---|---|---|\n", title);
}

std::string judged(const char* title, const Constants& constants, const Selection& rows) {
  const ErrorTable table = errors_of(constants, rows);
  return heading(title) + line("NCCL's own model", unfitted_errors(rows)) +
         line("machine model", table) + "\n" + table.to_markdown();
}

}  // namespace

std::string errors_markdown(const Constants& constants, const Samples& samples) {
  return judged("One node", constants, select(samples, Rows::OneNode)) +
         judged("One node, a table that nobody fitted", constants,
                select(samples, Rows::Unfitted)) +
         judged("Several nodes", constants, select(samples, Rows::SeveralNodes));
}

std::string left_out_markdown(const Samples& samples) {
  const Selection alone = select(samples, Rows::OneNode);
  const Selection several = select(samples, Rows::SeveralNodes);
  const Selection all = select_fitted(samples);
  const ErrorTable tables = cross_validate(alone, Split::Source);
  const ErrorTable logs = cross_validate(all, Split::Source, &several);
  return heading("Rows left out of the fit") +
         line("one node: every third row", cross_validate(alone, Split::Thirds)) +
         line("one node: a number of ranks", cross_validate(alone, Split::Ranks)) +
         line("one node: a table (of one release) or log", tables) +
         line("several nodes: every third row", cross_validate(all, Split::Thirds, &several)) +
         line("several nodes: a log", logs) + "\nOne node, a table or log left out:\n\n" +
         tables.to_markdown() + "\nSeveral nodes, a log left out:\n\n" + logs.to_markdown();
}

}  // namespace trainyard::nccl::fit
