#include "models/lower/program_builder.hpp"

#include <algorithm>
#include <span>

#include "sim/base/check.hpp"

namespace trainyard {

ProgramSize size_of(const Program& program) {
  return {.operations = program.operations.written().size(),
          .dependencies = program.operations.content().dependencies.size(),
          .effects = program.effects.size()};
}

void ProgramBuilder::reserve(const ProgramSize& size) {
  operations_.reserve(size.operations);
  dependencies_.reserve(size.dependencies);
  effects_.reserve(size.effects);
}

ProgramBuilder::ProgramBuilder(Interner& interner, std::string name, std::uint32_t stage)
    : interner_(interner), last_on_stream_(stream_names().size(), kNone) {
  program_.name = std::move(name);
  program_.stage = stage;
}

void ProgramBuilder::wait_for(OpIndex op) {
  if (op != kNone) waits_.push_back(op);
}

OpIndex ProgramBuilder::compute(std::string_view name, const Kernel& kernel) {
  const OpIndex op = append(OpKind::Compute, Stream::Compute, interner_.name(name), Slot::Tensor,
                            interner_.kernel(kernel), waits_);
  waits_.clear();
  return op;
}

std::vector<OpIndex> ProgramBuilder::with_waits(After after) const {
  std::vector<OpIndex> inputs(after);
  if (std::find(after.begin(), after.end(), last_compute()) != after.end()) {
    inputs.insert(inputs.end(), waits_.begin(), waits_.end());
  }
  return inputs;
}

OpIndex ProgramBuilder::collective(std::string_view name, Stream stream, Slot slot,
                                   const ChosenCall& call, After after) {
  return append(OpKind::Collective, stream, interner_.name(name), slot, number_of(slot, call),
                with_waits(after));
}

OpIndex ProgramBuilder::collective(std::string_view name, Stream stream, Slot slot,
                                   const CallKey& key, const std::function<ChosenCall()>& make,
                                   After after) {
  const std::uint32_t number = interner_.call(key, [&] {
    ChosenCall made = make();
    interner_.note_choice(static_cast<std::uint16_t>(slot), op_of(made.call), made.field);
    return std::move(made.call);
  });
  return append(OpKind::Collective, stream, interner_.name(name), slot, number, with_waits(after));
}

std::uint32_t ProgramBuilder::number_of(Slot slot, const ChosenCall& call) {
  interner_.note_choice(static_cast<std::uint16_t>(slot), op_of(call.call), call.field);
  return interner_.call(call.call);
}

OpIndex ProgramBuilder::delay(std::string_view name, Stream stream, Seconds time, After after) {
  return append(OpKind::Delay, stream, interner_.name(name), Slot::Tensor, interner_.delay(time),
                after);
}

OpIndex ProgramBuilder::send(std::string_view name, Stream stream, Slot slot,
                             const ChosenCall& call, After after) {
  return append(OpKind::Send, stream, interner_.name(name), slot, number_of(slot, call),
                with_waits(after));
}

OpIndex ProgramBuilder::recv(std::string_view name, Stream stream, Slot slot,
                             const ChosenCall& call, After after) {
  return append(OpKind::Recv, stream, interner_.name(name), slot, number_of(slot, call), after);
}

OpIndex ProgramBuilder::append(OpKind kind, Stream stream, std::uint16_t name, Slot slot,
                               std::uint32_t payload, std::span<const OpIndex> after) {
  Operation op;
  op.kind = kind;
  op.stream = static_cast<std::uint8_t>(stream);
  op.work = tags_.work;
  op.part = tags_.part;
  op.name = name;
  op.slot = static_cast<std::uint16_t>(slot);
  op.payload = payload;
  op.microbatch = tags_.microbatch;
  op.layer = tags_.layer;
  op.dependencies_begin = static_cast<std::uint32_t>(dependencies_.size());
  for (const OpIndex input : after) {
    // Stream order already says what an event on the same stream would.
    if (input == kNone || stream_of(input) == op.stream) continue;
    dependencies_.push_back(input);
  }
  op.dependencies_end = static_cast<std::uint32_t>(dependencies_.size());
  const OpIndex index = next();
  operations_.push_back(op);
  last_on_stream_[op.stream] = index;
  return index;
}

void ProgramBuilder::overlap(OpIndex first, OpIndex second) {
  TY_CHECK(first >= open_, first, open_);
  reorder(first, overlapped(first, second));
}

// The new order, as old numbers.
std::vector<OpIndex> ProgramBuilder::overlapped(OpIndex first, OpIndex second) const {
  const OpIndex end = next();
  std::vector<OpIndex> order;
  OpIndex a = first;
  OpIndex b = second;
  const auto needs_first_side = [&](OpIndex op) {
    const auto inputs = dependencies_of(operations_[written_at(op)]);
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](OpIndex input) { return input >= a && input < second; });
  };
  for (bool turn = false; a < second || b < end;) {
    bool from_first = b == end || (a < second && !turn);
    if (!from_first && a < second && needs_first_side(b)) from_first = true;
    const OpIndex op = from_first ? a++ : b++;
    order.push_back(op);
    const Operation& written = operations_[written_at(op)];
    if (written.kind == OpKind::Collective &&
        written.stream == static_cast<std::uint8_t>(Stream::Expert))
      turn = from_first;
  }
  return order;
}

