#include "scenarios/simulate/power.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "kernels/gpu.hpp"
#include "models/power/power.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

// A ring reads its part from memory, and reads and writes what it receives, for each byte that it
// sends (kernels/gpu.hpp, CommunicationSms).
constexpr double kMemoryBytesPerSentByte = 3.0;

// A kind of GPU with its cap in watts.
struct Powered {
  PowerData data;
  GpuSheet sheet;
  double cap_w = 0.0;
};

PowerData power_of(const GpuSheet& sheet) {
  return load_power(sheet.name, sheet.generation, sheet.power_w);
}

// A cluster of one node has no NICs in its topology. Its node has them all the same, one for each
// GPU as in the measured nodes.
std::uint32_t nics_of_node(const Cluster& cluster) {
  const std::uint32_t gpus = cluster.facts().gpus_per_node;
  if (cluster.nic_of_gpu().size() < gpus) return gpus;
  const auto first = cluster.nic_of_gpu().begin();
  return static_cast<std::uint32_t>(std::set<DeviceId>(first, first + gpus).size());
}

std::uint32_t switches_of(const Cluster& cluster) {
  std::uint32_t switches = 0;
  for (DeviceId id = 0; id < cluster.device_count(); ++id)
    if (is_fabric_switch(cluster.device(id).kind)) ++switches;
  return switches;
}

double cap_of(const PowerData& data, const Scenario& scenario, const Cluster& cluster) {
  const PowerSettings& settings = *scenario.power;
  const double gpus = cluster.facts().gpus_per_node;
  double cap_w = data.gpu.limit_w;
  if (settings.gpu_cap_w) cap_w = std::min(cap_w, *settings.gpu_cap_w);
  if (settings.node_cap_w)
    cap_w = std::min(
        cap_w, gpu_cap_of_node_cap_w(data, gpus, nics_of_node(cluster), *settings.node_cap_w));
  const double least = std::max(data.gpu.static_w(), data.gpu.idle_w);
  if (cap_w > least) return cap_w;
  const double least_node = node_power_w(data, gpus, nics_of_node(cluster), gpus * least);
  throw InputError(Problem{
      .file = scenario.file,
      .pointer = settings.gpu_cap_w ? "/power/gpu_cap_w" : "/power/node_cap_w",
      .problem = fmt::format("{} W cannot be kept at any clock",
                             settings.gpu_cap_w ? *settings.gpu_cap_w : *settings.node_cap_w),
      .hint = fmt::format("give more than {:.0f} W", settings.gpu_cap_w ? least : least_node)});
}

PeakShares peak_shares_of(const GpuSheet& sheet, const Kernel& kernel, double seconds) {
  if (seconds <= 0.0) return {};
  const double bytes = hbm_bytes(kernel).value() / (seconds * sheet.hbm.value());
  const auto dtype_peak = [&](DataType dtype) { return sheet.peak(dtype).value(); };
  const double peak = std::visit(
      [&](const auto& one) {
        if constexpr (requires { one.dtype; })
          return dtype_peak(one.dtype);
        else
          return 0.0;
      },
      kernel);
  const double tensor = peak > 0.0 ? flops(kernel).value() / (seconds * peak) : 0.0;
  return {.tensor = std::min(1.0, tensor), .memory = std::min(1.0, bytes)};
}

// The rates of one cluster, by kind of GPU.
class Rates {
 public:
  Rates(const LoweredStep& step, const PowerSettings& settings, KernelPricings& pricings)
      : step_(step),
        settings_(settings),
        pricings_(pricings),
        nics_(nics_of_node(*step.cluster)),
        switches_(switches_of(*step.cluster)) {}

  PowerRates all(std::vector<Cost>& costs) {
    PowerRates rates = of_nodes();
    const Workload& workload = *step_.lowered->workload;
    for (std::size_t kernel = 0; kernel < workload.kernels.size(); ++kernel)
      add_kernel(kernel, costs[kernel], rates);
    rates.gpus.resize(workload.programs.size());
    for (const Rank& rank : workload.ranks)
      // Ranks of one program are on GPUs of one kind (specialise()), so the first of them rates it.
      if (rates.gpus[rank.program].limit_w <= 0.0)
        rates.gpus[rank.program] = of_gpu(of(step_.cluster->gpu_kind(rank.gpu).profile),
                                          stage_clock(settings_, workload.programs[rank.program]));
    return rates;
  }

