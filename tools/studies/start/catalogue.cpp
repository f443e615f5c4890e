#include "tools/studies/start/catalogue.hpp"

#include <fmt/format.h>

#include "kernels/gpu.hpp"
#include "models/architecture/architecture.hpp"
#include "models/document_lengths.hpp"
#include "models/framework_file.hpp"
#include "models/host.hpp"
#include "models/power/prices.hpp"
#include "models/schedules/schedule.hpp"
#include "scenarios/reader/reliability.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/collectives/collective.hpp"
#include "sim/engine/engine.hpp"
#include "sim/report/report.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

namespace {

// The rows of a data folder: `summary` describes the file of a name. A file of the user has its
// path.
template <class Summary>
std::vector<CatalogueRow> described(const char* folder, const std::vector<std::string>& names,
                                    const Summary& summary) {
  std::vector<CatalogueRow> rows;
  for (const std::string& name : names) {
    const auto own = own_data_file(folder, name);
    rows.push_back({name, summary(name) + (own ? " (" + own->string() + ")" : "")});
  }
  return rows;
}

// "70.6 B parameters, 80 layers of 8192"; of a mixture of experts also what a token uses.
std::string model_summary(const std::string& name) {
  constexpr double kBillion = 1e9;
  const Architecture model = load_architecture(name);
  const auto billions = [](std::int64_t parameters) {
    const double count = static_cast<double>(parameters) / kBillion;
    return count < 999.5 ? fmt::format("{:.3g} B", count) : fmt::format("{:.3g} T", count / 1e3);
  };
  const std::int64_t all = parameter_count(model);
  const std::int64_t active = active_parameter_count(model);
  return fmt::format("{} parameters{}, {} layers of {}", billions(all),
                     active < all ? fmt::format(" ({} active)", billions(active)) : "",
                     model.layers, model.hidden);
}

// "8 x h100, 450 GB/s each way between them, 8 NICs of 50 GB/s" (nominal rates).
std::string node_summary(const std::string& name) {
  const NodeSpec node = load_node(name);
  std::string text = fmt::format("{} x {}", node.gpus, node.gpu);
  if (node.scale_up != NodeSpec::ScaleUp::None)
    text += fmt::format(", {} each way between them", to_text(node.nvlink_nominal));
  if (node.nics == 0) return text;
  return text + fmt::format(", {} NIC{} of {}", node.nics, node.nics == 1 ? "" : "s",
                            to_text(node.nic_nominal));
}

// "NVIDIA H100 SXM5 80 GB: 989.4 TFLOP/s in bf16, 80 GiB at 3.35 TB/s".
std::string gpu_summary(const std::string& name) {
  const GpuSheet gpu = load_gpu_sheet(name);
  const bool has_bf16 = gpu.bf16.value() > 0.0;
  return fmt::format("{}: {} in {}, {} at {}", gpu.title, to_text(has_bf16 ? gpu.bf16 : gpu.fp16),
                     has_bf16 ? "bf16" : "fp16", to_text(gpu.memory), to_text(gpu.hbm));
}

// The title in the file of a host.
std::string host_summary(const std::string& name) {
  if (name == "none") return "kernels are issued in no time";
  JsonFile file = JsonFile::read(data_file("models/hosts", name));
  return file.root().text("title", "");
}

std::string reliability_summary(const std::string& name) { return load_reliability(name).title; }

// "Web text: ...; 1004 tokens in the mean".
std::string document_summary(const std::string& name) {
  JsonFile file = JsonFile::read(data_file("models/documents", name));
  return fmt::format("{}; {:.0f} tokens in the mean", file.root().text("title", ""),
                     load_document_lengths(name).mean());
}

std::vector<CatalogueRow> price_rows() {
  std::vector<CatalogueRow> rows;
  for (const PublishedPrice& price : published_prices())
    rows.push_back({price.name, price.gpu + ": " + price.text()});
  return rows;
}

// The table of any registry whose entries have a name and a summary.
template <class Entries>
std::vector<CatalogueRow> entries(const Entries& registry) {
  std::vector<CatalogueRow> rows;
  for (const auto& entry : registry)
    rows.push_back({std::string(entry.name), std::string(entry.summary)});
  return rows;
}

std::vector<CatalogueRow> schedule_rows() {
  std::vector<CatalogueRow> rows;
  for (const Schedule* schedule : schedules()) {
    rows.push_back({std::string(schedule->name()), std::string(schedule->summary())});
  }
  return rows;
}

std::vector<CatalogueRow> collective_rows() {
  std::vector<CatalogueRow> rows{{"any nccl", "whatever NCCL chooses for the group and the size"}};
  for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
    rows.push_back({fmt::format("{} {}", to_string(algorithm->op()), algorithm->name()),
                    std::string(algorithm->summary())});
  }
  return rows;
}

// The frameworks, each with the title in its file.
std::vector<CatalogueRow> framework_rows() {
  std::vector<CatalogueRow> rows;
  for (const std::string& name : data_names("models/frameworks")) {
    JsonFile file = framework_file(name);
    rows.push_back({name, file.root().text("title", "")});
  }
  return rows;
}

}  // namespace

const std::vector<CatalogueKind>& catalogue() {
  static const std::vector<CatalogueKind> kAll{
      {"models", "Models",
       [] { return described("models/data", architecture_names(), model_summary); }},
      {"nodes", "Node types",
       [] { return described("topologies/data", node_names(), node_summary); }},
      {"fabrics", "Fabrics", [] { return entries(fabrics()); }},
      {"gpus", "GPU profiles",
       [] { return described("kernels/profiles", gpu_names(), gpu_summary); }},
      {"frameworks", "Frameworks and their releases", framework_rows},
      {"hosts", "Hosts", [] { return described("models/hosts", host_names(), host_summary); }},
      {"reliability", "Failures, checkpoints and recovery of published runs",
       [] {
         return described("models/reliability/data", reliability_presets(), reliability_summary);
       }},
      {"documents", "Lengths of documents",
       [] {
         return described("models/documents", data_names("models/documents"), document_summary);
       }},
      {"prices", "Published prices of a GPU-hour", price_rows},
      {"schedules", "Pipeline schedules", schedule_rows},
      {"collectives", "Collective algorithms", collective_rows},
      {"engines", "Engines", [] { return entries(engines()); }},
      {"reports", "Reports", [] { return entries(reports()); }},
  };
  return kAll;
}

}  // namespace trainyard
