// The table of nccl-tests as text (parse_log_text of log_parts.hpp).
//
// A row is told by its first word, a number, and by how many words it has: what the line of titles
// announces from "time" on, after three to five leading words (size, count, type, and a reduction
// and a root where the release prints them). NCCL's own lines may stand between the rows or within
// one; a row they cut in two is put together again.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "scenarios/import/nccl_log_parts.hpp"

namespace trainyard {

namespace {

using Words = std::vector<std::string_view>;

Words words_of(std::string_view text) {
  Words words;
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

// The digits after a mark: "graph: 1" gives 1.
std::optional<std::int64_t> number_after(std::string_view line, std::string_view mark) {
  const std::size_t at = line.find(mark);
  if (at == std::string_view::npos) return {};
  std::string_view rest = line.substr(at + mark.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return number<std::int64_t>(rest.substr(0, rest.find_first_not_of("0123456789")));
}

// Without "[1,0]<stdout>:" of mpirun or "0: " of srun.
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

// What nccl-tests wrote before NCCL's own message began in the same line, up to the word that names
// host, process and thread.
std::string_view before_message(std::string_view line) {
  std::size_t at = std::string_view::npos;
  for (const std::string_view mark : {" NCCL INFO", " NCCL WARN", " NCCL TRACE"})
    at = std::min(at, line.find(mark));
  if (at == std::string_view::npos) return line;
  Words words = words_of(line.substr(0, at));
  std::size_t sender = words.size();
  for (std::size_t i = 0; i < words.size() && sender == words.size(); ++i)
    if (std::count(words[i].begin(), words[i].end(), ':') >= 2) sender = i;
  if (sender == words.size()) return {};
  const auto begin = words[sender].data() - line.data();
  return line.substr(0, static_cast<std::size_t>(begin));
}

// What the line of titles says of a row.
struct Columns {
  std::size_t blocks = 2;  // out of place and in place
  std::size_t width = 4;   // words of a block
  std::size_t algbw = 1, busbw = 2;
  std::optional<std::size_t> wrong = 3;  // a count of wrong elements, not an error of rounding
};

bool is_time(std::string_view word) { return word == "time" || word == "cputime"; }

std::optional<Columns> columns_of(const Words& words) {
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
  void line(std::string_view whole) {
    const std::string_view text = without_label(whole);
    versions(text);
    if (text.starts_with('#')) return header(text.substr(1));
    const Words words = words_of(before_message(text));
    if (words.empty()) return;
    const bool goes_on = !pending_.empty() && number<double>(words.front());
    if (goes_on || is_digits(words.front())) return row(words);
    if (const std::string test = test_named_in(text); !test.empty()) {
      begin_run();
      runs_.back().test = test;
    }
  }

  // A test begins, unless all that is known so far is its head.
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
    const Words words = words_of(text);
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

  // "Rank  8 Group  0 Pid 6733 on host device  0 [0000:04:00] NVIDIA H100 80GB HBM3"
  void device(std::string_view text, const Words& words) {
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

  void row(Words words) {
    const bool begins = words.size() >= 3 && is_digits(words[1]) && !number<double>(words[2]);
    if (!begins && !pending_.empty()) {  // the other half of a row
      words.insert(words.begin(), pending_.begin(), pending_.end());
      pending_.clear();
    } else {
      drop_pending();
      if (!begins) return;  // a line of something else that begins with a number
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
      pending_ = words;
    } else {
      ++runs_.back().broken;
    }
  }

  // Is the first block blank before the last `count` words? A row that was cut has no such gap.
  static bool is_gap_before(const Words& words, std::size_t count) {
    constexpr std::ptrdiff_t kLeast = 16, kMost = 200;
    const std::string_view before = words[words.size() - count - 1];
    const std::ptrdiff_t gap = words[words.size() - count].data() - before.data();
    return gap >= kLeast + static_cast<std::ptrdiff_t>(before.size()) && gap <= kMost;
  }

  static void drop_timestamp(Words& words) {
    if (words.size() < 2 || words.back().size() != 8 || words.back()[2] != ':') return;
    words.resize(words.size() - 2);
  }

  // One block of a row, counted from its end: block 1 is the last.
  void cell(const Words& words, std::size_t block) {
    LogRun& run = runs_.back();
    const std::size_t begin = words.size() - (columns_.blocks - block) * columns_.width;
    const auto bytes = number<std::int64_t>(words[0]);
    const auto time = number<double>(words[begin]);
    const auto algbw = number<double>(words[begin + columns_.algbw]);
    const auto busbw = number<double>(words[begin + columns_.busbw]);
    const bool sized = bytes && *bytes > 0 && static_cast<double>(*bytes) <= kLogBytesMost;
    if (!sized || !time || !algbw || !busbw || !is_measured_time(*time) ||
        !is_measured_rate(*algbw) || !is_measured_rate(*busbw)) {
      if (!bytes || *bytes > 0) ++run.broken;  // a size of 0 is no fault, and no measurement
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
  Words pending_;  // the first half of a row
};

}  // namespace

std::vector<LogRun> parse_log_text(std::string_view text) { return TextReader().read(text); }

}  // namespace trainyard
