// Scenarios on a hand-made node, and the comparison of two runs.
//
//    Result run = simulate(small_scenario({.tensor = 2, .pipeline = 2, .data = 2}), {});
//    expect_sound(run);
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <stdexcept>

#include "scenarios/simulate/simulate.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/report/result_json.hpp"
#include "sim/timeline/breakdown.hpp"
#include "tests/agreement.hpp"
#include "tests/scenarios/sample.hpp"

namespace trainyard {

// Within a TEST `Run` is a member of GoogleTest's base class.
using ScenarioRun = Result;

inline bool agree(double a, double b) {
  return std::abs(a - b) <= kAgreement * std::max(std::abs(a), std::abs(b)) + 1e-15;
}

struct SmallShape {
  int tensor = 1;
  bool sequence_parallel = false;
  int pipeline = 1;
  int interleave = 1;
  int data = 1;
  int zero_stage = 0;
  int microbatches = 4;
  bool tied = false;
  int context = 1;
  const char* exchange = "p2p";
  int traders = 0;  // of an exchange a2a+p2p
  bool chunked = false;
};

// A model of eight small layers on nodes of two A100s, on rails.
inline nlohmann::ordered_json small_document(const SmallShape& shape) {
  auto document = parse_unchecked_json(R"({
    "description": "small enough to run in a test",
    "model": { "name": "small", "layers": 8, "hidden": 512, "heads": 8, "ffn": 2048, "vocab": 8192,
               "max_positions": 512 },
    "cluster": { "node": "dgx_a100_80gb", "nodes": 1, "fabric": { "kind": "rail_optimized" } },
    "parallelism": { },
    "training": { "sequence_length": 512 }
  })");
  document["model"]["tied_embeddings"] = shape.tied;
  document["cluster"]["nodes"] =
      std::max(1, shape.tensor * shape.pipeline * shape.data * shape.context / 8);
  document["parallelism"] = {{"tensor", shape.tensor},
                             {"sequence_parallel", shape.sequence_parallel},
                             {"pipeline", shape.pipeline},
                             {"interleave", shape.interleave},
                             {"data", shape.data},
                             {"schedule", shape.interleave > 1 ? "interleaved_1f1b" : "1f1b"},
                             {"zero_stage", shape.zero_stage},
                             {"context", shape.context},
                             {"context_exchange", shape.exchange},
                             {"context_all_to_all", shape.traders},
                             {"chunked_tensor", shape.chunked},
                             {"bucket_parameters", 1000000}};
  document["training"]["global_batch_size"] = shape.microbatches * shape.data;
  return document;
}
inline Scenario small_scenario(const SmallShape& shape) { return load(small_document(shape)); }

// Every time stamp of the run, bit by bit.
inline std::string bits(const Timeline& timeline) {
  std::string text = fmt::format("{:a}\n", timeline.makespan_s);
  for (const OpTimes& times : timeline.classes) {
    for (std::size_t op = 0; op < times.end_s.size(); ++op) {
      text +=
          fmt::format("{:a} {:a} {:a}\n", times.ready_s[op], times.start_s[op], times.end_s[op]);
    }
  }
  return text;
}

// The result of `make`, computed by a child of this process. SimGrid's clock never goes back, so a
// second run in one process starts at another date and rounds its last bits differently. Children
// of one parent start at the same date.
inline std::string in_a_child(const std::function<std::string()>& make) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    const std::string text = make();
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t more = write(ends[1], text.data() + sent, text.size() - sent);
      if (more <= 0) _exit(1);
      sent += static_cast<std::size_t>(more);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 65536> buffer{};
  for (ssize_t got = 0; (got = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return text;
}

// Checks the properties of every result: shares fill the step, memory is freed, the verdict on
// memory exists, and no time is negative or beyond the step.
inline void expect_sound(const Result& run) {
  const double step = run.timeline.makespan_s;
  EXPECT_GT(step, 0.0);
  for (std::size_t rank = 0; rank < run.partition->ranks.size(); ++rank) {
    const Breakdown shares = breakdown(*run.workload, *run.partition, run.timeline, rank);
    EXPECT_NEAR(shares.total(), step, kAgreement * step) << "class " << rank;
    for (const double seconds : shares.seconds) EXPECT_GE(seconds, 0.0);
    EXPECT_GT(shares.of(TimeShare::Compute) + shares.of(TimeShare::Optimizer), 0.0);
  }
  for (const Program& program : run.workload->programs) {
    for (const std::int64_t bytes : unreturned_bytes(*run.workload, program)) EXPECT_EQ(bytes, 0);
  }
  for (const LinkUse& link : run.timeline.links) {
    EXPECT_LE(link.busy_s, step * (1.0 + kAgreement));
    EXPECT_LE(link.peak_utilisation, 1.0 + 1e-6);
  }
  const auto result = result_json(run.view());
  EXPECT_EQ(result.at("step_time_s").get<double>(),
            step / run.facts.steps + run.view().exchange_s());
  std::set<std::uint32_t> stages;
  for (const Program& program : run.workload->programs) stages.insert(program.stage);
  ASSERT_EQ(result.at("memory").size(), stages.size());
  for (const auto& stage : result.at("memory")) {
    EXPECT_TRUE(stage.at("fits").is_boolean());
    EXPECT_GT(stage.at("peak_bytes").get<double>(), 0.0);
  }
}

}  // namespace trainyard
