#include "scenarios/simulate/step_interval.hpp"

#include <algorithm>
#include <variant>

#include "kernels/gpu.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/collectives/profile/profiled_model.hpp"
#include "sim/report/communication.hpp"
#include "sim/report/figures.hpp"
#include "sim/report/stage_summary.hpp"

namespace trainyard {

namespace {

constexpr std::size_t index_of(Uncertain kind) { return static_cast<std::size_t>(kind); }

constexpr std::string_view kProfiledStep = "a profiled step of such a run (`import kineto`)";
constexpr std::string_view kMeasuredKernels = "kernels measured on it (`profile measure`)";
constexpr std::string_view kMeasuredStep = "a measured step of such a run (`validate --against`)";

// By Uncertain.
constexpr std::array<UncertainKind, kUncertainKinds> kKinds{
    {{"gemms_8_bits", "8-bit GEMMs", kProfiledStep},
     {"gemms_4_bits", "4-bit GEMMs", kProfiledStep},
     {"experts", "experts' kernels", kProfiledStep},
     {"collectives_within_nodes", "collectives within a node",
      "a log of nccl-tests on one node (`import nccl-tests`)"},
     {"collectives_between_nodes", "collectives between nodes",
      "a log of nccl-tests on these nodes (`import nccl-tests`)"},
     {"dispatch", "dispatch and combine of tokens", kMeasuredStep},
     {"host", "the host", kMeasuredStep},
     {"software", "software and settings", kMeasuredStep},
     {"new_framework", "a framework without measured runs", kMeasuredStep},
     {"sibling_gpu", "kernels of a GPU priced by another one with its chip", kMeasuredKernels},
     {"sheet_gpu", "kernels of a GPU known by its data sheet", kMeasuredKernels}}};

// Measured runs do not tell the uncertainty of 16-bit GEMMs, attention and elementwise kernels from
// that of the software, so these kernels have no kind.
std::optional<Uncertain> kind_of(const Kernel& kernel, bool four_bit_gemms) {
  if (const auto* gemm = std::get_if<Gemm>(&kernel)) {
    if (gemm->dtype != DataType::Fp8) return std::nullopt;
    return four_bit_gemms ? Uncertain::Gemms4 : Uncertain::Gemms8;
  }
  if (std::holds_alternative<GroupedGemm>(kernel)) return Uncertain::Experts;
  const auto* bound = std::get_if<MemoryBound>(&kernel);
  const bool permutes = bound != nullptr && bound->kind == MemoryBoundKind::Permute;
  return permutes ? std::optional(Uncertain::Experts) : std::nullopt;
}

// Divides the computing share of the step among kinds of kernels, in proportion to their time.
// Kernels that were measured themselves have no kind.
void add_kernels(UncertainShares& shares, double computing, const Scenario& scenario,
                 const RunView& view) {
  const std::vector<double> seconds = kernel_time(view);
  double busy = 0.0;
  for (const double time_s : seconds) busy += time_s;
  if (busy <= 0.0) return;
  for (std::size_t kernel = 0; kernel < seconds.size(); ++kernel) {
    if (view.kernel_costs[kernel].provenance == Provenance::Measured) continue;
    const std::optional<Uncertain> kind =
        kind_of(view.workload.kernels[kernel], scenario.plan.recipe.four_bit_gemms);
    if (kind) shares[index_of(*kind)] += computing * seconds[kernel] / busy;
  }
}

// Adds the share of kernels that no measurement of this GPU prices.
void add_derived_gpu(UncertainShares& shares, double computing, const GpuSheet& sheet,
                     const RunView& view) {
  if (sheet.derived_from.empty()) return;
  const GpuSheet measured_gpu = load_gpu_sheet(sheet.derived_from);
  const bool sibling = measured_gpu.generation == sheet.generation && measured_gpu.sms == sheet.sms;
  const double measured = cost_summary(view, 0).of(Provenance::Measured);
  shares[index_of(sibling ? Uncertain::SiblingGpu : Uncertain::SheetGpu)] =
      computing * (1.0 - measured);
}

constexpr std::array<std::pair<TimeShare, GroupKind>, 5> kExposed{
    {{TimeShare::ExposedTensor, GroupKind::Tensor},
     {TimeShare::ExposedPipeline, GroupKind::Pipeline},
     {TimeShare::ExposedData, GroupKind::Data},
     {TimeShare::ExposedContext, GroupKind::Context},
     {TimeShare::ExposedOther, GroupKind::Other}}};

// Returns the share of the time of a kind's collectives that no profile of collectives determines.
double modelled_share(const std::vector<CollectiveSummary>& calls, GroupKind kind) {
  double all_s = 0.0, modelled_s = 0.0;
  for (const CollectiveSummary& call : calls) {
    if (call.group != kind) continue;
    all_s += call.time_s;
    if (!call.selected_algorithm.label.starts_with(kProfileLabel)) modelled_s += call.time_s;
  }
  return all_s > 0.0 ? modelled_s / all_s : 1.0;
}

void add_communication(UncertainShares& shares, const Breakdown& mean, const Scenario& scenario,
                       const RunView& view) {
  const bool profiled = !scenario.plan.collectives.profile.empty();
  const auto calls = profiled ? collective_summary(view) : std::vector<CollectiveSummary>{};
  for (const auto& [share, kind] : kExposed) {
    const bool crosses = crosses_nodes(view, kind);
    shares[index_of(crosses ? Uncertain::BetweenNodes : Uncertain::WithinNodes)] +=
        modelled_share(calls, kind) * mean.of(share) / view.step_s();
  }
}

// Predictions with the same cause are off together.
std::string cause_of(Uncertain kind, const Scenario& scenario, const GpuSheet& sheet) {
  switch (kind) {
    case Uncertain::Host:
    case Uncertain::Software:
    case Uncertain::NewFramework:
      return scenario.framework;
    case Uncertain::BetweenNodes:
      return std::string(fabric_entry(scenario.cluster.fabric.kind).name);
    case Uncertain::WithinNodes:
    case Uncertain::Dispatch:
      return scenario.cluster.node.name;
    case Uncertain::SiblingGpu:
    case Uncertain::SheetGpu:
      return sheet.name;
    default:
      return sheet.derived_from.empty() ? sheet.name : sheet.derived_from;
  }
}

}  // namespace

Uncertainty load_uncertainty() {
  JsonFile file = JsonFile::read(data_file("models/uncertainty", "steps"));
  JsonObject root = file.root();
  static_cast<void>(root.text("source"));
  Uncertainty table{.correlation = root.number("correlation", {.least = 0.0, .most = 1.0}),
                    .runs = static_cast<std::size_t>(root.integer("runs")),
                    .sources = static_cast<std::size_t>(root.integer("sources")),
                    .frameworks = root.texts("frameworks")};
  JsonObject deviations = root.object("deviation");
  for (std::size_t kind = 0; kind < kUncertainKinds; ++kind) {
    table.deviation.at(kind) = deviations.number(kKinds.at(kind).key, {.least = 0.0});
  }
  file.finish();
  return table;
}

const UncertainKind& texts_of(Uncertain kind) { return kKinds.at(index_of(kind)); }

UncertainShares uncertain_shares(const Scenario& scenario, const RunView& view) {
  UncertainShares shares{};
  const Breakdown mean = mean_breakdown(stage_breakdown(view));
  const auto share = [&](TimeShare part) { return mean.of(part) / view.step_s(); };
  const double computing = share(TimeShare::Compute) + share(TimeShare::Optimizer);
  add_kernels(shares, computing, scenario, view);
  add_derived_gpu(shares, computing, load_gpu_sheet(scenario.cluster.node.gpu), view);
  add_communication(shares, mean, scenario, view);
  shares[index_of(Uncertain::Dispatch)] = share(TimeShare::ExposedExpert);
  shares[index_of(Uncertain::Host)] = share(TimeShare::Host) + share(TimeShare::ExposedHost);
  shares[index_of(Uncertain::Software)] = 1.0;
  return shares;
}

std::optional<StepInterval> step_interval(const Scenario& scenario, const RunView& view) {
  if (scenario.defaults == Defaults::Ideal || !(view.step_s() > 0.0)) return std::nullopt;
  const Uncertainty table = load_uncertainty();
  UncertainShares shares = uncertain_shares(scenario, view);
  if (std::ranges::find(table.frameworks, scenario.framework) == table.frameworks.end())
    shares[index_of(Uncertain::NewFramework)] = 1.0;
  const GpuSheet sheet = load_gpu_sheet(scenario.cluster.node.gpu);
  StepInterval interval{.step_s = view.step_s(),
                        .correlation = table.correlation,
                        .runs = table.runs,
                        .sources = table.sources};
  for (std::size_t kind = 0; kind < kUncertainKinds; ++kind) {
    const double deviation = shares.at(kind) * table.deviation.at(kind);
    if (deviation <= 0.0) continue;
    interval.parts.push_back({.name = std::string(kKinds.at(kind).name),
                              .cause = cause_of(static_cast<Uncertain>(kind), scenario, sheet),
                              .share = shares.at(kind),
                              .deviation = deviation,
                              .remedy = std::string(kKinds.at(kind).remedy)});
  }
  std::ranges::stable_sort(interval.parts, std::greater{}, &UncertainPart::deviation);
  return interval;
}

}  // namespace trainyard
