#include "scenarios/jobs/simulate_jobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "models/power/prices.hpp"
#include "scenarios/jobs/job_power.hpp"
#include "scenarios/jobs/placement.hpp"
#include "scenarios/jobs/traffic.hpp"
#include "scenarios/simulate/approximations.hpp"
#include "scenarios/simulate/balance.hpp"
#include "scenarios/simulate/facts.hpp"
#include "scenarios/simulate/folded.hpp"
#include "scenarios/simulate/interference.hpp"
#include "scenarios/simulate/kernel_pricing.hpp"
#include "scenarios/simulate/memory_overheads.hpp"
#include "scenarios/simulate/play.hpp"
#include "scenarios/simulate/power.hpp"
#include "scenarios/simulate/refusals.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

// A job on its GPUs: its step, lowered and priced.
struct PlacedJob {
  const JobSpec* spec = nullptr;
  std::vector<std::uint32_t> gpus = {};
  std::shared_ptr<const Lowered> step = {};
  std::vector<Cost> costs = {};  // by kernel of the step
  std::optional<PowerRates> power = {};
  bool interferes = false;
};

KernelSoftware software_of(const JobSpec& spec) {
  return spec.scenario ? kernel_software(*spec.scenario) : KernelSoftware{};
}

// Repeats what a function throws with the job's entry in the file. What is wrong in a job's own
// scenario is reported there.
template <class Work>
auto for_job(const Jobs& jobs, std::size_t number, const char* field, const Work& work) {
  try {
    return work();
  } catch (const Cancelled&) {
    throw;
  } catch (const RefusedCall& refused) {
    if (jobs.all[number].scenario) name_refused_choice(*jobs.all[number].scenario, refused);
    throw;
  } catch (const Deadlock& deadlock) {
    if (jobs.all[number].scenario) refuse_blocked_sends(*jobs.all[number].scenario, deadlock);
    throw;
  } catch (const RunError& error) {
    throw InputError(Problem{.file = jobs.file,
                             .pointer = fmt::format("/jobs/{}{}", number, field),
                             .problem = error.what(),
                             .hint = ""});
  }
}

// Places jobs whose GPUs the file names first, so that the others get what these leave. Traffic may
// be named GPUs that a job has.
std::vector<std::vector<std::uint32_t>> place(const Jobs& jobs, const Cluster& cluster) {
  FreeGpus free(cluster);
  std::vector<std::vector<std::uint32_t>> gpus(jobs.all.size());
  for (const bool named : {true, false})
    for (std::size_t number = 0; number < jobs.all.size(); ++number) {
      const JobSpec& job = jobs.all[number];
      if (names_gpus(job.placement) != named || job.placement.kind == PlacementKind::With) continue;
      gpus[number] = for_job(jobs, number, "/placement", [&] {
        return named && job.traffic ? named_gpus(cluster, job.placement, job.gpus)
                                    : free.take(job.placement, job.gpus);
      });
    }
  for (std::size_t number = 0; number < jobs.all.size(); ++number) {
    const JobSpec& job = jobs.all[number];
    if (job.placement.kind != PlacementKind::With) continue;
    const auto other = std::ranges::find(jobs.all, job.placement.job, &JobSpec::name);
    gpus[number] = gpus[static_cast<std::size_t>(other - jobs.all.begin())];
    if (job.gpus > gpus[number].size())
      throw InputError(Problem{
          .file = jobs.file,
          .pointer = fmt::format("/jobs/{}/gpus", number),
          .problem = fmt::format("is {}, and job {} has {}", job.gpus, other->name, other->gpus),
          .hint = "leave it out for all of them"});
    gpus[number].resize(job.gpus);
  }
  return gpus;
}

using GpuKinds = std::map<std::string, std::size_t>;  // how many of each

GpuKinds kinds_of(const Cluster& cluster, const std::vector<std::uint32_t>& gpus) {
  const std::vector<GpuKind>& mixed = cluster.facts().mixed_gpus;
  if (mixed.empty()) return {{cluster.facts().gpu, gpus.size()}};
  GpuKinds kinds;
  for (const std::uint32_t gpu : gpus) ++kinds[mixed.at(gpu).profile];
  return kinds;
}

std::string to_text(const GpuKinds& kinds) {
  std::vector<std::string> texts;
  for (const auto& [kind, count] : kinds) texts.push_back(fmt::format("{} {}", count, kind));
  return fmt::format("{}", fmt::join(texts, " and "));
}

