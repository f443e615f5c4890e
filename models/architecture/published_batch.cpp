#include "models/architecture/published_batch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/base/median.hpp"

namespace trainyard {

namespace {

struct PublishedRun {
  double parameters = 0.0;
  double tokens = 0.0;
};

std::vector<PublishedRun> published_runs() {
  JsonFile file = JsonFile::read(data_file("models/batches", "published"));
  JsonObject root = file.root();
  (void)root.text("title");
  std::vector<PublishedRun> runs;
  for (JsonObject& run : root.objects("runs")) {
    (void)run.text("model");
    (void)run.text("source");
    runs.push_back(
        {run.number("parameters", {.least = 1.0}), run.number("tokens", {.least = 1.0})});
  }
  file.report_unknown_keys();
  file.finish();
  return runs;
}

}  // namespace

double published_tokens(double parameters) {
  TY_CHECK(parameters > 0.0, parameters);
  constexpr std::ptrdiff_t kNearest = 5;
  std::vector<PublishedRun> runs = published_runs();
  // Distance in the logarithm, so that half and twice the size are equally near.
  const auto distance = [parameters](const PublishedRun& run) {
    return std::abs(std::log(run.parameters / parameters));
  };
  std::ranges::stable_sort(runs, {}, distance);
  std::vector<double> tokens;
  for (const PublishedRun& run : runs)
    if (std::ssize(tokens) < kNearest) tokens.push_back(run.tokens);
  return median(tokens);
}

// On 64 GPUs, 100 sequences become 128, and 10 become 16.
std::int64_t sequences_of_step(const BatchQuestion& question) {
  const double sequences = question.tokens / static_cast<double>(question.sequence_length);
  const auto gpus = static_cast<double>(question.gpus);
  if (sequences >= gpus)
    return question.gpus * std::llround(std::exp2(std::round(std::log2(sequences / gpus))));
  for (std::int64_t count = 1; count < question.gpus; ++count)
    if (question.gpus % count == 0 && static_cast<double>(count) >= sequences) return count;
  return question.gpus;
}

}  // namespace trainyard
