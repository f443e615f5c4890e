// Algorithms in users' files: lists of sends and MSCCL programs, and the errors for faults in them.
#include "sim/collectives/custom/custom_algorithm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine_run.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/collectives/symbolic_check.hpp"
#include "test_clusters.hpp"

namespace trainyard {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A ring all_reduce as a list of sends, with or without steps.
std::string ring_list(std::uint32_t n, bool with_steps) {
  std::string sends;
  for (std::uint32_t step = 0; step < 2 * (n - 1); ++step) {
    for (std::uint32_t from = 0; from < n; ++from) {
      const std::uint32_t piece = (from + 2 * n - step) % n;
      sends += (sends.empty() ? "" : ",\n") + std::string("{\"from\": ") + std::to_string(from) +
               ", \"to\": " + std::to_string((from + 1) % n) + ", \"pieces\": [" +
               std::to_string(piece) + "]" + (step < n - 1 ? ", \"reduce\": true" : "") +
               (with_steps ? ", \"step\": " + std::to_string(step) : "") + "}";
    }
  }
  return "{\"op\": \"all_reduce\", \"ranks\": " + std::to_string(n) + ", \"sends\": [" + sends +
         "]}";
}

std::string problem_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const InputError& error) {
    std::string text;
    for (const Problem& problem : error.problems()) text += to_text(problem) + "\n";
    return text;
  }
  return "";
}

std::string list_problem(const std::string& text) {
  return problem_of([&] { static_cast<void>(parse_send_list("mine.json", text)); });
}

std::string xml_problem(const std::string& text) {
  return problem_of([&] { static_cast<void>(parse_msccl_xml("mine.xml", text)); });
}

// A file that exists while the test runs.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& name, const std::string& text)
      : path_(std::filesystem::path(::testing::TempDir()) / name) {
    write_file(path_, text);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path_); }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// Does a ring as a list of sends take the time of the ring?
TEST(SendList, ARingIsTheRing) {
  const Cluster cluster = star(8);
  for (const bool with_steps : {true, false}) {
    const TemporaryFile file(with_steps ? "ring_steps.json" : "ring_order.json",
                             ring_list(8, with_steps));
    EXPECT_RELATIVE(
        microseconds(cluster, CollectiveOp::AllReduce, file.path(), gpus_of(8), kGibibyte),
        18860.481920);
    const Workload workload = one_collective(gpus_of(8), CollectiveOp::AllReduce,
                                             std::int64_t{1} << 30, file.path().c_str());
    EXPECT_RELATIVE(engine_us(cluster, workload, {.fold = {.enabled = true}}), 18860.481920);
    EXPECT_RELATIVE(engine_us(cluster, expand_collectives(workload, cluster), {}), 18860.481920);
  }
}

// Can the example of algorithm_format.md be read? It is extracted from the page, so that the page
// stays correct.
TEST(SendList, ReadsTheExampleOfThePage) {
  const std::string page = read_file(std::filesystem::path(TRAINYARD_SOURCE_DIRECTORY) /
                                     "sim/collectives/custom/algorithm_format.md");
  const std::size_t begin = page.find("    {\n");
  const std::string end = "\n    }\n";
  const std::string example = page.substr(begin, page.find(end, begin) + end.size() - begin);
  const SendPlan plan = parse_send_list("mine.json", example);
  EXPECT_EQ(plan.summary, "a ring of two");
  ASSERT_EQ(plan.messages.size(), 4U);
  EXPECT_EQ(plan.messages[1].step, 0U);
  EXPECT_EQ(plan.messages[2].step, 1U);
}

// Are other numbers of ranks and other operations refused?
TEST(SendList, RefusesOtherNumbersOfRanksAndOtherOperations) {
  const TemporaryFile file("ring_four.json", ring_list(4, false));
  const Cluster cluster = star(8);
  const std::vector<std::uint32_t> gpus = gpus_of(8);
  EXPECT_EQ(find_algorithm(CollectiveOp::AllReduce, file.path())
                ->refusal({.cluster = cluster, .gpus = gpus}),
            "its list of sends is for 4 ranks, not 8");
  EXPECT_THAT(
      problem_of([&] { static_cast<void>(find_algorithm(CollectiveOp::AllGather, file.path())); }),
      HasSubstr("is an algorithm for all_reduce, not for all_gather"));
}

