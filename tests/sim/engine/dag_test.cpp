// Random programs of several ranks against the longest path through them (oracles 77, 78, 80), and
// the agreement of the engines if nothing is shared.
#include <gtest/gtest.h>

#include <random>

#include "tests/sim/engine/builders.hpp"

namespace trainyard::test {
namespace {

constexpr std::uint32_t kSeeds = 60;
constexpr std::uint32_t kRanks = 4;
constexpr double kDagCapacity = 1e9;

struct DagShape {
  bool own_links = false;  // every communication has a separate link: nothing is shared
  bool moves_bytes = true;
  bool computes = true;
  bool one_flow = false;  // everything on one stream
};

// One event in the order in which the programs were written: its participants and its duration
// alone.
struct Event {
  std::vector<std::pair<std::uint32_t, OpIndex>> parts;  // rank, operation
  double seconds = 0.0;
};

struct Dag {
  Script script;
  std::vector<Event> events;
  std::vector<double> bytes_on_link;
};

class DagWriter {
 public:
  DagWriter(std::uint32_t seed, const DagShape& shape)
      : random_(seed),
        shape_(shape),
        dag_{Script(std::vector<double>(shape.own_links ? 64 : 4, kDagCapacity)),
             {},
             std::vector<double>(64)} {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      dag_.script.program("rank " + std::to_string(rank));
      dag_.script.rank(rank);
    }
    // Slot 0: all ranks. Slot 1: halves.
    dag_.script.group({{0, 0}, {1, 0}, {2, 0}, {3, 0}});
    dag_.script.group({{0, 1}, {1, 1}});
    dag_.script.group({{2, 1}, {3, 1}});
  }

  Dag write() {
    for (LinkId step = 0; step < 60; ++step) {
      if (random_() % 3 == 0)
        communication(step);
      else
        work(static_cast<std::uint32_t>(random_() % kRanks));
    }
    return std::move(dag_);
  }

 private:
  Placement placement(std::uint32_t rank, std::uint8_t stream) {
    Placement result{.stream = shape_.one_flow ? std::uint8_t{0} : stream};
    const std::size_t known = dag_.script.workload().programs[rank].operations.size();
    for (std::size_t edge = 0; known > 0 && edge < random_() % 3; ++edge) {
      result.after.push_back(static_cast<OpIndex>(random_() % known));
    }
    return result;
  }

  void work(std::uint32_t rank) {
    // Always drawn, used or not, so that the same seed gives the same graph.
    const double drawn = 1e-6 * static_cast<double>(random_() % 1000);
    const double seconds = shape_.computes ? drawn : 0.0;
    const auto stream = static_cast<std::uint8_t>(random_() % 2);
    const OpIndex op = dag_.script.compute(rank, seconds, placement(rank, stream));
    dag_.events.push_back({{{rank, op}}, seconds});
  }

  void communication(LinkId step) {
    const std::uint16_t slot = random_() % 2;
    const std::uint32_t first = slot == 0 ? 0 : 2 * (random_() % 2);
    const double bytes = std::floor(1.0 + static_cast<double>(random_() % 1000000));
    const double latency = 1e-6 * static_cast<double>(random_() % 50);
    const LinkId link = shape_.own_links ? step : LinkId{static_cast<std::uint32_t>(random_() % 4)};
    std::vector<Phase> phases;
    if (shape_.moves_bytes) {
      phases = {phase(latency, {link_flow({{link, bytes}})}),
                phase(0.0, {link_flow({{link, bytes}})})};
      dag_.bytes_on_link[link] += 2.0 * bytes;
    }
    const auto call = dag_.script.call(CollectiveOp::AllReduce, phases);
    Event event{{}, shape_.moves_bytes ? latency + 2.0 * bytes / kDagCapacity : 0.0};
    for (std::uint32_t rank = first; rank < first + (slot == 0 ? 4 : 2); ++rank) {
      const auto stream = static_cast<std::uint8_t>(1 + slot);
      event.parts.emplace_back(rank, dag_.script.communicate(rank, OpKind::Collective, slot, call,
                                                             placement(rank, stream)));
    }
    dag_.events.push_back(std::move(event));
  }

  std::mt19937 random_;
  DagShape shape_;
  Dag dag_;
};

// The end of every operation by the longest path alone.
std::vector<std::vector<double>> longest_paths(Dag& dag) {
  const Workload& workload = dag.script.workload();
  std::vector<std::vector<double>> ends;
  for (const Program& program : workload.programs)
    ends.emplace_back(program.operations.size(), 0.0);
  for (const Event& event : dag.events) {
    double start = 0.0;
    for (const auto& [rank, op] : event.parts) {
      const Program& program = workload.programs[rank];
      for (OpIndex before = 0; before < op; ++before) {
        if (program.operations[before].stream == program.operations[op].stream) {
          start = std::max(start, ends[rank][before]);
        }
      }
      for (const OpIndex before : program.dependencies_of(op)) {
        start = std::max(start, ends[rank][before]);
      }
    }
    for (const auto& [rank, op] : event.parts) ends[rank][op] = start + event.seconds;
  }
  return ends;
}

double makespan(const std::vector<std::vector<double>>& ends) {
  double last = 0.0;
  for (const std::vector<double>& of_rank : ends) {
    for (const double end : of_rank) last = std::max(last, end);
  }
  return last;
}

// Is the time of the ideal engine the longest path?
TEST(Dag, IdealIsTheLongestPath) {  // oracle 77
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    Dag dag = DagWriter(seed, {}).write();
    const Timeline timeline = dag.script.run(*make_engine("ideal"));
    const auto expected = longest_paths(dag);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      for (std::size_t op = 0; op < expected[rank].size(); ++op) {
        ASSERT_NEAR(timeline.classes[rank].end_s[op], expected[rank][op],
                    kAgreement * expected[rank][op]);
      }
    }
    ASSERT_NEAR(timeline.makespan_s, makespan(expected), kAgreement * timeline.makespan_s);
  }
}

