#include "models/documents.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <set>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/random.hpp"

namespace trainyard {

namespace {

using Lengths = std::vector<std::int64_t>;

// The mean of a lognormal distribution is exp(mu + sigma^2/2).
double drawn_length(const Documents& documents, double normal) {
  if (documents.kind == DocumentKind::Preset) return documents.measured.at(normal);
  const double mu = std::log(static_cast<double>(documents.mean_length)) -
                    documents.sigma * documents.sigma / 2.0;
  return std::exp(mu + documents.sigma * normal);
}

// Fills one sequence from a separate random stream.
Lengths drawn_sequence(std::int64_t sequence, const Documents& documents, Random random) {
  Lengths lengths;
  for (std::int64_t left = sequence; left > 0; left -= lengths.back()) {
    const double drawn = drawn_length(documents, random.gaussian());
    const auto most = static_cast<double>(left);
    lengths.push_back(std::max<std::int64_t>(1, std::llround(std::min(drawn, most))));
  }
  return lengths;
}

struct BatchShape {
  std::int64_t replicas = 1;
  std::int64_t microbatches = 1;  // of a replica
  std::int64_t sequences = 1;     // of a microbatch
};

// The sequences of the step, by replica, microbatch and sequence.
std::vector<Lengths> drawn_sequences(const TrainingPlan& plan, const BatchShape& shape) {
  const auto number = [](std::int64_t of_stream) { return static_cast<std::uint64_t>(of_stream); };
  const Random random = Random(plan.seed).split("documents");
  std::vector<Lengths> all;
  for (std::int64_t replica = 0; replica < shape.replicas; ++replica)
    for (std::int64_t microbatch = 0; microbatch < shape.microbatches; ++microbatch)
      for (std::int64_t sequence = 0; sequence < shape.sequences; ++sequence)
        all.push_back(drawn_sequence(
            plan.training.sequence_length, plan.documents,
            random.split(number(replica)).split(number(microbatch)).split(number(sequence))));
  return all;
}

std::vector<std::int64_t> pairs_of(const std::vector<Lengths>& sequences) {
  std::vector<std::int64_t> pairs;
  for (const Lengths& sequence : sequences) pairs.push_back(document_pairs(sequence));
  return pairs;
}

// All documents of the sequences from `first` to `last`.
Lengths joined(const std::vector<Lengths>& sequences, std::size_t first, std::size_t last) {
  Lengths all;
  for (std::size_t i = first; i < last; ++i)
    all.insert(all.end(), sequences[i].begin(), sequences[i].end());
  return all;
}

// Puts items that are bins of equal size one after another, in the order of the bins.
std::vector<Lengths> in_order(const std::vector<Lengths>& sequences,
                              const std::vector<std::vector<std::size_t>>& bins) {
  std::vector<Lengths> all;
  for (const std::vector<std::size_t>& bin : bins)
    for (const std::size_t i : bin) all.push_back(sequences[i]);
  return all;
}

// The sequences of the step, replica by replica, so that the replicas have about equal work.
std::vector<Lengths> divided_over_replicas(const TrainingPlan& plan,
                                           const std::vector<Lengths>& sequences,
                                           const BatchShape& shape) {
  const auto replicas = static_cast<std::size_t>(shape.replicas);
  const std::size_t each = sequences.size() / replicas;
  if (plan.documents.balance == DocumentBalance::Sequences)
    return in_order(sequences,
                    longest_first(pairs_of(sequences), {.bins = replicas, .slots = each}));
  const std::int64_t length = plan.training.sequence_length;
  std::vector<Lengths> packed;
  for (const Lengths& replica :
       packed_by_work(joined(sequences, 0, sequences.size()),
                      {.bins = replicas, .tokens = length * static_cast<std::int64_t>(each)}))
    for (Lengths& sequence : packed_by_work(replica, {.bins = each, .tokens = length}))
      packed.push_back(std::move(sequence));
  return packed;
}

// Divides the sequences of each replica over its microbatches, which run in the order of their
// work. Neighbours in the pipeline then take similar times.
std::vector<Lengths> divided_over_microbatches(const std::vector<Lengths>& sequences,
                                               const BatchShape& shape) {
  const auto microbatches = static_cast<std::size_t>(shape.microbatches);
  const auto slots = static_cast<std::size_t>(shape.sequences);
  const auto each = static_cast<std::ptrdiff_t>(microbatches * slots);
  std::vector<Lengths> all;
  for (auto first = sequences.begin(); first != sequences.end(); first += each) {
    const std::vector<Lengths> own(first, first + each);
    for (Lengths& sequence :
         in_order(own, longest_first(pairs_of(own), {.bins = microbatches, .slots = slots})))
      all.push_back(std::move(sequence));
  }
  return all;
}

// The documents of the step, by replica and microbatch.
std::vector<Lengths> drawn_microbatches(const TrainingPlan& plan, const BatchShape& shape) {
  std::vector<Lengths> sequences = drawn_sequences(plan, shape);
  if (plan.documents.balance != DocumentBalance::None)
    sequences = divided_over_microbatches(divided_over_replicas(plan, sequences, shape), shape);
  const auto each = static_cast<std::size_t>(shape.sequences);
  std::vector<Lengths> all;
  for (std::size_t first = 0; first < sequences.size(); first += each)
    all.push_back(joined(sequences, first, first + each));
  return all;
}

}  // namespace

std::int64_t document_pairs(const std::vector<std::int64_t>& lengths) {
  std::int64_t pairs = 0;
  for (const std::int64_t length : lengths) pairs += length * (length + 1) / 2;
  return pairs;
}

StepDocuments::StepDocuments(const TrainingPlan& plan)
    : packed_(plan.documents.kind != DocumentKind::None),
      sequences_(plan.training.micro_batch_size),
      length_(plan.training.sequence_length) {
  if (plan.documents.drawn()) {
    microbatches_ = plan.microbatches();
    replicas_ = plan.documents.independent_replicas ? plan.parallelism.data : 1;
    lengths_ = std::make_shared<const std::vector<Lengths>>(drawn_microbatches(
        plan, {.replicas = replicas_, .microbatches = microbatches_, .sequences = sequences_}));
    return;
  }
  const Lengths one = packed_ ? plan.documents.lengths : Lengths{length_};
  Lengths all;
  for (std::int64_t i = 0; i < sequences_; ++i) all.insert(all.end(), one.begin(), one.end());
  lengths_ = std::make_shared<const std::vector<Lengths>>(1, std::move(all));
}

const std::vector<std::int64_t>& StepDocuments::of(const DocumentQuery& query) const {
  const std::int64_t replica = replicas_ == 1 ? 0 : query.replica;
  const std::int64_t microbatch = microbatches_ == 1 ? 0 : query.microbatch;
  return lengths_->at(static_cast<std::size_t>(replica * microbatches_ + microbatch));
}

// ---- balancing

std::vector<std::vector<std::size_t>> longest_first(std::span<const std::int64_t> loads,
                                                    const EqualBins& into) {
  TY_CHECK(loads.size() == into.bins * into.slots, loads.size(), into.bins, into.slots);
  std::vector<std::size_t> order(loads.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return loads[a] > loads[b]; });
  std::vector<std::vector<std::size_t>> bins(into.bins);
  std::set<std::pair<std::int64_t, std::size_t>> open;  // load so far and number of each bin
  for (std::size_t bin = 0; bin < into.bins; ++bin) open.emplace(0, bin);
  for (const std::size_t item : order) {
    const auto [load, bin] = *open.begin();
    open.erase(open.begin());
    bins[bin].push_back(item);
    if (bins[bin].size() < into.slots) open.emplace(load + loads[item], bin);
  }
  return bins;
}

