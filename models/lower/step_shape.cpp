#include "models/lower/step_shape.hpp"

#include <algorithm>

namespace trainyard {

namespace {

// Numbers of streams and categories that every step has.
constexpr std::size_t kCategoriesLeast = 9;
constexpr std::size_t kStreamsLeast = 8;

}  // namespace

std::vector<std::string> category_names() {
  return {"weights",
          "gradients",
          "optimizer_state",
          "activations",
          "logits",
          "communication",
          "framework",
          "workspace",
          "fragmentation",
          "unsharded_weights",
          std::string(kHostCategory)};
}

std::vector<std::string> stream_names() {
  return {"compute",
          "tensor",
          "send_forward",
          "recv_forward",
          "send_backward",
          "recv_backward",
          "data",
          "other",
          "send_forward_reverse",
          "recv_forward_reverse",
          "send_backward_reverse",
          "recv_backward_reverse",
          "all_gather",
          "reduce_scatter",
          "replica",
          "context",
          "send_context",
          "recv_context",
          "send_tensor",
          "recv_tensor",
          "expert",
          "store_host",
          "fetch_host",
          "host_work"};
}

void drop_unused_names(Workload& workload) {
  std::size_t streams = kStreamsLeast;
  std::size_t categories = kCategoriesLeast;
  const Program* before = nullptr;
  for (const Program& program : workload.programs) {
    if (before == nullptr || !program.same_template(*before)) {
      for (const Operation& op : program.operations.written())
        streams = std::max<std::size_t>(streams, op.stream + std::size_t{1});
    }
    before = &program;
    const auto use = [&](const MemoryEffect& effect) {
      categories = std::max<std::size_t>(categories, effect.category + std::size_t{1});
    };
    for (const MemoryEffect& effect : program.effects) use(effect);
    for (const auto& [op, effect] : program.single_effects) use(effect);
    for (const ResidentMemory& resident : program.resident)
      categories = std::max<std::size_t>(categories, resident.category + std::size_t{1});
  }
  workload.streams.resize(std::min(workload.streams.size(), streams));
  workload.categories.resize(std::min(workload.categories.size(), categories));
}

}  // namespace trainyard
