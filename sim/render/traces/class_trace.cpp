#include "sim/render/traces/class_trace.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "sim/render/traces/kineto.hpp"
#include "sim/render/traces/trace_options.hpp"
#include "sim/timeline/memory.hpp"

namespace trainyard {
namespace {

// Thread numbers. PyTorch's default stream has number 7, and the other streams follow. The
// annotation of the step is on a CPU thread.
constexpr std::uint64_t kStepThread = 1;
constexpr std::uint64_t kFirstStream = 7;

using What = RankValue::What;
// Values Rank and Device come first, then those of each slot.
constexpr std::size_t kValuesOfRank = 2;
constexpr std::size_t kValuesOfSlot = 4;

// A trace shows work and traffic as whole operations and bytes.
std::int64_t whole(double value) { return static_cast<std::int64_t>(std::nearbyint(value)); }

}  // namespace

std::size_t index_of(const RankValue& value) {
  const auto what = static_cast<std::size_t>(value.what);
  return what < kValuesOfRank ? what : what + value.slot * kValuesOfSlot;
}

// The texts that differ between the ranks of a class, by index_of(). Unbound slots have empty
// texts.
std::vector<std::string> rank_values(const RunView& view, RankId rank) {
  const Rank& one = view.workload.ranks.at(rank);
  std::vector<std::string> values(kValuesOfRank + one.slots.size() * kValuesOfSlot);
  values[index_of({.what = What::Rank})] = fmt::format("{}", rank);
  values[index_of({.what = What::Device})] = fmt::format("{}", view.cluster.local_index(one.gpu));
  for (std::uint16_t slot = 0; slot < one.slots.size(); ++slot) {
    const GroupId id = one.slots[slot].group;
    if (id == kNone) continue;
    const std::vector<RankId>& members = view.workload.groups.at(id).members;
    const auto set = [&](What what, std::string text) {
      values[index_of({.what = what, .slot = slot})] = std::move(text);
    };
    set(What::GroupName, fmt::format("{}", id));
    set(What::GroupRanks, process_group_ranks(members));
    set(What::Source, fmt::format("{}", members.front()));
    set(What::Destination, fmt::format("{}", members.back()));
  }
  return values;
}

std::string process_name(const RunView& view, RankId rank) {
  const Rank& one = view.workload.ranks.at(rank);
  const std::string name =
      fmt::format("rank {} (node {}, gpu {})", rank, view.cluster.node_of(one.gpu),
                  view.cluster.local_index(one.gpu));
  return one.label.empty() ? name : name + " " + one.label;
}

ClassTrace::ClassTrace(const RunView& view, std::uint32_t rank_class)
    : view_(view),
      class_(rank_class),
      rank_(view.workload.ranks.at(view.partition.ranks.at(rank_class).representative)),
      program_(view.workload.programs.at(rank_.program)),
      times_(view.timeline.classes.at(rank_class)),
      calls_of_slot_(rank_.slots.size(), 0) {
  std::vector<bool> used(view.workload.streams.size(), false);
  std::vector<bool> messages(used.size(), false);
  for (const Operation& op : program_.operations) {
    used.at(op.stream) = true;
    if (op.kind == OpKind::Send || op.kind == OpKind::Recv) messages.at(op.stream) = true;
  }
  threads_.push_back({.number = kStepThread, .name = "step"});
  for (std::size_t stream = 0; stream < used.size(); ++stream) {
    if (!used[stream]) continue;
    threads_.push_back(
        {.number = kFirstStream + stream,
         .name = fmt::format("stream {} {}", kFirstStream + stream, view.workload.streams[stream]),
         .position = stream + 1,
         .messages = messages[stream]});
  }
}

// Visits the annotation of the step, then the operations in issue order, each with the wait before
// it.
void ClassTrace::for_each_slice(const std::function<void(const ShownSlice&)>& visit) {
  calls_of_slot_.assign(rank_.slots.size(), 0);
  visit({.thread = kStepThread,
         .start_ns = 0,
         .end_ns = trace_ns(view_.timeline.makespan_s),
         .category = "user_annotation",
         .name = "ProfilerStep#0"});
  for (OpIndex index = 0; index < program_.operations.size(); ++index) {
    const Operation& op = program_.operations[index];
    if (op.kind == OpKind::Compute || op.kind == OpKind::Delay) {
      visit(kernel(index));
      continue;
    }
    if (const std::optional<ShownSlice> waits = wait(index)) visit(*waits);
    visit(communication(index));
  }
}

// Visits the resident memory at time 0, then each instant at which a category changes.
void ClassTrace::for_each_memory(const std::function<void(const ShownMemory&)>& visit) const {
  std::vector<std::int64_t> bytes = view_.resident_bytes_of(rank_.program);
  std::vector<std::size_t> changed(bytes.size());
  const auto show = [&](std::int64_t at_ns) {
    visit({.at_ns = at_ns,
           .changed = changed,
           .bytes = bytes,
           .total = std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0})});
  };
  std::iota(changed.begin(), changed.end(), std::size_t{0});
  show(0);
  const std::vector<MemoryChange> changes =
      memory_changes(view_.workload, view_.partition, view_.timeline, class_);
  // Memory changes of one nanosecond are shown as one point, as the trace cannot order them.
  std::vector<std::int64_t> before;
  for (auto change = changes.begin(); change != changes.end();) {
    const std::int64_t instant_ns = trace_ns(change->time_s);
    before = bytes;
    for (; change != changes.end() && trace_ns(change->time_s) == instant_ns; ++change)
      bytes.at(change->category) += change->bytes;
    changed.clear();
    for (std::size_t category = 0; category < bytes.size(); ++category)
      if (bytes[category] != before[category]) changed.push_back(category);
    if (!changed.empty()) show(instant_ns);
  }
}

