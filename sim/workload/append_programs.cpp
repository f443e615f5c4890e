#include "sim/workload/append_programs.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/workload/program_templates.hpp"

namespace trainyard {

namespace {

// Adds what `all` has not; where each of `more` stands in it then.
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
          more.programs[j].operations = {};  // so that the list is written in place
      for (Operation& op : program.operations.edit()) renumber(op, program.kernels.empty(), places);
    }
    for (std::uint32_t& kernel : program.kernels) kernel = places.kernels[kernel];
  }
  std::ranges::move(more.programs, std::back_inserter(workload.programs));
}

}  // namespace trainyard
