#include "sim/workload/program_forms.hpp"

#include <algorithm>
#include <tuple>

#include "sim/base/check.hpp"

namespace trainyard {
namespace {

// All but the kernel of a computation, and all of what does not compute.
bool same_form(const Operation& a, const Operation& b) {
  const auto all = [](const Operation& op) {
    return std::tie(op.kind, op.stream, op.work, op.part, op.name, op.slot, op.microbatch, op.layer,
                    op.dependencies_begin, op.dependencies_end, op.effects_begin, op.effects_end);
  };
  return (a.payload == b.payload || a.kind == OpKind::Compute) && all(a) == all(b);
}

bool same_effect(const MemoryEffect& a, const MemoryEffect& b) {
  return a.category == b.category && a.at_end == b.at_end;
}

}  // namespace

void FormWriter::add(Program program) {
  TY_CHECK(program.kernels.empty(), program.name);
  if (programs_.empty()) return begin(std::move(program));
  if (fits(program)) return join(std::move(program));
  programs_.push_back(std::move(program));
}

// Its kernels are numbered as they come.
void FormWriter::begin(Program program) {
  operations_.assign(program.operations.written().begin(), program.operations.written().end());
  dependencies_.assign(program.dependencies.begin(), program.dependencies.end());
  std::map<std::uint32_t, std::uint32_t> numbers;  // by kernel
  for (Operation& op : operations_) {
    if (op.kind != OpKind::Compute) continue;
    const auto next = static_cast<std::uint32_t>(program.kernels.size());
    const auto [number, fresh] = numbers.try_emplace(op.payload, next);
    if (fresh) program.kernels.push_back(op.payload);
    op.payload = number->second;
  }
  list_ = std::move(program.operations);
  program.operations = {};
  program.dependencies = {};
  members_ = {0};
  programs_.push_back(std::move(program));
}

bool FormWriter::fits(const Program& program) const {
  return program.operations.same_passages(list_) &&
         std::ranges::equal(program.operations.written(), operations_, same_form) &&
         std::ranges::equal(program.dependencies, dependencies_) &&
         std::ranges::equal(program.effects, programs_.front().effects, same_effect);
}

// Where it has two kernels in place of one, operations of the form get another number.
void FormWriter::join(Program program) {
  const std::span<const Operation> written = program.operations.written();
  std::vector<std::uint32_t> kernels(programs_.front().kernels.size(), kNone);  // by number
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> parted;  // by number and kernel
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    if (operations_[i].kind != OpKind::Compute) continue;
    std::uint32_t& number = operations_[i].payload;
    const std::uint32_t kernel = written[i].payload;
    if (kernels[number] == kNone) kernels[number] = kernel;
    if (kernels[number] == kernel) continue;
    const auto [entry, fresh] = parted.try_emplace({number, kernel}, kNone);
    if (fresh) {
      entry->second = split(number);
      kernels.push_back(kernel);
    }
    number = entry->second;
  }
  program.operations = {};
  program.dependencies = {};
  program.kernels = std::move(kernels);
  members_.push_back(programs_.size());
  programs_.push_back(std::move(program));
}

// A new number, for which those who have come so far have the kernel they have for the old one.
std::uint32_t FormWriter::split(std::uint32_t number) {
  const auto fresh = static_cast<std::uint32_t>(programs_.front().kernels.size());
  for (const std::size_t member : members_) {
    std::vector<std::uint32_t>& kernels = programs_[member].kernels;
    kernels.push_back(std::uint32_t{kernels[number]});
  }
  return fresh;
}

std::vector<Program> FormWriter::take() {
  list_.edit() = std::move(operations_);
  const SharedList<OpIndex> dependencies(std::move(dependencies_));
  for (const std::size_t member : members_) {
    programs_[member].operations = list_;
    programs_[member].dependencies = dependencies;
  }
  return std::move(programs_);
}

std::vector<std::uint32_t> program_forms(std::span<const Program> programs) {
  std::vector<std::uint32_t> forms;
  std::map<std::pair<const Operation*, const OpIndex*>, std::uint32_t> lowest;
  for (const Program& program : programs) {
    const auto own = static_cast<std::uint32_t>(forms.size());
    const std::pair lists(program.operations.written().data(), program.dependencies.data());
    forms.push_back(lists.first == nullptr ? own : lowest.try_emplace(lists, own).first->second);
  }
  return forms;
}

}  // namespace trainyard
