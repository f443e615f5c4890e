#include "kernels/profile.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <sstream>

#include "kernels/roofline.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/workload/kernel_json.hpp"

namespace trainyard {

namespace {

constexpr const char* profile_folder = "kernels/profiles";
constexpr std::int64_t profile_schema_version = 1;

CommunicationSms read_communication_sms(JsonObject held, std::int64_t sms) {
  if (held.text("source").empty())
    held.report("source", "is empty", "name where the channel counts come from");
  const auto count = [&held, sms](const char* key) {
    return held.integer(key, {.fallback = {}, .least = 0, .most = sms});
  };
  return {.intra = count("intra"),
          .inter = count("inter"),
          .send_recv = count("send_recv"),
          .slowed = held.number("slowed", {.fallback = 0.0, .least = 0.0, .most = 0.9}),
          .compute_loss = held.number("compute_loss", {.fallback = 1.0, .least = 0.0, .most = 10})};
}

GpuSheet read_sheet(const std::filesystem::path& path, JsonObject& root) {
  GpuSheet sheet;
  sheet.name = path.stem().string();
  sheet.title = root.text("title");
  sheet.generation = root.choice("generation", tile_generations());
  sheet.derived_from = root.text("derived_from", "");
  JsonObject figures = root.object("sheet");
  sheet.sms = sourced(figures, "sms").integer("value", {.least = 1});
  sheet.bf16 = sourced(figures, "bf16").flops_rate("value");
  sheet.fp16 = sourced(figures, "fp16").flops_rate("value");
  sheet.tf32 = sourced(figures, "tf32").flops_rate("value");
  sheet.fp32 = sourced(figures, "fp32").flops_rate("value");
  sheet.fp8 = sourced(figures, "fp8").flops_rate("value");
  if (figures.has("fp4")) sheet.fp4 = sourced(figures, "fp4").flops_rate("value");
  sheet.hbm = sourced(figures, "hbm").rate("value");
  sheet.memory = sourced(figures, "memory").bytes("value");
  sheet.l2 = sourced(figures, "l2").bytes("value");
  sheet.host_link = sourced(figures, "host_link").rate("value");
  if (figures.has("power_w"))
    sheet.power_w = sourced(figures, "power_w").number("value", {.least = 1, .most = 1e5});
  sheet.communication_sms = read_communication_sms(root.object("communication_sms"), sheet.sms);
  return sheet;
}

std::vector<std::int64_t> read_axis(JsonObject& axes, const char* key) {
  std::istringstream words(axes.text(key));
  std::vector<std::int64_t> nodes;
  for (std::int64_t node = 0; words >> node;) {
    if (node <= 0 || (!nodes.empty() && node <= nodes.back()))
      axes.report(key, "has nodes that do not ascend from 1", "list the grid in ascending order");
    nodes.push_back(node);
  }
  if (nodes.empty() || !words.eof()) {
    axes.report(key, "is not a list of whole numbers", "write \"64 128 256\"");
    nodes = {1};
  }
  return nodes;
}

// Efficiencies in ten-thousandths, one line per value of the first axes. "~" marks a node that the
// fit filled.
struct EfficiencyTable {
  std::vector<double> share;
  std::vector<bool> measured;
};

EfficiencyTable read_efficiencies(JsonObject& table, std::size_t expected) {
  EfficiencyTable read;
  for (const std::string& line : table.texts("efficiency_1e4")) {
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      const bool filled = word.front() == '~';
      int value = 0;
      const char* end = word.data() + word.size();
      const auto parsed = std::from_chars(word.data() + (filled ? 1 : 0), end, value);
      if (parsed.ec != std::errc{} || parsed.ptr != end || value <= 0 || value > 10000) {
        table.report(
            "efficiency_1e4", "holds \"" + word + "\"",
            "write ten-thousandths of the roofline from 1 to 10000, ~ before filled nodes");
        value = 1;
      }
      read.share.push_back(value / 10000.0);
      read.measured.push_back(!filled);
    }
  }
  if (read.share.size() != expected) {
    table.report("efficiency_1e4",
                 "has " + std::to_string(read.share.size()) + " values for " +
                     std::to_string(expected) + " nodes",
                 "give one value for each combination of the axes");
    read.share.resize(expected, 1.0);
    read.measured.resize(expected, false);
  }
  return read;
}

void read_provenance(JsonObject& section) {
  JsonObject provenance = section.object("provenance");
  if (provenance.text("table").empty() || provenance.text("command").empty())
    provenance.report("table", "is empty", "say what was fitted on which rows by which command");
  for (const std::string& key : provenance.keys()) provenance.ignore(key);
}

DataType read_dtype(JsonObject& table) {
  for (const DataType dtype :
       {DataType::Fp32, DataType::Tf32, DataType::Bf16, DataType::Fp16, DataType::Fp8})
    if (table.choice("dtype", {"fp32", "tf32", "bf16", "fp16", "fp8"}) == to_string(dtype))
      return dtype;
  return DataType::Bf16;
}

// Converts the stored share of the roofline at each node into log(measured / model).
GemmTable gemm_table(const GpuSheet& sheet, const TileModel& model, DataType dtype,
                     const std::array<std::vector<std::int64_t>, 3>& axes, EfficiencyTable read) {
  std::vector<double> corrections;
  std::size_t node = 0;
  double best_share = 0.0;
  for (const std::int64_t m : axes[0])
    for (const std::int64_t n : axes[1])
      for (const std::int64_t k : axes[2]) {
        const Gemm gemm{.m = m, .n = n, .k = k, .dtype = dtype};
        const Seconds bound = roofline(flops(gemm), hbm_bytes(gemm), sheet.peak(dtype), sheet.hbm);
        // Only nodes that were measured and that arithmetic limits tell which share of the peak is
        // reached.
        if (bound <= flops(gemm) / sheet.peak(dtype) && read.measured[node])
          best_share = std::max(best_share, read.share[node]);
        corrections.push_back(
            std::log(bound / read.share[node++] / tile_model_time(sheet, model, gemm)));
      }
  return {dtype, Surface({axes[0], axes[1], axes[2]}, std::move(corrections)),
          std::move(read.measured), best_share > 0.0 ? best_share : 1.0};
}

GemmModel read_gemm(const GpuSheet& sheet, JsonObject& root) {
  GemmModel model;
  if (!root.has("gemm")) return model;
  JsonObject section = root.object("gemm");
  read_provenance(section);
  model.tile.launch = section.time("launch");
  model.tile.prologue = section.time("prologue");
  model.tile.bandwidth_efficiency =
      section.number("bandwidth_efficiency", {.least = 0.1, .most = 1});
  model.tile.largest_tile = section.number("largest_tile", {.least = 0.1, .most = 1});
  model.tile.tile_exponent = section.number("tile_exponent", {.least = 0, .most = 1});
  model.sustained_time =
      sourced(section, "sustained_time").number("value", {.least = 1, .most = 10});
  model.accumulation_exposed =
      sourced(section, "accumulation_exposed").number("value", {.least = 0, .most = 2});
  model.pass.data_grad =
      sourced(section, "data_grad_time").number("value", {.least = 0.1, .most = 10});
  model.pass.weight_grad =
      sourced(section, "weight_grad_time").number("value", {.least = 0.1, .most = 10});
  JsonObject axes = section.object("axes");
  const std::array grid = {read_axis(axes, "m"), read_axis(axes, "n"), read_axis(axes, "k")};
  for (JsonObject& table : section.objects("tables")) {
    const DataType dtype = read_dtype(table);
    auto read = read_efficiencies(table, grid[0].size() * grid[1].size() * grid[2].size());
    model.tables.push_back(gemm_table(sheet, model.tile, dtype, grid, std::move(read)));
  }
  return model;
}

// Logarithms of factors in thousandths, one line per value of the first axes.
std::vector<double> read_log_factors(JsonObject& table, std::size_t expected) {
  std::vector<double> factors;
  for (const std::string& line : table.texts("log_factor_1e3")) {
    std::istringstream words(line);
    int value = 0;
    while (words >> value) factors.push_back(value / 1e3);
    if (!words.eof())
      table.report("log_factor_1e3", "holds \"" + line + "\"", "write whole thousandths");
  }
  if (factors.size() != expected) {
    table.report("log_factor_1e3",
                 "has " + std::to_string(factors.size()) + " values for " +
                     std::to_string(expected) + " nodes",
                 "give one value for each combination of the axes");
    factors.resize(expected, 0.0);
  }
  return factors;
}

GroupedModel read_grouped(JsonObject& root) {
  GroupedModel model;
  if (!root.has("grouped_gemm")) return model;
  JsonObject section = root.object("grouped_gemm");
  read_provenance(section);
  if (section.has("module_overhead")) {
    model.module_overhead = sourced(section, "module_overhead").time("value");
    model.module_traffic =
        sourced(section, "module_traffic").number("value", {.least = 0, .most = 1});
  }
  if (section.has("issue")) model.issue = sourced(section, "issue").time("value");
  JsonObject axes = section.object("axes");
  const std::array grid = {read_axis(axes, "rows"), read_axis(axes, "experts"),
                           read_axis(axes, "weights_1024")};
  for (JsonObject& table : section.objects("tables")) {
    const DataType dtype = read_dtype(table);
    auto factors = read_log_factors(table, grid[0].size() * grid[1].size() * grid[2].size());
    model.tables.push_back({dtype, Surface({grid[0], grid[1], grid[2]}, std::move(factors))});
  }
  return model;
}

AttentionTable attention_table(const GpuSheet& sheet, const AttentionModel& model, std::int64_t dim,
                               const std::array<std::vector<std::int64_t>, 2>& axes,
                               const EfficiencyTable& read) {
  std::vector<double> corrections;
  std::size_t node = 0;
  for (const std::int64_t sequence : axes[0])
    for (const std::int64_t heads : axes[1]) {
      const Attention a = table_attention(sequence, heads, dim);
      const Seconds bound = flops(a) / sheet.peak(a.dtype);
      corrections.push_back(
          std::log(bound / read.share[node++] / attention_model_time(sheet, model, a)));
    }
  return {dim, Surface({axes[0], axes[1]}, std::move(corrections))};
}

AttentionModel read_attention(const GpuSheet& sheet, JsonObject& root) {
  AttentionModel model;
  if (!root.has("attention")) return model;
  JsonObject section = root.object("attention");
  read_provenance(section);
  model.launch = section.time("launch");
  model.forward_efficiency = section.number("forward_efficiency", {.least = 0.01, .most = 1});
  model.backward_relative =
      sourced(section, "backward_relative").number("value", {.least = 0.01, .most = 2});
  model.table_append = section.rate("table_append_rate");
  if (section.has("latent_time")) {
    JsonObject latent = section.object("latent_time");
    static_cast<void>(latent.text("source"));
    model.latent_forward = latent.number("forward", {.least = 0.1, .most = 10});
    model.latent_backward = latent.number("backward", {.least = 0.1, .most = 10});
  }
  JsonObject axes = section.object("axes");
  const std::array grid = {read_axis(axes, "sequence"), read_axis(axes, "batch_heads")};
  for (JsonObject& table : section.objects("tables")) {
    const std::int64_t dim = table.integer("head_dim", {.least = 1});
    const auto read = read_efficiencies(table, grid[0].size() * grid[1].size());
    model.tables.push_back(attention_table(sheet, model, dim, grid, read));
  }
  return model;
}

MemoryModel read_memory(JsonObject& root) {
  MemoryModel model;
  if (!root.has("memory_bound")) return model;
  JsonObject section = root.object("memory_bound");
  read_provenance(section);
  model.floor = sourced(section, "floor").time("value");
  model.bandwidth_efficiency =
      sourced(section, "bandwidth_efficiency").number("value", {.least = 0.1, .most = 1});
  model.measured_here = section.boolean("measured_here");
  return model;
}

// Slowdown of GEMMs on this GPU over the sibling's efficiencies, where it was measured.
double read_gemm_time(JsonObject& root) {
  if (!root.has("gemm_time")) return 1.0;
  return sourced(root, "gemm_time").number("value", {.least = 1, .most = 10});
}

// Kernels in the format of workload files, as `trainyard profile merge` writes them.
std::vector<MeasuredKernel> read_measured_kernels(JsonObject& root) {
  std::vector<MeasuredKernel> measured;
  if (!root.has("measured")) return measured;
  JsonObject section = root.object("measured");
  JsonObject provenance = section.object("provenance");
  for (const std::string& key : provenance.keys()) provenance.ignore(key);
  if (section.text("source").empty())
    section.report("source", "is empty", "name the GPU, driver and date of the measurements");
  for (JsonObject& row : section.objects("rows")) {
    JsonObject kernel = row.object("kernel");
    const double microseconds = row.number("time_us", {.least = 0});
    if (microseconds <= 0.0) row.report("time_us", "is not positive");
    (void)row.integer("repetitions", {.fallback = 1, .least = 1});
    const bool in_step = row.boolean("in_step", false);
    measured.push_back({read_kernel(kernel), Seconds{microseconds * 1e-6}, in_step});
  }
  return measured;
}

void read_schema(JsonObject& root) {
  (void)root.choice("schema", {"trainyard.gpu_profile"});
  (void)root.integer("version", {.least = profile_schema_version, .most = profile_schema_version});
}

double read_static_power(JsonObject& root) {
  if (!root.has("static_power_w")) return 0.0;
  return sourced(root, "static_power_w").number("value", {.least = 0, .most = 1e5});
}

double read_clock_exponent(JsonObject& root) {
  if (!root.has("clock_exponent")) return GpuProfile{}.clock_exponent;
  return sourced(root, "clock_exponent").number("value", {.least = 0, .most = 1});
}

std::vector<std::string> measured_gpus() {
  std::vector<std::string> names = data_names(profile_folder);
  std::erase_if(names, [](const std::string& name) {
    return JsonFile::read(data_file(profile_folder, name)).document().contains("derived_from");
  });
  return names;
}

// A data sheet without tables names a measured GPU and inherits from it the figures that it does
// not give.
JsonFile profile_file(const std::filesystem::path& path) {
  JsonFile file = JsonFile::read(path);
  const nlohmann::ordered_json own = file.document();
  if (!own.is_object()) return file;
  const auto measured = own.find("derived_from");
  if (measured == own.end()) {
    if (own.contains("gemm")) return file;
    throw InputError(Problem{
        path.string(), "/derived_from", "is missing, and no kernel is measured",
        fmt::format("name the measured GPU most like it: {}", fmt::join(measured_gpus(), ", "))});
  }
  if (!measured->is_string()) return file;
  const std::filesystem::path sibling = data_file(profile_folder, measured->get<std::string>());
  if (std::filesystem::equivalent(sibling, path)) return file;
  nlohmann::ordered_json told = JsonFile::read(sibling).document();
  nlohmann::ordered_json whole = nlohmann::ordered_json::object();
  for (const char* key : {"generation", "sheet", "communication_sms"})
    if (told.contains(key)) whole[key] = told[key];
  // Power scales clocks only together with the peak of the same GPU (sustained_at), so the power of
  // another GPU is not inherited.
  if (whole.contains("sheet")) whole["sheet"].erase("power_w");
  whole.merge_patch(own);
  return JsonFile::parse(path.string(), whole.dump());
}

// The tables of a measured GPU are shares of *its* roofline, so its own sheet converts them into
// corrections.
GpuProfile read_measured(const std::filesystem::path& path, JsonFile& file) {
  JsonObject root = file.root();
  read_schema(root);
  GpuProfile profile;
  profile.sheet = read_sheet(path, root);
  profile.gemm = read_gemm(profile.sheet, root);
  profile.grouped = read_grouped(root);
  profile.attention = read_attention(profile.sheet, root);
  profile.memory = read_memory(root);
  profile.gemm_time = read_gemm_time(root);
  profile.static_power_w = read_static_power(root);
  profile.clock_exponent = read_clock_exponent(root);
  profile.measured = read_measured_kernels(root);
  return profile;
}

// Reading profiles would take most of the time of a small run apart from its engine, so they are
// cached.
const GpuProfile& load_one(const std::string& name_or_path) {
  const auto read = [](const std::filesystem::path& path) {
    JsonFile file = profile_file(path);
    GpuProfile profile = read_measured(path, file);
    file.finish();
    return profile;
  };
  return read_once<GpuProfile>(data_file(profile_folder, name_or_path), read);
}

// The sustained time of a sibling GPU with another power limit. Back-to-back GEMMs take longer than
// single ones at boost clock because of power. A part of the power does not depend on the clock
// (leakage, memory, fabric). The rest is dynamic and proportional to frequency times voltage
// squared. The clock that a GPU holds therefore scales as a power of its limit minus the static
// part: the exponent is a third where the voltage falls with the clock, and one where the voltage
// cannot fall further. The boost clock behind the data sheet's peak does not enter: at equal power,
// a GPU with a higher peak reaches a smaller share of it. The result is at least 1, because boost
// clock is the highest.
//
// Example: 1.343 at 1000 W, of which 300 W are static, becomes 1.235 at 1200 W with an exponent of
// a third and an equal peak. Attention, whose tables hold in training on the GPU they were measured
// on (1.0 at 700 W, 210 W of them static), becomes 1.19 at 500 W.
double sustained_at(double sustained_time, const GpuProfile& measured, const GpuSheet& sheet) {
  const double own_w = measured.sheet.power_w;
  const double fixed_w = measured.static_power_w;
  if (own_w <= fixed_w || sheet.power_w <= fixed_w) return sustained_time;
  const double clock =
      std::pow((sheet.power_w - fixed_w) / (own_w - fixed_w), measured.clock_exponent);
  const double peak = sheet.peak(DataType::Bf16) / measured.sheet.peak(DataType::Bf16);
  return std::max(1.0, sustained_time * peak / clock);
}

}  // namespace

