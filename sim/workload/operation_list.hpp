// The operations of a program in issue order, of which what is done again is written once.
//
// A list is passages, one behind the other. A passage stands for operations that are written
// somewhere, in a microbatch so many later, with inputs of its own from before it: a microbatch
// that goes as one before it takes a few words, however much it does. A list made by hand is one
// passage that stands for itself.
//
//   OperationList list{{.payload = 1}, {.payload = 2}};
//   list[1].payload;                          // 2
//   for (const Operation& op : list) ...;     // in order, quicker than by number
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sim/workload/passage.hpp"

namespace trainyard {

// Copies share what they stand for until one of them is changed.
class OperationList {
 public:
  class const_iterator {
   public:
    using value_type = Operation;
    using difference_type = std::ptrdiff_t;
    using reference = Operation;
    using pointer = void;
    using iterator_category = std::input_iterator_tag;

    const_iterator() = default;
    [[nodiscard]] Operation operator*() const {
      Operation op = *at_;
      op.microbatch += later_;
      return op;
    }
    const_iterator& operator++() {
      if (++at_ == end_) enter();
      return *this;
    }
    const_iterator operator++(int) {
      const const_iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const const_iterator& other) const {
      return at_ == other.at_ && passages_.size() == other.passages_.size();
    }

   private:
    friend class OperationList;
    void enter();

    const Operation* at_ = nullptr;   // null: at the end
    const Operation* end_ = nullptr;  // of the passage
    std::int32_t later_ = 0;
    const Operation* written_ = nullptr;
    std::span<const Passage> passages_ = {};  // to come
  };
  using iterator = const_iterator;
  using value_type = Operation;

  OperationList() = default;
  OperationList(std::initializer_list<Operation> operations)
      : OperationList(std::vector<Operation>(operations)) {}
  // NOLINTNEXTLINE(google-explicit-constructor): a list is a list
  OperationList(std::vector<Operation> operations);
  // REQUIRES: the passages are in order and without gaps, from 0 on, and stand for what is written.
  OperationList(std::vector<Operation> written, std::vector<Passage> passages,
                std::vector<OpIndex> outside);

  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] const_iterator begin() const;
  [[nodiscard]] const_iterator end() const { return {}; }
  // REQUIRES: index < size(); for front and back: not empty. `at` throws std::out_of_range.
  [[nodiscard]] Operation operator[](std::size_t index) const {
    if (lists_->passages.empty()) return lists_->written.data()[index];
    const Passage& passage = passage_of(static_cast<OpIndex>(index));
    Operation op = lists_->written.data()[passage.written + (index - passage.first)];
    op.microbatch += passage.later;
    return op;
  }
  [[nodiscard]] Operation at(std::size_t index) const;
  [[nodiscard]] Operation front() const { return (*this)[0]; }
  [[nodiscard]] Operation back() const { return (*this)[size() - 1]; }

  // That an operation is of.
  [[nodiscard]] Passage passage_at(OpIndex op) const;
  // Of an operation, whose range is one of `written`.
  [[nodiscard]] OperationInputs inputs_of(OpIndex op, const OpIndex* written) const;

  // All of the list; one where all is written for itself.
  [[nodiscard]] std::vector<Passage> passages() const;
  [[nodiscard]] std::span<const Operation> written() const;
  // Inputs of passages from before them.
  [[nodiscard]] std::span<const OpIndex> outside() const;

  // Apart from what is written.
  [[nodiscard]] bool same_passages(const OperationList& other) const;

  // Both are copies of one list, changed since by neither. Never so for lists never written to.
  [[nodiscard]] bool shares_with(const OperationList& other) const {
    return lists_ != nullptr && lists_ == other.lists_;
  }

  // What is written, to change it in this list and no other, for all that stands for it. Valid
  // until the list is next copied. REQUIRES: of a list with passages none comes or goes.
  [[nodiscard]] std::vector<Operation>& edit();
  // REQUIRES: the list has no passage but itself.
  void push_back(const Operation& op);

 private:
  struct Lists {
    std::vector<Operation> written = {};
    std::vector<Passage> passages = {};  // none: what is written is the list
    std::vector<OpIndex> outside = {};
    std::vector<std::uint32_t> passage_at = {};  // the passage of every so-many-th operation
  };
  static constexpr unsigned kStride = 6;  // as a power of two

  [[nodiscard]] const Passage& passage_of(OpIndex op) const {
    const Passage* passage = lists_->passages.data() + lists_->passage_at.data()[op >> kStride];
    while (op >= passage->end()) ++passage;
    return *passage;
  }

  std::shared_ptr<Lists> lists_;
};

inline void OperationList::const_iterator::enter() {
  if (passages_.empty()) {
    at_ = nullptr;
    return;
  }
  const Passage& passage = passages_.front();
  passages_ = passages_.subspan(1);
  at_ = written_ + passage.written;
  end_ = at_ + passage.count;
  later_ = passage.later;
}

inline OperationInputs OperationList::inputs_of(OpIndex op, const OpIndex* written) const {
  const Lists& lists = *lists_;
  OpIndex base = 0;
  const OpIndex* outside = nullptr;
  std::size_t at = op;
  if (!lists.passages.empty()) {
    const Passage& passage = passage_of(op);
    at = passage.written + (op - passage.first);
    base = passage.base;
    outside = lists.outside.data() + passage.outside_begin;
  }
  const Operation& it = lists.written.data()[at];
  return {{written + it.dependencies_begin, written + it.dependencies_end}, base, outside};
}

}  // namespace trainyard
