// The operations of a program in issue order, as instances of blocks: a microbatch that goes as one
// before it takes a few words, however much it does. A list made by hand is one instance of one
// block.
//
//   OperationList list{{.payload = 1}, {.payload = 2}};
//   list[1].payload;                          // 2
//   for (const Operation& op : list) ...;     // in order, quicker than by number
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

// The breakdown counts a compute operation as this.
enum class WorkClass : std::uint8_t { Compute, Optimizer };

// The part of the step that an operation belongs to; it colours traces and reports.
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
  std::uint16_t slot = 0;  // communication: which group of the rank
  // Compute: kernel (Program::kernel_of); Collective, Send, Recv: call; Delay: delay
  std::uint32_t payload = 0;
  std::int32_t microbatch = -1;  // tags for traces and reports; -1: none
  std::int32_t layer = -1;
  std::uint32_t dependencies_begin = 0;  // range in OperationList::Content
  std::uint32_t dependencies_end = 0;
  std::uint32_t effects_begin = 0;  // range in Program::effects
  std::uint32_t effects_end = 0;
  bool operator==(const Operation&) const = default;
};

// A block is a run of operations that is written once, such as the forward and backward of a
// microbatch through a stage. A program is a list of instances of blocks.
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

// Copies share their content until one of them is changed. Lists that arrange the same blocks share
// these.
class OperationList {
 public:
  struct Content {
    std::vector<Operation> operations = {};  // of all blocks, one behind the other
    std::vector<OpIndex> dependencies = {};  // of all operations, as written (kBlockInput)
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
  // An operation of a block as an instance has it.
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
  // NOLINTNEXTLINE(google-explicit-constructor): a list is a list
  OperationList(std::vector<Operation> operations);
  // REQUIRES: blocks and instances fit together, as `Content` says.
  explicit OperationList(Content content);
  // The blocks of this list as other instances, which share them.
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
  // Where an operation stands: in which instance, and at which place of its block.
  struct Position {
    std::uint32_t instance = 0;
    OpIndex place = 0;
  };
  // REQUIRES: op < size().
  [[nodiscard]] Position position_of(OpIndex op) const {
    const Instance& instance = instance_of(op);
    return {static_cast<std::uint32_t>(&instance - shared_->instances.data()), op - instance.first};
  }
  // The operations of all blocks, each written once, and their dependencies as written.
  [[nodiscard]] std::span<const Operation> written() const {
    return shared_ ? std::span<const Operation>(shared_->written->operations)
                   : std::span<const Operation>();
  }
  [[nodiscard]] std::span<const OpIndex> dependencies() const {
    return shared_ ? std::span<const OpIndex>(shared_->written->dependencies)
                   : std::span<const OpIndex>();
  }
  // A copy of all of it.
  [[nodiscard]] Content content() const;

  // Both are copies of one list, changed since by neither. Never so for lists never written to.
  [[nodiscard]] bool shares_with(const OperationList& other) const {
    return shared_ != nullptr && shared_ == other.shared_;
  }
  // The blocks of both are those of one list, changed since in neither.
  [[nodiscard]] bool shares_blocks_with(const OperationList& other) const {
    return shared_ != nullptr && other.shared_ != nullptr &&
           shared_->written == other.shared_->written;
  }

  // The operations of the blocks, to change them in this list and no other, in all instances. Valid
  // until the list is next copied. REQUIRES: none comes or goes.
  [[nodiscard]] std::span<Operation> edit();
  // Adds an operation at the end, with its dependencies. REQUIRES: the list has no block but one.
  void push_back(Operation op, std::span<const OpIndex> dependencies = {});

 private:
  struct Shared {
    std::shared_ptr<Written> written = std::make_shared<Written>();
    std::vector<Instance> instances = {};
    std::vector<OpIndex> bindings = {};
    std::vector<std::uint32_t> instance_at = {};  // the instance of every so-many-th operation
  };
  static constexpr unsigned kStride = 6;  // as a power of two

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
