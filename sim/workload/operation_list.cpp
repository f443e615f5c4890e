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

OperationList::OperationList(std::vector<Operation> operations) {
  const auto count = static_cast<OpIndex>(operations.size());
  if (count == 0) return;
  shared_ = std::make_shared<Shared>(Shared{.content = {.operations = std::move(operations),
                                                        .blocks = {{.count = count}},
                                                        .instances = {{}}}});
  size_ = count;
}

OperationList::OperationList(Content content)
    : shared_(std::make_shared<Shared>(Shared{.content = std::move(content)})) {
  const Content& made = shared_->content;
  std::vector<std::uint32_t>& instance_at = shared_->instance_at;
  for (std::uint32_t number = 0; number < made.instances.size(); ++number) {
    const Instance& instance = made.instances[number];
    TY_CHECK(instance.first == size_ && instance.block < made.blocks.size(), number, size_);
    const Block& block = made.blocks[instance.block];
    TY_CHECK(block.count > 0 && block.begin + block.count <= made.operations.size(), number);
    TY_CHECK(instance.bindings + block.inputs <= made.bindings.size(), number, block.inputs);
    size_ += block.count;
    while (instance_at.size() << kStride < size_) instance_at.push_back(number);
  }
}

const OperationList::Content& OperationList::content() const {
  static const Content kNothing;
  return shared_ ? shared_->content : kNothing;
}

OperationList::const_iterator OperationList::begin() const {
  const_iterator first;
  if (empty()) return first;
  first.content_ = &shared_->content;
  first.next_ = shared_->content.instances;
  first.enter();
  return first;
}

Operation OperationList::at(std::size_t index) const {
  if (index >= size()) throw std::out_of_range("OperationList::at");
  return (*this)[index];
}

OperationList::Shared& OperationList::own() {
  if (!shared_) {
    shared_ = std::make_shared<Shared>();
  } else if (shared_.use_count() > 1) {
    shared_ = std::make_shared<Shared>(*shared_);
  }
  return *shared_;
}

std::span<Operation> OperationList::edit() { return own().content.operations; }

void OperationList::push_back(Operation op, std::span<const OpIndex> dependencies) {
  Content& content = own().content;
  if (content.blocks.empty()) {
    content.blocks.emplace_back();
    content.instances.emplace_back();
  }
  TY_CHECK(content.blocks.size() == 1 && content.instances.size() == 1, content.instances.size());
  op.dependencies_begin = static_cast<std::uint32_t>(content.dependencies.size());
  content.dependencies.insert(content.dependencies.end(), dependencies.begin(), dependencies.end());
  op.dependencies_end = static_cast<std::uint32_t>(content.dependencies.size());
  content.operations.push_back(op);
  ++content.blocks.front().count;
  ++size_;
}

}  // namespace trainyard
