#include "scenarios/simulate/measured_error.hpp"

#include <fmt/format.h>

#include "kernels/gpu.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

namespace {

int bits_of(const TrainingPlan& plan) {
  if (plan.recipe.four_bit_gemms) return 4;
  const DataType gemms = plan.recipe.gemms.value_or(plan.training.precision);
  return static_cast<int>(8.0 * element_bytes(gemms));
}

// An entry of the table. Without a kind it covers every run on that generation.
struct Entry {
  std::string generation;
  std::optional<RunKind> kind = {};
  MeasuredError error = {};
};

Entry read_entry(JsonObject& json) {
  Entry entry{.generation = json.text("generation")};
  if (json.has("bits")) {
    entry.kind = RunKind{.generation = entry.generation,
                         .bits = static_cast<int>(json.integer("bits")),
                         .experts = json.boolean("experts")};
  }
  entry.error = {
      .kind = entry.kind ? to_text(*entry.kind) : fmt::format("all kinds on {}", entry.generation),
      .runs = static_cast<std::size_t>(json.integer("runs")),
      .mape = json.number("mape"),
      .bias = json.number("bias"),
      .p90 = json.number("p90")};
  return entry;
}

std::vector<Entry> read_table() {
  JsonFile file = JsonFile::read(data_file("tools/studies/validate/data", "errors"));
  JsonObject root = file.root();
  root.ignore("source");
  std::vector<Entry> table;
  for (JsonObject& json : root.objects("kinds")) table.push_back(read_entry(json));
  file.finish();
  return table;
}

}  // namespace

RunKind kind_of(const Scenario& scenario) {
  return {.generation = load_gpu_sheet(scenario.cluster.node.gpu).generation,
          .bits = bits_of(scenario.plan),
          .experts = scenario.plan.architecture.experts > 0};
}

std::string to_text(const RunKind& kind) {
  return fmt::format("{}-bit {} on {}", kind.bits,
                     kind.experts ? "mixtures of experts" : "dense models", kind.generation);
}

std::optional<MeasuredError> measured_error(const Scenario& scenario) {
  if (scenario.defaults == Defaults::Ideal) return std::nullopt;
  const RunKind kind = kind_of(scenario);
  std::optional<MeasuredError> of_generation;
  for (const Entry& entry : read_table()) {
    if (entry.kind == kind) return entry.error;
    if (!entry.kind && entry.generation == kind.generation) of_generation = entry.error;
  }
  return of_generation;
}

}  // namespace trainyard