// Do the engines agree if nothing is shared?
TEST(Dag, EnginesAgreeWhereNothingIsShared) {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    Dag dag = DagWriter(seed, {.own_links = true}).write();
    const Partition partition = dag.script.fold_it(false);
    const Timeline ideal = dag.script.run(*make_engine("ideal"), partition);
    for (const auto& engine : {make_engine("simgrid"), simgrid_without_components()}) {
      const Timeline timeline = dag.script.run(*engine, partition);
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        const OpTimes& times = timeline.classes[rank];
        const OpTimes& expected = ideal.classes[rank];
        for (std::size_t op = 0; op < times.end_s.size(); ++op) {
          ASSERT_NEAR(times.ready_s[op], expected.ready_s[op], kAgreement * expected.end_s[op]);
          ASSERT_NEAR(times.start_s[op], expected.start_s[op], kAgreement * expected.end_s[op]);
          ASSERT_NEAR(times.end_s[op], expected.end_s[op], kAgreement * expected.end_s[op]);
        }
      }
      for (std::size_t link = 0; link < timeline.links.size(); ++link) {
        ASSERT_NEAR(timeline.links[link].busy_s, ideal.links[link].busy_s, kAgreement);
        ASSERT_EQ(timeline.links[link].bytes, ideal.links[link].bytes);
        ASSERT_NEAR(timeline.links[link].peak_utilisation, 1.0, kAgreement);
      }
    }
  }
}

// Does sharing only delay operations?
TEST(Dag, SharingOnlyDelays) {  // oracles 77 and 78
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    Dag dag = DagWriter(seed, {}).write();
    const Timeline timeline = dag.script.run(*make_engine("simgrid"));
    const auto bound = longest_paths(dag);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      const OpTimes& times = timeline.classes[rank];
      for (std::size_t op = 0; op < times.end_s.size(); ++op) {
        ASSERT_GE(times.end_s[op] * (1.0 + kAgreement), bound[rank][op]);
        ASSERT_LE(times.ready_s[op], times.start_s[op]);
        ASSERT_LE(times.start_s[op], times.end_s[op]);
      }
    }
    for (const double bytes : dag.bytes_on_link) {
      ASSERT_GE(timeline.makespan_s * (1.0 + kAgreement), bytes / kDagCapacity);
    }
  }
}

// Does the other half remain if compute or communication costs nothing?
TEST(Dag, WithoutComputeOrCommunicationTheOtherRemains) {  // oracle 80
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    double full = 0.0;
    double parts = 0.0;
    for (const auto& [moves, computes] : {std::pair{true, true}, {true, false}, {false, true}}) {
      Dag dag =
          DagWriter(
              seed,
              {.own_links = true, .moves_bytes = moves, .computes = computes, .one_flow = true})
              .write();
      const double last = dag.script.run(*make_engine("simgrid")).makespan_s;
      ASSERT_NEAR(last, makespan(longest_paths(dag)), kAgreement * last);
      if (moves && computes)
        full = last;
      else {
        ASSERT_GE(full, last * (1.0 - kAgreement));
        parts += last;
      }
    }
    ASSERT_LE(full, parts * (1.0 + kAgreement));
  }
}

// Does a run that records nothing end at the same instant?
TEST(Dag, ARunThatRecordsNothingEndsAtTheSameInstant) {
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    Dag dag = DagWriter(seed, {}).write();
    const Partition partition = dag.script.fold_it(false);
    EngineInput input{dag.script.cluster(), dag.script.workload(), partition,
                      dag.script.kernel_seconds()};
    const Timeline recorded = make_engine("ideal")->run(input);
    input.record = false;
    const Timeline bare = make_engine("ideal")->run(input);
    ASSERT_EQ(bare.makespan_s, recorded.makespan_s);
    ASSERT_EQ(bare.counters.events, recorded.counters.events);
    ASSERT_TRUE(bare.classes.empty());
  }
}

// Are repeated runs equal to the last bit?
TEST(Dag, RunsAreEqualToTheLastBit) {  // oracle 76
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    Dag dag = DagWriter(seed, {}).write();
    const Partition partition = dag.script.fold_it(false);
    const Timeline first = dag.script.run(*make_engine("ideal"), partition);
    const Timeline second = dag.script.run(*make_engine("ideal"), partition);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      ASSERT_EQ(first.classes[rank].start_s, second.classes[rank].start_s);
      ASSERT_EQ(first.classes[rank].end_s, second.classes[rank].end_s);
    }
    ASSERT_EQ(first.counters.events, second.counters.events);
  }
}

}  // namespace
}  // namespace trainyard::test
