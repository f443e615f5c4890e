// The input of all reports on one run: what was simulated (facts, cluster, workload) and the
// results.
//
// sim/ knows nothing of transformers, so scenarios/simulate/ passes figures such as tokens and
// model FLOPs in as facts. A report is a function from a RunView to text, JSON or files.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/base/data_use.hpp"
#include "sim/base/units.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/engine/cost_model.hpp"
#include "sim/fold/fold.hpp"
#include "sim/fold/fold_reasons.hpp"
#include "sim/fold/selected_algorithms.hpp"
#include "sim/report/interval.hpp"
#include "sim/timeline/breakdown.hpp"
#include "sim/timeline/energy.hpp"
#include "sim/timeline/memory.hpp"
#include "sim/timeline/timeline.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// A simplification of the run, how often it applies, and a sentence that a user can act on.
struct Approximation {
  std::string name;  // "profile_extrapolated"
  std::uint64_t count = 0;
  std::string sentence;
};

// A published figure and its prediction.
struct PublishedComparison {
  std::string figure;  // "step_time_s", "mfu", "hardware_tflops_per_gpu"
  std::string title;   // "step time"
  std::string unit;    // "s"
  double published = 0.0;
  double predicted = 0.0;
  [[nodiscard]] double error() const { return predicted / published - 1.0; }  // +0.05: 5 % too high
};

// A dense peak of one GPU to which a report relates its FLOP/s.
struct PeakRate {
  std::string precision;  // "bf16"
  FlopsPerSecond rate;
};

// Prices of energy and of machines, in any currency. Absent: not given.
struct EnergyPrices {
  std::optional<double> per_kwh = {};
  std::optional<double> kg_co2_per_kwh = {};
  std::optional<double> capital_per_gpu = {};
  std::optional<double> capital_years = {};  // over which the capital is spread
};

// The documents that the step packs into sequences, and how unevenly their attention is divided.
struct DocumentFacts {
  std::string lengths;     // "preset wikipedia_en"
  std::string balance;     // "none", "sequences", "documents"
  std::int64_t count = 0;  // of all replicas
  double mean_tokens = 0.0;
  std::int64_t longest_tokens = 0;
  double pairs_share = 1.0;  // pairs of query and key over those of one document in each sequence
  // The largest number of pairs over the mean, minus 1.
  double replica_excess = 0.0;
  double microbatch_excess = 0.0;
};

// The times of the step for several batches, whose seeds follow each other.
struct BatchTimes {
  std::uint64_t first_seed = 0;
  std::vector<double> step_s = {};
  // The same batches as drawn and balanced. Empty where lengths are not drawn.
  std::vector<double> as_drawn_s = {};
  std::vector<double> balanced_s = {};
  std::string balance = {};  // of balanced_s: "sequences" or "documents"
};

// One line of what was simulated: "layout", "tensor 8, pipeline 4, data 2".
struct SetupLine {
  std::string name;
  std::string text;
};

// Unequal shares that the simulation found, and what equal shares would cost.
struct BalanceFacts {
  std::vector<std::int64_t> layers = {};        // by stage; empty: as the scenario says
  std::vector<std::int64_t> microbatches = {};  // by replica; empty: as the scenario says
  double equal_step_s = 0.0;
};

// The clock of each pipeline stage that the simulation found, and the step at full clocks.
struct ClockFacts {
  std::vector<std::int64_t> percent = {};  // of the full clock, by stage
  double tolerance = 0.0;                  // share by which the step may grow
  double full_step_s = 0.0;
  double full_step_j = 0.0;
};

// Workers that train copies of the model and exchange them once in several steps.
struct LocalStepsFacts {
  std::int64_t every = 1;           // steps between two exchanges
  std::int64_t workers = 1;         // copies of the model
  double exchange_s = 0.0;          // one exchange with the outer optimizer's step
  Energy exchange = {};             // of one exchange; zero without a block `power`
  std::int64_t exchange_bytes = 0;  // that a rank reduces over the workers; the most of any rank
  std::int64_t state_bytes = 0;     // of the outer optimizer on a rank; the most of any rank
};

