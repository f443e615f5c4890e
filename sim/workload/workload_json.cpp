#include "sim/workload/workload_json.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/workload/kernel_json.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

std::string one_line(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Returns "key": [ one element per line ].
std::string table(const std::string& indent, std::string_view key,
                  const std::vector<std::string>& lines) {
  std::string text = fmt::format("{}\"{}\": [", indent, key);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    text += fmt::format("{}\n{}  {}", i == 0 ? "" : ",", indent, lines[i]);
  }
  return text + (lines.empty() ? "]" : fmt::format("\n{}]", indent));
}

Json call_json(const Call& call) {
  Json json{{"op", to_string(op_of(call))},
            {"bytes", bytes_of(call)},
            {"dtype", to_string(dtype_of(call))},
            {"algorithm", algorithm_of(call)}};
  if (const std::span matrix = matrix_of(call); !matrix.empty())
    json["matrix"] = std::vector(matrix.begin(), matrix.end());
  if (const auto* relay = std::get_if<RelayCall>(&call))
    for (const RelayHop& hop : relay->hops)
      json["relay"].push_back({{"from", hop.from}, {"to", hop.to}, {"bytes", hop.bytes}});
  return json;
}

// Writes the payload as an index into the tables of the file.
void add_number(Json& json, const Workload& workload, const Program& program, const Operation& op) {
  if (op.kind == OpKind::Compute) {
    json["kernel"] = program.kernel_of(op);
  } else if (op.kind == OpKind::Delay) {
    json["delay"] = op.payload;
  } else {
    json["slot"] = workload.slots[op.slot];
    json["call"] = op.payload;
  }
}

// Writes the payload itself, for an operation outside a workload file.
void add_in_place(Json& json, const Workload& workload, const Program& program,
                  const Operation& op) {
  if (op.kind == OpKind::Compute) {
    json["kernel"] = kernel_to_json(workload.kernels[program.kernel_of(op)]);
  } else if (op.kind == OpKind::Delay) {
    json["delay"] = fmt::format("{} s", workload.delays[op.payload].value());
  } else {
    json["slot"] = workload.slots[op.slot];
    json["call"] = call_json(workload.calls[op.payload]);
  }
}

using AddPayload = void (*)(Json&, const Workload&, const Program&, const Operation&);

// Returns an operation without its dependencies and memory effects.
Json operation_json(const Workload& workload, const Program& program, const Operation& op,
                    AddPayload add_payload) {
  Json json{{"kind", to_string(op.kind)},
            {"name", workload.names[op.name]},
            {"stream", workload.streams[op.stream]}};
  add_payload(json, workload, program, op);
  if (op.work != WorkClass::Compute) json["work"] = "optimizer";
  if (op.part != StepPart::Other) json["part"] = to_string(op.part);
  if (op.microbatch >= 0) json["microbatch"] = op.microbatch;
  if (op.layer >= 0) json["layer"] = op.layer;
  return json;
}

Json effect_json(const Workload& workload, const MemoryEffect& effect) {
  return {{"category", workload.categories[effect.category]},
          {"bytes", effect.bytes},
          {"when", effect.at_end ? "end" : "start"}};
}

// Writes an operation of a block. Its dependencies are indices in the block, or inputs.
std::string block_line(const Workload& workload, const Program& program, const Operation& op) {
  Json json = operation_json(workload, program, op, add_number);
  const std::span<const OpIndex> dependencies = program.operations.dependencies();
  for (std::uint32_t i = op.dependencies_begin; i < op.dependencies_end; ++i) {
    if (dependencies[i] < kBlockInput) {
      json["after"].push_back(dependencies[i]);
    } else {
      json["after"].push_back({{"input", dependencies[i] - kBlockInput}});
    }
  }
  for (std::uint32_t i = op.effects_begin; i < op.effects_end; ++i)
    json["memory"].push_back(effect_json(workload, program.effects[i]));
  return one_line(json);
}

std::vector<std::string> block_lines(const Workload& workload, const Program& program,
                                     const Block& block) {
  std::vector<std::string> lines;
  for (const Operation& op : program.operations.written().subspan(block.begin, block.count))
    lines.push_back(block_line(workload, program, op));
  return lines;
}