GpuProfile load_profile(const std::string& name_or_path) {
  GpuProfile profile = load_one(name_or_path);
  if (profile.sheet.derived_from.empty()) return profile;
  GpuProfile sibling = load_one(profile.sheet.derived_from);
  if (!sibling.sheet.derived_from.empty())
    throw InputError(Problem{name_or_path, "/derived_from",
                             "names " + sibling.sheet.name + ", which is derived itself",
                             "name the GPU that was measured: " + sibling.sheet.derived_from});
  // The derived GPU has its own data sheet, GEMM factor and measured kernels. Everything fitted is
  // the sibling's, at the clock that this GPU's power allows.
  sibling.gemm.sustained_time = sustained_at(sibling.gemm.sustained_time, sibling, profile.sheet);
  sibling.attention.clock_time = sustained_at(sibling.attention.clock_time, sibling, profile.sheet);
  sibling.sheet = profile.sheet;
  sibling.gemm_time = profile.gemm_time;
  sibling.measured = std::move(profile.measured);
  if (profile.memory.measured_here)
    sibling.memory = profile.memory;
  else
    sibling.memory.measured_here = false;
  return sibling;
}

GpuSheet read_profile_sheet(const std::filesystem::path& path) {
  JsonFile file = profile_file(path);
  JsonObject root = file.root();
  read_schema(root);
  GpuSheet sheet = read_sheet(path, root);
  for (const std::string& key : root.keys()) root.ignore(key);
  file.finish();
  return sheet;
}

}  // namespace trainyard
