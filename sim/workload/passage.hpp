// A run of a program's operations that stands for operations written somewhere, and what one of
// them waits for (operation_list.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

#include "sim/workload/operation.hpp"

namespace trainyard {

struct Passage {
  OpIndex first = 0;                // its place in the list
  OpIndex count = 0;                // of operations, at least one
  std::uint32_t written = 0;        // its first one among those written
  std::int32_t later = 0;           // microbatches after the one that those written name
  OpIndex base = 0;                 // what inputs are counted from
  std::uint32_t outside_begin = 0;  // its inputs from before it, in OperationList::outside
  std::uint32_t outside_end = 0;
  std::uint32_t model = 0;  // the number of the first passage written there; its own, perhaps

  [[nodiscard]] OpIndex end() const { return first + count; }
  bool operator==(const Passage&) const = default;
};

// An input that is written as this or more is one of the passage's inputs from before it.
inline constexpr OpIndex kOutsideInput = OpIndex{1} << 31U;

// The operations that one waits for.
class OperationInputs {
 public:
  class const_iterator {
   public:
    using value_type = OpIndex;
    using difference_type = std::ptrdiff_t;
    using reference = OpIndex;
    using pointer = void;
    using iterator_category = std::forward_iterator_tag;

    const_iterator() = default;
    const_iterator(const OpIndex* at, OpIndex base, const OpIndex* outside)
        : at_(at), outside_(outside), base_(base) {}
    [[nodiscard]] OpIndex operator*() const {
      return *at_ < kOutsideInput ? base_ + *at_ : outside_[*at_ - kOutsideInput];
    }
    const_iterator& operator++() {
      ++at_;
      return *this;
    }
    const_iterator operator++(int) {
      const const_iterator before = *this;
      ++at_;
      return before;
    }
    bool operator==(const const_iterator& other) const { return at_ == other.at_; }

   private:
    const OpIndex* at_ = nullptr;
    const OpIndex* outside_ = nullptr;
    OpIndex base_ = 0;
  };
  using iterator = const_iterator;
  using value_type = OpIndex;

  // `outside`: those of the operation's passage.
  OperationInputs(std::span<const OpIndex> written, OpIndex base, const OpIndex* outside)
      : written_(written), outside_(outside), base_(base) {}

  [[nodiscard]] const_iterator begin() const { return {written_.data(), base_, outside_}; }
  [[nodiscard]] const_iterator end() const {
    return {written_.data() + written_.size(), base_, outside_};
  }
  [[nodiscard]] std::size_t size() const { return written_.size(); }
  [[nodiscard]] bool empty() const { return written_.empty(); }

 private:
  std::span<const OpIndex> written_;
  const OpIndex* outside_;
  OpIndex base_;
};

}  // namespace trainyard
