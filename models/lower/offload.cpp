#include "models/lower/offload.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

constexpr std::int64_t kPieceMost = std::int64_t{1} << 28U;  // most parameters of a piece

OpIndex host_copy(ProgramBuilder& build, std::string_view name, HostDirection direction,
                  std::int64_t bytes, ProgramBuilder::After after) {
  const bool leaves = direction == HostDirection::ToHost;
  return build.collective(
      name, leaves ? Stream::StoreHost : Stream::FetchHost, Slot::Host,
      {.call = HostCopyCall{.direction = direction, .bytes = bytes}, .field = "/offload"}, after);
}

}  // namespace

OpIndex copy_to_host(ProgramBuilder& build, std::string_view name, std::int64_t bytes,
                     ProgramBuilder::After after) {
  return host_copy(build, name, HostDirection::ToHost, bytes, after);
}

OpIndex copy_from_host(ProgramBuilder& build, std::string_view name, std::int64_t bytes,
                       ProgramBuilder::After after) {
  return host_copy(build, name, HostDirection::FromHost, bytes, after);
}

// ---- activations
//
// held_ has a list of stored layers for each chunk and microbatch, in forward order. The backward
// takes them from the end, so that the list is a stack. Two rules bound the memory on the GPU:
// - a forward waits for the store of the layer two before it, so that at most two stores are under
//   way;
// - a fetch starts at most one layer ahead of its use, unless checkpoints are small
// (small_checkpoints).

void OffloadLowering::forward_enters(std::size_t chunk) {
  const std::vector<WeightUnit>& units = weights_[chunk].units;
  const auto first = std::ranges::find_if(units, &WeightUnit::is_layer);
  if (options_.fetches_weights && first != units.end())
    fetch_weights(chunk, static_cast<std::size_t>(first - units.begin()));
}

void OffloadLowering::backward_enters(std::size_t chunk, std::int64_t layers,
                                      std::int32_t microbatch, std::optional<std::size_t> first) {
  if (options_.fetches_weights && first) fetch_weights(chunk, *first);
  const auto found = held_.find({chunk, microbatch});
  if (found != held_.end()) fetch_ahead(found->second, layers);
}

void OffloadLowering::forward_begins(const OffloadedLayer& place) {
  const std::size_t units = weights_[place.chunk].units.size();
  const bool more =
      place.unit + 1 < units && weights_[place.chunk].units[place.unit + 1].is_layer();
  weights_begin(place.chunk, place.unit, more ? std::optional(place.unit + 1) : std::nullopt);
  if (stores_.size() >= 2) build_.wait_for(stores_[stores_.size() - 2]);
}

// The GPU frees the bytes at the end of the store. The host holds them from its start.
void OffloadLowering::forward_ended(const OffloadedLayer& place, std::int64_t kept) {
  weights_used();
  const OffloadSettings& offload = options_.settings;
  if (offload.activation_layers > 0 && place.layer >= offload.activation_layers) return;
  const std::int64_t bytes = std::llround(offload.activations * static_cast<double>(kept));
  if (bytes == 0) return;
  const OpIndex store = copy_to_host(build_, "activation_store", bytes, {build_.last_compute()});
  build_.memory().allocate(store, Category::Host, bytes);
  build_.memory().release(store, Category::Activations, bytes);
  held_[{place.chunk, place.microbatch}].push_back(
      {.layer = place.layer, .bytes = bytes, .store = store});
  stores_.push_back(store);
}

// A fetch waits for its store and for all computation so far, like a copy that the host issues at
// this point.
void OffloadLowering::fetch(Stored& stored) {
  if (stored.fetch != kNone) return;
  stored.fetch = copy_from_host(build_, "activation_fetch", stored.bytes,
                                {stored.store, build_.last_compute()});
  build_.memory().allocate(stored.fetch, Category::Activations, stored.bytes);
  build_.memory().release(stored.fetch, Category::Host, stored.bytes);
}

// Fetches the layer that is needed next when the backward is at the layer after it (`layer`).
// Checkpoints are small and may be several layers apart, so that they are fetched in any case.
void OffloadLowering::fetch_ahead(Held& held, std::int64_t layer) {
  const bool near = held.back().layer + 1 >= layer;
  if (near || options_.small_checkpoints) fetch(held.back());
}

// Waits for the fetch of this layer, and starts that of the next one. A layer without stored bytes
// is not on the stack.
void OffloadLowering::backward_begins(const OffloadedLayer& place) {
  const auto found = held_.find({place.chunk, place.microbatch});
  if (found == held_.end()) return;
  Held& held = found->second;
  fetch_ahead(held, place.layer);
  if (held.back().layer < place.layer) return;
  TY_CHECK(held.back().layer == place.layer, held.back().layer, place.layer);
  build_.wait_for(held.back().fetch);
  held.pop_back();
  if (held.empty()) {
    held_.erase(found);
  } else {
    fetch_ahead(held, place.layer);
  }
}

// ---- weights

// Fetches the weights of a unit unless they are on the GPU or on the way.
void OffloadLowering::fetch_weights(std::size_t chunk, std::size_t unit) {
  if (fetched_.contains({chunk, unit})) return;
  const std::int64_t bytes =
      unit_bytes(weight_options_, weights_[chunk], weights_[chunk].units[unit]);
  const OpIndex fetch = copy_from_host(build_, "weight_fetch", bytes, {build_.last_compute()});
  build_.memory().allocate(fetch, Category::UnshardedWeights, bytes);
  fetched_[{chunk, unit}] = fetch;
}

