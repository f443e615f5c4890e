// The content of a trace for the ranks of one class: threads, spans and memory, in no file format.
//
// A rank shows the spans of its class. A communication's kernel spans the time it moves; the time
// it awaits others stands before it as "wait". What differs between ranks of the class (numbers of
// devices and groups) is named, not said, so that a writer fills it in for each.
//
//   ClassTrace trace(view, rank_class);
//   trace.for_each_slice([&](const ShownSlice& slice) { ... });
//   rank_values(view, rank)[index_of({.what = RankValue::What::Device})];    // "3"
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

// A value that each rank has of its own. The values of a group are those of the group in a slot.
struct RankValue {
  enum class What : std::uint8_t { Rank, Device, GroupName, GroupRanks, Source, Destination };
  What what = What::Rank;
  std::uint16_t slot = 0;
};
[[nodiscard]] std::size_t index_of(const RankValue& value);
// The values of a rank as plain text, by index_of; "" for a slot that it does not use.
[[nodiscard]] std::vector<std::string> rank_values(const RunView& view, RankId rank);
// "rank 3 (node 0, gpu 3) dp0 pp1".
[[nodiscard]] std::string process_name(const RunView& view, RankId rank);

struct ShownThread {
  std::uint64_t number = 0;
  std::string name;
  std::uint64_t position = 0;  // among the threads of a rank, from above
  bool messages = false;       // among its slices are sends or receives
};

struct ShownArgument {
  std::string_view name;
  std::variant<std::int64_t, std::string_view, RankValue> value;
};

// The i-th message on the group of a slot.
struct ShownMessage {
  std::uint16_t slot = 0;
  std::uint32_t call = 0;
  bool receives = false;
};

// Texts and arguments live as long as the ClassTrace, the span of arguments until the next slice.
struct ShownSlice {
  std::uint64_t thread = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::string_view category;  // plain word
  std::string_view name;
  std::uint32_t correlation = 0;  // from 1, within the rank; 0: no work of the GPU
  std::optional<ShownMessage> message = {};
  std::span<const ShownArgument> arguments = {};
};

// Bytes by category at an instant at which some changed (at the start, all).
struct ShownMemory {
  std::int64_t at_ns = 0;
  std::span<const std::size_t> changed;  // categories
  std::span<const std::int64_t> bytes;
  std::int64_t total = 0;
};

class ClassTrace {
 public:
  ClassTrace(const RunView& view, std::uint32_t rank_class);

  [[nodiscard]] const std::vector<ShownThread>& threads() const { return threads_; }
  // In issue order, so that those of a thread stand in order of time.
  void for_each_slice(const std::function<void(const ShownSlice&)>& visit);
  // In order of time.
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
  const Rank& rank_;  // which stands for all
  const Program& program_;
  const OpTimes& times_;
  std::vector<ShownThread> threads_;
  std::vector<std::uint32_t> calls_of_slot_;
  std::vector<ShownArgument> arguments_;                     // of the slice being shown
  std::unordered_map<std::uint32_t, std::string> kernels_;   // by number
  std::unordered_map<std::uint64_t, CallTexts> call_texts_;  // by slot and payload
  std::vector<std::string> wait_names_;                      // by group kind
};

}  // namespace trainyard
