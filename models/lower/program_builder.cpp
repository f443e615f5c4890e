#include "models/lower/program_builder.hpp"

#include <algorithm>
#include <span>

#include "sim/base/check.hpp"

namespace trainyard {

std::uint16_t Interner::name(std::string_view text) {
  auto known = names_.find(text);
  if (known == names_.end()) {
    known = names_.emplace(text, static_cast<std::uint16_t>(workload_.names.size())).first;
    workload_.names.emplace_back(text);
  }
  return known->second;
}

namespace {

// Returns the index of `value` in `all`, and appends it if it is new.
template <class Value>
std::uint32_t number_of(const Value& value, std::vector<Value>& all,
                        std::map<Value, std::uint32_t>& numbers) {
  const auto [entry, fresh] = numbers.try_emplace(value, static_cast<std::uint32_t>(all.size()));
  if (fresh) all.push_back(value);
  return entry->second;
}

}  // namespace

std::uint32_t Interner::kernel(const Kernel& kernel) {
  return number_of(kernel, workload_.kernels, kernels_);
}

std::uint32_t Interner::call(const Call& call) { return number_of(call, workload_.calls, calls_); }

// The key identifies the call, so that a known call is neither built nor compared.
std::uint32_t Interner::call(const CallKey& key, const std::function<Call()>& make) {
  const auto [entry, fresh] = calls_by_key_.try_emplace(key, kNone);
  if (fresh) entry->second = number_of(make(), workload_.calls, calls_);
  return entry->second;
}

// One field of the scenario selects the algorithm of all calls of an operation on a slot.
void Interner::note_choice(std::uint16_t slot, CollectiveOp op, const std::string& field) {
  if (field.empty()) return;
  const auto [known, fresh] = workload_.chosen_fields.try_emplace({slot, op}, field);
  TY_CHECK(known->second == field, slot);
}

std::uint32_t Interner::delay(Seconds time) {
  const auto known = std::ranges::find(workload_.delays, time);
  const auto index = static_cast<std::uint32_t>(known - workload_.delays.begin());
  if (known == workload_.delays.end()) workload_.delays.push_back(time);
  return index;
}

// ---- one program

ProgramSize size_of(const Program& program) {
  return {.operations = program.operations.written().size(),
          .dependencies = program.operations.dependencies().size(),
          .effects = program.effects.size()};
}

ProgramBuilder::ProgramBuilder(Interner& interner, std::string name, std::uint32_t stage)
    : interner_(interner),
      name_(std::move(name)),
      stage_(stage),
      operations_(stream_names().size()) {}

void ProgramBuilder::reserve(const ProgramSize& size) {
  operations_.reserve(size.operations, size.dependencies);
  memory_.reserve(size.effects);
}

void ProgramBuilder::wait_for(OpIndex op) {
  if (op != kNone) operations_.waits().push_back(op);
}

// Consumes the waits that have been collected: the stream orders all later kernels after this one.
OpIndex ProgramBuilder::compute(std::string_view name, const Kernel& kernel) {
  const OpIndex op = append(OpKind::Compute, Stream::Compute, name, Slot::Tensor,
                            interner_.kernel(kernel), operations_.waits());
  operations_.waits().clear();
  return op;
}

// A collective that waits for the last compute operation waits for an event that is recorded on the
// compute stream now. The stream already waits for `waits` at this point, so that the event, and
// the collective, come after these, too.
std::vector<OpIndex> ProgramBuilder::with_waits(After after) const {
  std::vector<OpIndex> inputs(after);
  const std::vector<OpIndex>& waits = operations_.waits();
  if (std::ranges::find(after, last_compute()) != after.end())
    inputs.insert(inputs.end(), waits.begin(), waits.end());
  return inputs;
}

namespace {

// Returns the number of the call, and records the scenario field that selected its algorithm.
std::uint32_t number_of(const ChosenCall& call, Slot slot, Interner& interner) {
  interner.note_choice(static_cast<std::uint16_t>(slot), op_of(call.call), call.field);
  return interner.call(call.call);
}

}  // namespace

OpIndex ProgramBuilder::collective(std::string_view name, Stream stream, Slot slot,
                                   const ChosenCall& call, After after) {
  return append(OpKind::Collective, stream, name, slot, number_of(call, slot, interner_),
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
  return append(OpKind::Collective, stream, name, slot, number, with_waits(after));
}

OpIndex ProgramBuilder::delay(std::string_view name, Stream stream, Seconds time, After after) {
  return append(OpKind::Delay, stream, name, Slot::Tensor, interner_.delay(time), after);
}

OpIndex ProgramBuilder::send(std::string_view name, Stream stream, Slot slot,
                             const ChosenCall& call, After after) {
  return append(OpKind::Send, stream, name, slot, number_of(call, slot, interner_),
                with_waits(after));
}

OpIndex ProgramBuilder::recv(std::string_view name, Stream stream, Slot slot,
                             const ChosenCall& call, After after) {
  return append(OpKind::Recv, stream, name, slot, number_of(call, slot, interner_), after);
}

OpIndex ProgramBuilder::append(OpKind kind, Stream stream, std::string_view name, Slot slot,
                               std::uint32_t payload, std::span<const OpIndex> after) {
  Operation op;
  op.kind = kind;
  op.stream = static_cast<std::uint8_t>(stream);
  op.work = tags_.work;
  op.part = tags_.part;
  op.name = interner_.name(name);
  op.slot = static_cast<std::uint16_t>(slot);
  op.payload = payload;
  op.microbatch = tags_.microbatch;
  op.layer = tags_.layer;
  return operations_.append(op, after);
}

Program ProgramBuilder::take() {
  operations_.close(operations_.next());
  Program program{.name = std::move(name_), .stage = stage_};
  memory_.place(operations_, program);
  program.operations = OperationList(operations_.take());
  return program;
}

}  // namespace trainyard
