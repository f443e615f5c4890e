// Whole runs of the command that are measured: their arguments, their exact counts, and the time
// and memory when the baseline was stored (tests/bench/baseline.json).
//
//    for (const WholeRun& run : read_whole_runs()) play(run).counts == run.counts;
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/json_parse.hpp"
#include "tests/tools/shell.hpp"

namespace trainyard::test {

inline const std::filesystem::path kBaseline = Scratch::kTree / "tests" / "bench" / "baseline.json";

// Counts by name, as in the result's `fold`; link_bytes: the whole bytes that all links carried;
// and trace_slices: the number of slices that a trace states at its end.
using Counts = std::map<std::string, std::int64_t>;

struct WholeRun {
  std::string name;
  std::string arguments;  // of `trainyard run`
  bool quick = false;     // part of the default tests
  Counts counts;
  double user_s = 0.0;
  std::int64_t peak_bytes = 0;  // peak memory
};

struct Played {
  Counts counts;
  double user_s = 0.0;
  std::int64_t peak_bytes = 0;
  int exit = -1;
};

inline std::vector<WholeRun> read_whole_runs() {
  std::vector<WholeRun> runs;
  for (const auto& row : parse_unchecked_json(read_file(kBaseline))) {
    runs.push_back({.name = row.at("name"),
                    .arguments = row.at("run"),
                    .quick = row.at("quick"),
                    .counts = row.at("counts").get<Counts>(),
                    .user_s = row.at("user_s"),
                    .peak_bytes = row.at("peak_bytes")});
  }
  return runs;
}

inline void write_whole_runs(const std::vector<WholeRun>& runs) {
  auto rows = nlohmann::ordered_json::array();
  for (const WholeRun& run : runs) {
    rows.push_back({{"name", run.name},
                    {"run", run.arguments},
                    {"quick", run.quick},
                    {"counts", run.counts},
                    {"user_s", run.user_s},
                    {"peak_bytes", run.peak_bytes}});
  }
  write_file(kBaseline, rows.dump(2) + "\n");
}

inline Counts counts_of(const nlohmann::ordered_json& result) {
  Counts counts;
  for (const char* name : {"ranks", "classes", "operations", "engine_activities",
                           "contracted_regions", "events", "repeated_operations"})
    counts[name] = result.at("fold").at(name);
  double bytes = 0.0;
  for (const auto& row : result.at("links")) bytes += row.at("bytes").get<double>();
  counts["link_bytes"] = static_cast<std::int64_t>(bytes);
  return counts;
}

inline std::int64_t slices_of(std::string_view trace) {
  constexpr std::string_view kSlices = "\"slices\":";
  const std::size_t place = trace.rfind(kSlices);
  return place == std::string_view::npos ? 0 : std::atoll(&trace[place + kSlices.size()]);
}

// The counts that differ from the baseline, of all stored counts. Empty if none differs.
inline std::string difference(const Counts& kept, const Counts& now) {
  std::string text;
  for (const auto& [name, count] : kept) {
    if (now.at(name) != count)
      text += name + " " + std::to_string(now.at(name)) + ", not " + std::to_string(count) + "; ";
  }
  return text;
}

// Runs the command in a separate process, so that memory and time are those of this run alone.
inline Played play(const WholeRun& run) {
  const Scratch scratch;
  const std::string line = "cd '" + scratch.folder().string() +
                           "' && exec '" TRAINYARD_COMMAND "' run " + run.arguments +
                           " --json result.json >/dev/null";
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/bash", "bash", "-c", line.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  Played played;
  played.exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  played.user_s = static_cast<double>(usage.ru_utime.tv_sec) +
                  1e-6 * static_cast<double>(usage.ru_utime.tv_usec);
  played.peak_bytes = std::int64_t{usage.ru_maxrss} * 1024;
  if (scratch.holds("result.json"))
    played.counts = counts_of(parse_unchecked_json(scratch.read("result.json")));
  if (scratch.holds("all.pftrace"))
    played.counts["trace_slices"] = slices_of(scratch.read("all.pftrace"));
  return played;
}

}  // namespace trainyard::test