namespace {

// Bins that are being packed. A bin without room for the present document, the longest of those
// left, waits until the documents are short enough.
class Packing {
 public:
  explicit Packing(const TokenBins& into)
      : lengths_(into.bins), room_(into.bins, into.tokens), work_(into.bins) {
    for (std::size_t i = 0; i < into.bins; ++i) by_work_.emplace(0, i);
  }

  // Adds the document to the bin with the least work that has room, or the part of it that
  // fits into the one with the most room. Returns the length of the rest.
  std::int64_t add(std::int64_t document) {
    // Documents come in descending order, so a bin without room for an earlier one may have room
    // for this one. Such bins return to the bins by work. Bins that have become too full wait.
    while (!waiting_.empty() && -waiting_.begin()->first >= document) {
      const std::size_t i = waiting_.begin()->second;
      waiting_.erase(waiting_.begin());
      by_work_.emplace(work_[i], i);
    }
    while (!by_work_.empty() && room_[by_work_.begin()->second] < document) {
      const std::size_t i = by_work_.begin()->second;
      by_work_.erase(by_work_.begin());
      waiting_.emplace(-room_[i], i);
    }
    auto& places = by_work_.empty() ? waiting_ : by_work_;
    const std::size_t i = places.begin()->second;
    places.erase(places.begin());
    const std::int64_t part = std::min(document, room_[i]);
    lengths_[i].push_back(part);
    room_[i] -= part;
    work_[i] += document_pairs({part});
    if (room_[i] > 0) by_work_.emplace(work_[i], i);
    return document - part;
  }

  [[nodiscard]] std::vector<Lengths> take() { return std::move(lengths_); }

 private:
  using Places = std::set<std::pair<std::int64_t, std::size_t>>;
  std::vector<Lengths> lengths_;
  std::vector<std::int64_t> room_;
  std::vector<std::int64_t> work_;  // pairs
  Places by_work_;                  // work and number of the bins that may have room
  Places waiting_;                  // minus the room, and number, of those without enough of it
};

}  // namespace

std::vector<std::vector<std::int64_t>> packed_by_work(const std::vector<std::int64_t>& documents,
                                                      const TokenBins& into) {
  std::priority_queue<std::int64_t> left(documents.begin(), documents.end());
  Packing packing(into);
  while (!left.empty()) {
    const std::int64_t document = left.top();
    left.pop();
    if (const std::int64_t rest = packing.add(document); rest > 0) left.push(rest);
  }
  return packing.take();
}

}  // namespace trainyard
