#include "sim/workload/program_analysis.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/base/concurrency.hpp"
#include "sim/workload/program_templates.hpp"

namespace trainyard {

namespace {

// The number of operations from which a second thread pays off.
constexpr std::size_t kWorthAThread = 10'000;

}  // namespace

ProgramAnalysis::Template::Template(const Program& program, const Template* like)
    : calls(program.operations, like ? like->calls.blocks() : nullptr),
      order(program, like ? like->order.blocks() : nullptr),
      lanes(calls.slots()) {}

// Splits the calls of a slot by stream. The calls of one stream are in a total order, which
// ordered() relies on. REQUIRES: the caller holds mutex_.
const std::vector<ProgramAnalysis::Lane>& ProgramAnalysis::Template::lanes_of(std::uint16_t slot) {
  static const std::vector<Lane> kNoLanes;
  if (slot >= lanes.size()) return kNoLanes;
  std::vector<Lane>& known = lanes[slot];
  if (!known.empty() || calls.by_slot(slot).empty()) return known;
  if (calls.on_one_stream(slot)) {
    const std::vector<OpIndex>& all = calls.by_slot(slot);
    known.push_back({.column = order.column(all.front()), .operations = all});
    return known;
  }
  for (const OpIndex op : calls.by_slot(slot)) {
    const std::size_t column = order.column(op);
    auto lane = std::ranges::find(known, column, &Lane::column);
    if (lane == known.end()) lane = known.insert(lane, {.column = column, .operations = {}});
    lane->operations.push_back(op);
  }
  return known;
}

ProgramAnalysis::ProgramAnalysis(const Workload& workload, const ProgramAnalysis* like)
    : template_of_(program_templates(workload.programs)) {
  std::vector<std::uint32_t> lowest;
  std::size_t operations = 0;
  for (std::uint32_t program = 0; program < template_of_.size(); ++program) {
    if (template_of_[program] != program) continue;
    operations += workload.programs[program].operations.size();
    lowest.push_back(program);
  }
  std::vector<std::optional<Template>> found(lowest.size());
  parallel_for(operations > kWorthAThread, found.size(), [&](std::size_t i) {
    const Program& program = workload.programs[lowest[i]];
    const auto known = like ? like->templates_.find(lowest[i]) : templates_.end();
    // Results for blocks hold for every arrangement of them, so programs with shared blocks share
    // these.
    const bool same = like && known != like->templates_.end() &&
                      known->second.order.list().shares_blocks_with(program.operations);
    found[i].emplace(program, same ? &known->second : nullptr);
  });
  for (std::size_t i = 0; i < found.size(); ++i)
    templates_.emplace(lowest[i], *std::move(found[i]));
}

bool ProgramAnalysis::ordered(std::uint32_t program, std::uint16_t a, std::uint16_t b) {
  // The relation is symmetric, so the cache holds each pair once.
  if (a > b) std::swap(a, b);
  const std::uint32_t shared = template_of_[program];
  const std::scoped_lock lock(mutex_);
  const auto [entry, fresh] = known_.try_emplace({shared, a, b}, true);
  if (!fresh) return entry->second;
  Template& its = templates_.at(shared);
  for (const Lane& of_a : its.lanes_of(a))
    for (const Lane& of_b : its.lanes_of(b))
      entry->second = entry->second && ordered(its.order, of_a, of_b);
  return entry->second;
}

bool ProgramAnalysis::answers_hold_for(ProgramAnalysis& other) {
  // The lock ends before `other` takes its own: two that compare each other would wait for ever.
  std::unique_lock lock(mutex_);
  const auto known = known_;
  lock.unlock();
  return std::ranges::all_of(known, [&](const auto& answer) {
    const auto& [program, a, b] = answer.first;
    return other.ordered(program, a, b) == answer.second;
  });
}

// The operations of a that come before an operation of b are a prefix of a, and the prefix grows
// along b. The next operation of a after the prefix must come after the operation of b; all later
// ones follow it on its stream. Two iterators therefore decide it in linear time.
//
// Example: a is a0 a1 and b is b0 b1. If a0 comes before b0 and b0 before a1, then a0 and a1 are in
// order with b0. If neither b1 nor a1 comes before the other, the two may overlap: false.
bool ProgramAnalysis::ordered(const ProgramOrder& order, const Lane& a, const Lane& b) {
  if (a.column == b.column) return true;
  auto next = a.operations.begin();
  // One past the operations of b that come before `next`: for these the prefix is the same.
  OpIndex behind = 0;
  for (const OpIndex of_b : b.operations) {
    if (behind > of_b) continue;
    const OpIndex done = order.after(of_b, a.column);
    while (next != a.operations.end() && *next < done) ++next;
    if (next == a.operations.end()) return true;
    behind = order.after(*next, b.column);
    if (behind <= of_b) return false;
  }
  return true;
}

}  // namespace trainyard
