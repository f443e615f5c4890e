#include "sim/workload/program_templates.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

// True if two operations are equal, except for the kernel of a Compute operation.
bool same_form(const Operation& a, const Operation& b) {
  const auto all = [](const Operation& op) {
    return std::tie(op.kind, op.stream, op.work, op.part, op.name, op.slot, op.microbatch, op.layer,
                    op.dependencies_begin, op.dependencies_end, op.effects_begin, op.effects_end);
  };
  return (a.payload == b.payload || a.kind == OpKind::Compute) && all(a) == all(b);
}

bool same_lists(const OperationList& a, const OperationList::Content& b) {
  return std::ranges::equal(a.dependencies(), b.dependencies) &&
         std::ranges::equal(a.blocks(), b.blocks) &&
         std::ranges::equal(a.instances(), b.instances) &&
         std::ranges::equal(a.bindings(), b.bindings) &&
         std::ranges::equal(a.written(), b.operations, same_form);
}

// Sizes of effects may differ between the members of a template; the other properties may not.
bool same_kind(const MemoryEffect& a, const MemoryEffect& b) {
  return a.category == b.category && a.at_end == b.at_end;
}

bool same_effects(const Program& a, const Program& b) {
  using Further = std::pair<OpIndex, MemoryEffect>;
  return std::ranges::equal(a.effects, b.effects, same_kind) &&
         std::ranges::equal(a.single_effects, b.single_effects,
                            [](const Further& x, const Further& y) {
                              return x.first == y.first && same_kind(x.second, y.second);
                            });
}

// Appends the values of `more` that `all` lacks. Returns the index in `all` of each value of
// `more`.
template <class Value>
std::vector<std::uint32_t> joined(std::vector<Value>& all, std::vector<Value> more) {
  std::map<Value, std::uint32_t> numbers;
  for (const Value& value : all) numbers.emplace(value, static_cast<std::uint32_t>(numbers.size()));
  std::vector<std::uint32_t> places;
  for (Value& value : more) {
    const auto [known, fresh] =
        numbers.try_emplace(value, static_cast<std::uint32_t>(numbers.size()));
    places.push_back(known->second);
    if (fresh) all.push_back(std::move(value));
  }
  return places;
}

// The new index of each entry of the appended tables.
struct Places {
  std::vector<std::uint32_t> names;
  std::vector<std::uint32_t> kernels;
  std::vector<std::uint32_t> calls;
  std::vector<std::uint32_t> delays;
};

void renumber(Operation& op, bool names_kernel, const Places& places) {
  op.name = static_cast<std::uint16_t>(places.names[op.name]);
  switch (op.kind) {
    case OpKind::Compute:
      if (names_kernel) op.payload = places.kernels[op.payload];
      return;
    case OpKind::Delay:
      op.payload = places.delays[op.payload];
      return;
    case OpKind::Collective:
    case OpKind::Send:
    case OpKind::Recv:
      op.payload = places.calls[op.payload];
      return;
  }
}

}  // namespace

// Adds a program to the template if it fits, else stores it with its own operations.
void TemplateWriter::add(Program program) {
  TY_CHECK(program.kernels.empty(), program.name);
  if (programs_.empty()) return begin(std::move(program));
  if (fits(program)) return join(std::move(program));
  programs_.push_back(std::move(program));
}

// Starts the template with the first program. Its distinct kernels get numbers in the order of use.
void TemplateWriter::begin(Program program) {
  template_ = program.operations.content();
  std::map<std::uint32_t, std::uint32_t> numbers;  // by kernel
  for (Operation& op : template_.operations) {
    if (op.kind != OpKind::Compute) continue;
    const auto next = static_cast<std::uint32_t>(program.kernels.size());
    const auto [number, fresh] = numbers.try_emplace(op.payload, next);
    if (fresh) program.kernels.push_back(op.payload);
    op.payload = number->second;
  }
  program.operations = {};
  members_ = {0};
  programs_.push_back(std::move(program));
}