ShownSlice ClassTrace::slice_of(OpIndex index, std::string_view category) const {
  const Operation& op = program_.operations[index];
  return {.thread = kFirstStream + op.stream,
          .start_ns = trace_ns(times_.start_s[index]),
          .end_ns = trace_ns(times_.end_s[index]),
          .category = category,
          .name = view_.workload.names.at(op.name),
          .correlation = index + 1};
}

void ClassTrace::common_arguments(const Operation& op) {
  arguments_.clear();
  arguments_.push_back({"part", to_string(op.part)});
  if (op.microbatch >= 0) arguments_.push_back({"microbatch", std::int64_t{op.microbatch}});
  if (op.layer >= 0) arguments_.push_back({"layer", std::int64_t{op.layer}});
}

// Returns the slice of a kernel or of a delay of the host.
ShownSlice ClassTrace::kernel(OpIndex index) {
  const Operation& op = program_.operations[index];
  common_arguments(op);
  if (op.kind == OpKind::Delay) {
    ShownSlice slice = slice_of(index, "host");
    slice.arguments = arguments_;
    return slice;
  }
  const std::uint32_t number = program_.kernel_of(op);
  const Kernel& kernel = view_.workload.kernels.at(number);
  arguments_.push_back({"kernel", std::string_view(kernel_text(number))});
  arguments_.push_back({"flops", whole(flops(kernel).value())});
  arguments_.push_back({"bytes", whole(hbm_bytes(kernel).value())});
  arguments_.push_back({"cost", to_string(view_.kernel_costs[number].provenance)});
  const bool copies = std::holds_alternative<Copy>(kernel);
  ShownSlice slice = slice_of(index, copies ? "gpu_memcpy" : "kernel");
  slice.arguments = arguments_;
  return slice;
}

const std::string& ClassTrace::kernel_text(std::uint32_t kernel) {
  std::string& text = kernels_[kernel];
  if (text.empty()) text = to_text(view_.workload.kernels[kernel]);
  return text;
}

// A class repeats few distinct calls, so their names are formatted once.
const ClassTrace::CallTexts& ClassTrace::call_texts(const Operation& op) {
  constexpr unsigned kPayloadBits = 32;
  const auto [place, first] =
      call_texts_.try_emplace((std::uint64_t{op.slot} << kPayloadBits) | op.payload);
  if (first) {
    const SelectedAlgorithm selected_algorithm =
        view_.selected_algorithm(rank_.slots.at(op.slot).group, op.payload);
    place->second = {
        .name = nccl_kernel_name(view_.workload.calls.at(op.payload), selected_algorithm),
        .algorithm = selected_algorithm.label};
  }
  return place->second;
}

void ClassTrace::group_arguments(std::uint16_t slot) {
  arguments_.push_back({"Process Group Name", RankValue{What::GroupName, slot}});
  arguments_.push_back(
      {"Process Group Description", std::string_view(view_.workload.slots.at(slot))});
  arguments_.push_back({"Process Group Ranks", RankValue{What::GroupRanks, slot}});
}

// Messages are numbered per slot in issue order. Sender and receiver make the calls of a group in
// the same order, so the i-th send on a group belongs to the i-th receive.
ShownSlice ClassTrace::communication(OpIndex index) {
  const Operation& op = program_.operations[index];
  const Call& call = view_.workload.calls.at(op.payload);
  const std::size_t ranks = view_.workload.groups.at(rank_.slots.at(op.slot).group).members.size();
  const MessageElements elements = message_elements(call, ranks);
  const CallTexts& texts = call_texts(op);
  common_arguments(op);
  arguments_.push_back({"Collective name", kineto_collective_name(op.kind, op_of(call))});
  arguments_.push_back({"In msg nelems", elements.in});
  arguments_.push_back({"Out msg nelems", elements.out});
  arguments_.push_back({"Group size", static_cast<std::int64_t>(ranks)});
  arguments_.push_back({"dtype", kineto_dtype(dtype_of(call))});
  group_arguments(op.slot);
  ShownSlice slice = slice_of(index, "kernel");
  arguments_.push_back({"operation", slice.name});
  arguments_.push_back({"algorithm", std::string_view(texts.algorithm)});
  arguments_.push_back({"bytes", bytes_of(call)});
  if (op.kind != OpKind::Collective) {
    arguments_.push_back({"Src Rank", RankValue{What::Source, op.slot}});
    arguments_.push_back({"Dst Rank", RankValue{What::Destination, op.slot}});
    slice.message = {
        .slot = op.slot, .call = calls_of_slot_.at(op.slot)++, .receives = op.kind == OpKind::Recv};
  }
  slice.name = texts.name;
  slice.arguments = arguments_;
  return slice;
}

// Returns the time in which the rank was ready and waited for other members; nothing where it did
// not.
std::optional<ShownSlice> ClassTrace::wait(OpIndex index) {
  ShownSlice slice = slice_of(index, "wait");
  slice.end_ns = slice.start_ns;
  slice.start_ns = trace_ns(times_.ready_s[index]);
  if (slice.start_ns >= slice.end_ns) return std::nullopt;
  const GroupId group = rank_.slots.at(program_.operations[index].slot).group;
  const GroupKind kind = view_.workload.groups.at(group).kind;
  const auto place = static_cast<std::size_t>(kind);
  if (wait_names_.size() <= place)
    wait_names_.resize(static_cast<std::size_t>(GroupKind::Other) + 1);
  if (wait_names_[place].empty()) wait_names_[place] = fmt::format("wait ({})", to_string(kind));
  arguments_.clear();
  arguments_.push_back({"operation", slice.name});
  slice.name = wait_names_[place];
  slice.correlation = 0;
  slice.arguments = arguments_;
  return slice;
}

}  // namespace trainyard