// The precisions of a job, its memory and its price are checked on the GPUs of its scenario, so it
// must run on GPUs of the same kinds.
void check_kinds(const Jobs& jobs, std::size_t number, const Cluster& cluster,
                 const std::vector<std::uint32_t>& gpus) {
  const JobSpec& job = jobs.all[number];
  if (!job.scenario) return;
  const std::shared_ptr<const Cluster> own = shared_cluster(job.scenario->cluster);
  std::vector<std::uint32_t> all(own->gpus().size());
  std::iota(all.begin(), all.end(), 0U);
  const GpuKinds described = kinds_of(*own, all);
  const GpuKinds placed = kinds_of(cluster, gpus);
  if (placed == described) return;
  throw InputError(Problem{
      .file = jobs.file,
      .pointer = fmt::format("/jobs/{}/placement", number),
      .problem = fmt::format("gives it {}, and its scenario is of {}", to_text(placed),
                             to_text(described)),
      .hint = "name nodes of one kind, such as {\"nodes\": [4, 5]}; a job on several kinds needs a "
              "scenario with a cluster of its own"});
}

class JobsSimulation {
 public:
  JobsSimulation(const Jobs& jobs, const JobsOptions& options, Memo& memo)
      : jobs_(jobs), options_(options), memo_(memo), cluster_(shared_cluster(jobs.cluster)) {
    const std::vector<std::vector<std::uint32_t>> gpus = place(jobs, *cluster_);
    for (std::size_t number = 0; number < jobs_.all.size(); ++number) {
      check_kinds(jobs_, number, *cluster_, gpus[number]);
      placed_.push_back(
          for_job(jobs_, number, "", [&] { return placed_job(jobs_.all[number], gpus[number]); }));
      share_work(number);
    }
    rate_traffic();
  }

  [[nodiscard]] JobsResult result() {
    JobsResult result;
    for (std::size_t number = 0; number < placed_.size(); ++number)
      result.jobs.push_back(alone(number));
    const bool counted =
        std::ranges::any_of(jobs_.all, [](const JobSpec& job) { return job.steps.has_value(); });
    result.counted = counted;
    if (counted) {
      play_counted(result);
    } else {
      play_until_repeated(result);
    }
    result.sharing = link_sharing(result.parts, *result.run.partition, result.run.timeline,
                                  result.begin_s, result.end_s);
    if (result.run.power) add_power(result);
    return result;
  }

 private:
  [[nodiscard]] PlacedJob placed_job(const JobSpec& spec, const std::vector<std::uint32_t>& gpus) {
    PlacedJob job{.spec = &spec, .gpus = gpus};
    job.interferes = spec.scenario && spec.scenario->interference;
    job.step = std::make_shared<const Lowered>(
        spec.scenario ? lowered_for(*spec.scenario,
                                    placed_workload(*spec.scenario, *cluster_, gpus), *cluster_)
                      : Lowered(traffic_step(*spec.traffic, gpus), *cluster_));
    KernelPricings pricings(software_of(spec), memo_);
    job.costs = price_kernels(*job.step, pricings, job.interferes, {});
    if (spec.scenario) job.power = rates_of(job, *spec.scenario, pricings);
    return job;
  }

  // Replaces "balance": "auto" by the shares of the job alone on its GPUs.
  void share_work(std::size_t number) {
    JobSpec& spec = jobs_.all[number];
    if (!spec.scenario || spec.scenario->plan.parallelism.balance != Balance::Auto) return;
    const Scenario whole = *spec.scenario;
    const auto run_with = [&](const Scenario& shared) {
      spec.scenario = shared;
      placed_[number] = placed_job(spec, placed_[number].gpus);
      JobsResult played;
      play({number}, {1}, false, played);
      MemoryFound memory = find_memory(played.run.view(), shared.plan.framework);
      played.run.software_memory = std::move(memory.software);
      played.run.memory_peaks = std::move(memory.peaks);
      return std::move(played.run);
    };
    for_job(jobs_, number, "", [&] {
      const Result best = simulate_balanced(whole, run_with);
      spec.scenario = best.facts.balance ? with_shares(whole, *best.facts.balance) : whole;
      placed_[number] = placed_job(spec, placed_[number].gpus);
      return 0;
    });
  }

