#include "sim/collectives/custom/custom_algorithm.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>

#include "sim/collectives/loads.hpp"
#include "sim/collectives/messages.hpp"

namespace trainyard {

namespace {

class CustomAlgorithm final : public CollectiveAlgorithm {
 public:
  explicit CustomAlgorithm(SendPlan plan) : plan_(std::move(plan)) {}
  std::string_view name() const override { return plan_.name; }
  CollectiveOp op() const override { return plan_.op; }
  std::string_view summary() const override { return plan_.summary; }
  std::uint32_t pieces(const PlacedGroup& /*placed*/) const override { return plan_.pieces; }
  std::optional<std::string> refusal(const PlacedGroup& placed) const override {
    if (placed.gpus.size() == plan_.ranks) return {};
    return fmt::format("its list of sends is for {} ranks, not {}", plan_.ranks,
                       placed.gpus.size());
  }
  std::vector<Phase> phases(const PlacedGroup& placed, Bytes bytes) const override {
    return phases_by_step(placed, messages(placed, bytes), FlowOf::Message);
  }
  std::vector<Message> messages(const PlacedGroup& placed, Bytes bytes) const override {
    const Cut cut{.op = plan_.op, .ranks = plan_.ranks, .pieces = plan_.pieces};
    std::vector<Message> messages = plan_.messages;
    for (Message& message : messages)
      message.bytes = bytes_of(message, cut, bytes.value(), placed.matrix);
    return messages;
  }

 private:
  SendPlan plan_;
};

}  // namespace

bool names_algorithm_file(std::string_view name) {
  return name.ends_with(".json") || name.ends_with(".xml");
}

// Caches each file's algorithm, because phases are queried once per group and call and a file must
// not be read and checked each time.
const CollectiveAlgorithm& algorithm_of_file(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<CustomAlgorithm>> known;
  const std::scoped_lock lock(mutex);
  std::unique_ptr<CustomAlgorithm>& entry = known[path];
  if (!entry)
    entry = std::make_unique<CustomAlgorithm>(path.ends_with(".xml") ? read_msccl_xml(path)
                                                                     : read_send_list(path));
  return *entry;
}

}  // namespace trainyard
