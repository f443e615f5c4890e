#include "tools/studies/collective/folding.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

namespace trainyard {

namespace {

constexpr double kEqual = 1e-12;
constexpr double kFull = 1.0 - 1e-9;

enum class Compared : std::uint8_t { All, Loads };

// Is `b` what `a` becomes when every byte is `factor` bytes?
bool scales(const std::vector<Phase>& a, const std::vector<Phase>& b, double factor,
            Compared compared) {
  const bool all = compared == Compared::All;
  const auto same_load = [&](const LinkLoad& x, const LinkLoad& y) {
    return x.link == y.link && std::abs(x.bytes * factor - y.bytes) <= kEqual * y.bytes;
  };
  const auto same_chain = [&](const Chain& x, const Chain& y) {
    return (!all || x.rate_cap_bytes_per_s == y.rate_cap_bytes_per_s) &&
           std::equal(x.loads.begin(), x.loads.end(), y.loads.begin(), y.loads.end(), same_load);
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const Phase& x, const Phase& y) {
    return (!all || x.latency == y.latency) &&
           std::equal(x.chains.begin(), x.chains.end(), y.chains.begin(), y.chains.end(),
                      same_chain);
  });
}

// Weights are relative to the payload, and rates do not change with the size.
Partition scaled(Partition partition, double factor) {
  for (FlowClass& flow : partition.flows) {
    flow.payload_bytes *= factor;
    for (FlowClass::Weight& weight : flow.weights) weight.bytes *= factor;
  }
  return partition;
}

// How long the links need for a phase whose chains are not held back by anything else.
double links_need_s(const Cluster& cluster, const Phase& phase) {
  std::map<LinkId, double> bytes;
  for (const Chain& chain : phase.chains)
    for (const LinkLoad& load : chain.loads) bytes[load.link] += load.bytes;
  double longest = 0.0;
  for (const auto& [link, sum] : bytes)
    longest = std::max(longest, sum / cluster.link(link).capacity.value());
  return longest;
}

// Do the phases move at the rate that NCCL's model says, after its latency?
bool follows(const std::vector<Phase>& phases, const nccl::Choice& choice, std::int64_t bytes) {
  if (phases.size() != 1) return false;
  const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(b); };
  const double transfer_s = choice.prediction.transfer_us(static_cast<double>(bytes)) * 1e-6;
  return near(phases.front().latency.value(), choice.prediction.latency_us * 1e-6) &&
         std::ranges::all_of(phases.front().chains, [&](const Chain& chain) {
           double payload = 0.0;
           for (const LinkLoad& load : chain.loads) payload = std::max(payload, load.bytes);
           return near(chain.rate_cap_bytes_per_s * transfer_s, payload);
         });
}

bool same_method(const nccl::Choice& a, const nccl::Choice& b) {
  return a.method.algorithm == b.method.algorithm && a.method.protocol == b.method.protocol;
}

// Answers with the phases that are known of the one call, and asks for those of all others.
class KnownPhases final : public Transport {
 public:
  KnownPhases(const Transport& transport, std::int64_t bytes, const std::vector<Phase>& known)
      : transport_(transport), bytes_(bytes), known_(known) {}
  [[nodiscard]] std::vector<Phase> phases(const Call& call,
                                          std::span<const std::uint32_t> gpus) const override {
    return bytes_of(call) == bytes_ ? known_ : transport_.phases(call, gpus);
  }
  [[nodiscard]] Carrier carrier(const Call& call,
                                std::span<const std::uint32_t> gpus) const override {
    return transport_.carrier(call, gpus);
  }

 private:
  const Transport& transport_;
  std::int64_t bytes_;
  const std::vector<Phase>& known_;
};

class Folding {
 public:
  Folding(const LoneCall& lone, std::span<const std::int64_t> sizes) : lone_(lone) {
    ascending_.assign(sizes.begin(), sizes.end());
    std::sort(ascending_.begin(), ascending_.end());
    ascending_.erase(std::unique(ascending_.begin(), ascending_.end()), ascending_.end());
  }

  std::map<std::int64_t, Partition> all() {
    if (!ascending_.empty()) range(0, ascending_.size() - 1);
    return std::move(folds_);
  }

