// A list that its copies share until one of them is changed: copying is free, and whether two
// lists are the same is known without looking into them.
//
//   SharedList<int> a{1, 2, 3};
//   SharedList<int> b = a;      // b.shares_with(a)
//   b.edit()[0] = 7;            // now b has numbers of its own; a is as it was
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace trainyard {

template <class Value>
class SharedList {
 public:
  using value_type = Value;
  using const_iterator = const Value*;
  using iterator = const_iterator;

  SharedList() = default;
  SharedList(std::initializer_list<Value> values) : SharedList(std::vector<Value>(values)) {}
  // NOLINTNEXTLINE(google-explicit-constructor): a list is a list
  SharedList(std::vector<Value> values)
      : values_(std::make_shared<std::vector<Value>>(std::move(values))) {}

  [[nodiscard]] std::size_t size() const { return values_ ? values_->size() : 0; }
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] const Value* data() const { return values_ ? values_->data() : nullptr; }
  [[nodiscard]] const_iterator begin() const { return data(); }
  [[nodiscard]] const_iterator end() const { return data() + size(); }
  // REQUIRES: index < size(); for front and back: not empty.
  [[nodiscard]] const Value& operator[](std::size_t index) const { return (*values_)[index]; }
  [[nodiscard]] const Value& at(std::size_t index) const { return values_->at(index); }
  [[nodiscard]] const Value& front() const { return values_->front(); }
  [[nodiscard]] const Value& back() const { return values_->back(); }

  // Both are copies of one list, changed since by neither. Never so for lists never written to.
  [[nodiscard]] bool shares_with(const SharedList& other) const {
    return values_ != nullptr && values_ == other.values_;
  }

  // To change this list and no other. Valid until the list is next copied.
  [[nodiscard]] std::vector<Value>& edit() {
    if (!values_) {
      values_ = std::make_shared<std::vector<Value>>();
    } else if (values_.use_count() > 1) {
      values_ = std::make_shared<std::vector<Value>>(*values_);
    }
    return *values_;
  }
  void push_back(const Value& value) { edit().push_back(value); }
  template <class Range>
  void append(const Range& values) {
    std::vector<Value>& own = edit();
    own.insert(own.end(), std::begin(values), std::end(values));
  }

 private:
  std::shared_ptr<std::vector<Value>> values_;
};

}  // namespace trainyard