void ProgramBuilder::reorder(OpIndex first, const std::vector<OpIndex>& order) {
  std::vector<OpIndex> place(order.size());  // new number by old one
  for (OpIndex i = 0; i < order.size(); ++i) place[order[i] - first] = first + i;
  const auto moved = [&](OpIndex op) { return op == kNone || op < first ? op : place[op - first]; };
  const std::span<const Operation> rest = written_from(first);
  const std::vector<Operation> old(rest.begin(), rest.end());
  const std::size_t kept = order.empty() ? 0 : old.front().dependencies_begin;
  const std::vector<OpIndex> inputs(dependencies_.begin() + static_cast<std::ptrdiff_t>(kept),
                                    dependencies_.end());
  dependencies_.resize(kept);
  for (OpIndex i = 0; i < order.size(); ++i) {
    Operation op = old[order[i] - first];
    const auto begin = static_cast<std::uint32_t>(dependencies_.size());
    for (std::size_t input = op.dependencies_begin; input < op.dependencies_end; ++input)
      dependencies_.push_back(moved(inputs[input - kept]));
    op.dependencies_begin = begin;
    op.dependencies_end = static_cast<std::uint32_t>(dependencies_.size());
    operations_[written_at(first + i)] = op;
    last_on_stream_[op.stream] = first + i;
  }
  for (; settled_ < effects_.size(); ++settled_)
    effects_[settled_].first = moved(effects_[settled_].first);
  for (OpIndex& op : waits_) op = moved(op);
}

void ProgramBuilder::allocate(OpIndex at_start_of, Category category, std::int64_t bytes) {
  if (bytes == 0) return;
  effects_.push_back(
      {at_start_of,
       {.category = static_cast<std::uint16_t>(category), .at_end = false, .bytes = bytes}});
}

void ProgramBuilder::release(OpIndex at_end_of, Category category, std::int64_t bytes) {
  if (bytes == 0) return;
  effects_.push_back(
      {at_end_of,
       {.category = static_cast<std::uint16_t>(category), .at_end = true, .bytes = -bytes}});
}

void ProgramBuilder::hold(Category category, std::int64_t bytes) {
  if (bytes == 0) return;
  for (ResidentMemory& held : program_.resident) {
    if (held.category != static_cast<std::uint16_t>(category)) continue;
    held.bytes += bytes;
    return;
  }
  program_.resident.push_back({.category = static_cast<std::uint16_t>(category), .bytes = bytes});
}

std::uint8_t ProgramBuilder::stream_of(OpIndex op) const {
  if (op >= open_) return operations_[written_at(op)].stream;
  const Instance& instance = instances_[instance_with(op)];
  return operations_[blocks_[instance.block].begin + (op - instance.first)].stream;
}

Program ProgramBuilder::take() {
  end_open(next());
  place_effects();
  program_.operations =
      OperationList(OperationList::Content{.operations = std::move(operations_),
                                           .dependencies = std::move(dependencies_),
                                           .blocks = std::move(blocks_),
                                           .instances = std::move(instances_),
                                           .bindings = std::move(bindings_)});
  return std::move(program_);
}

}  // namespace trainyard