// Do all sends of a step run concurrently? A one-step all_gather has one phase.
TEST(SendList, SendsOfAStepRunConcurrently) {
  std::string sends;
  for (int from = 0; from < 4; ++from)
    for (int to = 0; to < 4; ++to)
      if (from != to)
        sends += (sends.empty() ? "" : ",") + std::string("{\"from\":") + std::to_string(from) +
                 ",\"to\":" + std::to_string(to) + ",\"pieces\":[" + std::to_string(2 * from) +
                 "," + std::to_string(2 * from + 1) + "]}";
  const TemporaryFile file(
      "gather.json", R"({"op": "all_gather", "ranks": 4, "pieces": 8, "sends": [)" + sends + "]}");
  const double closed = 5.0 + 1e6 * 0.75 * kGibibyte / 1e11;
  const Cluster cluster = star(4);
  const Workload workload = one_collective(gpus_of(4), CollectiveOp::AllGather,
                                           std::int64_t{1} << 30, file.path().c_str());
  EXPECT_RELATIVE(engine_us(cluster, workload, {}), closed);
  EXPECT_RELATIVE(engine_us(cluster, expand_collectives(workload, cluster), {}), closed);
}

// Can an all_to_all forward through the middle of three ranks? A range of pieces could not express
// this.
TEST(SendList, AnAllToAllThatForwards) {
  const std::string text = R"({"op": "all_to_all", "ranks": 3, "sends": [
    {"from": 0, "to": 1, "pieces": [1, 2]},
    {"from": 2, "to": 1, "pieces": [6, 7]},
    {"from": 1, "to": 0, "pieces": [3, 6]},
    {"from": 1, "to": 2, "pieces": [2, 5]}]})";
  const SendPlan plan = parse_send_list("line.json", text);
  ASSERT_EQ(plan.messages.size(), 4U);
  EXPECT_EQ(plan.messages[0].step, 0U);
  EXPECT_EQ(plan.messages[3].step, 1U);
  EXPECT_THAT(plan.messages[3].after, ::testing::ElementsAre(0U));
  const TemporaryFile file("line.json", text);
  EXPECT_RELATIVE(microseconds(star(3), CollectiveOp::AllToAll, file.path(), gpus_of(3), 3e9),
                  2 * (5.0 + 1e6 * 4e9 / 1e11));
}

// Is a missing send reported?
TEST(SendList, AMissingSendIsReported) {
  std::string text = ring_list(3, true);
  const std::size_t last = text.rfind(",\n{");
  text.replace(last, text.rfind(']') - last, "");
  EXPECT_EQ(list_problem(text),
            "mine.json: /sends: this is no all_reduce: rank 0 ends with the wrong contributions "
            "in piece 2: without what comes from rank 1 (a send carries what its rank started "
            "with and what earlier steps brought it)\n");
}

// Do sends without a channel keep off the channels that other sends of their step name?
TEST(SendList, SendsWithoutAChannelTakeAFreeOne) {
  const SendPlan plan =
      parse_send_list("two.json", R"({"op": "broadcast", "ranks": 2, "pieces": 3, "sends": [
        {"from": 0, "to": 1, "pieces": [0]},
        {"from": 0, "to": 1, "pieces": [1], "channel": 0},
        {"from": 0, "to": 1, "pieces": [2]}]})");
  std::vector<std::uint32_t> channels;
  for (const Message& message : plan.messages) channels.push_back(message.channel);
  EXPECT_THAT(channels, ::testing::ElementsAre(1U, 0U, 2U));
}

// Is a send of a piece that the sender does not hold reported?
TEST(SendList, ASendOfAPieceThatIsNotHeldIsReported) {
  EXPECT_THAT(list_problem(R"({"op": "broadcast", "ranks": 3, "pieces": 1, "sends": [
                {"from": 1, "to": 2, "pieces": [0], "step": 0},
                {"from": 0, "to": 1, "pieces": [0], "step": 0}]})"),
              HasSubstr("mine.json: /sends/0: this is no broadcast: send 0 carries piece 0, which "
                        "rank 1 does not hold"));
}

// Is a contribution that is added twice reported?
TEST(SendList, ADoubleContributionIsReported) {
  EXPECT_THAT(list_problem(R"({"op": "reduce", "ranks": 2, "pieces": 1, "sends": [
                {"from": 1, "to": 0, "pieces": [0], "reduce": true},
                {"from": 1, "to": 0, "pieces": [0], "reduce": true}]})"),
              HasSubstr("/sends/1: this is no reduce: send 1 adds the contribution of rank 1 to "
                        "piece 0 a second time"));
}

