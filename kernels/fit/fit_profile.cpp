#include "kernels/fit/fit_profile.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/expert_module.hpp"
#include "kernels/fit/attention_fit.hpp"
#include "kernels/fit/gemm_fit.hpp"
#include "kernels/fit/grouped_fit.hpp"
#include "kernels/fit/samples.hpp"
#include "kernels/fit/single_fit.hpp"
#include "kernels/profile.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/base/units.hpp"

namespace trainyard::fit {

namespace {

// Fitted numbers and their evidence, as they are written to a profile's JSON:
//
//    {{"unseen_shapes", errors_json(errors)}, {"data_grad_time", figure_json(figure)}}

using json = nlohmann::ordered_json;

constexpr const char* command = "fit_kernels measured/kernels kernels/profiles";
constexpr const char* csv_source = "ai-dynamo/aiconfigurator tables (Apache-2.0, NVIDIA)";

// Shares are rounded to four decimals, times to a nanosecond.
double rounded(double x) { return std::round(x * 1e4) / 1e4; }
Seconds rounded(Seconds t) { return Seconds{std::round(t.value() * 1e9) / 1e9}; }

json errors_json(const Errors& errors) {
  return {{"shapes", errors.count},
          {"median", rounded(errors.median)},
          {"p95", rounded(errors.p95)},
          {"bias", rounded(errors.bias)}};
}

json figure_json(const Figure& figure) {
  return {{"value", rounded(figure.value)}, {"source", figure.source}};
}

// For example "1 64 128".
std::string axis_text(const std::vector<std::int64_t>& axis) {
  return fmt::format("{}", fmt::join(axis, " "));
}

// Every module of a GPU's table, and the errors on modules that were left out of the fit.
struct ModulePart {
  ExpertTable table;
  json errors = json::object();
};

ModulePart judged_modules(const Target& target, const FitRequest& request,
                          const GpuProfile& profile) {
  const auto file = request.measured / "moe" / target.table;
  ModulePart part;
  for (const std::string& routing : read_routings(file))
    for (const char* precision : module_precisions) {
      const auto samples = read_module_samples(file, precision, routing);
      if (samples.medians.empty()) continue;
      const ModuleErrors errors = held_out_modules(profile, samples.medians, {});
      fmt::print("{} modules {} {}: unseen shapes {}; of kinds never measured {}\n", target.profile,
                 precision, routing, to_text(errors.series), to_text(errors.model));
      part.errors[fmt::format("{} {}", precision, routing)] = {
          {"rows", samples.rows},
          {"shapes", samples.medians.size()},
          {"unseen_shapes", errors_json(errors.series)},
          {"model_alone", errors_json(errors.model)}};
      add_series(part.table, samples.medians);
    }
  return part;
}

void write_modules(const Target& target, const FitRequest& request, const ModulePart& part) {
  if (request.profiles.empty()) return;
  std::set<std::int64_t> counts;
  std::set<std::pair<std::string, std::string>> columns;
  for (const auto& [kind, series] : part.table.series) {
    columns.insert({kind.precision, kind.routing});
    for (const auto& [tokens, seconds] : series) counts.insert(tokens);
  }
  const std::vector<std::int64_t> tokens(counts.begin(), counts.end());
  json document = {{"schema", "trainyard.expert_modules"},
                   {"version", 1},
                   {"provenance",
                    {{"table", fmt::format("kernels/moe/{}, medians of equal rows", target.table)},
                     {"source", csv_source},
                     {"command", command},
                     {"date", request.date},
                     {"held_out", "every fifth shape on average, drawn with seed 1"},
                     {"errors", part.errors}}},
                   {"columns",
                    "hidden inner gated topk experts tensor_parallel expert_parallel : "
                    "microseconds at each of tokens"},
                   {"tokens", axis_text(tokens)},
                   {"tables", json::array()}};
  for (const auto& [precision, routing] : columns)
    document["tables"].push_back(
        {{"precision", precision},
         {"routing", routing},
         {"time_us", table_lines(part.table, tokens, precision, routing)}});
  write_file(request.profiles.parent_path() / "modules" / (std::string(target.profile) + ".json"),
             document.dump(1) + "\n");
}

// Prints the errors on left-out modules of each precision and routing, and writes the document if
// profiles are written.
void fit_modules(const Target& target, const FitRequest& request, const GpuProfile& profile) {
  write_modules(target, request, judged_modules(target, request, profile));
}

// The STREAM rows of a profile: the GPU of the rows, and that GPU's bandwidth on its data sheet.
struct StreamTarget {
  const char* profile;
  const char* gpu;
  double sheet_rate;
  bool measured_here;
};

constexpr std::array streams = {StreamTarget{"a100_80gb", "A100-80GB", 2.039e12, true},
                                StreamTarget{"a100_40gb", "A100-40GB", 1.555e12, true},
                                StreamTarget{"h100", "H100-PCIe", 2.0e12, false},
                                StreamTarget{"b200", "H100-PCIe", 2.0e12, false}};

// A derived GPU on which a search over shapes found much less than the sibling's efficiency.
struct BestTarget {
  const char* profile;
  const char* sibling;
  const char* gpu;
};
constexpr std::array bests = {BestTarget{"mi300x", "h100", "MI300X"}};

std::filesystem::path profile_file(const FitRequest& request, const char* name) {
  if (request.profiles.empty()) return data_file("kernels/profiles", name);
  return request.profiles / (std::string(name) + ".json");
}

// One line per value of all axes but the last. Values are in units of 1e-4; "~" marks those that no
// row has measured.
json efficiency_json(const std::vector<double>& share, const std::vector<bool>& measured,
                     std::size_t line) {
  json lines = json::array();
  for (std::size_t start = 0; start < share.size(); start += line) {
    std::string text;
    for (std::size_t i = start; i < start + line; ++i)
      text += fmt::format("{}{}{}", i > start ? " " : "", measured[i] ? "" : "~",
                          std::max(1L, std::lround(share[i] * 1e4)));
    lines.push_back(text);
  }
  return lines;
}

// The fitted GEMM parts of one GPU.
struct GemmPart {
  GemmModel model;
  std::array<std::vector<std::int64_t>, 3> axes;
  json tables = json::array();
  json evidence = json::object();  // rows and errors of each dtype
  Figure sustained;
  Figure accumulation;
  Figure data_grad;
  Figure weight_grad;
};

void fit_dtype(const Target& target, const GpuSheet& sheet, const GemmSamples& samples,
               DataType dtype, GemmPart& part) {
  const auto fit = fit_gemm_table(sheet, dtype, part.model.tile, samples.medians, part.axes);
  part.model.tables.push_back(table_of(sheet, dtype, fit));
  part.tables.push_back(
      {{"dtype", to_string(dtype)},
       {"efficiency_1e4", efficiency_json(fit.share, fit.measured, part.axes[2].size())}});
  const auto unseen = held_out_gemm(sheet, dtype, samples.medians, {});
  const auto widths = held_out_widths(sheet, dtype, samples.medians);
  fmt::print("{} gemm {}: unseen shapes {}; unseen widths {}\n", target.profile, to_string(dtype),
             to_text(unseen), to_text(widths));
  part.evidence[std::string(to_string(dtype))] = {{"rows", samples.rows},
                                                  {"shapes", samples.medians.size()},
                                                  {"unseen_shapes", errors_json(unseen)},
                                                  {"unseen_widths", errors_json(widths)}};
  if (!samples.taken_out.empty()) {
    json& evidence = part.evidence[std::string(to_string(dtype))];
    evidence["quantisation_taken_out"] = to_json(samples.taken_out);
    evidence["shapes_mostly_quantisation"] = samples.left_out;
  }
}

GemmPart fit_gemm(const Target& target, const GpuSheet& sheet, const FitRequest& request,
                  const Published& published) {
  const auto file = request.measured / "gemm" / target.table;
  GemmPart part;
  for (const DataType dtype : {DataType::Bf16, DataType::Fp8}) {
    const auto samples = read_gemm_samples(file, std::string(to_string(dtype)));
    if (samples.medians.empty() || sheet.peak(dtype).value() <= 0.0) continue;
    // The constants of the tile model are fitted on bf16, because fp8 rows also quantise their
    // operands.
    if (part.model.tables.empty()) {
      part.axes = grid_of(samples.medians);
      part.model.tile = fit_tile_model(sheet, dtype, samples.medians);
    }
    fit_dtype(target, sheet, samples, dtype, part);
  }
  part.sustained = sustained_time(sheet, part.model, published, target.layers);
  return part;
}

// Fits the factors of the gradient layouts, from rows of a GPU whose profile has already been
// fitted.
void fit_passes(const Target& target, const GpuSheet& timed, const GemmModel& timed_model,
                const Published& published, GemmPart& part) {
  // The prediction must not contain the factors that are fitted here.
  GemmModel plain = timed_model;
  plain.pass = {};
  const auto figure = [&](GemmPass pass) {
    return pass_time(timed, plain, published, target.layouts, pass);
  };
  // The order matters: accumulation needs the factor of data gradients, and the factor of weight
  // gradients is fitted with the accumulation known.
  part.data_grad = figure(GemmPass::DataGrad);
  part.accumulation =
      accumulation_exposed(timed, plain, published, target.layouts, part.data_grad.value);
  plain.accumulation_exposed = part.accumulation.value;
  part.model.accumulation_exposed = part.accumulation.value;
  part.weight_grad = figure(GemmPass::WeightGrad);
  part.model.pass = {part.data_grad.value, part.weight_grad.value};
  fmt::print("{} gemm: sustained {:.3f}, accumulation {:.3f}, dgrad {:.3f}, wgrad {:.3f}\n",
             target.profile, part.sustained.value, part.accumulation.value, part.data_grad.value,
             part.weight_grad.value);
}

json gemm_section(const FitRequest& request, const Target& target, const GemmPart& part) {
  json provenance = {{"table", fmt::format("kernels/gemm/{}", target.table)},
                     {"source", csv_source},
                     {"command", command},
                     {"date", request.date},
                     {"held_out", "every fifth shape on average, drawn with seed 1"}};
  provenance.update(part.evidence);
  const TileModel& tile = part.model.tile;
  return {{"provenance", provenance},
          {"launch", exact_text(tile.launch)},
          {"prologue", exact_text(tile.prologue)},
          {"bandwidth_efficiency", tile.bandwidth_efficiency},
          {"largest_tile", tile.largest_tile},
          {"tile_exponent", tile.tile_exponent},
          {"sustained_time", figure_json(part.sustained)},
          {"accumulation_exposed", figure_json(part.accumulation)},
          {"data_grad_time", figure_json(part.data_grad)},
          {"weight_grad_time", figure_json(part.weight_grad)},
          {"axes",
           {{"m", axis_text(part.axes[0])},
            {"n", axis_text(part.axes[1])},
            {"k", axis_text(part.axes[2])}}},
          {"tables", part.tables}};
}

// Logarithms of the factors in units of 1e-3, one line per pair of values of the first two axes.
json factors_json(const GroupedFit& fit) {
  json lines = json::array();
  const std::size_t line = fit.axes[2].size();
  for (std::size_t start = 0; start < fit.log_factor.size(); start += line) {
    std::string text;
    for (std::size_t i = start; i < start + line; ++i)
      text += fmt::format("{}{}", i > start ? " " : "", std::lround(fit.log_factor[i] * 1e3));
    lines.push_back(text);
  }
  return lines;
}

// Fits the experts' GEMMs, with the profile's memory model for the rest of a module.
json grouped_section(const Target& target, const GpuSheet& sheet, const FitRequest& request,
                     const GemmPart& gemm, const Figure& issue) {
  const auto file = request.measured / "moe" / target.table;
  json provenance = {{"table", fmt::format("kernels/moe/{}, balanced rows", target.table)},
                     {"source", csv_source},
                     {"command", command},
                     {"date", request.date},
                     {"held_out", "every fifth shape on average, drawn with seed 1"}};
  json tables = json::array();
  json axes;
  GpuProfile profile = load_profile(target.profile);
  profile.gemm = gemm.model;
  profile.grouped = {};
  for (const DataType dtype : {DataType::Bf16, DataType::Fp8}) {
    const auto samples = read_module_samples(file, std::string(to_string(dtype)));
    if (samples.medians.empty() || sheet.peak(dtype).value() <= 0.0) continue;
    // Overhead and traffic of a module are fitted to bf16 and then serve both precisions.
    if (profile.grouped.tables.empty()) profile.grouped = fit_module_rest(profile, samples.medians);
    const GroupedFit fit = fit_grouped(profile, samples.medians);
    profile.grouped.tables.push_back(table_of(dtype, fit));
    provenance[std::string(to_string(dtype))] = {{"rows", samples.rows},
                                                 {"shapes", samples.medians.size()}};
    tables.push_back({{"dtype", to_string(dtype)}, {"log_factor_1e3", factors_json(fit)}});
    axes = {{"rows", axis_text(fit.axes[0])},
            {"experts", axis_text(fit.axes[1])},
            {"weights_1024", axis_text(fit.axes[2])}};
  }
  fit_modules(target, request, profile);
  provenance["errors"] = fmt::format("of whole modules: kernels/modules/{}.json", target.profile);
  return {
      {"provenance", provenance},
      {"module_overhead",
       {{"value", exact_text(rounded(profile.grouped.module_overhead))},
        {"source", "what no product and no traffic explains of the balanced bf16 modules"}}},
      {"module_traffic",
       {{"value", profile.grouped.module_traffic},
        {"source", "share of permuting and activation that explains these modules best"}}},
      {"issue", {{"value", exact_text(rounded(Seconds{issue.value}))}, {"source", issue.source}}},
      {"axes", axes},
      {"tables", tables}};
}

// Prints errors against published rows that were not part of the fit of the tables.
void print_attention_check(const Target& target, const GpuSheet& sheet, const AttentionFit& fit,
                           const Published& published) {
  if (!target.own_attention_pairs) return;
  for (const bool backward : {false, true}) {
    std::vector<double> ratios;
    for (const auto& row : published.attentions) {
      if (row.gpu != target.attention_pairs || row.backward != backward) continue;
      if (row.head_dim_qk != 128) continue;
      Attention a = table_attention(row.sequence, row.heads, row.head_dim_qk);
      a.kv_heads = row.kv_heads;
      a.backward = backward;
      const double rate = flops(a).value() / attention_cost(sheet, fit.model, a).time.value();
      // Predicted over measured time is measured over predicted rate.
      ratios.push_back(row.flops_rate / rate);
    }
    if (!ratios.empty())
      fmt::print("{} attention {}: time against published rows {}\n", target.profile,
                 backward ? "backward" : "forward", to_text(errors_of(ratios)));
  }
}

// Null where the profile's own generation has no such rows.
json latent_json(const Target& target, const GpuSheet& sheet, const AttentionModel& model,
                 const Published& published) {
  if (!target.own_attention_pairs) return nullptr;
  const Figure forward = latent_time(sheet, model, published, target.attention_pairs, false);
  const Figure backward = latent_time(sheet, model, published, target.attention_pairs, true);
  if (!forward.measured || !backward.measured) return nullptr;
  fmt::print("{} attention: latent {:.3f} forward, {:.3f} backward\n", target.profile,
             forward.value, backward.value);
  return {{"forward", rounded(forward.value)},
          {"backward", rounded(backward.value)},
          {"source", backward.source}};
}

json attention_section(const Target& target, const GpuSheet& sheet, const FitRequest& request,
                       const Published& published) {
  const auto samples = read_attention_samples(request.measured / "attention" / target.table,
                                              target.attention_backend);
  AttentionFit fit = fit_attention(sheet, samples.medians);
  const Figure relative = backward_relative(published, target.attention_pairs);
  fit.model.backward_relative = relative.value;
  const auto unseen = held_out_attention(sheet, samples.medians, {});
  fmt::print("{} attention: unseen shapes {}; backward {:.3f} of forward\n", target.profile,
             to_text(unseen), relative.value);
  print_attention_check(target, sheet, fit, published);
  const json latent = latent_json(target, sheet, fit.model, published);
  json tables = json::array();
  for (std::size_t d = 0; d < fit.head_dims.size(); ++d)
    tables.push_back(
        {{"head_dim", fit.head_dims[d]},
         {"efficiency_1e4", efficiency_json(fit.share[d], fit.measured[d], fit.axes[1].size())}});
  json section = {
      {"provenance",
       {{"table",
         fmt::format("kernels/attention/{}, backend {}", target.table, target.attention_backend)},
        {"source", csv_source},
        {"command", command},
        {"date", request.date},
        {"rows", samples.rows},
        {"shapes", samples.medians.size()},
        {"held_out", "every fifth shape on average, drawn with seed 1"},
        {"unseen_shapes", errors_json(unseen)}}},
      {"launch", exact_text(fit.model.launch)},
      {"forward_efficiency", fit.model.forward_efficiency},
      {"backward_relative", figure_json(relative)},
      {"table_append_rate", exact_text(fit.append)},
      {"axes", {{"sequence", axis_text(fit.axes[0])}, {"batch_heads", axis_text(fit.axes[1])}}},
      {"tables", tables}};
  if (!latent.is_null()) section["latent_time"] = latent;
  return section;
}

json memory_section(const StreamTarget& target, const FitRequest& request,
                    const Published& published) {
  const Figure share = stream_share(published, target.gpu, target.sheet_rate);
  const Figure floor = launch_floor(published);
  fmt::print("{} memory: {:.3f} of the bandwidth, floor {:.3f} us\n", target.profile, share.value,
             floor.value * 1e6);
  return {
      {"provenance",
       {{"table", "kernels/other.json"}, {"command", command}, {"date", request.date}}},
      {"floor", {{"value", exact_text(rounded(Seconds{floor.value}))}, {"source", floor.source}}},
      {"bandwidth_efficiency", figure_json(share)},
      {"measured_here", target.measured_here}};
}

// Sets sections of a profile, if profiles are written.
void update(const FitRequest& request, const char* name, const json& sections) {
  if (request.profiles.empty()) return;
  const auto file = profile_file(request, name);
  json document = parse_json(file.string(), read_file(file));
  for (const auto& [key, section] : sections.items()) document[key] = section;
  write_file(file, document.dump(1) + "\n");
}

}  // namespace

void fit_profiles(const FitRequest& request) {
  const Published published = read_published(request.measured / "other.json");
  const auto sheet_of = [&](const char* profile) {
    return read_profile_sheet(profile_file(request, profile));
  };
  // All GEMM tables are fitted first, because the layouts of one GPU may be priced by the profile
  // of another.
  std::map<std::string, GemmPart> gemms;
  for (const Target& target : targets)
    gemms[target.profile] = fit_gemm(target, sheet_of(target.profile), request, published);
  for (const Target& target : targets)
    fit_passes(target, sheet_of(target.layouts_profile), gemms.at(target.layouts_profile).model,
               published, gemms.at(target.profile));
  const Figure issue =
      issue_time(sheet_of(training_rows_profile), gemms.at(training_rows_profile).model, published,
                 training_rows_gpu);
  fmt::print("GEMMs of experts: at least {:.1f} us from one launch to the next\n",
             issue.value * 1e6);
  for (const Target& target : targets) {
    const GpuSheet sheet = sheet_of(target.profile);
    const GemmPart& gemm = gemms.at(target.profile);
    update(request, target.profile,
           {{"gemm", gemm_section(request, target, gemm)},
            {"grouped_gemm", grouped_section(target, sheet, request, gemm, issue)},
            {"attention", attention_section(target, sheet, request, published)}});
  }
  for (const StreamTarget& target : streams)
    update(request, target.profile, {{"memory_bound", memory_section(target, request, published)}});
  for (const BestTarget& target : bests) {
    const Figure factor = best_gemm_time(sheet_of(target.profile), gemms.at(target.sibling).model,
                                         published, target.gpu);
    fmt::print("{} gemm: {:.3f} times the sibling's\n", target.profile, factor.value);
    update(request, target.profile, {{"gemm_time", figure_json(factor)}});
  }
}

}  // namespace trainyard::fit
