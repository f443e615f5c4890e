#include "scenarios/memory/ways_to_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "scenarios/run/run.hpp"
#include "sim/base/error.hpp"
#include "sim/report/stage_memory.hpp"

namespace trainyard {

namespace {

// The fields that a way may change.
struct Knobs {
  Parallelism parallelism;
  Training training;
};

// A change that can be made to any plan; false where the plan leaves no room for it.
struct Change {
  std::string_view kind;  // two of one kind do not go together
  std::function<bool(Knobs&)> apply;
};

// Takes half of the replicas for twice the ranks of another dimension.
bool trade(std::int64_t Parallelism::*dimension, Knobs& knobs) {
  Parallelism& p = knobs.parallelism;
  if (p.data % 2 != 0) return false;
  p.data /= 2;
  p.*dimension *= 2;
  return true;
}

bool recompute(Knobs& knobs, Recompute wanted, std::vector<std::string> modules) {
  Training& t = knobs.training;
  if (t.recompute == Recompute::Full) return false;
  if (t.recompute == wanted && t.recompute_modules == modules) return false;
  t.recompute = wanted;
  if (wanted == Recompute::Selective) t.recompute_modules = std::move(modules);
  return true;
}

std::vector<Change> changes() {
  return {
      {"recompute", [](Knobs& k) { return recompute(k, Recompute::Selective, {"core_attn"}); }},
      {"recompute",
       [](Knobs& k) {
         return recompute(k, Recompute::Selective, {"layernorm", "mlp"});
       }},
      {"recompute", [](Knobs& k) { return recompute(k, Recompute::Full, {}); }},
      {"zero", [](Knobs& k) { return k.parallelism.data > 1 && ++k.parallelism.zero_stage <= 3; }},
      {"zero",
       [](Knobs& k) {
         k.parallelism.zero_stage += 2;
         return k.parallelism.data > 1 && k.parallelism.zero_stage <= 3;
       }},
      {"zero",
       [](Knobs& k) {
         k.parallelism.zero_stage += 3;
         return k.parallelism.data > 1 && k.parallelism.zero_stage <= 3;
       }},
      {"micro_batch",
       [](Knobs& k) {
         if (k.training.micro_batch_size % 2 != 0) return false;
         k.training.micro_batch_size /= 2;
         return true;
       }},
      {"sequence_parallel",
       [](Knobs& k) {
         if (k.parallelism.tensor == 1 || k.parallelism.sequence_parallel) return false;
         return k.parallelism.sequence_parallel = true;
       }},
      {"tensor",
       [](Knobs& k) {
         k.parallelism.sequence_parallel = true;
         return trade(&Parallelism::tensor, k);
       }},
      {"pipeline", [](Knobs& k) { return trade(&Parallelism::pipeline, k); }},
      {"context", [](Knobs& k) { return trade(&Parallelism::context, k); }},
  };
}

// What differs, as overrides of the scenario's fields.
std::vector<Override> difference(const Scenario& scenario, const Knobs& knobs) {
  std::vector<Override> overrides;
  const Parallelism& p = scenario.plan.parallelism;
  const Training& t = scenario.plan.training;
  const auto number = [&](const char* path, std::int64_t before, std::int64_t after) {
    if (before != after) overrides.push_back({path, std::to_string(after)});
  };
  if (t.recompute != knobs.training.recompute) {
    overrides.push_back(
        {"training.recompute", knobs.training.recompute == Recompute::Full ? "full" : "selective"});
  }
  if (t.recompute_modules != knobs.training.recompute_modules) {
    overrides.push_back(
        {"training.recompute_modules", nlohmann::json(knobs.training.recompute_modules).dump()});
  }
  number("training.micro_batch_size", t.micro_batch_size, knobs.training.micro_batch_size);
  number("parallelism.zero_stage", p.zero_stage, knobs.parallelism.zero_stage);
  if (p.sequence_parallel != knobs.parallelism.sequence_parallel)
    overrides.push_back({"parallelism.sequence_parallel", "true"});
  number("parallelism.tensor", p.tensor, knobs.parallelism.tensor);
  number("parallelism.pipeline", p.pipeline, knobs.parallelism.pipeline);
  number("parallelism.context", p.context, knobs.parallelism.context);
  number("parallelism.data", p.data, knobs.parallelism.data);
  return overrides;
}

class Search {
 public:
  Search(const FitQuestion& question, const Scenario& scenario, std::int64_t peak_bytes)
      : question_(question), scenario_(scenario), peak_bytes_(peak_bytes), changes_(changes()) {}

