#include "scenarios/import/nccl_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/json_parse.hpp"

namespace trainyard {

namespace {

// A test of the log, while it is read.
// The reader leaves unknown properties empty; hints or the file name may supply them later.
struct LogRun {
  std::string test = {};  // the program, "all_reduce_perf"; empty: not known
  std::uint32_t ranks = 0;
  std::set<std::string> hosts = {};
  std::string gpu = {};
  std::string nccl_version = {};
  bool cuda_graph = false;
  bool concluded = false;  // its last line is present
  std::size_t broken = 0;  // number of unreadable rows
  std::size_t wrong = 0;   // number of times left out because the data were wrong
  std::vector<RunRow> rows = {};
};

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

[[noreturn]] void refuse_log(const std::string& file, std::string problem, std::string hint) {
  throw InputError(
      Problem{.file = file, .pointer = {}, .problem = std::move(problem), .hint = std::move(hint)});
}

bool is_word(char letter) {
  return letter == '_' || (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9');
}

// Derives the test from a file name: "broadcast_n2.log" is of broadcast_perf. Longer names are
// tried first, all_reduce before reduce.
std::string test_of_file(const std::string& file) {
  const std::string name = std::filesystem::path(file).filename().string();
  for (const TestName& known : kTests) {
    const std::string_view op = known.test.substr(0, known.test.size() - 5);
    if (name.find(op) != std::string::npos) return std::string(known.test);
  }
  return name.find("all_to_all") != std::string::npos ? "alltoall_perf" : "";
}

std::string first_told(const std::string& a, const std::string& b) { return a.empty() ? b : a; }

// Returns nothing where the test is known and not simulated.
std::optional<CollectiveOp> op_of(const std::string& file, const LogRun& run,
                                  const LogHints& hints) {
  if (hints.op) return hints.op;
  const std::string test = first_told(run.test, test_of_file(file));
  for (const TestName& known : kTests)
    if (test == known.test) return known.op;
  refuse_log(file, "the log does not say which collective it measured",
             "name it: --op all_reduce (or all_gather, reduce_scatter, ...)");
}

std::uint32_t ranks_of(const std::string& file, const LogRun& run, const LogHints& hints) {
  const std::uint32_t ranks = hints.ranks.value_or(run.ranks);
  if (ranks >= 2) return ranks;
  if (ranks == 1) refuse_log(file, "1 rank moves nothing", "measure 2 ranks or more");
  refuse_log(file, "the log does not list its ranks (\"#  Rank  0 ... device  0\")",
             "say how many there were: --ranks 8 --nodes 1");
}

std::uint32_t nodes_of(const std::string& file, const LogRun& run, const LogHints& hints,
                       std::uint32_t ranks) {
  const std::uint32_t nodes = hints.nodes.value_or(static_cast<std::uint32_t>(run.hosts.size()));
  if (nodes == 0)
    refuse_log(file, "the log does not say on how many nodes it ran", "say it: --nodes 1");
  if (nodes > ranks)
    refuse_log(file, fmt::format("{} nodes are more than {} ranks", nodes, ranks),
               "check --nodes and --ranks");
  return nodes;
}

// Remarks on what is missing from a run, for the user.
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

// Returns the name of a test in the text, "all_reduce_perf"; empty where there is none.
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

// Returns the runs with rows, completed by the hints and the file name. Throws as read_nccl_log.
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
    refuse_log(file, "holds no row of nccl-tests' table",
               "give the output of all_reduce_perf and its siblings, or the JSON of their -J");
  if (finished.empty())
    refuse_log(
        file, fmt::format("{} measures no collective that is simulated", skipped),
        "give all_reduce, all_gather, reduce_scatter, alltoall, broadcast, reduce or sendrecv");
  return finished;
}

// The table of nccl-tests as text.
//
// The reader recognises a row by its first word, a number, and by its number of words: those that
// the line of titles announces from "time" on, after three to five leading words (size, count,
// type, and a reduction and a root where the release prints them). NCCL's own lines may appear
// between rows or within a row; the reader joins the two halves of such a row.

using LogWords = std::vector<std::string_view>;

LogWords words_of(std::string_view text) {
  LogWords words;
  for (std::size_t begin = text.find_first_not_of(" \t\r"); begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \t\r", begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(" \t\r", end);
  }
  return words;
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

// Returns the number after a mark: "graph: 1" gives 1.
std::optional<std::int64_t> number_after(std::string_view line, std::string_view mark) {
  const std::size_t at = line.find(mark);
  if (at == std::string_view::npos) return {};
  std::string_view rest = line.substr(at + mark.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return number<std::int64_t>(rest.substr(0, rest.find_first_not_of("0123456789")));
}

// Removes "[1,0]<stdout>:" of mpirun or "0: " of srun.
std::string_view without_label(std::string_view line) {
  for (const std::string_view mark : {"<stdout>:", "<stderr>:", "<stdout>", "<stderr>"})
    if (line.starts_with('['))
      if (const std::size_t at = line.find(mark); at != std::string_view::npos)
        return line.substr(at + mark.size());
  const std::size_t begin = line.find_first_not_of(' ');
  const std::size_t colon = line.find(": ");
  if (begin < colon && colon != std::string_view::npos &&
      is_digits(line.substr(begin, colon - begin)))
    return line.substr(colon + 2);
  return line;
}

// Returns the part of a line that nccl-tests wrote before NCCL's own message, which begins at the
// word with host, process and thread.
std::string_view before_message(std::string_view line) {
  std::size_t at = std::string_view::npos;
  for (const std::string_view mark : {" NCCL INFO", " NCCL WARN", " NCCL TRACE"})
    at = std::min(at, line.find(mark));
  if (at == std::string_view::npos) return line;
  LogWords words = words_of(line.substr(0, at));
  std::size_t sender = words.size();
  for (std::size_t i = 0; i < words.size() && sender == words.size(); ++i)
    if (std::count(words[i].begin(), words[i].end(), ':') >= 2) sender = i;
  if (sender == words.size()) return {};
  const auto begin = words[sender].data() - line.data();
  return line.substr(0, static_cast<std::size_t>(begin));
}

// The columns of a row, as the line of titles names them.
struct Columns {
  std::size_t blocks = 2;  // out of place and in place
  std::size_t width = 4;   // words of a block
  std::size_t algbw = 1, busbw = 2;
  std::optional<std::size_t> wrong = 3;  // a count of wrong elements, not a rounding error
};

bool is_time(std::string_view word) { return word == "time" || word == "cputime"; }

// Reads the titles "size count type redop root time algbw busbw #wrong time algbw busbw #wrong":
// two blocks of four words, each beginning with the time. Returns nothing for another line.
std::optional<Columns> columns_of(const LogWords& words) {
  const auto first = std::find_if(words.begin(), words.end(), is_time);
  if (first == words.end()) return {};
  const auto last = std::find(first, words.end(), std::string_view("timestamp"));
  const auto second = std::find_if(first + 1, last, is_time);
  Columns columns{.blocks = second == last ? 1U : 2U,
                  .width = static_cast<std::size_t>(second - first),
                  .wrong = {}};
  const auto place = [&](std::string_view title) {
    return static_cast<std::size_t>(std::find(first, second, title) - first);
  };
  columns.algbw = place("algbw");
  columns.busbw = place("busbw");
  if (place("#wrong") < columns.width) columns.wrong = place("#wrong");
  if (columns.algbw >= columns.width || columns.busbw >= columns.width) return {};
  return columns;
}

class TextReader {
 public:
  std::vector<LogRun> read(std::string_view text) {
    runs_.emplace_back();
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      line(text.substr(begin, end - begin));
      begin = end + 1;
    }
    drop_pending();
    return std::move(runs_);
  }

 private:
  // Each line is a header ("#"), a row or the second half of one, a command that starts a test, or
  // a line of another program.
  void line(std::string_view whole) {
    const std::string_view text = without_label(whole);
    versions(text);
    if (text.starts_with('#')) return header(text.substr(1));
    const LogWords words = words_of(before_message(text));
    if (words.empty()) return;
    const bool goes_on = !pending_.empty() && number<double>(words.front());
    if (goes_on || is_digits(words.front())) return row(words);
    if (const std::string test = test_named_in(text); !test.empty()) {
      begin_run();
      runs_.back().test = test;
    }
  }

  // Begins a test, unless only the header of the present one has been read.
  void begin_run() {
    drop_pending();
    if (runs_.back().rows.empty() && !runs_.back().concluded) return;
    LogRun next;
    next.nccl_version = runs_.back().nccl_version;
    runs_.push_back(std::move(next));
  }

  void versions(std::string_view text) {
    constexpr std::string_view kMark = "NCCL version ";
    if (const std::size_t at = text.find(kMark); at != std::string_view::npos) {
      const std::string_view rest = text.substr(at + kMark.size());
      const std::string_view version = rest.substr(0, rest.find_first_not_of("0123456789."));
      if (!version.empty()) runs_.back().nccl_version = version;
    }
    auto code = number_after(text, "nccl-library=");
    if (!code) code = number_after(text, "nccl-headers=");
    if (!code) return;
    begin_run();
    runs_.back().nccl_version = nccl_version_text(*code);
  }

  void header(std::string_view text) {
    const LogWords words = words_of(text);
    if (words.empty()) return;
    if (words.front() == "Rank") return device(text, words);
    if (words.front().starts_with("nThread")) {
      begin_run();
      runs_.back().cuda_graph = number_after(text, "graph:").value_or(0) > 0;
    } else if (text.find("test starting") != std::string_view::npos) {
      begin_run();
      runs_.back().test = test_named_in(text);
    } else if (words.front() == "Avg" || text.find("test concluded") != std::string_view::npos) {
      drop_pending();
      runs_.back().concluded = true;
    } else if (const auto columns = columns_of(words)) {
      columns_ = *columns;
    }
  }

  // Reads "Rank  8 Group  0 Pid 6733 on host device  0 [0000:04:00] NVIDIA H100 80GB HBM3".
  void device(std::string_view text, const LogWords& words) {
    LogRun& run = runs_.back();
    if (words.size() < 2) return;
    const auto rank = number<std::uint32_t>(words[1]);
    constexpr std::uint32_t kRanksMost = 1U << 24;
    if (!rank || *rank >= kRanksMost) return;
    run.ranks = std::max(run.ranks, *rank + 1);
    const auto on = std::find(words.begin(), words.end(), std::string_view("on"));
    if (on != words.end() && on + 1 != words.end()) run.hosts.insert(std::string(*(on + 1)));
    const std::size_t bus = text.find("] ");
    if (bus == std::string_view::npos || !run.gpu.empty()) return;
    run.gpu = text.substr(bus + 2);
    run.gpu.erase(run.gpu.find_last_not_of(" \t\r") + 1);
  }

  void row(LogWords words) {
    // A row begins with size, count and the name of a type. The second half of a row has a number
    // in place of the name.
    const bool begins = words.size() >= 3 && is_digits(words[1]) && !number<double>(words[2]);
    if (!begins && !pending_.empty()) {  // the second half of a row
      words.insert(words.begin(), pending_.begin(), pending_.end());
      pending_.clear();
    } else {
      drop_pending();
      if (!begins) return;  // another kind of line that begins with a number
    }
    drop_timestamp(words);
    constexpr std::size_t kLeadingLeast = 3, kLeadingMost = 5;
    const auto fits = [&](std::size_t blocks) {
      const std::size_t leading = words.size() - blocks * columns_.width;
      return words.size() > blocks * columns_.width && leading >= kLeadingLeast &&
             leading <= kLeadingMost;
    };
    if (fits(columns_.blocks)) {
      for (std::size_t block = 0; block < columns_.blocks; ++block) cell(words, block);
    } else if (columns_.blocks == 2 && fits(1) && is_gap_before(words, columns_.width)) {
      cell(words, 1);  // some tests leave the first block empty
    } else if (words.size() <= kLeadingMost) {
      // Only leading words: the row goes on after a line of NCCL.
      pending_ = words;
    } else {
      ++runs_.back().broken;
    }
  }

  // Returns whether the first block is blank before the last `count` words. A truncated row has no
  // such gap.
  static bool is_gap_before(const LogWords& words, std::size_t count) {
    constexpr std::ptrdiff_t kLeast = 16, kMost = 200;
    const std::string_view before = words[words.size() - count - 1];
    const std::ptrdiff_t gap = words[words.size() - count].data() - before.data();
    return gap >= kLeast + static_cast<std::ptrdiff_t>(before.size()) && gap <= kMost;
  }

  static void drop_timestamp(LogWords& words) {
    if (words.size() < 2 || words.back().size() != 8 || words.back()[2] != ':') return;
    words.resize(words.size() - 2);
  }

  // Reads one block of a row. Blocks are counted from the end of the row, because the number of
  // leading words varies.
  void cell(const LogWords& words, std::size_t block) {
    LogRun& run = runs_.back();
    const std::size_t begin = words.size() - (columns_.blocks - block) * columns_.width;
    const auto bytes = number<std::int64_t>(words[0]);
    const auto time = number<double>(words[begin]);
    const auto algbw = number<double>(words[begin + columns_.algbw]);
    const auto busbw = number<double>(words[begin + columns_.busbw]);
    const bool sized = bytes && *bytes > 0 && static_cast<double>(*bytes) <= kLogBytesMost;
    if (!sized || !time || !algbw || !busbw || !is_measured_time(*time) ||
        !is_measured_rate(*algbw) || !is_measured_rate(*busbw)) {
      if (!bytes || *bytes > 0) ++run.broken;  // a size of 0 is neither an error nor a measurement
      return;
    }
    if (columns_.wrong && number<double>(words[begin + *columns_.wrong]).value_or(0.0) > 0.0) {
      ++run.wrong;
      return;
    }
    run.rows.push_back({.bytes = *bytes,
                        .dtype = std::string(words[2]),
                        .time_us = *time,
                        .algbw_GBps = *algbw,
                        .busbw_GBps = *busbw,
                        .in_place = block == 1});
  }

  void drop_pending() {
    if (!pending_.empty()) ++runs_.back().broken;
    pending_.clear();
  }

  std::vector<LogRun> runs_;
  Columns columns_;
  LogWords pending_;  // the first half of a row
};

// The JSON that nccl-tests writes with -J.
//
// Its "devices" lists one device for each process, and each process has nthreads * ngpus ranks.

using Json = nlohmann::ordered_json;

// Repairs a truncated file: cuts it after the last complete element of the list in the outermost
// object and closes both.
std::string closed(std::string_view text) {
  std::string open;
  std::size_t whole = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (quoted) {
      if (letter == '\\') ++i;
      if (letter == '"') quoted = false;
    } else if (letter == '"') {
      quoted = true;
    } else if (letter == '{' || letter == '[') {
      open += letter;
    } else if ((letter == '}' || letter == ']') && !open.empty()) {
      open.pop_back();
      if (open == "{[" && letter == '}') whole = i + 1;
    }
  }
  return whole == 0 ? std::string() : std::string(text.substr(0, whole)) + "]}";
}

double number_at(const Json& object, const char* key, double otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : otherwise;
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Json part(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() ? *found : Json();
}

void add_time(LogRun& run, const Json& result, const char* key, bool in_place) {
  const Json cell = part(result, key);
  if (!cell.is_object()) return;  // null: not measured
  const double time = number_at(cell, "time", number_at(cell, "cpu_time", std::nan("")));
  const double bytes = number_at(result, "size", 0.0);
  if (bytes == 0.0) return;
  if (!(bytes >= 1.0 && bytes <= kLogBytesMost) || !is_measured_time(time)) {
    ++run.broken;
    return;
  }
  const double algbw = number_at(cell, "alg_bw", 0.0);
  const double busbw = number_at(cell, "bus_bw", 0.0);
  if (!is_measured_rate(algbw) || !is_measured_rate(busbw)) {
    ++run.broken;
    return;
  }
  if (number_at(cell, "nwrong", 0.0) > 0.0) {
    ++run.wrong;
    return;
  }
  run.rows.push_back({.bytes = static_cast<std::int64_t>(bytes),
                      .dtype = text_at(result, "type"),
                      .time_us = time,
                      .algbw_GBps = algbw,
                      .busbw_GBps = busbw,
                      .in_place = in_place});
}

void read_config(LogRun& run, const Json& config) {
  if (!config.is_object()) return;
  run.cuda_graph = number_at(config, "graph", 0.0) > 0.0;
  const Json devices = part(config, "devices");
  for (const Json& device : devices) {
    if (!device.is_object()) continue;
    run.hosts.insert(text_at(device, "hostname"));
    if (run.gpu.empty()) run.gpu = text_at(device, "device_info");
  }
  const double ranks = static_cast<double>(devices.size()) * number_at(config, "nthreads", 1.0) *
                       number_at(config, "ngpus", 1.0);
  if (ranks > 0.0 && ranks < 1e7) run.ranks = static_cast<std::uint32_t>(ranks);
}

// Throws InputError for JSON that nccl-tests did not write. Keeps the complete results of a
// truncated file.
std::vector<LogRun> parse_log_json(const std::string& file, std::string_view text) {
  const std::optional<Json> whole = try_parse_json(text);
  const bool cut = !whole;
  const Json document = cut ? try_parse_json(closed(text)).value_or(Json()) : *whole;
  if (!document.is_object() || !part(document, "results").is_array()) {
    throw InputError(Problem{.file = file,
                             .pointer = {},
                             .problem = "is no JSON of nccl-tests: it has no list \"results\"",
                             .hint = "give what all_reduce_perf -J FILE wrote"});
  }
  LogRun run{.concluded = !cut && document.contains("out_of_bounds")};
  const Json arguments = part(document, "args");
  if (arguments.is_array() && !arguments.empty() && arguments.front().is_string())
    run.test = test_named_in(arguments.front().get<std::string>());
  run.nccl_version =
      nccl_version_text(static_cast<std::int64_t>(number_at(document, "nccl_version", 0.0)));
  read_config(run, part(document, "config"));
  for (const Json& result : part(document, "results")) {
    if (!result.is_object()) continue;
    add_time(run, result, "out_of_place", false);
    add_time(run, result, "in_place", true);
  }
  return {std::move(run)};
}

}  // namespace

std::vector<MeasuredRun> read_nccl_log(const std::string& file, std::string_view text,
                                       const LogHints& hints) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool json = first != std::string_view::npos && text[first] == '{';
  return finished_runs(file, json ? parse_log_json(file, text) : TextReader().read(text), hints);
}

// NCCL's version code has one digit for the minor number up to 2.8 (2804), and two from 2.9 on
// (20903).
std::string nccl_version_text(std::int64_t code) {
  if (code <= 0) return {};
  const std::int64_t thousand = code >= 10000 ? 10000 : 1000;
  return fmt::format("{}.{}.{}", code / thousand, code % thousand / 100, code % 100);
}

}  // namespace trainyard
