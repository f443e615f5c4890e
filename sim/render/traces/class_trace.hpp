// The content of a trace for the ranks of one class (threads, spans and memory), in no file format.
//
// A rank shows the spans of its class. The span of a communication kernel covers the time in which
// it moves data; a span "wait" before it covers the time in which the rank waits for the other
// members. Values that differ between ranks of the class (numbers of devices and groups) appear as
// references, so that a writer inserts the value of each rank.
//
//    ClassTrace trace(view, rank_class);
//    trace.for_each_slice([&](const ShownSlice& slice) { use(slice.name, slice.start_ns); });
//    rank_values(view, rank)[index_of({.what = RankValue::What::Device})];    // "3"
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "sim/report/run_view.hpp"

namespace trainyard {

// A value that differs between the ranks of a class. `slot` selects the group of a group's values.
struct RankValue {
  enum class What : std::uint8_t { Rank, Device, GroupName, GroupRanks, Source, Destination };
  What what = What::Rank;
  std::uint16_t slot = 0;
};
[[nodiscard]] std::size_t index_of(const RankValue& value);
// Returns the values of a rank as plain text, by index_of; "" for a slot that the rank does not
// use.
[[nodiscard]] std::vector<std::string> rank_values(const RunView& view, RankId rank);
// Returns "rank 3 (node 0, gpu 3) dp0 pp1".
[[nodiscard]] std::string process_name(const RunView& view, RankId rank);

struct ShownThread {
  std::uint64_t number = 0;
  std::string name;
  std::uint64_t position = 0;  // among the threads of a rank, from the top
  bool messages = false;       // whether its slices include sends or receives
};

struct ShownArgument {
  std::string_view name;
  std::variant<std::int64_t, std::string_view, RankValue> value;
};

// A message, identified by its position `call` among the messages on the group of a slot.
struct ShownMessage {
  std::uint16_t slot = 0;
  std::uint32_t call = 0;
  bool receives = false;
};

// One span of a thread. Texts and arguments live as long as the ClassTrace; the span of arguments
// is valid until the next slice.
struct ShownSlice {
  std::uint64_t thread = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::string_view category;  // a plain word
  std::string_view name;
  std::uint32_t correlation = 0;  // from 1, within the rank; 0: not work of the GPU
  std::optional<ShownMessage> message = {};
  std::span<const ShownArgument> arguments = {};
};

// The bytes by category at an instant at which some of them changed (at the start, all).
struct ShownMemory {
  std::int64_t at_ns = 0;
  std::span<const std::size_t> changed;  // categories that changed
  std::span<const std::int64_t> bytes;
  std::int64_t total = 0;
};

class ClassTrace {
 public:
  ClassTrace(const RunView& view, std::uint32_t rank_class);

  [[nodiscard]] const std::vector<ShownThread>& threads() const { return threads_; }
  // Visits slices in issue order, so that those of one thread are in order of time.
  void for_each_slice(const std::function<void(const ShownSlice&)>& visit);
  // Visits points in order of time.
  void for_each_memory(const std::function<void(const ShownMemory&)>& visit) const;

 private:
  struct CallTexts {
    std::string name;
    std::string algorithm;
  };

  [[nodiscard]] ShownSlice slice_of(OpIndex index, std::string_view category) const;
  void common_arguments(const Operation& op);
  ShownSlice kernel(OpIndex index);
  ShownSlice communication(OpIndex index);
  [[nodiscard]] std::optional<ShownSlice> wait(OpIndex index);
  const std::string& kernel_text(std::uint32_t kernel);
  const CallTexts& call_texts(const Operation& op);
  void group_arguments(std::uint16_t slot);

  const RunView& view_;
  std::uint32_t class_;
  const Rank& rank_;  // representative of the class
  const Program& program_;
  const OpTimes& times_;
  std::vector<ShownThread> threads_;
  std::vector<std::uint32_t> calls_of_slot_;
  std::vector<ShownArgument> arguments_;                     // of the current slice
  std::unordered_map<std::uint32_t, std::string> kernels_;   // by number
  std::unordered_map<std::uint64_t, CallTexts> call_texts_;  // by slot and payload
  std::vector<std::string> wait_names_;                      // by group kind
};

}  // namespace trainyard