// Facts about a run that sim/ cannot derive.
struct RunFacts {
  std::string title;                // first line of a report
  std::vector<SetupLine> setup;     // model, cluster, layout, batch; empty for a bare workload
  nlohmann::ordered_json scenario;  // resolved; null for a bare workload file
  std::string engine;
  std::string engine_version;  // "SimGrid 3.32"; empty: the engine is part of Trainyard
  std::uint64_t seed = 0;
  double steps = 1.0;  // steps that the run plays one after the other; figures are means over them
  double tokens_per_step = 0.0;  // 0: a bare workload has none
  Flops model_flops;             // of one step, all GPUs, in the convention below
  Flops model_flops_other;       // in the other convention
  Flops hardware_flops;          // model_flops plus recomputation
  Flops hardware_flops_other;    // the same in the other convention
  std::string flops_convention;  // "causal" or "full"
  // The peak of the training precision; then, where GEMMs use fewer bits, the peak of their
  // precision.
  std::vector<PeakRate> peaks;
  Bytes gpu_memory;                           // usable capacity
  double token_budget = 0.0;                  // of the whole training; 0: not given
  std::optional<double> gpu_hour_price = {};  // in any currency
  std::string gpu_hour_price_source = {};     // of a preset; empty: a price of the scenario
  EnergyPrices energy_prices = {};
  std::vector<PublishedComparison> published;
  std::string published_source;
  std::string published_note;
  std::optional<StepInterval> interval = {};  // absent: the run corresponds to no real one
  std::optional<BalanceFacts> balance = {};   // where the scenario asks for it
  std::optional<ClockFacts> clocks = {};      // where the scenario asks for it
  std::optional<LocalStepsFacts> local_steps = {};
  std::optional<DocumentFacts> documents = {};  // where several documents share a sequence
  std::optional<BatchTimes> batches = {};       // where several batches were requested
  std::vector<std::string> assumptions;
  // Fields that the scenario leaves to defaults, with their sources.
  std::vector<std::string> defaults;
  std::vector<Approximation> approximations;
  std::vector<OwnDataFile> own_files;  // data files that were not shipped and that the run used
  // Wall time and memory of the simulator, printed only with --timing, because results are
  // byte-identical without them.
  std::optional<double> wall_s;
  std::optional<std::uint64_t> peak_rss_bytes;
};

// References to everything that reports read. REQUIRES: all of it outlives the view.
struct RunView {
  const RunFacts& facts;
  const Cluster& cluster;
  const Workload& workload;
  const Partition& partition;
  const SelectedAlgorithms& selected_algorithms;
  const Timeline& timeline;
  std::span<const Cost> kernel_costs;              // by index into Workload::kernels
  std::span<const ClassReason> fold_reasons = {};  // by rank class; empty: not requested
  // The bytes that the software around the step holds throughout, by program and memory category.
  // Empty: not known.
  std::span<const std::vector<std::int64_t>> software_memory = {};
  std::span<const MemoryPeak> memory_peaks = {};  // by rank class; empty: computed on request
  std::span<const Breakdown> breakdowns = {};     // by rank class; empty: computed on request
  const PowerRates* power = nullptr;              // null: the scenario has no block `power`

  [[nodiscard]] SelectedAlgorithm selected_algorithm(GroupId group, std::uint32_t call) const {
    const std::uint32_t group_class =
        selected_algorithms.empty() ? 0 : partition.class_of_group.at(group);
    return selected_algorithm_of(selected_algorithms, workload, group_class, call);
  }
  // Returns the time of one step: the mean over the steps that the run plays and the exchanges that
  // follow several of them.
  [[nodiscard]] double step_s() const { return timeline.makespan_s / facts.steps + exchange_s(); }
  // Returns the part of a step in the exchange between workers that train apart.
  [[nodiscard]] double exchange_s() const {
    const auto& local = facts.local_steps;
    return local ? local->exchange_s / static_cast<double>(local->every) : 0.0;
  }
  [[nodiscard]] Breakdown breakdown_of(std::size_t rank_class) const {
    Breakdown times = breakdowns.empty() ? breakdown(workload, partition, timeline, rank_class)
                                         : breakdowns[rank_class];
    for (double& seconds : times.seconds) seconds /= facts.steps;
    times.seconds[static_cast<std::size_t>(TimeShare::ExposedData)] += exchange_s();
    return times;
  }
  // Returns the bytes that a program and the software around it hold throughout, by category.
  [[nodiscard]] std::vector<std::int64_t> resident_bytes_of(std::uint32_t program) const;
  // Returns the memory curve of a rank class, including the bytes of the software around the step.
  [[nodiscard]] std::vector<MemoryPoint> memory_curve_of(std::size_t rank_class) const;
  [[nodiscard]] MemoryPeak memory_peak_of(std::size_t rank_class) const {
    if (!memory_peaks.empty()) return memory_peaks[rank_class];
    return memory_peak(workload, partition, timeline, rank_class);
  }
};

}  // namespace trainyard
