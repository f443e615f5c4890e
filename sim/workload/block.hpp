// A block is a run of operations that is written once, such as the forward and backward of a
// microbatch through a stage. A program is a list of instances of blocks (operation_list.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

#include "sim/workload/operation.hpp"

namespace trainyard {

struct Block {
  OpIndex begin = 0;         // its first operation among those written
  OpIndex count = 0;         // of operations, at least one
  std::uint32_t inputs = 0;  // operations of earlier instances that it waits for, numbered from 0
  bool operator==(const Block&) const = default;
};

struct Instance {
  OpIndex first = 0;            // number of its first operation in the program
  std::uint32_t block = 0;      // number of the block
  std::int32_t microbatch = 0;  // added to the microbatches that the block's operations name
  std::uint32_t bindings = 0;   // its inputs, in OperationList::bindings
  bool operator==(const Instance&) const = default;
};

// A dependency is written as the place of an operation in its block, or as this plus the number of
// an input of the block.
inline constexpr OpIndex kBlockInput = OpIndex{1} << 31U;

// The operations that one waits for, by their numbers in the program.
class Dependencies {
 public:
  class const_iterator {
   public:
    using value_type = OpIndex;
    using difference_type = std::ptrdiff_t;
    using reference = OpIndex;
    using pointer = void;
    using iterator_category = std::forward_iterator_tag;

    const_iterator() = default;
    const_iterator(const OpIndex* at, OpIndex first, const OpIndex* bindings)
        : at_(at), bindings_(bindings), first_(first) {}
    [[nodiscard]] OpIndex operator*() const {
      return *at_ < kBlockInput ? first_ + *at_ : bindings_[*at_ - kBlockInput];
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
    const OpIndex* bindings_ = nullptr;
    OpIndex first_ = 0;
  };
  using iterator = const_iterator;
  using value_type = OpIndex;

  // `written`: as the block says it; `first` and `bindings` are those of the instance.
  Dependencies(std::span<const OpIndex> written, OpIndex first, const OpIndex* bindings)
      : written_(written), bindings_(bindings), first_(first) {}

  [[nodiscard]] const_iterator begin() const { return {written_.data(), first_, bindings_}; }
  [[nodiscard]] const_iterator end() const {
    return {written_.data() + written_.size(), first_, bindings_};
  }
  [[nodiscard]] std::size_t size() const { return written_.size(); }
  [[nodiscard]] bool empty() const { return written_.empty(); }

 private:
  std::span<const OpIndex> written_;
  const OpIndex* bindings_;
  OpIndex first_;
};

}  // namespace trainyard