 private:
  [[nodiscard]] Call call(std::int64_t bytes) const { return with_bytes(lone_.call, bytes); }
  [[nodiscard]] Partition folded(std::int64_t bytes) {
    return fold(lone_.cluster, lone_.workload_of(call(bytes)),
                KnownPhases(lone_.transport.get(), bytes, phases(bytes)),
                {.drop_uncontended = true});
  }
  [[nodiscard]] bool is_profiled(std::int64_t bytes) const {
    return lone_.transport.is_profiled(call(bytes), lone_.gpus);
  }
  // What NCCL chose; nothing where it does not choose or a profile says how long it takes.
  [[nodiscard]] std::optional<nccl::Choice> choice(std::int64_t bytes) const {
    if (is_profiled(bytes)) return {};
    return lone_.transport.nccl().choice(call(bytes), lone_.gpus);
  }
  // Each size's phases are asked for once.
  const std::vector<Phase>& phases(std::int64_t bytes) {
    const auto [entry, fresh] = phases_.try_emplace(bytes);
    if (fresh) entry->second = lone_.transport.get().phases(call(bytes), lone_.gpus);
    return entry->second;
  }

  // Sizes from `first` to `last`, both included.
  void range(std::size_t first, std::size_t last) {
    const std::int64_t least = ascending_[first];
    const std::int64_t most = ascending_[last];
    if (first == last) {
      folds_.emplace(most, folded(most));
    } else if (is_alike(least, most)) {
      fill(first, last);
      phases_.clear();
    } else {
      const std::size_t half = std::midpoint(first, last);
      range(first, half);
      range(half + 1, last);
    }
  }

  bool is_alike(std::int64_t least, std::int64_t most) {
    const auto before = choice(least);
    const auto after = choice(most);
    if (before.has_value() != after.has_value() || is_profiled(least) != is_profiled(most))
      return false;
    if (before && !same_method(*before, *after)) return false;
    if (before && !(follows(phases(least), *before, least) && follows(phases(most), *after, most)))
      return false;
    const double factor = static_cast<double>(most) / static_cast<double>(least);
    return scales(phases(least), phases(most), factor, before ? Compared::Loads : Compared::All);
  }

  void fill(std::size_t first, std::size_t last) {
    const std::int64_t most = ascending_[last];
    const Partition whole = folded(most);
    const auto chosen = choice(most);
    const double needed_s = chosen ? links_need_s(lone_.cluster, phases(most).front()) : 0.0;
    for (std::size_t i = first; i <= last; ++i) {
      const std::int64_t bytes = ascending_[i];
      const double factor = static_cast<double>(bytes) / static_cast<double>(most);
      if (!chosen) {
        folds_.emplace(bytes, scaled(whole, factor));
      } else if (const auto here = choice(bytes); same_method(*here, *chosen)) {
        folds_.emplace(bytes, tuned_fold(scaled(whole, factor), *here, bytes, needed_s * factor));
      } else {
        folds_.emplace(bytes, folded(bytes));
      }
    }
  }

  [[nodiscard]] Partition tuned_fold(Partition partition, const nccl::Choice& chosen,
                                     std::int64_t bytes, double needed_s) {
    const double transfer_s = chosen.prediction.transfer_us(static_cast<double>(bytes)) * 1e-6;
    if (needed_s > transfer_s * kFull) return folded(bytes);
    for (FlowClass& flow : partition.flows) {
      flow.rate_cap_bytes_per_s = flow.payload_bytes / transfer_s;
      if (flow.rate_alone) flow.rate_alone = flow.rate_cap_bytes_per_s;
    }
    for (auto& calls : partition.phases)
      for (auto& made : calls)
        for (FoldedPhase& phase : made) phase.latency_s = chosen.prediction.latency_us * 1e-6;
    return partition;
  }

  const LoneCall& lone_;
  std::vector<std::int64_t> ascending_;
  std::map<std::int64_t, std::vector<Phase>> phases_;
  std::map<std::int64_t, Partition> folds_;
};

}  // namespace

std::vector<SizedFold> folded_sizes(const LoneCall& lone, std::span<const std::int64_t> sizes) {
  std::map<std::int64_t, Partition> folds = Folding(lone, sizes).all();
  std::vector<SizedFold> result;
  for (const std::int64_t bytes : sizes)
    result.push_back({.bytes = bytes, .partition = folds.at(bytes)});
  return result;
}

}  // namespace trainyard
