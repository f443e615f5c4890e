#include "models/stragglers.hpp"

#include "sim/base/check.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

double Stragglers::last_of(std::int64_t replicas) const {
  TY_CHECK(replicas >= 1, replicas);
  double further = 0.0;  // H_n - 1, smallest terms first to keep the rounding error small
  for (std::int64_t n = replicas; n >= 2; --n) further += 1.0 / static_cast<double>(n);
  return 1.0 + delay * further;
}

double last_replica(const Stragglers& stragglers, const TrainingPlan& plan) {
  return plan.servers.run_ahead() ? 1.0 : stragglers.last_of(plan.parallelism.data);
}

Stragglers load_stragglers() {
  JsonFile file = JsonFile::read(data_file("models/stragglers", "replicas"));
  JsonObject root = file.root();
  static_cast<void>(root.text("title"));
  root.ignore("practices");  // read by framework_file.hpp
  const Stragglers stragglers{
      .delay = sourced(root, "delay").number("value", {.least = 0.0, .most = 1.0})};
  file.finish();
  return stragglers;
}

}  // namespace trainyard
