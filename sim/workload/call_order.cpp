#include "sim/workload/call_order.hpp"

#include <algorithm>
#include <span>
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
  struct Found {
    const Program& program;
    Slots& slots;
  };
  std::vector<Found> found;
  std::size_t operations = 0;
  for (std::uint32_t program = 0; program < template_of_.size(); ++program) {
    if (template_of_[program] != program) continue;
    const Program& written = workload.programs[program];
    operations += written.operations.size();
    found.push_back({.program = written, .slots = slots_[program]});
  }
  share_out(operations > kWorthAThread, found.size(), [&found](std::size_t i) {
    const ProgramOrder order(found[i].program);
    found[i].slots = slots_of(found[i].program, order);
    write_rows(order, found[i].slots);
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

void CallOrder::write_rows(const ProgramOrder& order, Slots& slots) {
  for (auto& [slot, lanes] : slots) {
    for (Lane& lane : lanes) {
      lane.columns = order.columns();
      lane.rows.resize(lane.operations.size() * lane.columns);
      std::span<OpIndex> rows = lane.rows;
      for (const OpIndex op : lane.operations) {
        order.write_after(op, rows.first(lane.columns));
        rows = rows.subspan(lane.columns);
      }
    }
  }
}

bool CallOrder::ordered(std::uint32_t program, std::uint16_t a, std::uint16_t b) {
  if (a > b) std::swap(a, b);
  const std::uint32_t shared = template_of_[program];
  const std::scoped_lock lock(mutex_);
  const auto [entry, fresh] = known_.try_emplace({shared, a, b}, true);
  if (!fresh) return entry->second;
  for (const Lane& of_a : slots_[shared][a]) {
    for (const Lane& of_b : slots_[shared][b]) {
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
    const OpIndex done = b.after(i, a.column);
    const auto next = std::ranges::lower_bound(a.operations, done);
    if (next == a.operations.end()) continue;
    const auto index = static_cast<std::size_t>(next - a.operations.begin());
    if (a.after(index, b.column) <= b.operations[i]) return false;
  }
  return true;
}

}  // namespace trainyard