// Are the fields checked?
TEST(SendList, FieldsAreChecked) {
  EXPECT_THAT(list_problem(R"({"op": "all_reduce", "ranks": 2, "sends": [
                {"from": 0, "to": 0, "pieces": [0]}, {"from": 0, "to": 5, "pieces": [7, 1, 1]},
                {"from": 1, "to": 0, "peices": [0]}]})"),
              ::testing::AllOf(HasSubstr("/sends/0/to: rank 0 cannot send to itself"),
                               HasSubstr("/sends/1/to"),
                               HasSubstr("7 is not a piece (pieces are numbered 0 to 1)"),
                               HasSubstr("a piece is listed twice"), HasSubstr("peices")));
  EXPECT_THAT(list_problem(R"({"op": "all_gather", "ranks": 4, "pieces": 6, "sends": []})"),
              ::testing::AllOf(HasSubstr("6 is no multiple of 4"), HasSubstr("no sends")));
  EXPECT_THAT(list_problem(R"({"op": "all_reduce", "ranks": 2, "pieces": 1, "sends": [
                {"from": 0, "to": 1, "pieces": [0], "reduce": true, "step": 0},
                {"from": 1, "to": 0, "pieces": [0], "reduce": true}]})"),
              HasSubstr("/sends/1: has no step, unlike the first send"));
  EXPECT_THAT(list_problem("{\"op\": \"all_reduce\""), HasSubstr("mine.json"));
}

// Is a missing file reported?
TEST(SendList, AMissingFileIsReported) {
  EXPECT_THAT(problem_of([] {
                static_cast<void>(find_algorithm(CollectiveOp::AllReduce, "nowhere/mine.json"));
              }),
              HasSubstr("nowhere/mine.json"));
}

// A ring all_reduce in placed as msccl-tools writes it: one thread block per GPU.
std::string ring_xml(int n, const std::string& second_half = "rcs") {
  std::string text = "<algo name=\"ring\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"" +
                     std::to_string(n) + "\" ngpus=\"" + std::to_string(n) +
                     "\" coll=\"allreduce\" inplace=\"1\">\n";
  for (int gpu = 0; gpu < n; ++gpu) {
    const auto chunk = [&](int back) { return std::to_string((gpu + 2 * n - back) % n); };
    text += "<gpu id=\"" + std::to_string(gpu) + "\" i_chunks=\"" + std::to_string(n) +
            "\" o_chunks=\"0\" s_chunks=\"0\"><tb id=\"0\" send=\"" +
            std::to_string((gpu + 1) % n) + "\" recv=\"" + std::to_string((gpu + n - 1) % n) +
            "\" chan=\"0\">\n";
    for (int step = 0; step < 2 * n - 1; ++step) {
      const std::string type = step == 0          ? "s"
                               : step < n - 1     ? "rrs"
                               : step == n - 1    ? "rrcs"
                               : step < 2 * n - 2 ? second_half
                                                  : "r";
      text += "<step s=\"" + std::to_string(step) + "\" type=\"" + type +
              "\" srcbuf=\"i\" srcoff=\"" + chunk(step) + "\" dstbuf=\"i\" dstoff=\"" +
              chunk(step) + "\" cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>\n";
    }
    text += "</tb></gpu>\n";
  }
  return text + "</algo>\n";
}

// Does a ring as an MSCCL program take the time of the ring?
TEST(Msccl, ARingIsTheRing) {
  const TemporaryFile file("ring.xml", ring_xml(8));
  const Cluster cluster = star(8);
  const CollectiveAlgorithm& ring = *find_algorithm(CollectiveOp::AllReduce, file.path());
  EXPECT_EQ(ring.summary(), "MSCCL program ring");
  EXPECT_RELATIVE(
      microseconds(cluster, CollectiveOp::AllReduce, file.path(), gpus_of(8), kGibibyte),
      18860.481920);
  const Workload workload = one_collective(gpus_of(8), CollectiveOp::AllReduce,
                                           std::int64_t{1} << 30, file.path().c_str());
  EXPECT_RELATIVE(engine_us(cluster, expand_collectives(workload, cluster), {}), 18860.481920);
  // The independent checker agrees.
  const auto gpus = gpus_of(8);
  EXPECT_EQ(symbolic_fault(ring, {.cluster = cluster, .gpus = gpus}, Bytes{8e6}).value_or(""), "");
}

