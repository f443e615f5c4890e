// Tests of the Perfetto traces. tools/web/check_trace checks how Perfetto's own engine reads such
// traces, of these runs and of larger ones; this file tests the rest.
#include "sim/render/traces/perfetto/perfetto_trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/render/traces/chrome_trace.hpp"
#include "sim/render/traces/perfetto/packets.hpp"
#include "tests/sim/report/small_run.hpp"

namespace trainyard {
namespace {

struct WrittenTrace {
  TraceCounts counts;
  std::string bytes;
};

WrittenTrace write_perfetto(const SmallRun& small, const TraceOptions& options = {}) {
  const auto file = std::filesystem::path(::testing::TempDir()) / "trainyard_small.pftrace";
  WrittenTrace written;
  written.counts = write_perfetto_trace(small.view(), file, options);
  written.bytes = read_file(file);
  std::filesystem::remove(file);
  return written;
}

std::uint64_t read_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
}

// The packets that hold compressed ones, in the order of the file.
std::vector<std::string> bodies(std::string_view file) {
  std::vector<std::string> found;
  while (!file.empty()) {
    EXPECT_EQ(read_varint(file), 1U << 3 | 2U) << "a trace is packets and nothing else";
    const std::uint64_t size = read_varint(file);
    std::string_view packet = file.substr(0, size);
    file.remove_prefix(size);
    if (read_varint(packet) == (50U << 3 | 2U)) found.emplace_back(packet);
  }
  return found;
}

// Does WireMessage write the format of Protocol Buffers? These are the examples of
// protobuf.dev/programming-guides/encoding.
TEST(WireMessage, EncodesFieldsAsProtocolBuffers) {
  perfetto::WireMessage message;
  message.number(1, 150);
  EXPECT_EQ(message.bytes(), "\x08\x96\x01");
  message.clear();
  message.text(2, "testing");
  EXPECT_EQ(message.bytes(), "\x12\x07testing");
  message.clear();
  message.signed_number(1, -2);
  EXPECT_EQ(message.bytes(), "\x08\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01");
  message.clear();
  message.real(4, 1.0);
  EXPECT_EQ(message.bytes(), std::string("\x21\0\0\0\0\0\0\xF0\x3F", 9));
  perfetto::WireMessage outer;
  message.clear();
  message.number(1, 150);
  outer.message(3, message);
  EXPECT_EQ(outer.bytes(), "\x1A\x03\x08\x96\x01");
}

// Does the name of the file choose a Perfetto trace?
TEST(PerfettoTrace, IsChosenByTheNameOfTheFile) {
  for (const char* name : {"a.pftrace", "b/a.perfetto-trace", "a.pftrace.gz"})
    EXPECT_TRUE(is_perfetto_trace(name)) << name;
  for (const char* name : {"a.json", "a.json.gz", "pftrace", "a.gz", "a.pftrace/a.json"})
    EXPECT_FALSE(is_perfetto_trace(name)) << name;
}

// Does it count the same as the Chrome trace?
TEST(PerfettoTrace, CountsWhatTheChromeTraceCounts) {
  const SmallRun small;
  const auto file = std::filesystem::path(::testing::TempDir()) / "trainyard_counts.json";
  const TraceCounts chrome = write_chrome_trace(small.view(), file, {});
  std::filesystem::remove(file);
  const TraceCounts perfetto = write_perfetto(small).counts;
  EXPECT_EQ(perfetto.processes, chrome.processes);
  EXPECT_EQ(perfetto.threads, chrome.threads);
  EXPECT_EQ(perfetto.slices, chrome.slices);
  EXPECT_EQ(perfetto.slice_ns, chrome.slice_ns);
  EXPECT_EQ(perfetto.flows, chrome.flows);
  EXPECT_EQ(perfetto.classes_left_out, chrome.classes_left_out);
}

// Are two traces of one run the same bytes?
TEST(PerfettoTrace, IsEqualForTwoTracesOfOneRun) {
  const SmallRun small;
  EXPECT_EQ(write_perfetto(small).bytes, write_perfetto(small).bytes);
}

// Do the ranks of a class have the same bodies? Two ranks of one class each have the threads
// "step", compute, messages and gradients. The other end of the messages is not shown, so that no
// arrow distinguishes them.
TEST(PerfettoTrace, RanksOfAClassHaveTheSameBodies) {
  SmallRun small;
  small.run.workload.ranks.push_back(small.run.workload.ranks[0]);
  small.run.partition.class_of_rank.push_back(0);
  const WrittenTrace trace =
      write_perfetto(small, {.ranks = {0, 2}, .memory_counters = false, .link_counters = false});
  const std::vector<std::string> all = bodies(trace.bytes);
  ASSERT_EQ(all.size(), 8U);
  for (std::size_t body = 0; body < 4; ++body) EXPECT_EQ(all[body], all[body + 4]) << body;
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 4U);
}

// Are all ranks shown on request?
TEST(PerfettoTrace, AllRanksAreShownWhereAsked) {
  const SmallRun small;
  EXPECT_EQ(write_perfetto(small, {.ranks = {1}}).counts.processes, 2U) << "and the links";
  EXPECT_EQ(write_perfetto(small, {.ranks = {1}, .all_ranks = true}).counts.processes, 3U);
  EXPECT_THROW(write_perfetto(small, {.ranks = {2}}), InputError);
}

// Does a message that takes no time have no arrow? Viewers distinguish the start and the end of an
// arrow by time.
TEST(PerfettoTrace, AMessageOfNoTimeHasNoArrow) {
  SmallRun small;
  small.run = HandRun(2);
  for (const double end_s : {1.0, 2.0}) {
    small.run.send({.ready_s = 1.0, .end_s = end_s, .stream = 2, .kind = GroupKind::Pipeline});
    small.run.recv({.ready_s = 1.0, .end_s = end_s, .stream = 2, .kind = GroupKind::Pipeline}, 1);
  }
  EXPECT_EQ(write_perfetto(small).counts.flows, 1U);
}

}  // namespace
}  // namespace trainyard