// The next computation waits for the weights of the unit. Those of the next unit are fetched
// meanwhile.
void OffloadLowering::weights_begin(std::size_t chunk, std::size_t unit,
                                    std::optional<std::size_t> next) {
  if (!options_.fetches_weights) return;
  fetch_weights(chunk, unit);
  build_.wait_for(fetched_.at({chunk, unit}));
  in_use_ = {chunk, unit};
  if (next) fetch_weights(chunk, *next);
}

void OffloadLowering::weights_used() {
  const auto found = fetched_.find(in_use_);
  if (!options_.fetches_weights || found == fetched_.end()) return;
  const ChunkWeights& weights = weights_[in_use_.first];
  build_.memory().release(build_.last_compute(), Category::UnshardedWeights,
                          unit_bytes(weight_options_, weights, weights.units[in_use_.second]));
  fetched_.erase(found);
}

// ---- optimizer

namespace {

// Parameters that are updated together. They are all of the same place.
struct Piece {
  std::int64_t parameters = 0;
  bool on_host = false;  // the weights
};

std::vector<Piece> pieces_of(const UpdatedParameters& parameters) {
  std::vector<Piece> pieces;
  const auto add = [&](std::int64_t count, bool on_host) {
    for (std::int64_t left = count; left > 0; left -= kPieceMost)
      pieces.push_back({std::min(left, kPieceMost), on_host});
  };
  add(parameters.all - parameters.on_host, false);
  add(parameters.on_host, true);
  return pieces;
}

// The optimizer on the CPU: for each piece, gradients go to the host, the CPU updates its state,
// and new weights come back. Each of the three has a separate stream, so that the pieces form a
// pipeline. The time of the CPU is its memory traffic divided by a share of the host's bandwidth.
void cpu_optimizer(const OptimizerOptions& options, const std::vector<Piece>& pieces,
                   std::int64_t gradient, ProgramBuilder& build) {
  const StateRecipe& recipe = options.state;
  const double each = optimizer_step_bytes(recipe);
  const double rate = kCpuOptimizerShare * options.host_bandwidth.value();
  TY_CHECK(rate > 0.0);
  const double weight = state_bytes_per_parameter(recipe).weights;
  for (const auto& [parameters, on_host] : pieces) {
    const OpIndex arrived =
        copy_to_host(build, "gradient_to_host", parameters * gradient, {build.last_compute()});
    const OpIndex updated =
        build.delay("cpu_" + options.name, Stream::HostWork,
                    Seconds{static_cast<double>(parameters) * each / rate}, {arrived});
    if (on_host) continue;  // the weights stay on the host
    build.wait_for(copy_from_host(build, "weights_from_host",
                                  std::llround(weight * static_cast<double>(parameters)),
                                  {updated}));
  }
}

// Bytes of a parameter that come to the GPU for its update and go back: state that is on the host,
// and weights there that are their own master copy.
double moved_state(const OptimizerOptions& options, const StateBytes& state, bool on_host) {
  double bytes = 0.0;
  if (options.where == OffloadedOptimizer::Fetch)
    bytes += state.master + state.first_moment + state.second_moment;
  if (on_host && state.master == 0.0) bytes += state.weights;
  return bytes;
}

// The optimizer on the GPU. What a piece has on the host is fetched, updated and stored. The fetch
// of a piece waits for the store of the piece two before it, so that the GPU holds at most two
// pieces.
void gpu_optimizer(const OptimizerOptions& options, const std::vector<Piece>& pieces,
                   std::int64_t gradient, ProgramBuilder& build) {
  const StateRecipe& recipe = options.state;
  const StateBytes state = state_bytes_per_parameter(recipe);
  const double clip = options.clips ? 2.0 * static_cast<double>(gradient) : 0.0;
  const double step = optimizer_step_bytes(recipe) + clip;
  OpIndex begun = build.last_compute();  // the first fetch waits for it; the others follow
  std::array<OpIndex, 2> stored{kNone, kNone};
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto parameters = static_cast<double>(pieces[i].parameters);
    const bool on_host = pieces[i].on_host;
    const std::int64_t bytes = std::llround(moved_state(options, state, on_host) * parameters);
    if (bytes > 0) {
      const OpIndex fetch =
          copy_from_host(build, "optimizer_state_fetch", bytes, {begun, stored[i % 2]});
      build.memory().allocate(fetch, Category::OptimizerState, bytes);
      build.wait_for(fetch);
      begun = kNone;
    }
    const OpIndex update =
        build.compute(options.name, MemoryBound{.kind = MemoryBoundKind::Optimizer,
                                                .bytes = std::llround(step * parameters),
                                                .launches = 1});
    if (bytes > 0) {
      stored[i % 2] = copy_to_host(build, "optimizer_state_store", bytes, {update});
      build.memory().release(stored[i % 2], Category::OptimizerState, bytes);
    }
    if (on_host && state.master > 0.0)
      copy_to_host(build, "weight_store", std::llround(state.weights * parameters), {update});
  }
}

}  // namespace

void offloaded_optimizer(const OptimizerOptions& options, const UpdatedParameters& parameters,
                         std::int64_t gradient, ProgramBuilder& build) {
  const std::vector<Piece> pieces = pieces_of(parameters);
  options.where == OffloadedOptimizer::Cpu ? cpu_optimizer(options, pieces, gradient, build)
                                           : gpu_optimizer(options, pieces, gradient, build);
}

}  // namespace trainyard