bool TemplateWriter::fits(const Program& program) const {
  return same_lists(program.operations, template_) && same_effects(program, programs_.front());
}

// Adds a program to the template. Operations with one number must have one kernel in every member.
// If this program has two kernels where the template has one number, the number is split. The
// numbers therefore are the coarsest partition of the operations that all members agree with.
//
// Example: the first member runs kernels 7 7 8, which get the numbers 0 0 1. The second runs 7 9 8.
// The second operation gets the new number 2: the members have the kernels {7, 8, 7} and {7, 8, 9}
// by number.
void TemplateWriter::join(Program program) {
  const std::span<const Operation> written = program.operations.written();
  std::vector<std::uint32_t> kernels(programs_.front().kernels.size(), kNone);  // by number
  // New numbers, by number and kernel.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> split_numbers;
  for (std::size_t i = 0; i < template_.operations.size(); ++i) {
    if (template_.operations[i].kind != OpKind::Compute) continue;
    std::uint32_t& number = template_.operations[i].payload;
    const std::uint32_t kernel = written[i].payload;
    if (kernels[number] == kNone) kernels[number] = kernel;
    if (kernels[number] == kernel) continue;
    const auto [entry, fresh] = split_numbers.try_emplace({number, kernel}, kNone);
    if (fresh) {
      entry->second = split(number);
      kernels.push_back(kernel);
    }
    number = entry->second;
  }
  program.operations = {};
  program.kernels = std::move(kernels);
  members_.push_back(programs_.size());
  programs_.push_back(std::move(program));
}

// Creates a number for which each earlier member has the kernel that it has for `number`.
std::uint32_t TemplateWriter::split(std::uint32_t number) {
  const auto fresh = static_cast<std::uint32_t>(programs_.front().kernels.size());
  for (const std::size_t member : members_) {
    std::vector<std::uint32_t>& kernels = programs_[member].kernels;
    kernels.push_back(std::uint32_t{kernels[number]});
  }
  return fresh;
}

std::vector<Program> TemplateWriter::take() {
  const OperationList list(std::move(template_));
  for (const std::size_t member : members_) programs_[member].operations = list;
  return std::move(programs_);
}

std::vector<std::uint32_t> program_templates(std::span<const Program> programs) {
  std::vector<std::uint32_t> templates;
  std::map<const Instance*, std::uint32_t> lowest;
  for (const Program& program : programs) {
    const auto own = static_cast<std::uint32_t>(templates.size());
    // Programs of one template share their content, so the address of the instances identifies it.
    const Instance* list = program.operations.instances().data();
    templates.push_back(list == nullptr ? own : lowest.try_emplace(list, own).first->second);
  }
  return templates;
}

// Renumbers the operations of a template once; the other members then share the list.
void append_programs(Workload& workload, Workload more) {
  const Places places{.names = joined(workload.names, std::move(more.names)),
                      .kernels = joined(workload.kernels, std::move(more.kernels)),
                      .calls = joined(workload.calls, std::move(more.calls)),
                      .delays = joined(workload.delays, std::move(more.delays))};
  workload.chosen_fields.merge(more.chosen_fields);
  const std::vector<std::uint32_t> templates = program_templates(more.programs);
  for (std::size_t i = 0; i < templates.size(); ++i) {
    Program& program = more.programs[i];
    if (templates[i] < i) {
      program.operations = more.programs[templates[i]].operations;
    } else {
      for (std::size_t j = i + 1; j < templates.size(); ++j)
        if (templates[j] == i)
          more.programs[j].operations = {};  // edit() then does not copy the shared list
      for (Operation& op : program.operations.edit()) renumber(op, program.kernels.empty(), places);
    }
    for (std::uint32_t& kernel : program.kernels) kernel = places.kernels[kernel];
  }
  std::ranges::move(more.programs, std::back_inserter(workload.programs));
}

}  // namespace trainyard
