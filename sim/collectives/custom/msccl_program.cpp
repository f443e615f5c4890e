#include "sim/collectives/custom/msccl_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "sim/base/error.hpp"
#include "sim/base/xml.hpp"

namespace trainyard {

namespace {

constexpr std::uint32_t kGpusMost = 1024;
constexpr std::uint32_t kMscclChunksMost = 1 << 20;

// One element of the file with its location, for error messages.
struct Element {
  const std::string& file;
  std::string where;  // "/algo/gpu 3/tb 1/step 2"
  const XmlElement& element;

  [[noreturn]] void refuse(std::string problem, std::string hint = "") const {
    throw InputError({file, where, std::move(problem), std::move(hint)});
  }
  [[nodiscard]] std::string text(const char* key, const char* fallback) const {
    const std::string word = element.attribute(key);
    return word.empty() ? fallback : word;
  }
  // A whole number from `least` to `most`.
  [[nodiscard]] std::int64_t number(const char* key, std::int64_t least, std::int64_t most,
                                    std::optional<std::int64_t> fallback = {}) const {
    const std::string word = text(key, "");
    if (word.empty() && fallback) return *fallback;
    std::int64_t value = 0;
    const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (fault != std::errc() || end != word.data() + word.size() || value < least || value > most)
      refuse(fmt::format("{}=\"{}\" is no whole number from {} to {}", key, word, least, most));
    return value;
  }
  [[nodiscard]] std::uint32_t count(const char* key, std::int64_t most,
                                    std::optional<std::int64_t> fallback = {}) const {
    return static_cast<std::uint32_t>(number(key, 0, most, fallback));
  }
  // The value, or nothing if the attribute is missing or negative (MSCCL writes -1).
  [[nodiscard]] std::optional<std::uint32_t> maybe(const char* key, std::int64_t most) const {
    const std::int64_t value = number(key, -1, most, -1);
    return value < 0 ? std::nullopt : std::optional(static_cast<std::uint32_t>(value));
  }
};

// The children with that name. The location of each contains its id attribute, or its index if it
// has none.
std::vector<Element> children(const Element& parent, const char* name, const char* id) {
  std::vector<Element> found;
  for (const XmlElement& child : parent.element.children) {
    if (child.name != name) continue;
    std::string number = child.attribute(id);
    if (number.empty()) number = std::to_string(found.size());
    found.push_back({parent.file, fmt::format("{}/{} {}", parent.where, name, number), child});
  }
  return found;
}

CollectiveOp read_operation(const Element& algo) {
  static const std::map<std::string, CollectiveOp, std::less<>> known{
      {"allreduce", CollectiveOp::AllReduce},
      {"allgather", CollectiveOp::AllGather},
      {"reduce_scatter", CollectiveOp::ReduceScatter},
      {"reducescatter", CollectiveOp::ReduceScatter},
      {"alltoall", CollectiveOp::AllToAll},
      {"broadcast", CollectiveOp::Broadcast},
      {"reduce", CollectiveOp::Reduce}};
  const std::string word = algo.text("coll", "");
  const auto entry = known.find(word);
  if (entry == known.end())
    algo.refuse(fmt::format("coll=\"{}\" is no known collective", word),
                "one of allreduce, allgather, reduce_scatter, alltoall, broadcast, reduce");
  return entry->second;
}

// MSCCL's step types. The letters are the actions in their order: receive, reduce, copy, send.
MscclStepKind read_kind(const Element& step) {
  static const std::map<std::string, MscclStepKind, std::less<>> known{
      {"s", {.sends = true}},
      {"r", {.receives = true, .stores = true}},
      {"rcs", {.receives = true, .stores = true, .sends = true}},
      {"rrc", {.receives = true, .reduces = true, .stores = true}},
      {"rrs", {.receives = true, .reduces = true, .sends = true}},
      {"rrcs", {.receives = true, .reduces = true, .stores = true, .sends = true}},
      {"cpy", {.stores = true}},
      {"re", {.reduces = true, .stores = true}},
      {"nop", {}}};
  const std::string word = step.text("type", "");
  const auto entry = known.find(word);
  if (entry == known.end())
    step.refuse(fmt::format("type=\"{}\" is no known step", word),
                "one of s, r, rcs, rrc, rrs, rrcs, cpy, re, nop");
  return entry->second;
}

MscclBuffer read_buffer(const Element& step, const char* key) {
  const std::string word = step.text(key, "i");
  if (word == "i") return MscclBuffer::Input;
  if (word == "o") return MscclBuffer::Output;
  if (word != "s")
    step.refuse(fmt::format("{}=\"{}\" is no buffer", key, word), "i, o or s (scratch)");
  return MscclBuffer::Scratch;
}

MscclStep read_step(const Element& element, const MscclBlock& block) {
  MscclStep step;
  step.type = element.text("type", "");
  step.kind = read_kind(element);
  step.source = read_buffer(element, "srcbuf");
  step.destination = read_buffer(element, "dstbuf");
  const auto offset = [&](const char* key) {
    return static_cast<std::uint32_t>(std::max<std::int64_t>(
        0, element.number(key, -1, kMscclChunksMost, -1)));  // -1: unused by the step
  };
  step.source_offset = offset("srcoff");
  step.destination_offset = offset("dstoff");
  step.count = element.count("cnt", kMscclChunksMost, 0);
  step.wait_block = element.maybe("depid", kMscclChunksMost);
  if (step.wait_block) step.wait_step = element.count("deps", kMscclChunksMost, 0);
  if (step.kind.sends && !block.to) element.refuse("sends, but its thread block has no peer to");
  if (step.kind.receives && !block.from)
    element.refuse("receives, but its thread block has no peer to receive from");
  if (step.type != "nop" && step.count == 0) element.refuse("cnt is 0: it moves nothing");
  return step;
}

MscclBlock read_block(const Element& element, std::uint32_t gpu, std::uint32_t gpus) {
  MscclBlock block;
  block.id = element.count("id", kMscclChunksMost);
  block.to = element.maybe("send", gpus - 1);
  block.from = element.maybe("recv", gpus - 1);
  if (block.to == gpu || block.from == gpu) element.refuse("its peer is its own GPU");
  block.channel = element.count("chan", kMscclChunksMost, 0);
  for (const Element& step : children(element, "step", "s"))
    block.steps.push_back(read_step(step, block));
  return block;
}

// Replaces the ids of the thread blocks in waits by their indices, and checks that every awaited
// step exists.
void resolve_waits(const Element& element, MscclGpu& gpu) {
  std::map<std::uint32_t, std::uint32_t> position;
  for (std::uint32_t i = 0; i < gpu.blocks.size(); ++i)
    if (!position.try_emplace(gpu.blocks[i].id, i).second)
      element.refuse(fmt::format("has two thread blocks with id {}", gpu.blocks[i].id));
  for (MscclBlock& block : gpu.blocks) {
    for (MscclStep& step : block.steps) {
      if (!step.wait_block) continue;
      const auto entry = position.find(*step.wait_block);
      if (entry == position.end() || step.wait_step >= gpu.blocks[entry->second].steps.size())
        element.refuse(
            fmt::format("a step of thread block {} waits for step {} of thread block "
                        "{}, which is not there",
                        block.id, step.wait_step, *step.wait_block));
      step.wait_block = entry->second;
    }
  }
}

void read_gpus(const Element& algo, MscclProgram& program) {
  const auto gpus = static_cast<std::uint32_t>(algo.number("ngpus", 2, kGpusMost));
  program.gpus.resize(gpus);
  std::vector<bool> seen(gpus, false);
  std::uint32_t chunks = 0;
  for (const Element& element : children(algo, "gpu", "id")) {
    const std::uint32_t id = element.count("id", gpus - 1);
    if (seen[id]) element.refuse(fmt::format("GPU {} is listed twice", id));
    seen[id] = true;
    MscclGpu& gpu = program.gpus[id];
    gpu.scratch_chunks = element.count("s_chunks", kMscclChunksMost, 0);
    chunks = std::max({chunks, element.count("i_chunks", kMscclChunksMost, 0),
                       element.count("o_chunks", kMscclChunksMost, 0)});
    for (const Element& block : children(element, "tb", "id"))
      gpu.blocks.push_back(read_block(block, id, gpus));
    resolve_waits(element, gpu);
  }
  for (std::uint32_t id = 0; id < gpus; ++id)
    if (!seen[id]) algo.refuse(fmt::format("GPU {} of {} is missing", id, gpus));
  // Without nchunksperloop, the largest buffer of any GPU gives the number of chunks.
  program.chunks =
      static_cast<std::uint32_t>(algo.number("nchunksperloop", 1, kMscclChunksMost, chunks));
  if (program.chunks == 0) algo.refuse("there are no chunks", "give nchunksperloop");
}

}  // namespace

MscclProgram read_msccl_program(const std::string& file, const std::string& text) {
  const XmlElement root = parse_xml(file, text, "expected an MSCCL algorithm in XML");
  if (root.name != "algo")
    throw InputError({file, "", "there is no <algo>", "expected an MSCCL algorithm in XML"});
  const Element algo{file, "/algo", root};
  MscclProgram program{
      .file = file, .name = algo.text("name", "unnamed"), .op = read_operation(algo), .gpus = {}};
  program.in_place = algo.number("inplace", 0, 1, 0) == 1;
  read_gpus(algo, program);
  return program;
}

}  // namespace trainyard