std::string instance_line(const OperationList& list, const Instance& instance) {
  Json json{{"block", instance.block}};
  if (instance.microbatch != 0) json["microbatch"] = instance.microbatch;
  for (const OpIndex input : list.bindings_of(instance)) json["inputs"].push_back(input);
  return one_line(json);
}

// Writes "operations" of a program that is one block. For any other program it writes the blocks,
// the instances, and the memory effects of single operations.
std::string operations_text(const Workload& workload, const Program& program) {
  const OperationList& list = program.operations;
  const std::string indent(6, ' ');
  if (list.instances().size() <= 1 && program.single_effects.empty())
    return table(indent, "operations",
                 list.empty() ? std::vector<std::string>{}
                              : block_lines(workload, program, list.blocks().front()));
  std::vector<std::string> blocks;
  for (const Block& block : list.blocks())
    blocks.push_back(
        "{" + table(indent + "   ", "operations", block_lines(workload, program, block)) + "}");
  std::vector<std::string> instances;
  for (const Instance& instance : list.instances())
    instances.push_back(instance_line(list, instance));
  std::vector<std::string> memory;
  for (const auto& [op, effect] : program.single_effects) {
    Json json = effect_json(workload, effect);
    json["operation"] = op;
    memory.push_back(one_line(json));
  }
  return table(indent, "blocks", blocks) + ",\n" + table(indent, "instances", instances) + ",\n" +
         table(indent, "memory", memory);
}

std::string program_text(const Workload& workload, const Program& program) {
  std::vector<std::string> resident;
  for (const ResidentMemory& held : program.resident) {
    resident.push_back(
        one_line({{"category", workload.categories[held.category]}, {"bytes", held.bytes}}));
  }
  return fmt::format("{{\n      \"name\": {},\n      \"stage\": {},\n{},\n{}\n    }}",
                     one_line(program.name), program.stage, table("      ", "resident", resident),
                     operations_text(workload, program));
}

std::string rank_line(const Workload& workload, const Rank& rank) {
  Json slots = Json::object();
  for (std::size_t slot = 0; slot < rank.slots.size(); ++slot) {
    if (rank.slots[slot].group != kNone) slots[workload.slots[slot]] = rank.slots[slot].group;
  }
  return one_line({{"program", rank.program},
                   {"gpu", rank.gpu},
                   {"label", rank.label},
                   {"slots", std::move(slots)}});
}

template <class Element, class Line>
std::vector<std::string> lines(const std::vector<Element>& elements, Line line) {
  std::vector<std::string> result;
  result.reserve(elements.size());
  for (const Element& element : elements) result.push_back(line(element));
  return result;
}

}  // namespace

Json operation_to_json(const Workload& workload, const Program& program, OpIndex op) {
  Json json = operation_json(workload, program, program.operations[op], add_in_place);
  for (const OpIndex before : program.dependencies_of(op)) json["after"].push_back(before);
  for (const MemoryEffect& effect : program.effects_of(op))
    json["memory"].push_back(effect_json(workload, effect));
  return json;
}

// Tables come before the programs that refer to them, and groups before ranks, as the reader needs
// them.
std::string to_json(const Workload& workload) {
  const auto text = [](const std::string& word) { return one_line(word); };
  std::string json = "{\n";
  const auto add = [&](std::string_view key, const std::vector<std::string>& elements) {
    json += table("  ", key, elements) + (key == "ranks" ? "\n}\n" : ",\n");
  };
  add("streams", lines(workload.streams, text));
  add("slots", lines(workload.slots, text));
  add("memory_categories", lines(workload.categories, text));
  add("names", lines(workload.names, text));
  add("kernels",
      lines(workload.kernels, [](const Kernel& k) { return one_line(kernel_to_json(k)); }));
  add("calls", lines(workload.calls, [](const Call& c) { return one_line(call_json(c)); }));
  add("delays", lines(workload.delays, [](Seconds delay) { return one_line(delay.value()); }));
  add("programs", lines(workload.programs,
                        [&](const Program& program) { return program_text(workload, program); }));
  add("groups", lines(workload.groups, [](const Group& group) {
        return one_line({{"kind", to_string(group.kind)}, {"members", group.members}});
      }));
  add("ranks", lines(workload.ranks, [&](const Rank& rank) { return rank_line(workload, rank); }));
  return json;
}

}  // namespace trainyard
