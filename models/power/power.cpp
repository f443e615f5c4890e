#include "models/power/power.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

namespace {

constexpr const char* kFolder = "models/power/data";
constexpr double kWattsMost = 1e6;

double sourced(JsonObject& object, std::string_view key, double most) {
  JsonObject entry = object.object(key);
  static_cast<void>(entry.text("source"));
  return entry.number("value", {.least = 0.0, .most = most});
}

GpuPower read_gpu(JsonObject gpu) {
  return {.limit_w = sourced(gpu, "limit_w", kWattsMost),
          .idle_w = sourced(gpu, "idle_w", kWattsMost),
          .active_w = sourced(gpu, "active_w", kWattsMost),
          .tensor_w = sourced(gpu, "tensor_w", kWattsMost),
          .memory_w = sourced(gpu, "memory_w", kWattsMost),
          .static_share = sourced(gpu, "static_share", 1.0),
          .least_voltage = sourced(gpu, "least_voltage", 1.0)};
}

NodePower read_node(JsonObject node) {
  return {.host_w_per_gpu = sourced(node, "host_w_per_gpu", kWattsMost),
          .nic_w = sourced(node, "nic_w", kWattsMost),
          .fan_share = sourced(node, "fan_share", 1.0),
          .supply_loss = sourced(node, "supply_loss", 1.0),
          .switch_w = sourced(node, "switch_w", kWattsMost)};
}

// The generations that a file of measurements may stand for, its own first.
struct MeasuredPower {
  PowerData data;
  std::vector<std::string> generations;
};

// A file with `like` names the measured GPU; it has a limit, and may have the constants of caps.
struct PowerFile {
  std::optional<MeasuredPower> measured;
  std::string like = {};
  double limit_w = 0.0;
  std::optional<double> static_share = {};
  std::optional<double> least_voltage = {};
};

PowerFile read_power_file(const std::string& name) {
  JsonFile file = JsonFile::read(data_file(kFolder, name));
  JsonObject root = file.root();
  PowerFile found;
  static_cast<void>(root.text("title"));
  if (root.has("like")) {
    found.like = root.text("like");
    found.limit_w = sourced(root, "limit_w", kWattsMost);
    if (root.has("static_share")) found.static_share = sourced(root, "static_share", 1.0);
    if (root.has("least_voltage")) found.least_voltage = sourced(root, "least_voltage", 1.0);
  } else {
    found.measured = MeasuredPower{.data = {.gpu = read_gpu(root.object("gpu")),
                                            .node = read_node(root.object("node")),
                                            .measured = name},
                                   .generations = root.texts("generations")};
  }
  file.finish();
  return found;
}

PowerData scaled(const MeasuredPower& from, double limit_w, const std::string& generation) {
  PowerData data = from.data;
  const double factor = limit_w / data.gpu.limit_w;
  data.gpu.limit_w = limit_w;
  for (double* watts :
       {&data.gpu.idle_w, &data.gpu.active_w, &data.gpu.tensor_w, &data.gpu.memory_w})
    *watts *= factor;
  data.derived = true;
  data.own_generation = from.generations.front() == generation;
  return data;
}

// The file of measurements that stands for a generation; its own generation wins.
std::optional<MeasuredPower> measured_for(const std::string& generation) {
  std::optional<MeasuredPower> other;
  for (const std::string& name : data_names(kFolder)) {
    const PowerFile file = read_power_file(name);
    if (!file.measured) continue;
    const auto& generations = file.measured->generations;
    if (std::find(generations.begin(), generations.end(), generation) == generations.end())
      continue;
    if (generations.front() == generation) return file.measured;
    other = file.measured;
  }
  return other;
}

[[noreturn]] void refuse(const std::string& gpu, const std::string& what) {
  throw InputError(Problem{
      .file = {},
      .pointer = "/power",
      .problem = fmt::format("{} of the GPU \"{}\" is not known", what, gpu),
      .hint = fmt::format("leave out the block, or write {}/{}.json with its limit_w and the "
                          "measured GPU that it is like",
                          kFolder, gpu)});
}

double voltage(const GpuPower& gpu, double clock) { return std::max(clock, gpu.least_voltage); }

}  // namespace

double kernel_power_w(const GpuPower& gpu, const PeakShares& use) {
  return std::min(gpu.limit_w, gpu.idle_w + gpu.active_w + gpu.tensor_w * use.tensor +
                                   gpu.memory_w * use.memory);
}

// Solves (power_w - static) * r * v^2 = cap_w - static for the clock r. Where the voltage v equals
// r, r^3 is the share of the dynamic power that is left. Below the least voltage v is constant.
double clock_under_cap(const GpuPower& gpu, double power_w, double cap_w) {
  if (power_w <= cap_w) return 1.0;
  const double share = (cap_w - gpu.static_w()) / (power_w - gpu.static_w());
  const double cubic = std::cbrt(share);  // where the voltage follows the clock
  if (cubic >= gpu.least_voltage) return cubic;
  const double least = voltage(gpu, 0.0);
  return share / (least * least);
}

double power_at_clock_w(const GpuPower& gpu, double power_w, double clock) {
  const double dynamic_w = std::max(0.0, power_w - gpu.static_w());
  const double volt = voltage(gpu, clock);
  return power_w - dynamic_w * (1.0 - clock * volt * volt);
}

// A kernel at 40 % of the tensor cores' peak and 80 % of the bandwidth keeps its time down to half
// the clock.
double slowdown_at_clock(const PeakShares& use, double clock) {
  if (use.tensor <= 0.0) return 1.0;
  const double share = use.tensor > use.memory ? 1.0 : use.tensor / use.memory;
  return std::max(1.0, share / clock);
}

double node_power_w(const PowerData& data, double gpus, double nics, double gpus_w) {
  const NodePower& node = data.node;
  const double fans = node.fan_share * (gpus_w - gpus * data.gpu.idle_w);
  return (gpus * node.host_w_per_gpu + nics * node.nic_w + gpus_w + fans) *
         (1.0 + node.supply_loss);
}

double gpu_cap_of_node_cap_w(const PowerData& data, double gpus, double nics, double node_cap_w) {
  const NodePower& node = data.node;
  const double inside = node_cap_w / (1.0 + node.supply_loss);
  const double gpus_w = (inside - gpus * node.host_w_per_gpu - nics * node.nic_w +
                         node.fan_share * gpus * data.gpu.idle_w) /
                        (1.0 + node.fan_share);
  return gpus_w / gpus;
}

PowerData load_power(const std::string& gpu, const std::string& generation, double limit_w) {
  PowerFile own;
  if (find_data_file(kFolder, gpu)) {
    own = read_power_file(gpu);
    if (own.measured) return own.measured->data;
    limit_w = own.limit_w;
  }
  if (limit_w <= 0.0) refuse(gpu, "the power limit");
  const std::optional<MeasuredPower> from =
      own.like.empty() ? measured_for(generation) : read_power_file(own.like).measured;
  if (!from)
    refuse(gpu, own.like.empty() ? fmt::format("a measured GPU for the generation {}", generation)
                                 : fmt::format("the measured power in {}/{}.json, the \"like\"",
                                               kFolder, own.like));
  PowerData data = scaled(*from, limit_w, generation);
  if (own.static_share) data.gpu.static_share = *own.static_share;
  if (own.least_voltage) data.gpu.least_voltage = *own.least_voltage;
  return data;
}

}  // namespace trainyard