  // Slows the kernels of the job where its block `power` says so.
  [[nodiscard]] std::optional<PowerRates> rates_of(PlacedJob& job, const Scenario& software,
                                                   KernelPricings& pricings) const {
    return power_under_cap({.cluster = cluster_, .lowered = job.step, .software = &software},
                           pricings, job.costs);
  }

  // Caps and clocks are those of the job that trains, and not of traffic.
  [[nodiscard]] static Scenario without_limits(Scenario scenario) {
    scenario.power->gpu_cap_w.reset();
    scenario.power->node_cap_w.reset();
    scenario.power->stage_clocks.clear();
    return scenario;
  }

  // Traffic has the power of communication of the first job that trains with a block `power`.
  void rate_traffic() {
    const auto first =
        std::ranges::find_if(placed_, [](const PlacedJob& job) { return job.power.has_value(); });
    if (first == placed_.end()) return;
    KernelPricings pricings(software_of(*first->spec), memo_);
    for (PlacedJob& job : placed_) {
      if (!job.spec->traffic) continue;
      job.power = rates_of(job, without_limits(*first->spec->scenario), pricings);
      if (on_gpus_of_others(job)) share_gpus(*job.power);
    }
  }

  [[nodiscard]] bool on_gpus_of_others(const PlacedJob& traffic) const {
    return std::ranges::any_of(placed_, [&](const PlacedJob& other) {
      return &other != &traffic &&
             std::ranges::find_first_of(other.gpus, traffic.gpus) != other.gpus.end();
    });
  }

  [[nodiscard]] static PowerTraces traces_of(const Result& run) {
    return power_traces(*run.cluster, *run.workload, *run.partition, run.timeline, *run.power);
  }

  // Traffic on the GPUs of other jobs adds the power of its bytes. The idle power of these GPUs
  // belongs to the others.
  [[nodiscard]] double joules_of_others(const PlacedJob& job, double time_s) const {
    if (!job.spec->traffic || !job.power || !on_gpus_of_others(job)) return 0.0;
    return job.power->idle_gpu_w * static_cast<double>(job.gpus.size()) * time_s;
  }

  // Jobs agree on the prices of the building (check_agrees() of jobs.cpp).
  [[nodiscard]] EnergyPrices building_prices() const {
    const auto first = std::ranges::find_if(
        jobs_.all, [](const JobSpec& job) { return job.scenario && job.scenario->power; });
    const PowerSettings& power = *first->scenario->power;
    return {.per_kwh = power.price_per_kwh, .kg_co2_per_kwh = power.kg_co2_per_kwh};
  }

  void add_power(JobsResult& result) const {
    const PowerTraces traces = traces_of(result.run);
    for (std::size_t job = 0; job < result.jobs.size(); ++job) {
      JobResult& one = result.jobs[job];
      const double until_s = one.from_s + one.steps * one.together_s;
      one.together_j = (gpus_joules(result.run, traces, result.parts[job], one.from_s, until_s) -
                        joules_of_others(placed_[job], until_s - one.from_s)) /
                       one.steps;
    }
    PowerTraces shown = between(traces, result.begin_s, result.end_s);
    const PowerPeaks peaks = power_peaks(shown);
    result.power = ClusterPower{
        .watts = std::move(shown.cluster), .peaks = peaks, .prices = building_prices()};
  }

  [[nodiscard]] JobResult alone(std::size_t number) {
    const PlacedJob& job = placed_[number];
    JobsResult played;
    for_job(jobs_, number, "", [&] {
      play({number}, {1}, false, played);
      return 0;
    });
    JobResult result{
        .name = job.spec->name, .gpus = job.gpus, .alone_s = played.run.timeline.makespan_s};
    if (played.run.power)
      result.alone_j = gpus_joules(played.run, traces_of(played.run), played.parts.front(), 0.0,
                                   result.alone_s) -
                       joules_of_others(job, result.alone_s);
    if (!job.spec->scenario) return result;
    const Scenario& scenario = *job.spec->scenario;
    result.tokens_per_step =
        scenario_facts(scenario, *shared_cluster(scenario.cluster), false).tokens_per_step;
    result.gpu_hour_cost = gpu_hour_cost(job);
    for (const MemoryPeak& peak :
         find_memory(played.run.view(), job.spec->scenario->plan.framework).peaks)
      result.peak_bytes = std::max(result.peak_bytes, peak.bytes);
    return result;
  }

