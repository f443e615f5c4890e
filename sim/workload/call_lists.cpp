#include "sim/workload/call_lists.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "sim/workload/call_sequences.hpp"

namespace trainyard {

std::vector<std::vector<std::uint32_t>> slot_calls(const Program& program, std::size_t slots) {
  std::vector<std::vector<std::uint32_t>> calls(slots);
  for (const Operation& op : program.operations.written()) {
    if (!communicates(op.kind)) continue;
    std::vector<std::uint32_t>& made = calls.at(op.slot);
    // Calls come in the same few turns, microbatch by microbatch.
    const std::size_t recent = made.size() - std::min<std::size_t>(made.size(), 4);
    const auto known =
        std::find(made.begin() + static_cast<std::ptrdiff_t>(recent), made.end(), op.payload);
    if (known == made.end()) made.push_back(op.payload);
  }
  for (std::vector<std::uint32_t>& made : calls) {
    std::ranges::sort(made);
    made.erase(std::unique(made.begin(), made.end()), made.end());
  }
  return calls;
}

std::uint32_t CallLists::number(std::vector<std::uint32_t> calls) {
  const auto next = static_cast<std::uint32_t>(lists_.size());
  const auto [entry, fresh] = numbers_.try_emplace(std::move(calls), next);
  if (fresh) lists_.push_back(&entry->first);
  return entry->second;
}

std::uint32_t CallLists::both(std::uint32_t a, std::uint32_t b) {
  if (a == b) return a;
  std::vector<std::uint32_t> calls;
  std::ranges::set_union(list(a), list(b), std::back_inserter(calls));
  return number(std::move(calls));
}

}  // namespace trainyard
