// Every file that the command writes is on disk before it gets its name: a power failure leaves the
// old file or the whole new one. strace lists the system calls of the real command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

#include "tests/tools/shell.hpp"

namespace trainyard {
namespace {

using test::Outcome;
using test::Scratch;

// The file operations of one thread.
struct Calls {
  std::vector<std::string> renamed;   // the new names
  std::vector<std::string> unsynced;  // the new names whose file was not synchronised before
  std::vector<std::string> created;   // files that had their name before they were whole
};

void add_calls(const std::string& listed, Calls& calls) {
  static const std::regex created(R"re(^openat\(\w+, "([^"]*)", \S*O_CREAT\S*, \w+\) = (\d+))re");
  static const std::regex linked(
      R"re(^linkat\(\w+, "/proc/self/fd/(\d+)", \w+, "([^"]*)", \w+\) = 0)re");
  static const std::regex synced(R"re(^f(?:data)?sync\((\d+)\) += 0)re");
  static const std::regex closed(R"re(^close\((\d+)\) += 0)re");
  static const std::regex renamed(
      R"re(^rename(?:at2?)?\((?:\w+, )?"([^"]*)", (?:\w+, )?"([^"]*)")re");
  std::map<std::string, std::string> open;  // descriptor: name
  std::set<std::string> safe;
  std::smatch part;
  for (const std::string& line : test::lines_of(listed)) {
    if (std::regex_search(line, part, created)) {
      open[part[2]] = part[1];
      if (!part[1].str().ends_with(".partial")) calls.created.push_back(part[1]);
    } else if (std::regex_search(line, part, linked)) {
      open[part[1]] = part[2];
    } else if (std::regex_search(line, part, synced)) {
      safe.insert(open[part[1]]);
    } else if (std::regex_search(line, part, closed)) {
      open.erase(part[1]);
    } else if (std::regex_search(line, part, renamed)) {
      calls.renamed.push_back(part[2]);
      if (!safe.contains(part[1])) calls.unsynced.push_back(part[2]);
    }
  }
}

// Runs the command under strace, which writes one list of calls per thread.
Calls calls_of(const Scratch& scratch, const std::string& command) {
  const Outcome outcome = scratch.sh(
      "mkdir calls && ASAN_OPTIONS=detect_leaks=0 strace -ff -o calls/of -e "
      "trace=openat,linkat,fsync,fdatasync,close,rename,renameat,renameat2 " +
      command + " >/dev/null");
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  Calls calls;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.folder() / "calls"))
    add_calls(read_file(entry.path()), calls);
  return calls;
}

bool can_trace(const Scratch& scratch) { return scratch.sh("strace -o /dev/null true").exit == 0; }

// Is each output on disk before it has its name?
TEST(SyncedOutputs, EachIsOnDiskBeforeItHasItsName) {
  struct Command {
    std::string line;
    std::vector<std::string> outputs;
  };
  const std::string run = "trainyard run scenarios/first/two_gpus.json ";
  for (const auto& [line, outputs] :
       {Command{run + "--json a.json --trace t.json.gz --html p.html --svg s.svg --tables tables",
                {"a.json", "t.json.gz", "p.html", "s.svg", "tables/links.csv"}},
        Command{run + "--trace t.pftrace --trace-ranks all", {"t.pftrace"}},
        Command{run + "--out all", {"all/result.json", "all/trace.json.gz", "all/report.html"}},
        Command{"trainyard init --yes -o made.json", {"made.json"}},
        Command{"trainyard import topo-m tests/scenarios/import/topologies/h100_x8_topo_m.txt "
                "--gpu h100 -o c.json",
                {"c.json"}},
        Command{"trainyard sweep scenarios/first/two_gpus.json --over "
                "training.global_batch_size=4,8 --csv "
                "s.csv",
                {"s.csv"}},
        Command{
            "trainyard collective all_reduce --sizes 1MiB --json a.json --csv a.csv --svg a.svg",
            {"a.json", "a.csv", "a.svg"}}}) {
    SCOPED_TRACE(line);
    const Scratch scratch;
    if (!can_trace(scratch)) GTEST_SKIP() << "SKIPPED, NOT TESTED: strace cannot trace here";
    const Calls calls = calls_of(scratch, line);
    EXPECT_THAT(calls.unsynced, testing::IsEmpty());
    EXPECT_THAT(calls.created, testing::IsEmpty());
    EXPECT_THAT(calls.renamed, testing::IsSupersetOf(outputs));
  }
}

// Does the check detect a file that is not synchronised?
TEST(SyncedOutputs, WhatIsNotSynchronisedIsNoticed) {
  Calls calls;
  add_calls(
      "openat(AT_FDCWD, \"a.1.partial\", O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC, 0666) = 5\n"
      "fsync(4) = 0\nclose(5) = 0\nrename(\"a.1.partial\", \"a\") = 0\n"
      "openat(AT_FDCWD, \"b\", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 5\n",
      calls);
  EXPECT_THAT(calls.unsynced, testing::ElementsAre("a"));
  EXPECT_THAT(calls.created, testing::ElementsAre("b"));
}

}  // namespace
}  // namespace trainyard
