#include "models/architecture/recipe.hpp"

#include <string_view>

#include "sim/base/data_directory.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/base/words.hpp"

namespace trainyard {

namespace {

constexpr Words<DataType, 4> kTypes{{{DataType::Fp32, "fp32"},
                                     {DataType::Bf16, "bf16"},
                                     {DataType::Fp16, "fp16"},
                                     {DataType::Fp8, "fp8"}}};

double bytes(JsonObject& object, std::string_view key, double fallback) {
  return object.number(key, {.fallback = fallback, .least = 0.0, .most = 64.0});
}

std::optional<double> optional_bytes(JsonObject& object, std::string_view key) {
  if (!object.has(key)) return std::nullopt;
  return bytes(object, key, 0.0);
}

std::optional<DataType> optional_type(JsonObject& object, std::string_view key) {
  if (!object.has(key)) return std::nullopt;
  return value_of(kTypes, object.choice(key, all_words<kTypes>()));
}

// Reads the title and the source, which are for people and have no effect.
void read_heading(JsonObject& object) {
  static_cast<void>(object.text("title"));
  static_cast<void>(object.text("source"));
}

}  // namespace

Recipe load_recipe(const std::string& name) {
  JsonFile file = JsonFile::read(data_file("models/recipes", name));
  JsonObject root = file.root();
  read_heading(root);
  const Recipe recipe{.weight_bytes = optional_bytes(root, "weight_bytes"),
                      .gradient_bytes = optional_bytes(root, "gradient_bytes"),
                      .master_bytes = optional_bytes(root, "master_bytes"),
                      .weight_cache_bytes = bytes(root, "weight_cache_bytes", 0.0),
                      .gradient_copy_bytes = bytes(root, "gradient_copy_bytes", 0.0),
                      .weight_wire = optional_type(root, "weight_wire"),
                      .gemms = optional_type(root, "gemms"),
                      .tensor_scales = root.boolean("tensor_scales", false),
                      .four_bit_gemms = root.boolean("four_bit_gemms", false),
                      .attention = optional_type(root, "attention"),
                      .sequence_wire = optional_type(root, "sequence_wire"),
                      .gemm_input_bytes = optional_bytes(root, "gemm_input_bytes"),
                      .activation_input_bytes = optional_bytes(root, "activation_input_bytes"),
                      .attention_output_bytes = optional_bytes(root, "attention_output_bytes")};
  file.finish();
  return recipe;
}

Optimizer load_optimizer(const std::string& name) {
  JsonFile file = JsonFile::read(data_file("models/optimizers", name));
  JsonObject root = file.root();
  read_heading(root);
  const Optimizer optimizer{.first_moment_bytes = bytes(root, "first_moment_bytes", 0.0),
                            .second_moment_bytes = bytes(root, "second_moment_bytes", 0.0),
                            .orthogonalisations = root.integer(
                                "orthogonalisations", {.fallback = 0, .least = 0, .most = 100}),
                            .step = root.text("step", name)};
  file.finish();
  return optimizer;
}

}  // namespace trainyard