  // The mean price of the job's GPUs, or else their capital.
  [[nodiscard]] std::optional<double> gpu_hour_cost(const PlacedJob& job) const {
    if (!job.spec->scenario->power) return {};
    const PowerSettings& power = *job.spec->scenario->power;
    double rent = 0.0;
    for (const auto& [kind, count] : kinds_of(*cluster_, job.gpus)) {
      const std::optional<double> price = price_of_gpu_hour(power, kind);
      if (!price)
        return capital_per_gpu_hour(
            {.capital_per_gpu = power.capital_per_gpu, .capital_years = power.capital_years});
      rent += *price * static_cast<double>(count);
    }
    return rent / static_cast<double>(job.gpus.size());
  }

  // Plays steps of the jobs together.
  void play(const std::vector<std::size_t>& numbers, const std::vector<std::uint32_t>& steps,
            bool delayed, JobsResult& result) {
    if (options_.stop.stop_requested()) throw Cancelled("the simulation was stopped");
    std::vector<JobSteps> together;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const PlacedJob& job = placed_[numbers[i]];
      together.push_back({.name = job.spec->name,
                          .step = job.step.get(),
                          .steps = steps[i],
                          .start = delayed ? job.spec->start : Seconds{0.0}});
    }
    JointWorkload joint = join_jobs(together);
    Lowered lowered(std::move(joint.specialised));
    lowered.hosts = std::move(joint.hosts);
    result.parts = std::move(joint.jobs);
    result.run = run_of(numbers, result.parts, lowered);
  }

  [[nodiscard]] Result run_of(const std::vector<std::size_t>& numbers,
                              const std::vector<JobPart>& parts, const Lowered& lowered) {
    FoldRequest question{.fold = options_.fold};
    // Only NCCL's settings and the profile of collectives count here, and check_agrees() of
    // jobs.cpp makes sure that those of all jobs are equal.
    for (const std::size_t number : numbers)
      if (const auto& scenario = placed_[number].spec->scenario)
        question.collectives = scenario->plan.collectives;
    const auto folded =
        std::make_shared<const Folded>(fold_workload(lowered, *cluster_, question, nullptr, memo_));
    Result run{.cluster = cluster_,
               .workload = lowered.workload,
               .partition = prioritised(folded, numbers, parts),
               .selected_algorithms = {folded, &folded->selected_algorithms}};
    run.facts.title = jobs_.description;
    run.facts.engine = jobs_.engine;
    std::vector<const PowerRates*> rates;
    for (const std::size_t number : numbers) {
      const PlacedJob& job = placed_[number];
      run.kernel_costs.insert(run.kernel_costs.end(), job.costs.begin(), job.costs.end());
      rates.push_back(job.power ? &*job.power : nullptr);
    }
    run.power = join_rates(rates);
    run.timeline = trainyard::play(
        run, lowered, interference_of(numbers, parts, lowered, *folded),
        {.contract = options_.contract, .progress = options_.progress, .stop = options_.stop});
    run.facts = with_run(std::move(run.facts), *cluster_, run.timeline, folded->approximations,
                         cost_approximations(lowered.used, run.kernel_costs));
    return run;
  }

  // Max-min fairness with weights is max-min fairness of flows whose bytes are counted in units of
  // the weight: a flow of weight w counts 1/w of its bytes, each of which loads its links w times.
  [[nodiscard]] std::shared_ptr<const Partition> prioritised(
      const std::shared_ptr<const Folded>& folded, const std::vector<std::size_t>& numbers,
      const std::vector<JobPart>& parts) const {
    std::shared_ptr<const Partition> plain{folded, &folded->partition};
    const auto priority = [&](std::uint32_t job) { return placed_[numbers[job]].spec->priority; };
    bool equal = true;
    for (std::uint32_t job = 0; job < numbers.size(); ++job)
      equal = equal && priority(job) == priority(0);
    if (equal) return plain;
    Partition partition = *plain;
    const std::vector<std::uint32_t> owners = job_of_group_class(parts, partition);
    for (FlowClass& flow : partition.flows) {
      const double weight = priority(owners[flow.group_class]);
      flow.payload_bytes /= weight;
      flow.rate_cap_bytes_per_s /= weight;
      if (flow.rate_alone) *flow.rate_alone /= weight;
      for (FlowClass::Weight& load : flow.weights) {
        load.weight *= weight;
        load.flow_load *= weight;
      }
    }
    return std::make_shared<const Partition>(std::move(partition));
  }

  // Each job's communication slows computation as its own software says.
  [[nodiscard]] Interference interference_of(const std::vector<std::size_t>& numbers,
                                             const std::vector<JobPart>& parts,
                                             const Lowered& lowered, const Folded& folded) {
    const std::vector<std::uint32_t> owners = job_of_group_class(parts, folded.partition);
    Interference all;
    for (std::uint32_t job = 0; job < numbers.size(); ++job) {
      if (!placed_[numbers[job]].interferes) continue;
      KernelPricings pricings(software_of(*placed_[numbers[job]].spec), memo_);
      // The losses of the calls of all jobs under the software of this one, which keeps those of
      // its own.
      Interference own = find_interference(*cluster_, lowered, folded, pricings);
      all.communication.resize(own.communication.empty() ? 0 : owners.size(), 0.0);
      if (all.compute.empty())
        for (const std::vector<double>& losses : own.compute)
          all.compute.emplace_back(losses.size(), 0.0);
      for (std::size_t group = 0; group < owners.size(); ++group) {
        if (owners[group] != job) continue;
        all.compute[group] = std::move(own.compute[group]);
        if (!own.communication.empty()) all.communication[group] = own.communication[group];
      }
    }
    return all;
  }

  [[nodiscard]] std::vector<std::size_t> everyone() const {
    std::vector<std::size_t> numbers;
    for (std::size_t number = 0; number < placed_.size(); ++number) numbers.push_back(number);
    return numbers;
  }

  // The number of steps with which a job is busy for `time_s` even if nothing slows it.
  [[nodiscard]] static std::uint32_t steps_within(const JobResult& job, double time_s) {
    constexpr double kMost = 100'000.0;
    const double steps = std::ceil(time_s / std::max(job.alone_s, 1e-9)) + 1.0;
    if (steps > kMost)
      throw RunError(
          fmt::format("{} makes {} steps in the time of one step of another job", job.name, steps));
    return static_cast<std::uint32_t>(steps);
  }

  void note_ends(JobsResult& result) const {
    const auto ends = job_step_ends(result.parts, *result.run.partition, result.run.timeline);
    for (std::size_t job = 0; job < ends.size(); ++job) result.jobs[job].ends_s = ends[job];
  }

  // Plays until all jobs with `steps` have made them. The others get enough steps not to run out
  // before.
  void play_counted(JobsResult& result) {
    // The time that the counted jobs take if nothing slows them. It doubles until the jobs without
    // a count last as long as those.
    double time_s = 0.0;
    for (std::size_t job = 0; job < placed_.size(); ++job)
      if (const auto& steps = jobs_.all[job].steps)
        time_s = std::max(time_s, jobs_.all[job].start.value() +
                                      static_cast<double>(*steps) * result.jobs[job].alone_s);
    for (bool enough = false; !enough; time_s *= 2.0) {
      std::vector<std::uint32_t> steps;
      for (std::size_t job = 0; job < placed_.size(); ++job)
        steps.push_back(static_cast<std::uint32_t>(
            jobs_.all[job].steps.value_or(steps_within(result.jobs[job], time_s))));
      play(everyone(), steps, true, result);
      note_ends(result);
      result.end_s = 0.0;
      for (std::size_t job = 0; job < placed_.size(); ++job)
        if (jobs_.all[job].steps)
          result.end_s = std::max(result.end_s, result.jobs[job].ends_s.back());
      enough = true;
      for (std::size_t job = 0; job < placed_.size(); ++job)
        enough = enough && (jobs_.all[job].steps || result.jobs[job].ends_s.back() >= result.end_s);
    }
    for (std::size_t job = 0; job < placed_.size(); ++job)
      summarise(result.jobs[job], jobs_.all[job].start.value(), 0.0, result.end_s);
  }

  void play_until_repeated(JobsResult& result) {
    double longest_s = 0.0;
    double start_s = 0.0;
    for (std::size_t job = 0; job < placed_.size(); ++job) {
      longest_s = std::max(longest_s, result.jobs[job].alone_s);
      start_s = std::max(start_s, jobs_.all[job].start.value());
    }
    const auto played = [&](std::uint32_t steps_of_longest) {
      std::vector<std::uint32_t> steps;
      steps.reserve(result.jobs.size());
      for (const JobResult& job : result.jobs)
        steps.push_back(steps_within(job, start_s + longest_s * steps_of_longest));
      play(everyone(), steps, true, result);
      note_ends(result);
      result.repetition = find_repetition(result.parts, *result.run.partition, result.run.timeline);
      return result.repetition.has_value();
    };
    // Each attempt plays all steps from the start, so doubling their number keeps the cost of all
    // attempts below twice that of the last one.
    constexpr std::uint32_t kFirst = 6;
    const bool dated = !cluster_->facts().timed_faults.empty();
    for (std::uint32_t steps = std::min(kFirst, options_.most_steps);; steps *= 2) {
      steps = std::min(steps, options_.most_steps);
      if (played(steps) || steps == options_.most_steps || dated) break;
      if (2 * result.run.timeline.counters.operations > options_.most_operations) break;
    }
    if (dated) result.repetition.reset();  // the links change at dates
    summarise_all(result);
  }

  // Without a repetition the first half of the time counts as the way to a steady state.
  void summarise_all(JobsResult& result) const {
    if (const auto& found = result.repetition) {
      result.begin_s = found->begin_s;
      result.end_s = found->begin_s + found->period_s;
      for (std::size_t job = 0; job < result.jobs.size(); ++job)
        summarise_steps(result.jobs[job], jobs_.all[job].start.value(), found->first[job],
                        found->first[job] + found->steps[job]);
      return;
    }
    result.end_s = result.jobs.front().ends_s.back();
    for (const JobResult& job : result.jobs)
      result.end_s = std::min(result.end_s, job.ends_s.back());
    result.begin_s = result.end_s / 2.0;
    for (std::size_t job = 0; job < result.jobs.size(); ++job)
      summarise(result.jobs[job], jobs_.all[job].start.value(), result.begin_s, result.end_s);
  }

  // Summarises the steps that begin and end between the two dates; at least the last one that ends.
  static void summarise(JobResult& job, double start_s, double begin_s, double end_s) {
    const auto first_end = std::ranges::lower_bound(job.ends_s, begin_s);
    const auto last_end = std::ranges::upper_bound(job.ends_s, end_s);
    auto first = static_cast<std::uint32_t>(first_end - job.ends_s.begin());
    if (begin_s > start_s) ++first;  // the step that is alive then began earlier
    const auto last = std::max(static_cast<std::uint32_t>(last_end - job.ends_s.begin()), 1U);
    summarise_steps(job, start_s, std::min(first, last - 1), last);
  }

  static void summarise_steps(JobResult& job, double start_s, std::uint32_t first,
                              std::uint32_t last) {
    double before_s = first == 0 ? start_s : job.ends_s[first - 1];
    job.from_s = before_s;
    job.together_s = (job.ends_s[last - 1] - before_s) / (last - first);
    job.steps = last - first;
    job.shortest_s = job.longest_s = job.ends_s[first] - before_s;
    for (std::uint32_t step = first; step < last; ++step) {
      job.shortest_s = std::min(job.shortest_s, job.ends_s[step] - before_s);
      job.longest_s = std::max(job.longest_s, job.ends_s[step] - before_s);
      before_s = job.ends_s[step];
    }
  }

  Jobs jobs_;  // with the shares of balanced jobs
  const JobsOptions& options_;
  Memo& memo_;
  std::shared_ptr<const Cluster> cluster_;
  std::vector<PlacedJob> placed_;
};

}  // namespace

std::optional<double> JobResult::cost_of_million_tokens(double step_s) const {
  if (!gpu_hour_cost) return {};
  const EnergyFigures figures{.step = {},
                              .step_s = step_s,
                              .gpus = static_cast<double>(gpus.size()),
                              .tokens_per_step = tokens_per_step,
                              .prices = {},
                              .gpu_hour_price = gpu_hour_cost};
  return figures.cost_of_tokens(1e6)->rent;
}

JobsResult simulate_jobs(const Jobs& jobs, const JobsOptions& options, Memo& memo) {
  return JobsSimulation(jobs, options, memo).result();
}

JobsResult simulate_jobs(const Jobs& jobs, const JobsOptions& options) {
  Memo memo;
  return simulate_jobs(jobs, options, memo);
}

}  // namespace trainyard
