#include "sim/workload/operation_list.hpp"

#include <algorithm>
#include <stdexcept>

#include "sim/base/check.hpp"

namespace trainyard {

OperationList::OperationList(std::vector<Operation> operations)
    : lists_(std::make_shared<Lists>(Lists{.written = std::move(operations)})) {}

OperationList::OperationList(std::vector<Operation> written, std::vector<Passage> passages,
                             std::vector<OpIndex> outside)
    : lists_(std::make_shared<Lists>(Lists{.written = std::move(written),
                                           .passages = std::move(passages),
                                           .outside = std::move(outside)})) {
  OpIndex next = 0;
  for (std::uint32_t number = 0; number < lists_->passages.size(); ++number) {
    const Passage& passage = lists_->passages[number];
    TY_CHECK(passage.first == next && passage.count > 0, number, passage.first, next);
    TY_CHECK(passage.written + passage.count <= lists_->written.size(), number, passage.written);
    next = passage.end();
    while (lists_->passage_at.size() << kStride < next) lists_->passage_at.push_back(number);
  }
}

std::size_t OperationList::size() const {
  if (!lists_) return 0;
  return lists_->passages.empty() ? lists_->written.size() : lists_->passages.back().end();
}

OperationList::const_iterator OperationList::begin() const {
  const_iterator first;
  if (empty()) return first;
  first.written_ = first.at_ = lists_->written.data();
  first.end_ = first.at_ + lists_->written.size();
  first.passages_ = lists_->passages;
  if (!first.passages_.empty()) first.enter();
  return first;
}

Operation OperationList::at(std::size_t index) const {
  if (index >= size()) throw std::out_of_range("OperationList::at");
  return (*this)[index];
}

std::vector<Passage> OperationList::passages() const {
  if (empty()) return {};
  if (!lists_->passages.empty()) return lists_->passages;
  return {{.count = static_cast<OpIndex>(lists_->written.size())}};
}

Passage OperationList::passage_at(OpIndex op) const {
  if (!lists_->passages.empty()) return passage_of(op);
  return {.count = static_cast<OpIndex>(lists_->written.size())};
}

bool OperationList::same_passages(const OperationList& other) const {
  if (!lists_ || !other.lists_) return empty() && other.empty();
  return lists_->passages == other.lists_->passages && lists_->outside == other.lists_->outside;
}

std::span<const Operation> OperationList::written() const {
  return lists_ ? std::span<const Operation>(lists_->written) : std::span<const Operation>();
}

std::span<const OpIndex> OperationList::outside() const {
  return lists_ ? std::span<const OpIndex>(lists_->outside) : std::span<const OpIndex>();
}

std::vector<Operation>& OperationList::edit() {
  if (!lists_) {
    lists_ = std::make_shared<Lists>();
  } else if (lists_.use_count() > 1) {
    lists_ = std::make_shared<Lists>(*lists_);
  }
  return lists_->written;
}

void OperationList::push_back(const Operation& op) {
  std::vector<Operation>& written = edit();
  TY_CHECK(lists_->passages.empty(), lists_->passages.size());
  written.push_back(op);
}

}  // namespace trainyard
