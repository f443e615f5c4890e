#include "kernels/expert_module.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>

#include "sim/base/check.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

namespace {

constexpr const char* module_folder = "kernels/modules";
constexpr std::int64_t schema_version = 1;
constexpr double bf16_bytes = 2.0;

// Round figures are enough, because the measurements give the deviation from this trend.
constexpr Seconds trend_start{20e-6};
constexpr double trend_rate_share = 0.6;
constexpr double trend_bandwidth_share = 0.8;

DataType dtype_of(const ExpertModule& module) {
  return module.precision == "bf16" ? DataType::Bf16 : DataType::Fp8;
}

// Balanced routing: the rows are divided evenly, and the first experts get the remainder.
GroupedGemm gemm(const ExpertModule& module, std::int64_t n, std::int64_t k) {
  const auto experts = static_cast<std::size_t>(std::max<std::int64_t>(1, module.local_experts()));
  const auto count = static_cast<std::int64_t>(experts);
  const std::int64_t rows = std::max<std::int64_t>(1, module.rows());
  GroupedGemm gemm{.rows = std::vector<std::int64_t>(experts, rows / count),
                   .n = n,
                   .k = k,
                   .dtype = dtype_of(module)};
  for (std::int64_t i = 0; i < rows % count; ++i) ++gemm.rows[static_cast<std::size_t>(i)];
  return gemm;
}

// Coordinates for kriging: logarithms of rows per expert, experts, hidden and inner size, tokens
// and top-k, and whether the experts are gated.
Spot spot_of(const ExpertModule& m, std::size_t family) {
  const auto log = [](double x) { return std::log2(std::max(x, 1e-3)); };
  const auto local = static_cast<double>(std::max<std::int64_t>(1, m.local_experts()));
  return {.place = {log(static_cast<double>(m.tokens * m.topk) /
                        static_cast<double>(m.expert_parallel) / local),
                    log(local), log(static_cast<double>(m.hidden)),
                    log(static_cast<double>(m.local_inner())), log(static_cast<double>(m.tokens)),
                    log(static_cast<double>(m.topk)), m.gated ? 1.0 : 0.0},
          .family = family,
          .along = log(static_cast<double>(m.tokens))};
}

// Reads "2048 768 1 8 128 1 4: 57.2 ~ 80.1": the shape, then microseconds at each number of tokens.
void read_line(const std::string& line, const std::vector<std::int64_t>& tokens, ModuleKind kind,
               JsonObject& section, ExpertTable& table) {
  std::istringstream words(line);
  for (std::int64_t& extent : kind.shape) words >> extent;
  std::string word;
  bool sound = static_cast<bool>(words >> word) && word == ":";
  ModuleSeries series;
  for (const std::int64_t t : tokens) {
    sound = sound && static_cast<bool>(words >> word);
    if (!sound || word == "~") continue;
    std::istringstream number(word);
    double microseconds = 0.0;
    sound = static_cast<bool>(number >> microseconds) && microseconds > 0.0;
    series.emplace_back(t, microseconds * 1e-6);
  }
  if (!sound || *std::min_element(kind.shape.begin(), kind.shape.end()) < 0 || series.empty()) {
    section.report("time_us", "holds \"" + line + "\"",
                   "write seven whole numbers, a colon, and one time or ~ for each of tokens");
    return;
  }
  table.series[kind] = std::move(series);
}

std::vector<std::int64_t> read_tokens(JsonObject& root) {
  std::istringstream words(root.text("tokens"));
  std::vector<std::int64_t> tokens;
  for (std::int64_t t = 0; words >> t;) tokens.push_back(t);
  if (tokens.empty() || !words.eof() || !std::is_sorted(tokens.begin(), tokens.end()))
    root.report("tokens", "is not an ascending list of whole numbers", "write \"256 1024\"");
  return tokens;
}

}  // namespace

GroupedGemm up_gemm(const ExpertModule& m) {
  return gemm(m, (m.gated ? 2 : 1) * std::max<std::int64_t>(1, m.local_inner()), m.hidden);
}

GroupedGemm down_gemm(const ExpertModule& m) {
  return gemm(m, m.hidden, std::max<std::int64_t>(1, m.local_inner()));
}

Seconds module_rest_time(const GpuProfile& profile, const ExpertModule& m) {
  const auto rows = static_cast<double>(m.rows());
  const auto hidden = static_cast<double>(m.hidden);
  const auto inner = static_cast<double>(m.local_inner());
  // Permute writes the routed tokens in expert order; unpermute reads them and adds them up into
  // the tokens.
  const double permuting = (3.0 * rows + static_cast<double>(m.tokens)) * hidden * bf16_bytes +
                           (m.gated ? 3.0 : 2.0) * rows * inner * bf16_bytes;
  // In 8 bits both inputs are quantised: two bytes read and one written for each number.
  const double quantising = dtype_of(m) == DataType::Fp8 ? 3.0 * rows * (hidden + inner) : 0.0;
  const BytesPerSecond bandwidth{profile.sheet.hbm.value() * profile.memory.bandwidth_efficiency};
  return profile.grouped.module_overhead +
         Bytes{(permuting + quantising) * profile.grouped.module_traffic} / bandwidth;
}

Seconds module_model_time(const GpuProfile& profile, const ExpertModule& module) {
  GemmModel burst = profile.gemm;
  burst.sustained_time = 1.0;
  Seconds sum = module_rest_time(profile, module);
  for (const GroupedGemm& gemm : {up_gemm(module), down_gemm(module)})
    sum = sum + grouped_cost(profile.sheet, burst, profile.grouped, gemm).time;
  return sum;
}

