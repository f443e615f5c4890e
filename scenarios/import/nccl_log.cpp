#include "scenarios/import/nccl_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "scenarios/import/nccl_log_parts.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

struct TestName {
  std::string_view test;
  std::optional<CollectiveOp> op;  // nothing: not simulated
};
constexpr std::array kTests{TestName{"all_reduce_perf", CollectiveOp::AllReduce},
                            TestName{"all_gather_perf", CollectiveOp::AllGather},
                            TestName{"reduce_scatter_perf", CollectiveOp::ReduceScatter},
                            TestName{"alltoall_perf", CollectiveOp::AllToAll},
                            TestName{"broadcast_perf", CollectiveOp::Broadcast},
                            TestName{"sendrecv_perf", CollectiveOp::SendRecv},
                            TestName{"reduce_perf", CollectiveOp::Reduce},
                            TestName{"gather_perf", {}},
                            TestName{"scatter_perf", {}},
                            TestName{"hypercube_perf", {}},
                            TestName{"alltoallv_perf", {}}};

[[noreturn]] void refuse(const std::string& file, std::string problem, std::string hint) {
  throw InputError(
      Problem{.file = file, .pointer = {}, .problem = std::move(problem), .hint = std::move(hint)});
}

bool is_word(char letter) {
  return letter == '_' || (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9');
}

// "broadcast_n2.log" is of broadcast_perf. Longer names first: all_reduce before reduce.
std::string test_of_file(const std::string& file) {
  const std::string name = std::filesystem::path(file).filename().string();
  for (const TestName& known : kTests) {
    const std::string_view op = known.test.substr(0, known.test.size() - 5);
    if (name.find(op) != std::string::npos) return std::string(known.test);
  }
  return name.find("all_to_all") != std::string::npos ? "alltoall_perf" : "";
}

std::string first_told(const std::string& a, const std::string& b) { return a.empty() ? b : a; }

// Nothing where the test is known and not simulated.
std::optional<CollectiveOp> op_of(const std::string& file, const LogRun& run,
                                  const LogHints& hints) {
  if (hints.op) return hints.op;
  const std::string test = first_told(run.test, test_of_file(file));
  for (const TestName& known : kTests)
    if (test == known.test) return known.op;
  refuse(file, "the log does not say which collective it measured",
         "name it: --op all_reduce (or all_gather, reduce_scatter, ...)");
}

std::uint32_t ranks_of(const std::string& file, const LogRun& run, const LogHints& hints) {
  const std::uint32_t ranks = hints.ranks.value_or(run.ranks);
  if (ranks >= 2) return ranks;
  if (ranks == 1) refuse(file, "1 rank moves nothing", "measure 2 ranks or more");
  refuse(file, "the log does not list its ranks (\"#  Rank  0 ... device  0\")",
         "say how many there were: --ranks 8 --nodes 1");
}

std::uint32_t nodes_of(const std::string& file, const LogRun& run, const LogHints& hints,
                       std::uint32_t ranks) {
  const std::uint32_t nodes = hints.nodes.value_or(static_cast<std::uint32_t>(run.hosts.size()));
  if (nodes == 0)
    refuse(file, "the log does not say on how many nodes it ran", "say it: --nodes 1");
  if (nodes > ranks)
    refuse(file, fmt::format("{} nodes are more than {} ranks", nodes, ranks),
           "check --nodes and --ranks");
  return nodes;
}

std::vector<std::string> notes_of(const LogRun& run) {
  std::vector<std::string> notes;
  if (!run.concluded)
    notes.emplace_back("the log ends before the test does: what is complete is kept");
  if (run.broken > 0)
    notes.push_back(fmt::format("{} rows could not be read and are left out", run.broken));
  if (run.wrong > 0)
    notes.push_back(fmt::format("{} times are left out: the data were wrong", run.wrong));
  return notes;
}

}  // namespace

std::string test_named_in(std::string_view text) {
  for (std::size_t at = text.find("_perf"); at != std::string_view::npos;
       at = text.find("_perf", at + 1)) {
    std::size_t begin = at;
    while (begin > 0 && is_word(text[begin - 1])) --begin;
    const std::string_view word = text.substr(begin, at + 5 - begin);
    for (const TestName& known : kTests)
      if (word == known.test) return std::string(word);
  }
  return {};
}

std::vector<MeasuredRun> finished_runs(const std::string& file, const std::vector<LogRun>& runs,
                                       const LogHints& hints) {
  std::vector<MeasuredRun> finished;
  std::string skipped;
  bool any = false;
  for (const LogRun& run : runs) {
    if (run.rows.empty()) continue;
    any = true;
    const std::optional<CollectiveOp> op = op_of(file, run, hints);
    if (!op) {
      skipped = first_told(run.test, test_of_file(file));
      continue;
    }
    const std::uint32_t ranks = ranks_of(file, run, hints);
    finished.push_back({.file = file,
                        .op = *op,
                        .gpu = hints.gpu.value_or(run.gpu),
                        .ranks = ranks,
                        .nodes = nodes_of(file, run, hints, ranks),
                        .nccl_version = run.nccl_version,
                        .cuda_graph = run.cuda_graph,
                        .rows = run.rows,
                        .notes = notes_of(run)});
  }
  if (!any)
    refuse(file, "holds no row of nccl-tests' table",
           "give the output of all_reduce_perf and its siblings, or the JSON of their -J");
  if (finished.empty())
    refuse(file, fmt::format("{} measures no collective that is simulated", skipped),
           "give all_reduce, all_gather, reduce_scatter, alltoall, broadcast, reduce or sendrecv");
  return finished;
}

std::vector<MeasuredRun> read_nccl_log(const std::string& file, std::string_view text,
                                       const LogHints& hints) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool json = first != std::string_view::npos && text[first] == '{';
  return finished_runs(file, json ? parse_log_json(file, text) : parse_log_text(text), hints);
}

std::string nccl_version_text(std::int64_t code) {
  if (code <= 0) return {};
  const std::int64_t thousand = code >= 10000 ? 10000 : 1000;
  return fmt::format("{}.{}.{}", code / thousand, code % thousand / 100, code % 100);
}

}  // namespace trainyard
