// Rewrites a program that lists all its operations as instances of blocks.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard::test {

// Writes the operations as instances: each runs from one of `begins` to the next (the first is 0).
// Instances that are equal except for their microbatch share one block.
class BlockWriter {
 public:
  explicit BlockWriter(const Program& program) : program_(program) {}

  Program written(const std::vector<OpIndex>& begins) {
    for (std::size_t i = 0; i < begins.size(); ++i) {
      const auto all = static_cast<OpIndex>(program_.operations.size());
      add(begins[i], i + 1 < begins.size() ? begins[i + 1] : all);
    }
    Program result = program_;
    result.operations = OperationList(content_);
    return result;
  }

 private:
  void add(OpIndex first, OpIndex end) {
    const OperationList::Content before = content_;
    Block block{.begin = static_cast<OpIndex>(content_.operations.size()), .count = end - first};
    Instance instance{.first = first,
                      .block = static_cast<std::uint32_t>(content_.blocks.size()),
                      .bindings = static_cast<std::uint32_t>(content_.bindings.size())};
    for (OpIndex number = first; number < end; ++number) {
      Operation op = program_.operations[number];
      op.dependencies_begin = static_cast<std::uint32_t>(content_.dependencies.size());
      for (const OpIndex input : program_.dependencies_of(number))
        content_.dependencies.push_back(input >= first ? input - first
                                                       : bound(input, block, instance));
      op.dependencies_end = static_cast<std::uint32_t>(content_.dependencies.size());
      content_.operations.push_back(op);
    }
    content_.blocks.push_back(block);
    if (const std::optional<std::uint32_t> known = same_as(block)) {
      const std::int32_t later = content_.operations[block.begin].microbatch -
                                 content_.operations[content_.blocks[*known].begin].microbatch;
      content_.operations = before.operations;
      content_.dependencies = before.dependencies;
      content_.blocks = before.blocks;
      instance.block = *known;
      instance.microbatch = later;
    }
    content_.instances.push_back(instance);
  }

  OpIndex bound(OpIndex input, Block& block, const Instance& instance) {
    const auto begin = content_.bindings.begin() + instance.bindings;
    const auto known = std::find(begin, content_.bindings.end(), input);
    const auto number = static_cast<OpIndex>(known - begin);
    if (known == content_.bindings.end()) {
      content_.bindings.push_back(input);
      ++block.inputs;
    }
    return kBlockInput + number;
  }

  [[nodiscard]] std::optional<std::uint32_t> same_as(const Block& fresh) const {
    for (std::uint32_t number = 0; number + 1 < content_.blocks.size(); ++number) {
      const Block& known = content_.blocks[number];
      if (known.count != fresh.count || known.inputs != fresh.inputs) continue;
      bool same = true;
      for (OpIndex place = 0; place < fresh.count; ++place)
        same = same && alike(content_.operations[known.begin + place],
                             content_.operations[fresh.begin + place]);
      if (same) return number;
    }
    return std::nullopt;
  }

  [[nodiscard]] bool alike(const Operation& a, const Operation& b) const {
    const auto inputs = [&](const Operation& op) {
      return std::vector(content_.dependencies.begin() + op.dependencies_begin,
                         content_.dependencies.begin() + op.dependencies_end);
    };
    return a.kind == b.kind && a.stream == b.stream && a.slot == b.slot && a.name == b.name &&
           a.payload == b.payload && inputs(a) == inputs(b);
  }

  const Program& program_;
  OperationList::Content content_;
};

inline Program in_blocks(const Program& program, const std::vector<OpIndex>& begins) {
  return BlockWriter(program).written(begins);
}

// One instance for every microbatch that is contiguous.
inline Program in_blocks(const Program& program) {
  std::vector<OpIndex> begins;
  std::int32_t before = 0;
  OpIndex number = 0;
  for (const Operation& op : program.operations) {
    if (number == 0 || op.microbatch != before) begins.push_back(number);
    before = op.microbatch;
    ++number;
  }
  return in_blocks(program, begins);
}

}  // namespace trainyard::test
