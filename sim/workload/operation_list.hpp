// The operations of a program in issue order, stored as instances of blocks. A microbatch with the
// operations of an earlier one takes a few words, however many operations it has. A list built by
// hand is one instance of one block.
//
//    OperationList list{{.payload = 1}, {.payload = 2}};
//    list[1].payload;                            // 2
//    for (const Operation& op : list) use(op);   // in order; faster than access by index
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace trainyard {

using OpIndex = std::uint32_t;
inline constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

enum class OpKind : std::uint8_t { Compute, Collective, Send, Recv, Delay };
[[nodiscard]] std::string_view to_string(OpKind kind);
[[nodiscard]] constexpr bool communicates(OpKind kind) {
  return kind == OpKind::Collective || kind == OpKind::Send || kind == OpKind::Recv;
}

// The category of a compute operation in the breakdown.
enum class WorkClass : std::uint8_t { Compute, Optimizer };

// The part of the step that an operation belongs to. It selects colours in traces and reports.
enum class StepPart : std::uint8_t {
  Forward,
  Backward,
  Recompute,
  WeightGrad,
  GradSync,
  ParamSync,
  Optimizer,
  Other
};
[[nodiscard]] std::string_view to_string(StepPart part);

// One operation of a program: its work, its stream, its microbatch.
struct Operation {
  OpKind kind = OpKind::Compute;
  std::uint8_t stream = 0;  // index into Workload::streams; stream 0 is the compute stream
  WorkClass work = WorkClass::Compute;
  StepPart part = StepPart::Other;
  std::uint16_t name = 0;  // index into Workload::names
  std::uint16_t slot = 0;  // communication: the slot of the rank that binds the group
  // Compute: the kernel (Program::kernel_of); Collective, Send, Recv: the call; Delay: the delay.
  std::uint32_t payload = 0;
  std::int32_t microbatch = -1;  // tag for traces and reports, as layer; -1: none
  std::int32_t layer = -1;
  std::uint32_t dependencies_begin = 0;  // range in OperationList::Content
  std::uint32_t dependencies_end = 0;
  std::uint32_t effects_begin = 0;  // range in Program::effects
  std::uint32_t effects_end = 0;
  bool operator==(const Operation&) const = default;
};

// A block is a sequence of operations that is stored once, such as the forward and backward of a
// microbatch through a stage. A program is a list of instances of blocks.
struct Block {
  OpIndex begin = 0;         // its first operation in Content::operations
  OpIndex count = 0;         // number of operations, at least one
  std::uint32_t inputs = 0;  // number of operations of earlier instances that it depends on
  bool operator==(const Block&) const = default;
};

struct Instance {
  OpIndex first = 0;            // index of its first operation in the program
  std::uint32_t block = 0;      // index of the block
  std::int32_t microbatch = 0;  // offset of the microbatch tags of the block's operations
  std::uint32_t bindings = 0;   // its inputs begin here in Content::bindings
  bool operator==(const Instance&) const = default;
};

// A stored dependency is the index of an operation in its block, or kBlockInput plus the index of
// an input of the block.
inline constexpr OpIndex kBlockInput = OpIndex{1} << 31U;

// The dependencies of an operation, by their indices in the program.
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

  // `written` has the stored dependencies of the block; `first` and `bindings` are the instance's.
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

// Copies share their content until one of them changes (copy on write). Lists that arrange the same
// blocks share these blocks.
class OperationList {
 public:
  struct Content {
    std::vector<Operation> operations = {};  // of all blocks, one after the other
    std::vector<OpIndex> dependencies = {};  // of all operations, as stored (see kBlockInput)
    std::vector<Block> blocks = {};          // in the order of their operations, without gaps
    std::vector<Instance> instances = {};    // in the order of the program, without gaps
    std::vector<OpIndex> bindings = {};      // of all instances
  };

 private:
  struct Written {
    std::vector<Operation> operations = {};
    std::vector<OpIndex> dependencies = {};
    std::vector<Block> blocks = {};
  };
  // Returns an operation of a block with the microbatch of an instance.
  [[nodiscard]] static Operation of_instance(Operation op, std::int32_t microbatch) {
    if (op.microbatch >= 0) op.microbatch += microbatch;
    return op;
  }

 public:
  class const_iterator {
   public:
    using value_type = Operation;
    using difference_type = std::ptrdiff_t;
    using reference = Operation;
    using pointer = void;
    using iterator_category = std::input_iterator_tag;

    const_iterator() = default;
    [[nodiscard]] Operation operator*() const { return of_instance(*at_, microbatch_); }
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
    const Written* written_ = nullptr;
    std::span<const Instance> next_ = {};
  };
  using iterator = const_iterator;
  using value_type = Operation;

  OperationList() = default;
  OperationList(std::initializer_list<Operation> operations)
      : OperationList(std::vector<Operation>(operations)) {}
  // NOLINTNEXTLINE(google-explicit-constructor): a vector of operations converts to a list.
  OperationList(std::vector<Operation> operations);
  // REQUIRES: blocks and instances satisfy the conditions in Content.
  explicit OperationList(Content content);
  // Returns a list of other instances of this list's blocks. Both lists share the blocks.
  [[nodiscard]] OperationList rearranged(std::vector<Instance> instances,
                                         std::vector<OpIndex> bindings) const;

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] const_iterator begin() const;
  [[nodiscard]] const_iterator end() const { return {}; }
  // REQUIRES: index < size(); for front and back: not empty. `at` throws std::out_of_range.
  [[nodiscard]] Operation operator[](std::size_t index) const {
    const Written& written = *shared_->written;
    const Instance& instance = instance_of(static_cast<OpIndex>(index));
    const Block& block = written.blocks.data()[instance.block];
    return of_instance(written.operations.data()[block.begin + (index - instance.first)],
                       instance.microbatch);
  }
  [[nodiscard]] Operation at(std::size_t index) const;
  [[nodiscard]] Operation front() const { return (*this)[0]; }
  [[nodiscard]] Operation back() const { return (*this)[size() - 1]; }

  [[nodiscard]] Dependencies dependencies_of(OpIndex op) const {
    const Written& written = *shared_->written;
    const Instance& instance = instance_of(op);
    const Operation& it =
        written.operations
            .data()[written.blocks.data()[instance.block].begin + (op - instance.first)];
    const OpIndex* all = written.dependencies.data();
    return {{all + it.dependencies_begin, all + it.dependencies_end},
            instance.first,
            shared_->bindings.data() + instance.bindings};
  }

  [[nodiscard]] std::span<const Instance> instances() const {
    return shared_ ? std::span<const Instance>(shared_->instances) : std::span<const Instance>();
  }
  [[nodiscard]] std::span<const Block> blocks() const {
    return shared_ ? std::span<const Block>(shared_->written->blocks) : std::span<const Block>();
  }
  // REQUIRES: the instance is of this list.
  [[nodiscard]] const Block& block_of(const Instance& instance) const {
    return shared_->written->blocks[instance.block];
  }
  [[nodiscard]] std::span<const OpIndex> bindings_of(const Instance& instance) const {
    return std::span(shared_->bindings).subspan(instance.bindings, block_of(instance).inputs);
  }
  [[nodiscard]] std::span<const OpIndex> bindings() const {
    return shared_ ? std::span<const OpIndex>(shared_->bindings) : std::span<const OpIndex>();
  }
  // The position of an operation: its instance, and its index in the block.
  struct Position {
    std::uint32_t instance = 0;
    OpIndex place = 0;
  };
  // REQUIRES: op < size().
  [[nodiscard]] Position position_of(OpIndex op) const {
    const Instance& instance = instance_of(op);
    return {static_cast<std::uint32_t>(&instance - shared_->instances.data()), op - instance.first};
  }
  // The operations of all blocks, each once, and their dependencies as stored.
  [[nodiscard]] std::span<const Operation> written() const {
    return shared_ ? std::span<const Operation>(shared_->written->operations)
                   : std::span<const Operation>();
  }
  [[nodiscard]] std::span<const OpIndex> dependencies() const {
    return shared_ ? std::span<const OpIndex>(shared_->written->dependencies)
                   : std::span<const OpIndex>();
  }
  // Returns a copy of all content.
  [[nodiscard]] Content content() const;

  // True if both are unchanged copies of one list. False for lists that never had content.
  [[nodiscard]] bool shares_with(const OperationList& other) const {
    return shared_ != nullptr && shared_ == other.shared_;
  }
  // True if the blocks of both are unchanged copies of those of one list.
  [[nodiscard]] bool shares_blocks_with(const OperationList& other) const {
    return shared_ != nullptr && other.shared_ != nullptr &&
           shared_->written == other.shared_->written;
  }

  // Returns the operations of the blocks for modification, in this list only, but in all instances.
  // Valid until the list is copied next. REQUIRES: the number of operations stays the same.
  [[nodiscard]] std::span<Operation> edit();
  // Appends an operation with its dependencies. REQUIRES: the list has at most one block, with one
  // instance.
  void push_back(Operation op, std::span<const OpIndex> dependencies = {});

 private:
  struct Shared {
    std::shared_ptr<Written> written = std::make_shared<Written>();
    std::vector<Instance> instances = {};
    std::vector<OpIndex> bindings = {};
    std::vector<std::uint32_t> instance_at = {};  // of every 2^kStride-th operation
  };
  static constexpr unsigned kStride = 6;  // as a power of two: 64 operations

  void number_instances();
  [[nodiscard]] Shared& own();
  [[nodiscard]] const Instance& instance_of(OpIndex op) const {
    const std::vector<Instance>& instances = shared_->instances;
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
  const Block& block = written_->blocks[instance.block];
  next_ = next_.subspan(1);
  at_ = written_->operations.data() + block.begin;
  end_ = at_ + block.count;
  microbatch_ = instance.microbatch;
}

}  // namespace trainyard
