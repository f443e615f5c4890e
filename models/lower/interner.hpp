// Names, kernels and calls of all programs of a workload, each stored once.
//
//   Interner interner(workload);
//   const std::uint16_t name = interner.name("qkv_gemm");
//   op.payload = interner.kernel(Gemm{...});
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard {

// What tells apart the calls of a step that are made by key: layer, direction and the like. All
// such calls of a workload must use the numbers alike.
using CallKey = std::array<std::int64_t, 5>;

class Interner {
 public:
  explicit Interner(Workload& workload) : workload_(workload) {}
  [[nodiscard]] std::uint16_t name(std::string_view text);
  [[nodiscard]] std::uint32_t kernel(const Kernel& kernel);
  [[nodiscard]] std::uint32_t call(const Call& call);
  // For one that takes long to make: the first time that the key comes.
  [[nodiscard]] std::uint32_t call(const CallKey& key, const std::function<Call()>& make);
  [[nodiscard]] std::uint32_t delay(Seconds time);
  // Notes the field that chose the algorithm of an operation's calls through the slot. REQUIRES:
  // one field for all of them.
  void note_choice(std::uint16_t slot, CollectiveOp op, const std::string& field);

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  Workload& workload_;
  std::unordered_map<std::string, std::uint16_t, TextHash, std::equal_to<>> names_;
  std::map<Kernel, std::uint32_t> kernels_;
  std::map<Call, std::uint32_t> calls_;
  std::map<CallKey, std::uint32_t> calls_by_key_;
};

}  // namespace trainyard
