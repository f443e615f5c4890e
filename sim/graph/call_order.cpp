#include "sim/graph/call_order.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/beside.hpp"
#include "sim/graph/call_sequences.hpp"
#include "sim/graph/program_forms.hpp"
#include "sim/graph/program_order.hpp"

namespace trainyard {

namespace {

// Operations whose orders are kept for others: 64 MiB of 8 streams.
constexpr std::size_t kMostKept = std::size_t{1} << 21U;
// Operations from which on a second thread helps.
constexpr std::size_t kWorthAThread = 10'000;

}  // namespace

CallOrder::CallOrder(const Workload& workload) : form_of_(program_forms(workload.programs)) {
  struct Found {
    const Program& program;
    Slots& slots;
    std::optional<ProgramOrder>* order = nullptr;  // null: not to be kept
  };
  std::vector<Found> found;
  std::size_t operations = 0;
  for (std::uint32_t program = 0; program < form_of_.size(); ++program) {
    if (form_of_[program] != program) continue;
    const Program& written = workload.programs[program];
    operations += written.operations.size();
    found.push_back({.program = written, .slots = forms_[program]});
    if (operations <= kMostKept) found.back().order = &orders_[program];
  }
  share_out(operations > kWorthAThread, found.size(), [&found](std::size_t i) {
    ProgramOrder order(found[i].program);
    found[i].slots = slots_of(found[i].program, order);
    if (found[i].order != nullptr) *found[i].order = std::move(order);
  });
}

CallOrder::Slots CallOrder::slots_of(const Program& program, const ProgramOrder& order) {
  const std::size_t columns = order.columns();
  std::vector<std::vector<Lane>> lanes_of_slot;
  for (OpIndex op = 0; op < program.operations.size(); ++op) {
    const Operation& operation = program.operations[op];
    if (!communicates(operation.kind)) continue;
    if (operation.slot >= lanes_of_slot.size())
      lanes_of_slot.resize(operation.slot + std::size_t{1});
    std::vector<Lane>& lanes = lanes_of_slot[operation.slot];
    const std::size_t column = order.column(op);
    auto lane = std::ranges::find(lanes, column, &Lane::column);
    if (lane == lanes.end()) {
      lanes.push_back({.column = column, .columns = columns, .operations = {}, .after = {}});
      lane = lanes.end() - 1;
    }
    lane->operations.push_back(op);
    const std::span<const OpIndex> after = order.after(op);
    lane->after.insert(lane->after.end(), after.begin(), after.end());
  }
  Slots slots;
  for (std::uint16_t slot = 0; slot < lanes_of_slot.size(); ++slot)
    if (!lanes_of_slot[slot].empty()) slots.emplace(slot, std::move(lanes_of_slot[slot]));
  return slots;
}

std::optional<ProgramOrder> CallOrder::take_order(std::uint32_t program) {
  const auto kept = orders_.extract(form_of_[program]);
  if (kept.empty()) return std::nullopt;
  return std::move(kept.mapped());
}

bool CallOrder::ordered(std::uint32_t program, std::uint16_t a, std::uint16_t b) {
  if (a > b) std::swap(a, b);
  const std::uint32_t form = form_of_[program];
  const auto [entry, fresh] = known_.try_emplace({form, a, b}, true);
  if (!fresh) return entry->second;
  for (const Lane& of_a : forms_[form][a]) {
    for (const Lane& of_b : forms_[form][b]) {
      entry->second = entry->second && ordered(of_a, of_b);
    }
  }
  return entry->second;
}

// Of each operation of b: those of a up to some one come before it; the next of a must come after
// it, and then all later ones do.
bool CallOrder::ordered(const Lane& a, const Lane& b) {
  if (a.column == b.column) return true;
  for (std::size_t i = 0; i < b.operations.size(); ++i) {
    const OpIndex done = b.after[i * b.columns + a.column];
    const auto next = std::ranges::lower_bound(a.operations, done);
    if (next == a.operations.end()) continue;
    const auto index = static_cast<std::size_t>(next - a.operations.begin());
    if (a.after[index * a.columns + b.column] <= b.operations[i]) return false;
  }
  return true;
}

}  // namespace trainyard
