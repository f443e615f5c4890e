// Many short lists in one array (CSR), for inner loops. A vector of vectors would cost a cache miss
// for each list.
//
//    const CsrLists<int> lists(2, [](const auto& put) { put(0, 7); put(1, 8); put(0, 9); });
//    lists[0];   // 7, 9
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trainyard {

template <class Value>
class CsrLists {
 public:
  CsrLists() = default;
  // Calls `tell` twice, first to count and then to store. REQUIRES: it passes the same pairs of
  // list and value both times, in the same order. Lists may alternate; the values of a list keep
  // their order.
  template <class Tell>
  CsrLists(std::size_t lists, const Tell& tell) : begin_(lists + 1, 0) {
    tell([this](std::size_t list, const Value&) { ++begin_[list + 1]; });
    for (std::size_t list = 0; list < lists; ++list) begin_[list + 1] += begin_[list];
    values_.resize(begin_[lists]);
    std::vector<std::uint32_t> place(begin_.begin(), begin_.end() - 1);
    tell([&](std::size_t list, const Value& value) { values_[place[list]++] = value; });
  }

  [[nodiscard]] std::size_t size() const { return begin_.empty() ? 0 : begin_.size() - 1; }
  // REQUIRES: list < size().
  [[nodiscard]] std::span<const Value> operator[](std::size_t list) const {
    return std::span(values_).subspan(begin_[list], begin_[list + 1] - begin_[list]);
  }

 private:
  std::vector<std::uint32_t> begin_;  // by list, and the end
  std::vector<Value> values_;
};

}  // namespace trainyard
