#include "sim/workload/operation_list.hpp"

#include <stdexcept>

#include "sim/base/check.hpp"

namespace trainyard {

std::string_view to_string(OpKind kind) {
  switch (kind) {
    case OpKind::Compute:
      return "compute";
    case OpKind::Collective:
      return "collective";
    case OpKind::Send:
      return "send";
    case OpKind::Recv:
      return "recv";
    case OpKind::Delay:
      return "delay";
  }
  return "";
}

std::string_view to_string(StepPart part) {
  switch (part) {
    case StepPart::Forward:
      return "forward";
    case StepPart::Backward:
      return "backward";
    case StepPart::Recompute:
      return "recompute";
    case StepPart::WeightGrad:
      return "weight_grad";
    case StepPart::GradSync:
      return "grad_sync";
    case StepPart::ParamSync:
      return "param_sync";
    case StepPart::Optimizer:
      return "optimizer";
    case StepPart::Other:
      return "other";
  }
  return "";
}

// The operations become one block with one instance.
OperationList::OperationList(std::vector<Operation> operations) {
  const auto count = static_cast<OpIndex>(operations.size());
  if (count == 0) return;
  shared_ = std::make_shared<Shared>();
  shared_->written->operations = std::move(operations);
  shared_->written->blocks = {{.count = count}};
  shared_->instances = {{}};
  size_ = count;
}

OperationList::OperationList(Content content) : shared_(std::make_shared<Shared>()) {
  *shared_->written = {.operations = std::move(content.operations),
                       .dependencies = std::move(content.dependencies),
                       .blocks = std::move(content.blocks)};
  shared_->instances = std::move(content.instances);
  shared_->bindings = std::move(content.bindings);
  number_instances();
}

// The new list shares the blocks with this one and has its own instances.
OperationList OperationList::rearranged(std::vector<Instance> instances,
                                        std::vector<OpIndex> bindings) const {
  OperationList result;
  result.shared_ = std::make_shared<Shared>(Shared{.written = shared_->written,
                                                   .instances = std::move(instances),
                                                   .bindings = std::move(bindings)});
  result.number_instances();
  return result;
}

void OperationList::number_instances() {
  const Written& written = *shared_->written;
  // Checks that the instances follow one another without gaps, and fills the index that
  // instance_of() starts from: entry i is the instance of operation i << kStride.
  std::vector<std::uint32_t>& instance_at = shared_->instance_at;
  for (std::uint32_t number = 0; number < shared_->instances.size(); ++number) {
    const Instance& instance = shared_->instances[number];
    TY_CHECK(instance.first == size_ && instance.block < written.blocks.size(), number, size_);
    const Block& block = written.blocks[instance.block];
    TY_CHECK(block.count > 0 && block.begin + block.count <= written.operations.size(), number);
    TY_CHECK(instance.bindings + block.inputs <= shared_->bindings.size(), number, block.inputs);
    size_ += block.count;
    while (instance_at.size() << kStride < size_) instance_at.push_back(number);
  }
}

OperationList::Content OperationList::content() const {
  if (!shared_) return {};
  const Written& written = *shared_->written;
  return {.operations = written.operations,
          .dependencies = written.dependencies,
          .blocks = written.blocks,
          .instances = shared_->instances,
          .bindings = shared_->bindings};
}

OperationList::const_iterator OperationList::begin() const {
  const_iterator first;
  if (empty()) return first;
  first.written_ = shared_->written.get();
  first.next_ = shared_->instances;
  first.enter();
  return first;
}

Operation OperationList::at(std::size_t index) const {
  if (index >= size()) throw std::out_of_range("OperationList::at");
  return (*this)[index];
}

OperationList::Shared& OperationList::own() {
  // Copy on write, in two levels: a rearranged list shares only the blocks (`written`).
  if (!shared_) shared_ = std::make_shared<Shared>();
  if (shared_.use_count() > 1) shared_ = std::make_shared<Shared>(*shared_);
  std::shared_ptr<Written>& written = shared_->written;
  if (written.use_count() > 1) written = std::make_shared<Written>(*written);
  return *shared_;
}

std::span<Operation> OperationList::edit() { return own().written->operations; }

// Appends to the single block. REQUIRES: the list has at most one block and one instance.
void OperationList::push_back(Operation op, std::span<const OpIndex> dependencies) {
  Shared& shared = own();
  Written& written = *shared.written;
  if (written.blocks.empty()) {
    written.blocks.emplace_back();
    shared.instances.emplace_back();
  }
  TY_CHECK(written.blocks.size() == 1 && shared.instances.size() == 1, shared.instances.size());
  op.dependencies_begin = static_cast<std::uint32_t>(written.dependencies.size());
  written.dependencies.insert(written.dependencies.end(), dependencies.begin(), dependencies.end());
  op.dependencies_end = static_cast<std::uint32_t>(written.dependencies.size());
  written.operations.push_back(op);
  ++written.blocks.front().count;
  ++size_;
}

}  // namespace trainyard