// Every GPU sends its chunks to the scratch buffers of the others; the owner adds them up and sends
// the sum. Local sums wait for other thread blocks.
std::string all_pairs_xml() {
  constexpr int kGpus = 3;
  std::string text =
      "<algo name=\"allpairs\" nchunksperloop=\"3\" ngpus=\"3\" coll=\"allreduce\" "
      "inplace=\"1\">";
  const auto step = [&](int s, const char* type, const char* srcbuf, int srcoff, const char* dstbuf,
                        int dstoff, int depid, int deps) {
    return "<step s=\"" + std::to_string(s) + "\" type=\"" + type + "\" srcbuf=\"" + srcbuf +
           "\" srcoff=\"" + std::to_string(srcoff) + "\" dstbuf=\"" + dstbuf + "\" dstoff=\"" +
           std::to_string(dstoff) + "\" cnt=\"1\" depid=\"" + std::to_string(depid) + "\" deps=\"" +
           std::to_string(deps) + "\" hasdep=\"0\"/>";
  };
  for (int gpu = 0; gpu < kGpus; ++gpu) {
    const int a = (gpu + 1) % kGpus;
    const int b = (gpu + 2) % kGpus;
    text += "<gpu id=\"" + std::to_string(gpu) + "\" i_chunks=\"3\" o_chunks=\"0\" s_chunks=\"2\">";
    const auto block = [&](int id, int peer, int slot, bool adds) {
      const int other = 1 - id;
      std::string steps =
          step(0, "s", "i", peer, "i", peer, -1, -1) + step(1, "r", "i", gpu, "s", slot, -1, -1);
      // Block 0 adds first, then block 1; then both send the sum.
      steps += step(2, "re", "s", slot, "i", gpu, adds ? -1 : other, adds ? -1 : 2);
      steps += step(3, "s", "i", gpu, "i", gpu, adds ? other : -1, adds ? 2 : -1);
      steps += step(4, "r", "i", peer, "i", peer, -1, -1);
      return "<tb id=\"" + std::to_string(id) + "\" send=\"" + std::to_string(peer) + "\" recv=\"" +
             std::to_string(peer) + "\" chan=\"0\">" + steps + "</tb>";
    };
    text += block(0, a, 0, true) + block(1, b, 1, false) + "</gpu>";
  }
  return text + "</algo>";
}

// Is the input of an all_gather in place the GPU's own part of its output, and the output of a
// reduce_scatter its own part of the input? Two GPUs with two chunks each: those of GPU 1 are
// chunks 2 and 3. Each GPU sends the other two chunks and receives two.
TEST(Msccl, InPlaceAGpuHasItsOwnPartOfTheBuffer) {
  const auto step = [](const char* type, const char* buffer, int offset) {
    const std::string at = std::to_string(offset);
    return "<step type=\"" + std::string(type) + "\" srcbuf=\"" + buffer + "\" srcoff=\"" + at +
           "\" dstbuf=\"" + buffer + "\" dstoff=\"" + at + "\" cnt=\"2\"/>";
  };
  const auto messages = [](const std::string& collective, const std::string& first,
                           const std::string& second) {
    return parse_msccl_xml("mine.xml",
                           "<algo name=\"x\" coll=\"" + collective +
                               "\" ngpus=\"2\" nchunksperloop=\"4\" inplace=\"1\">"
                               "<gpu id=\"0\"><tb id=\"0\" send=\"1\" recv=\"1\">" +
                               first +
                               "</tb></gpu><gpu id=\"1\"><tb id=\"0\" send=\"0\" recv=\"0\">" +
                               second + "</tb></gpu></algo>")
        .messages;
  };
  const auto gathered = messages("allgather", step("s", "i", 0) + step("r", "o", 2),
                                 step("s", "i", 0) + step("r", "o", 0));
  ASSERT_EQ(gathered.size(), 2U);
  EXPECT_THAT(gathered[0].scattered, ElementsAre(0, 1));
  EXPECT_THAT(gathered[1].scattered, ElementsAre(2, 3));
  const auto summed = messages("reduce_scatter", step("s", "i", 2) + step("rrc", "o", 0),
                               step("s", "i", 0) + step("rrc", "o", 0));
  ASSERT_EQ(summed.size(), 2U);
  EXPECT_THAT(summed[0].scattered, ElementsAre(2, 3));
  EXPECT_THAT(summed[1].scattered, ElementsAre(0, 1));
}

