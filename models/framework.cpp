#include "models/framework.hpp"

#include <cmath>

#include "models/framework_file.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

FrameworkMemory load_framework(const std::string& name) {
  JsonFile file = framework_file(name);
  JsonObject root = file.root();
  const auto bytes = [&root](std::string_view key) {
    return static_cast<std::int64_t>(std::llround(sourced(root, key).bytes("value").value()));
  };
  const auto share = [&root](std::string_view key) {
    return sourced(root, key).number("value", {.least = 0.0, .most = 1.0});
  };
  const auto truth = [&root](std::string_view key) {
    return root.has(key) && sourced(root, key).boolean("value", false);
  };
  const auto count = [&root](std::string_view key, std::int64_t absent) -> std::int64_t {
    return root.has(key) ? sourced(root, key).integer("value", {.least = 0, .most = 100}) : absent;
  };
  static_cast<void>(root.text("title"));
  root.ignore("kernel_time");  // framework_times.hpp
  root.ignore("exchange_sms");
  root.ignore("gradient_passes");  // gradient_passes.hpp
  root.ignore("streaming");        // streaming_kernels.hpp
  root.ignore("practices");        // framework_file.hpp
  const FrameworkMemory memory{.context_bytes = bytes("context"),
                               .workspace_bytes = bytes("workspace"),
                               .channel_bytes = bytes("channel"),
                               .fragmentation = share("fragmentation"),
                               .gradient_placeholders = truth("gradient_placeholders"),
                               .expert_row_copies = count("expert_row_copies", 0),
                               .gradient_buckets_in_flight = count("gradient_buckets_in_flight", 2),
                               .loss_copies = count("loss_copies", 1)};
  file.finish();
  return memory;
}

}  // namespace trainyard