  FitSearch run() {
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      const std::optional<Way> way = attempt({i});
      saved_.push_back(way ? peak_bytes_ - way->peak_bytes : 0);
      possible_.push_back(way.has_value());
      if (way) found_.singles.push_back(*way);
    }
    found_.changes_at_once = 1;
    keep_those_that_fit(found_.singles);
    for (std::size_t size = 2; size <= 3 && found_.ways.empty() && !spent(); ++size) {
      found_.changes_at_once = size;
      combine(size);
    }
    return std::move(found_);
  }

 private:
  [[nodiscard]] bool spent() const { return found_.runs >= question_.runs_most; }

  void keep_those_that_fit(const std::vector<Way>& tried) {
    for (const Way& way : tried) {
      if (way.fits) found_.ways.push_back(way);
    }
    std::stable_sort(found_.ways.begin(), found_.ways.end(),
                     [](const Way& a, const Way& b) { return a.step_time_s < b.step_time_s; });
  }

  // Nothing where the plan has no room for the changes, or the scenario's checks refuse them.
  std::optional<Way> attempt(const std::vector<std::size_t>& chosen) {
    Knobs knobs{scenario_.plan.parallelism, scenario_.plan.training};
    for (const std::size_t i : chosen) {
      if (!changes_[i].apply(knobs)) return std::nullopt;
    }
    Way way{.changes = difference(scenario_, knobs)};
    std::vector<Override> overrides = question_.overrides;
    overrides.insert(overrides.end(), way.changes.begin(), way.changes.end());
    try {
      const Scenario changed = load_scenario(question_.file, overrides);
      if (spent()) return std::nullopt;
      ++found_.runs;
      const Run run = run_scenario(changed, {});
      const std::vector<StageMemory> stages = stage_memory(run.view());
      const StageMemory* worst = worst_stage(stages);
      way.peak_bytes = worst == nullptr ? 0 : worst->peak.bytes;
      way.fits = worst == nullptr || worst->fits;
      way.step_time_s = run.timeline.makespan_s;
      return way;
    } catch (const InputError&) {
      return std::nullopt;
    }
  }

  // Combinations of changes of different kinds that each can be made and save something, those that
  // saved most together first.
  [[nodiscard]] std::vector<std::vector<std::size_t>> candidates(std::size_t size) const {
    std::vector<std::vector<std::size_t>> all;
    std::vector<std::size_t> chosen;
    const std::function<void(std::size_t)> extend = [&](std::size_t from) {
      if (chosen.size() == size) {
        all.push_back(chosen);
        return;
      }
      for (std::size_t i = from; i < changes_.size(); ++i) {
        const bool repeats = std::any_of(chosen.begin(), chosen.end(), [&](std::size_t other) {
          return changes_[other].kind == changes_[i].kind;
        });
        if (repeats || !possible_[i] || saved_[i] <= 0) continue;
        chosen.push_back(i);
        extend(i + 1);
        chosen.pop_back();
      }
    };
    extend(0);
    const auto saving = [this](const std::vector<std::size_t>& combination) {
      return std::accumulate(combination.begin(), combination.end(), std::int64_t{0},
                             [this](std::int64_t sum, std::size_t i) { return sum + saved_[i]; });
    };
    std::stable_sort(all.begin(), all.end(),
                     [&](const auto& a, const auto& b) { return saving(a) > saving(b); });
    return all;
  }

  void combine(std::size_t size) {
    constexpr std::size_t kMost = 12;  // of one size: what follows saves less
    std::vector<Way> tried;
    std::size_t number = 0;
    for (const std::vector<std::size_t>& chosen : candidates(size)) {
      if (number++ == kMost || spent()) break;
      if (std::optional<Way> way = attempt(chosen)) tried.push_back(std::move(*way));
    }
    keep_those_that_fit(tried);
  }

  const FitQuestion& question_;
  const Scenario& scenario_;
  std::int64_t peak_bytes_;
  std::vector<Change> changes_;
  std::vector<std::int64_t> saved_;  // by change, alone
  std::vector<bool> possible_;
  FitSearch found_;
};

}  // namespace

FitSearch ways_to_fit(const FitQuestion& question, const Scenario& scenario,
                      std::int64_t peak_bytes) {
  return Search(question, scenario, peak_bytes).run();
}

std::string to_text(const std::vector<Override>& changes) {
  std::string text;
  for (const Override& change : changes)
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", change.path, change.value);
  return text;
}

}  // namespace trainyard