// Does an all-pairs program equal the two-shot algorithm?
TEST(Msccl, AllPairsIsTheTwoShot) {
  const TemporaryFile file("allpairs.xml", all_pairs_xml());
  const Cluster cluster = star(3);
  const auto gpus = gpus_of(3);
  EXPECT_RELATIVE(microseconds(cluster, CollectiveOp::AllReduce, file.path(), gpus, kGibibyte),
                  microseconds(cluster, CollectiveOp::AllReduce, "two_shot", gpus, kGibibyte));
  EXPECT_EQ(symbolic_fault(*find_algorithm(CollectiveOp::AllReduce, file.path()),
                           {.cluster = cluster, .gpus = gpus}, Bytes{3e6})
                .value_or(""),
            "");
  const Workload workload =
      one_collective(gpus, CollectiveOp::AllReduce, 3 << 28, file.path().c_str());
  EXPECT_RELATIVE(engine_us(cluster, expand_collectives(workload, cluster), {}),
                  engine_us(cluster, workload, {}));
}

// Two GPUs, two chunks per pair, out of placed.
const char* const kAllToAll = R"(<algo name="swap" nchunksperloop="4" ngpus="2" coll="alltoall">
<gpu id="0" i_chunks="4" o_chunks="4" s_chunks="0">
 <tb id="0" send="-1" recv="-1" chan="0">
  <step s="0" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="2"/></tb>
 <tb id="1" send="1" recv="1" chan="0">
  <step s="0" type="s" srcbuf="i" srcoff="2" cnt="2"/>
  <step s="1" type="r" dstbuf="o" dstoff="2" cnt="2"/></tb></gpu>
<gpu id="1" i_chunks="4" o_chunks="4" s_chunks="0">
 <tb id="0" send="-1" recv="-1" chan="0">
  <step s="0" type="cpy" srcbuf="i" srcoff="2" dstbuf="o" dstoff="2" cnt="2"/></tb>
 <tb id="1" send="0" recv="0" chan="0">
  <step s="0" type="s" srcbuf="i" srcoff="0" cnt="2"/>
  <step s="1" type="r" dstbuf="o" dstoff="0" cnt="2"/></tb></gpu></algo>)";

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const std::size_t position = text.find(what);
  EXPECT_NE(position, std::string::npos) << what;
  return text.replace(position, what.size(), with);
}

// Does an all_to_all in chunks take its time?
TEST(Msccl, AnAllToAllInChunks) {
  const TemporaryFile file("swap.xml", kAllToAll);
  const auto gpus = gpus_of(2);
  EXPECT_RELATIVE(microseconds(star(2), CollectiveOp::AllToAll, file.path(), gpus, 2e9),
                  5.0 + 1e6 * 1e9 / 1e11);
  const Cluster cluster = star(2);
  EXPECT_EQ(symbolic_fault(*find_algorithm(CollectiveOp::AllToAll, file.path()),
                           {.cluster = cluster, .gpus = gpus}, Bytes{2e9})
                .value_or(""),
            "");
  Workload workload = one_collective(gpus, CollectiveOp::AllToAll, 30, file.path().c_str());
  std::get<CollectiveCall>(workload.calls[0]).matrix = {0, 30, 11, 0};
  EXPECT_RELATIVE(engine_us(cluster, expand_collectives(workload, cluster), {}),
                  5.0 + 1e6 * 30 / 1e11);
}

// Is a wrong result reported?
TEST(Msccl, AWrongResultIsReported) {
  EXPECT_THAT(xml_problem(replaced(kAllToAll, "dstoff=\"2\" cnt=\"2\"/></tb></gpu>\n<gpu id=\"1\"",
                                   "dstoff=\"0\" cnt=\"2\"/></tb></gpu>\n<gpu id=\"1\"")),
              HasSubstr("mine.xml: /algo/gpu 0: this is no all_to_all: output chunk 0 should hold "
                        "piece 0 and holds piece 4"));
  EXPECT_THAT(xml_problem(ring_xml(4, "r")), HasSubstr("waits forever for a message of GPU"));
  std::string unsummed = ring_xml(3);
  while (unsummed.find("rrcs") != std::string::npos)
    unsummed = replaced(unsummed, "\"rrcs\"", "\"rcs\"");
  EXPECT_THAT(xml_problem(unsummed), HasSubstr("without what comes from ranks"));
}

