#include "models/documents.hpp"

#include <algorithm>
#include <cmath>

#include "models/plan.hpp"
#include "sim/base/random.hpp"

namespace trainyard {

namespace {

// One sequence filled from a stream of its own; the mean of a lognormal is exp(mu + sigma^2/2).
void fill(std::int64_t sequence, const Documents& documents, Random random,
          std::vector<std::int64_t>& lengths) {
  const double mu = std::log(static_cast<double>(documents.mean_length)) -
                    documents.sigma * documents.sigma / 2.0;
  for (std::int64_t left = sequence; left > 0; left -= lengths.back()) {
    const double drawn = std::exp(mu + documents.sigma * random.gaussian());
    const double most = static_cast<double>(left);
    lengths.push_back(std::max<std::int64_t>(1, std::llround(std::min(drawn, most))));
  }
}

}  // namespace

DocumentDraw document_draw(const TrainingPlan& plan) {
  return {.documents = plan.documents,
          .seed = plan.seed,
          .sequences = plan.training.micro_batch_size,
          .length = plan.training.sequence_length};
}

std::vector<std::int64_t> microbatch_documents(const DocumentDraw& draw, const DocumentsOf& of) {
  const Documents& documents = draw.documents;
  const std::int64_t replica = documents.independent_replicas ? of.replica : 0;
  std::vector<std::int64_t> lengths;
  for (std::int64_t sequence = 0; sequence < draw.sequences; ++sequence) {
    if (documents.kind == DocumentKind::List) {
      lengths.insert(lengths.end(), documents.lengths.begin(), documents.lengths.end());
    } else if (documents.drawn()) {
      const auto number = [](std::int64_t of_stream) {
        return static_cast<std::uint64_t>(of_stream);
      };
      fill(draw.length, documents,
           Random(draw.seed)
               .split("documents")
               .split(number(replica))
               .split(number(of.microbatch))
               .split(number(sequence)),
           lengths);
    } else {
      lengths.push_back(draw.length);
    }
  }
  return lengths;
}

std::int64_t document_pairs(const std::vector<std::int64_t>& lengths) {
  std::int64_t pairs = 0;
  for (const std::int64_t length : lengths) pairs += length * (length + 1) / 2;
  return pairs;
}

}  // namespace trainyard