ModuleKind kind_of(const ExpertModule& m) {
  return {m.precision,
          m.routing,
          {m.hidden, m.inner, m.gated ? 1 : 0, m.topk, m.experts, m.tensor_parallel,
           m.expert_parallel}};
}

ExpertModule module_of(const ModuleKind& kind, std::int64_t tokens) {
  const auto& [hidden, inner, gated, topk, experts, tensor, expert] = kind.shape;
  return {.tokens = tokens,
          .topk = topk,
          .experts = experts,
          .expert_parallel = expert,
          .tensor_parallel = tensor,
          .hidden = hidden,
          .inner = inner,
          .gated = gated != 0,
          .routing = kind.routing,
          .precision = kind.precision};
}

// A roofline of the whole module. Kriging interpolates the deviation of the measurements from it.
Seconds module_trend_time(const GpuSheet& sheet, const ExpertModule& m) {
  const auto rows = static_cast<double>(std::max<std::int64_t>(1, m.rows()));
  const auto hidden = static_cast<double>(m.hidden);
  const auto inner = static_cast<double>(m.local_inner());
  const double matrices = m.gated ? 3.0 : 2.0;
  // With fewer rows than experts, only as many experts read their weights.
  const double used = std::min(static_cast<double>(m.local_experts()), rows);
  const Flops work{2.0 * matrices * rows * hidden * inner};
  const double rows_bytes = 2.0 * bf16_bytes * (rows * inner + 2.0 * rows * hidden) +
                            2.0 * bf16_bytes * static_cast<double>(m.tokens) * hidden;
  const Bytes bytes{matrices * used * hidden * inner * element_bytes(dtype_of(m)) + rows_bytes};
  return trend_start + work / FlopsPerSecond{trend_rate_share * sheet.peak(dtype_of(m)).value()} +
         bytes / BytesPerSecond{trend_bandwidth_share * sheet.hbm.value()};
}

void prepare(ExpertTable& table, const GpuSheet& sheet) {
  table.observations.clear();
  // A family is one series: the same module with several numbers of tokens.
  std::size_t family = 0;
  for (const auto& [kind, series] : table.series) {
    for (const auto& [tokens, seconds] : series) {
      const ExpertModule module = module_of(kind, tokens);
      table.observations[{kind.precision, kind.routing}].push_back(
          {spot_of(module, family), std::log(seconds / module_trend_time(sheet, module).value())});
    }
    ++family;
  }
}

ExpertTable load_expert_table(const GpuProfile& profile) {
  const std::string& gpu = profile.sheet.name;
  ExpertTable table;
  const std::optional<std::filesystem::path> path = find_data_file(module_folder, gpu);
  if (!path) return table;
  JsonFile file = JsonFile::read(*path);
  JsonObject root = file.root();
  (void)root.choice("schema", {"trainyard.expert_modules"});
  (void)root.integer("version", {.least = schema_version, .most = schema_version});
  JsonObject provenance = root.object("provenance");
  if (provenance.text("source").empty())
    provenance.report("source", "is empty", "name where the times come from");
  for (const std::string& key : provenance.keys()) provenance.ignore(key);
  (void)root.text("columns");
  const std::vector<std::int64_t> tokens = read_tokens(root);
  for (JsonObject& section : root.objects("tables")) {
    const ModuleKind kind{section.text("precision"), section.text("routing"), {}};
    for (const std::string& line : section.texts("time_us"))
      read_line(line, tokens, kind, section, table);
  }
  file.finish();
  prepare(table, profile.sheet);
  return table;
}

std::vector<std::string> table_lines(const ExpertTable& table,
                                     const std::vector<std::int64_t>& tokens,
                                     const std::string& precision, const std::string& routing) {
  std::vector<std::string> lines;
  for (const auto& [kind, series] : table.series) {
    if (kind.precision != precision || kind.routing != routing) continue;
    std::string line = fmt::format("{} :", fmt::join(kind.shape, " "));
    for (const std::int64_t t : tokens) {
      const auto found = std::find_if(series.begin(), series.end(),
                                      [t](const auto& point) { return point.first == t; });
      line += found == series.end() ? " ~" : fmt::format(" {:.4g}", found->second * 1e6);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

Cost module_cost(const GpuProfile& profile, const ExpertTable& table, const ExpertModule& module) {
  TY_CHECK(module.tokens > 0 && module.hidden > 0 && module.inner > 0, module.tokens);
  // In this order: the measured time, kriging from the table's observations, the profile's models.
  const auto found = table.series.find(kind_of(module));
  const bool known = found != table.series.end();
  if (known)
    for (const auto& [tokens, seconds] : found->second)
      if (tokens == module.tokens) return {Seconds{seconds}, Provenance::Measured};
  const auto observations = table.observations.find({module.precision, module.routing});
  if (observations == table.observations.end())
    return {module_model_time(profile, module), Provenance::Extrapolated};
  // A kind that was not measured gets a family of its own, which has no observations. Only the
  // smooth field then contributes.
  const auto family = known ? static_cast<std::size_t>(std::distance(table.series.begin(), found))
                            : table.series.size();
  const double correction = kriged(observations->second, spot_of(module, family));
  // Only a measured series that encloses the number of tokens gives an interpolation.
  const bool between = known && found->second.front().first < module.tokens &&
                       module.tokens < found->second.back().first;
  return {module_trend_time(profile.sheet, module) * std::exp(correction),
          between ? Provenance::Interpolated : Provenance::Extrapolated};
}

}  // namespace trainyard
