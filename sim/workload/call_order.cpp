#include "sim/workload/call_order.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/beside.hpp"
#include "sim/workload/call_sequences.hpp"
#include "sim/workload/program_order.hpp"
#include "sim/workload/program_templates.hpp"

namespace trainyard {

namespace {

// Operations from which on a second thread helps.
constexpr std::size_t kWorthAThread = 10'000;

}  // namespace

CallOrder::CallOrder(const Workload& workload)
    : template_of_(program_templates(workload.programs)) {
  std::vector<std::pair<const Program*, Template*>> found;
  std::size_t operations = 0;
  for (std::uint32_t program = 0; program < template_of_.size(); ++program) {
    if (template_of_[program] != program) continue;
    operations += workload.programs[program].operations.size();
    found.emplace_back(&workload.programs[program], &templates_[program]);
  }
  share_out(operations > kWorthAThread, found.size(), [&found](std::size_t i) {
    auto& [order, slots] = *found[i].second;
    order.emplace(*found[i].first);
    slots = slots_of(*found[i].first, *order);
  });
}

CallOrder::Slots CallOrder::slots_of(const Program& program, const ProgramOrder& order) {
  std::vector<std::vector<Lane>> lanes_of_slot;
  OpIndex next = 0;
  for (const Operation& operation : program.operations) {
    const OpIndex op = next++;
    if (!communicates(operation.kind)) continue;
    if (operation.slot >= lanes_of_slot.size())
      lanes_of_slot.resize(operation.slot + std::size_t{1});
    std::vector<Lane>& lanes = lanes_of_slot[operation.slot];
    const std::size_t column = order.column(op);
    auto lane = std::ranges::find(lanes, column, &Lane::column);
    if (lane == lanes.end()) {
      lanes.emplace_back().column = column;
      lane = lanes.end() - 1;
    }
    lane->operations.push_back(op);
  }
  Slots slots;
  for (std::uint16_t slot = 0; slot < lanes_of_slot.size(); ++slot)
    if (!lanes_of_slot[slot].empty()) slots.emplace(slot, std::move(lanes_of_slot[slot]));
  return slots;
}

bool CallOrder::ordered(std::uint32_t program, std::uint16_t a, std::uint16_t b) {
  if (a > b) std::swap(a, b);
  const std::uint32_t shared = template_of_[program];
  const std::scoped_lock lock(mutex_);
  const auto [entry, fresh] = known_.try_emplace({shared, a, b}, true);
  if (!fresh) return entry->second;
  auto& [order, slots] = templates_.at(shared);
  for (const Lane& of_a : slots[a])
    for (const Lane& of_b : slots[b]) entry->second = entry->second && ordered(*order, of_a, of_b);
  return entry->second;
}

// Of each operation of b: those of a up to some one come before it; the next of a must come after
// it, and then all later ones do.
bool CallOrder::ordered(const ProgramOrder& order, const Lane& a, const Lane& b) {
  if (a.column == b.column) return true;
  for (std::size_t i = 0; i < b.operations.size(); ++i) {
    const OpIndex done = order.after(b.operations[i], a.column);
    const auto next = std::ranges::lower_bound(a.operations, done);
    if (next == a.operations.end()) continue;
    const auto index = static_cast<std::size_t>(next - a.operations.begin());
    if (order.after(a.operations[index], b.column) <= b.operations[i]) return false;
  }
  return true;
}

}  // namespace trainyard