 private:
  const Powered& of(const std::string& gpu) {
    const auto known = powered_.find(gpu);
    if (known != powered_.end()) return known->second;
    const GpuSheet& sheet = pricings_.of(gpu).gpu.sheet;
    PowerData data = power_of(sheet);
    const double cap_w = cap_of(data, *step_.software, *step_.cluster);
    return powered_.emplace(gpu, Powered{std::move(data), sheet, cap_w}).first->second;
  }

  void add_kernel(std::size_t index, Cost& cost, PowerRates& rates) {
    const Powered& gpu = of(step_.lowered->gpu_of_kernel[index]);
    const Kernel& kernel = step_.lowered->workload->kernels[index];
    const PeakShares use = peak_shares_of(gpu.sheet, kernel, cost.time.value());
    const double watts = kernel_power_w(gpu.data.gpu, use);
    const double clock = std::min(step_.lowered->clock_of_kernel[index],
                                  clock_under_cap(gpu.data.gpu, watts, gpu.cap_w));
    cost.time = cost.time * slowdown_at_clock(use, clock);
    rates.kernel_w.push_back(std::min(power_at_clock_w(gpu.data.gpu, watts, clock), gpu.cap_w));
    rates.compute_bound.push_back(use.tensor > use.memory);
  }

  static GpuRates of_gpu(const Powered& gpu, double clock) {
    const GpuPower& power = gpu.data.gpu;
    const double waiting_w = power_at_clock_w(power, power.idle_w + power.active_w, clock);
    return {.idle_w = power.idle_w,
            .waiting_w = std::min(waiting_w, gpu.cap_w),
            .limit_w = gpu.cap_w,
            .traffic_j_per_byte = power.memory_w * kMemoryBytesPerSentByte / gpu.sheet.hbm.value()};
  }

  // Each node has the mean of all nodes, where they are of several kinds (power_assumptions). A
  // GPU counts as its share of a node of its kind.
  PowerRates of_nodes() {
    const Cluster& cluster = *step_.cluster;
    const double share = 1.0 / static_cast<double>(cluster.gpus().size());
    PowerRates rates;
    for (std::uint32_t gpu = 0; gpu < cluster.gpus().size(); ++gpu) {
      const PowerData& data = of(cluster.gpu_kind(gpu).profile).data;
      rates.host_w += share * data.node.host_w_per_gpu * cluster.facts().gpus_per_node;
      rates.nic_w += share * data.node.nic_w * nics_;
      rates.switch_w += share * data.node.switch_w * switches_;
      rates.fan_share += share * data.node.fan_share;
      rates.supply_loss += share * data.node.supply_loss;
      rates.idle_gpu_w += share * data.gpu.idle_w;
    }
    rates.pue = settings_.pue;
    rates.nodes_per_rack = static_cast<std::uint32_t>(settings_.nodes_per_rack);
    return rates;
  }

  const LoweredStep& step_;
  const PowerSettings& settings_;
  KernelPricings& pricings_;
  double nics_;
  double switches_;
  std::map<std::string, Powered> powered_;
};

}  // namespace

std::optional<PowerRates> power_under_cap(const LoweredStep& step, KernelPricings& pricings,
                                          std::vector<Cost>& costs) {
  if (step.software == nullptr || !step.software->power) return {};
  return Rates(step, *step.software->power, pricings).all(costs);
}

std::vector<std::string> power_assumptions(const Cluster& cluster) {
  std::vector<std::string> sentences;
  std::vector<std::string> gpus{cluster.facts().gpu};
  for (const GpuKind& kind : cluster.facts().mixed_gpus) gpus.push_back(kind.profile);
  std::sort(gpus.begin(), gpus.end());
  gpus.erase(std::unique(gpus.begin(), gpus.end()), gpus.end());
  if (gpus.size() > 1)
    sentences.emplace_back(
        "hosts, NICs, fans and losses of every node are the mean of those of all nodes");
  for (const std::string& gpu : gpus) {
    const PowerData data = power_of(load_gpu_sheet(gpu));
    if (!data.derived) continue;
    sentences.push_back(fmt::format(
        "the power of {} is that of {}, scaled by the limit ({:.0f} W){}", gpu, data.measured,
        data.gpu.limit_w, data.own_generation ? "" : "; no GPU of its generation was measured"));
  }
  return sentences;
}

}  // namespace trainyard