// Is a file reported that cannot be read?
TEST(Msccl, UnreadableProgramsAreReported) {
  EXPECT_THAT(xml_problem("<algo"), HasSubstr("mine.xml: line 1"));
  EXPECT_THAT(xml_problem("<graph/>"), HasSubstr("there is no <algo>"));
  EXPECT_THAT(xml_problem(replaced(kAllToAll, "alltoall", "gossip")),
              HasSubstr("coll=\"gossip\" is no known collective"));
  EXPECT_THAT(xml_problem(replaced(kAllToAll, "type=\"s\"", "type=\"x\"")),
              HasSubstr("/algo/gpu 0/tb 1/step 0: type=\"x\" is no known step"));
  EXPECT_THAT(xml_problem(replaced(kAllToAll, "srcoff=\"2\"", "srcoff=\"9\"")),
              HasSubstr("/algo/gpu 0/tb 1/step 0: uses chunk 9 of a buffer of 4"));
  EXPECT_THAT(xml_problem(replaced(kAllToAll, "ngpus=\"2\"", "ngpus=\"3\"")),
              HasSubstr("GPU 2 of 3 is missing"));
  EXPECT_THAT(xml_problem(replaced(kAllToAll, "send=\"1\"", "send=\"-1\"")),
              HasSubstr("sends, but its thread block has no peer"));
  EXPECT_THAT(xml_problem(replaced(kAllToAll, "recv=\"1\" chan=\"0\"", "recv=\"1\" chan=\"1\"")),
              HasSubstr("waits forever"));
}

// Is a short list with many pieces refused with the number?
TEST(CustomAlgorithm, AShortListThatNamesManyPiecesIsRefusedWithTheFigure) {
  EXPECT_THAT(
      list_problem(R"({"op": "all_reduce", "ranks": 1024, "pieces": 1048576,
                               "sends": [{"from": 0, "to": 1, "pieces": [0]}]})"),
      HasSubstr("mine.json: /pieces: 1048576 pieces on each of 1024 ranks are 1073741824, more "
                "than the 33554432 that can be followed"));
}

// Is a program with buffers that would fill the memory refused with the number?
TEST(CustomAlgorithm, AProgramWhoseBuffersFillTheMemoryIsRefusedWithTheFigure) {
  std::string text =
      "<algo name=\"x\" coll=\"allreduce\" ngpus=\"1024\" nchunksperloop=\"1048576\">";
  for (int gpu = 0; gpu < 1024; ++gpu)
    text += "<gpu id=\"" + std::to_string(gpu) + "\" i_chunks=\"1048576\"/>";
  EXPECT_THAT(xml_problem(text + "</algo>"),
              HasSubstr("mine.xml: /algo: to follow 1048576 chunks on each of 1024 GPUs takes more "
                        "than 1 GiB"));
}

// Is the memory of messages free once they have arrived? 2^18 chunks of 72 bytes are 18 MiB, and
// buffers have four times as much. GPU 0 sends all of them to GPU 1 and gets them back, 28 times:
// one message is in flight at a time, while all 56 and the buffers have 1080 MiB.
TEST(CustomAlgorithm, MessagesThatHaveArrivedTakeNoMemory) {
  // slow: the limit of 1 GiB takes 15 million chunks
  const std::string all = "srcoff=\"0\" dstoff=\"0\" cnt=\"262144\" ";
  const std::string send = "<step type=\"s\" " + all;
  const std::string receive = "<step type=\"r\" dstbuf=\"o\" " + all + "/>";
  std::string first;
  std::string second;
  for (int round = 0; round < 28; ++round) {
    first += send + "srcbuf=\"i\"/>" + receive;
    second += receive + send + "srcbuf=\"o\"/>";
  }
  const SendPlan plan = parse_msccl_xml(
      "mine.xml",
      "<algo name=\"x\" coll=\"broadcast\" ngpus=\"2\" nchunksperloop=\"262144\"><gpu id=\"0\">"
      "<tb id=\"0\" send=\"1\" recv=\"1\">" +
          first + "</tb></gpu><gpu id=\"1\"><tb id=\"0\" send=\"0\" recv=\"0\">" + second +
          "</tb></gpu></algo>");
  EXPECT_EQ(plan.messages.size(), 56U);
}

}  // namespace
}  // namespace trainyard
