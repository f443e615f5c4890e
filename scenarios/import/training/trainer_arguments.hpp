// The arguments of a training script on the Trainer of Hugging Face's transformers: what a
// configuration of DeepSpeed or Accelerate leaves to them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "scenarios/import/launch_arguments.hpp"
#include "scenarios/import/training/scenario_draft.hpp"
#include "scenarios/import/training/training_format.hpp"

namespace trainyard {

class TrainerArguments {
 public:
  // Reads the file of the request that is no configuration; without one, every argument is absent.
  explicit TrainerArguments(const ImportRequest& request);

  [[nodiscard]] bool given() const { return given_; }
  // Returns "run.sh", or "the script" where none was given.
  [[nodiscard]] const std::string& file() const { return arguments_.file(); }
  [[nodiscard]] LaunchArguments& arguments() { return arguments_; }

  // Return what the arguments say, with the defaults of TrainingArguments.
  [[nodiscard]] std::int64_t micro_batch();   // --per_device_train_batch_size, default 8
  [[nodiscard]] std::int64_t accumulation();  // --gradient_accumulation_steps, default 1
  [[nodiscard]] double clipping();            // --max_grad_norm, default 1.0
  [[nodiscard]] std::string precision();      // bf16, fp16 or fp32
  // The sizes of the launcher's options in the script.
  [[nodiscard]] LaunchedSizes sizes();
  // The machine of the request. Where it does not say how many nodes there are, it has the sizes
  // of the job that the script launches.
  [[nodiscard]] LaunchMachine machine(const ImportRequest& request);

  // Fill in the parts of the draft that the script determines: the model and its adapters,
  // and of the training the sequence, recomputation, the optimizer and attention. Throw InputError
  // where nothing states the model or the length of a sequence.
  void add_model(ScenarioDraft& draft, const LaunchMachine& machine);
  void add_training(ScenarioDraft& draft, const LaunchMachine& machine);

  // Appends the arguments that no function has read and that may matter, and what the script leaves
  // open of those that were read.
  void finish(ImportedScenario& made) const;

 private:
  void add_optimizer(ScenarioDraft& draft);
  void add_adapters(ScenarioDraft& draft);
  [[noreturn]] void refuse(const std::string& problem, const std::string& hint) const;

  bool given_ = false;
  LaunchArguments arguments_;
};

}  // namespace trainyard
