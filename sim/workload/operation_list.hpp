// The operations of a program in issue order, as instances of blocks (block.hpp): a microbatch that
// goes as one before it takes a few words, however much it does. A list made by hand is one
// instance of one block.
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

#include "sim/workload/block.hpp"

namespace trainyard {

// Copies share their content until one of them is changed.
class OperationList {
 public:
  struct Content {
    std::vector<Operation> operations = {};  // of all blocks, one behind the other
    std::vector<OpIndex> dependencies = {};  // of all operations, as written (kBlockInput)
    std::vector<Block> blocks = {};          // in the order of their operations, without gaps
    std::vector<Instance> instances = {};    // in the order of the program, without gaps
    std::vector<OpIndex> bindings = {};      // of all instances
  };

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
      op.microbatch += microbatch_;
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
      return at_ == other.at_ && next_.size() == other.next_.size();
    }

   private:
    friend class OperationList;
    void enter();

    const Operation* at_ = nullptr;   // null: at the end
    const Operation* end_ = nullptr;  // of the instance
    std::int32_t microbatch_ = 0;
    const Content* content_ = nullptr;
    std::span<const Instance> next_ = {};
  };
  using iterator = const_iterator;
  using value_type = Operation;

  OperationList() = default;
  OperationList(std::initializer_list<Operation> operations)
      : OperationList(std::vector<Operation>(operations)) {}
  // NOLINTNEXTLINE(google-explicit-constructor): a list is a list
  OperationList(std::vector<Operation> operations);
  // REQUIRES: blocks and instances fit together, as `Content` says.
  explicit OperationList(Content content);

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] const_iterator begin() const;
  [[nodiscard]] const_iterator end() const { return {}; }
  // REQUIRES: index < size(); for front and back: not empty. `at` throws std::out_of_range.
  [[nodiscard]] Operation operator[](std::size_t index) const {
    const Content& content = shared_->content;
    if (content.instances.size() == 1) return content.operations.data()[index];
    const Instance& instance = instance_of(static_cast<OpIndex>(index));
    const Block& block = content.blocks.data()[instance.block];
    Operation op = content.operations.data()[block.begin + (index - instance.first)];
    op.microbatch += instance.microbatch;
    return op;
  }
  [[nodiscard]] Operation at(std::size_t index) const;
  [[nodiscard]] Operation front() const { return (*this)[0]; }
  [[nodiscard]] Operation back() const { return (*this)[size() - 1]; }

  [[nodiscard]] Dependencies dependencies_of(OpIndex op) const {
    const Content& content = shared_->content;
    const Instance& instance = instance_of(op);
    const Operation& it =
        content.operations
            .data()[content.blocks.data()[instance.block].begin + (op - instance.first)];
    const OpIndex* written = content.dependencies.data();
    return {{written + it.dependencies_begin, written + it.dependencies_end},
            instance.first,
            content.bindings.data() + instance.bindings};
  }

  [[nodiscard]] std::span<const Instance> instances() const { return content().instances; }
  [[nodiscard]] std::span<const Block> blocks() const { return content().blocks; }
  [[nodiscard]] const Block& block_of(const Instance& instance) const {
    return content().blocks[instance.block];
  }
  [[nodiscard]] std::span<const OpIndex> bindings_of(const Instance& instance) const {
    return std::span(content().bindings).subspan(instance.bindings, block_of(instance).inputs);
  }
  // Where an operation stands: in which instance, and at which place of its block.
  struct Position {
    std::uint32_t instance = 0;
    OpIndex place = 0;
  };
  // REQUIRES: op < size().
  [[nodiscard]] Position position_of(OpIndex op) const {
    const Instance& instance = instance_of(op);
    return {static_cast<std::uint32_t>(&instance - shared_->content.instances.data()),
            op - instance.first};
  }
  // The operations of all blocks, each written once.
  [[nodiscard]] std::span<const Operation> written() const { return content().operations; }
  [[nodiscard]] const Content& content() const;

  // Both are copies of one list, changed since by neither. Never so for lists never written to.
  [[nodiscard]] bool shares_with(const OperationList& other) const {
    return shared_ != nullptr && shared_ == other.shared_;
  }

  // The operations of the blocks, to change them in this list and no other, in all instances. Valid
  // until the list is next copied. REQUIRES: none comes or goes.
  [[nodiscard]] std::span<Operation> edit();
  // Adds an operation at the end, with its dependencies. REQUIRES: the list has no block but one.
  void push_back(Operation op, std::span<const OpIndex> dependencies = {});

 private:
  struct Shared {
    Content content = {};
    std::vector<std::uint32_t> instance_at = {};  // the instance of every so-many-th operation
  };
  static constexpr unsigned kStride = 6;  // as a power of two

  [[nodiscard]] Shared& own();
  [[nodiscard]] const Instance& instance_of(OpIndex op) const {
    const std::vector<Instance>& instances = shared_->content.instances;
    const Instance* instance = instances.data();
    if (instances.size() == 1) return *instance;
    instance += shared_->instance_at.data()[op >> kStride];
    const Instance* const last = instances.data() + (instances.size() - 1);
    while (instance != last && op >= (instance + 1)->first) ++instance;
    return *instance;
  }

  std::shared_ptr<Shared> shared_;
  std::size_t size_ = 0;
};

inline void OperationList::const_iterator::enter() {
  if (next_.empty()) {
    at_ = nullptr;
    return;
  }
  const Instance& instance = next_.front();
  const Block& block = content_->blocks[instance.block];
  next_ = next_.subspan(1);
  at_ = content_->operations.data() + block.begin;
  end_ = at_ + block.count;
  microbatch_ = instance.microbatch;
}

}  // namespace trainyard
