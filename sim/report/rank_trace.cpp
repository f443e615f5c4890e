#include "sim/report/rank_trace.hpp"

#include <fmt/format.h>

#include <numeric>

#include "sim/report/kineto.hpp"
#include "sim/timeline/memory.hpp"

namespace trainyard {
namespace {

// Thread numbers: PyTorch's default stream is 7; the others follow. The step annotation is a CPU
// thread.
constexpr std::uint64_t kStepThread = 1;
constexpr std::uint64_t kFirstStream = 7;

class RankTrace {
 public:
  RankTrace(const RunView& view, RankId rank, TraceEvents& events)
      : view_(view),
        id_(rank),
        rank_(view.workload.ranks.at(rank)),
        class_(view.partition.class_of_rank.at(rank)),
        program_(view.workload.programs.at(rank_.program)),
        times_(view.timeline.classes.at(class_)),
        events_(events),
        calls_of_slot_(rank_.slots.size(), 0),
        slot_args_(rank_.slots.size()) {}

  void name_process() {
    const std::uint32_t node = view_.cluster.node_of(rank_.gpu);
    std::string name = fmt::format("rank {} (node {}, gpu {})", id_, node, device());
    if (!rank_.label.empty()) name += " " + rank_.label;
    events_.process(id_, name, id_);
    events_.thread(id_, kStepThread, "step", 0);
    std::vector<bool> used(view_.workload.streams.size(), false);
    for (const Operation& op : program_.operations) used.at(op.stream) = true;
    for (std::size_t stream = 0; stream < used.size(); ++stream) {
      if (!used[stream]) continue;
      const std::string title =
          fmt::format("stream {} {}", kFirstStream + stream, view_.workload.streams[stream]);
      events_.thread(id_, kFirstStream + stream, title, stream + 1);
    }
  }

  void write_spans() {
    events_.slice({.process = id_,
                   .thread = kStepThread,
                   .start_ns = 0,
                   .end_ns = trace_ns(view_.timeline.makespan_s),
                   .category = "user_annotation",
                   .name_json = "\"ProfilerStep#0\"",
                   .args_json = "{}"});
    for (OpIndex op = 0; op < program_.operations.size(); ++op) write_operation(op);
  }

  void write_memory() {
    std::vector<std::int64_t> bytes = resident_bytes(view_.workload, program_);
    std::string series;
    for (std::size_t category = 0; category < bytes.size(); ++category)
      append(series, category, bytes);
    write_memory_point(series, bytes, 0);
    const std::vector<MemoryChange> changes =
        memory_changes(view_.workload, view_.partition, view_.timeline, class_);
    for (auto change = changes.begin(); change != changes.end();) {
      const std::int64_t instant_ns = trace_ns(change->time_s);
      std::vector<std::int64_t> before = bytes;
      for (; change != changes.end() && trace_ns(change->time_s) == instant_ns; ++change) {
        bytes.at(change->category) += change->bytes;
      }
      series.clear();
      for (std::size_t category = 0; category < bytes.size(); ++category) {
        if (bytes[category] != before[category]) append(series, category, bytes);
      }
      if (!series.empty()) write_memory_point(series, bytes, instant_ns);
    }
  }

  [[nodiscard]] std::vector<MessageEnd> take_messages() { return std::move(messages_); }

 private:
  [[nodiscard]] std::uint32_t device() const { return view_.cluster.local_index(rank_.gpu); }

  void append(std::string& series, std::size_t category,
              const std::vector<std::int64_t>& bytes) const {
    series +=
        fmt::format("{}:{},", json_text(view_.workload.categories[category]), bytes[category]);
  }

  void write_memory_point(const std::string& series, const std::vector<std::int64_t>& bytes,
                          std::int64_t at_ns) {
    const std::int64_t total = std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
    events_.counter(id_, "\"memory bytes\"", at_ns,
                    fmt::format(R"({{{}"total":{}}})", series, total));
  }

  void write_operation(OpIndex index) {
    const Operation& op = program_.operations[index];
    switch (op.kind) {
      case OpKind::Compute:
        return write_kernel(index);
      case OpKind::Delay:
        return write_delay(index);
      case OpKind::Collective:
      case OpKind::Send:
      case OpKind::Recv:
        return write_communication(index);
    }
  }

  [[nodiscard]] TraceSlice slice_of(OpIndex index, std::string_view category) const {
    return {.process = id_,
            .thread = kFirstStream + program_.operations[index].stream,
            .start_ns = trace_ns(times_.start_s[index]),
            .end_ns = trace_ns(times_.end_s[index]),
            .category = category,
            .name_json = {},
            .args_json = {}};
  }

  // What every span on the GPU carries. Correlation numbers are unique within the rank.
  void common_args(OpIndex index) {
    const Operation& op = program_.operations[index];
    args_ = fmt::format(R"({{"device":{},"context":1,"stream":{},"correlation":{},"part":"{}")",
                        device(), kFirstStream + op.stream, index + 1, to_string(op.part));
    if (op.microbatch >= 0) args_ += fmt::format(R"(,"microbatch":{})", op.microbatch);
    if (op.layer >= 0) args_ += fmt::format(R"(,"layer":{})", op.layer);
  }

  void write_slice(TraceSlice slice, std::string_view name_json) {
    args_ += '}';
    slice.name_json = name_json;
    slice.args_json = args_;
    events_.slice(slice);
  }

  void write_kernel(OpIndex index) {
    const Operation& op = program_.operations[index];
    common_args(index);
    const Kernel& kernel = view_.workload.kernels.at(op.payload);
    args_ +=
        fmt::format(R"(,"kernel":{},"flops":{:.0f},"bytes":{:.0f},"cost":"{}")",
                    json_text(to_text(kernel)), flops(kernel).value(), hbm_bytes(kernel).value(),
                    to_string(view_.kernel_costs[op.payload].provenance));
    const bool copies = std::holds_alternative<Copy>(kernel);
    write_slice(slice_of(index, copies ? "gpu_memcpy" : "kernel"),
                json_text(view_.workload.names.at(op.name)));
  }

  void write_delay(OpIndex index) {
    common_args(index);
    write_slice(slice_of(index, "host"),
                json_text(view_.workload.names.at(program_.operations[index].name)));
  }

  void write_communication(OpIndex index) {
    const Operation& op = program_.operations[index];
    const Call& call = view_.workload.calls.at(op.payload);
    const SlotBinding& binding = rank_.slots.at(op.slot);
    const Group& group = view_.workload.groups.at(binding.group);
    write_wait(index, group.kind);
    const Carrier carrier = view_.carrier(binding.group, op.payload);
    const MessageElements elements = message_elements(call, group.members.size());
    common_args(index);
    args_ += fmt::format(R"(,"Collective name":"{}","In msg nelems":{},"Out msg nelems":{},)"
                         R"("Group size":{},"dtype":"{}",{})"
                         R"(,"operation":{},"algorithm":{},"bytes":{})",
                         kineto_collective_name(op.kind, call.op), elements.in, elements.out,
                         group.members.size(), kineto_dtype(call.dtype), group_args(op.slot),
                         json_text(view_.workload.names.at(op.name)), json_text(carrier.label),
                         call.bytes);
    if (op.kind != OpKind::Collective) add_message(index, binding, group);
    write_slice(slice_of(index, "kernel"), json_text(nccl_kernel_name(call, carrier)));
  }

  // The stretch in which the rank was there and others were not.
  void write_wait(OpIndex index, GroupKind kind) {
    TraceSlice wait = slice_of(index, "wait");
    wait.end_ns = wait.start_ns;
    wait.start_ns = trace_ns(times_.ready_s[index]);
    if (wait.start_ns >= wait.end_ns) return;
    args_ = fmt::format(R"({{"operation":{})",
                        json_text(view_.workload.names.at(program_.operations[index].name)));
    write_slice(wait, fmt::format("\"wait ({})\"", to_string(kind)));
  }

  void add_message(OpIndex index, const SlotBinding& binding, const Group& group) {
    const Operation& op = program_.operations[index];
    args_ +=
        fmt::format(R"(,"Src Rank":{},"Dst Rank":{})", group.members.front(), group.members.back());
    messages_.push_back({.group = binding.group,
                         .call = calls_of_slot_.at(op.slot)++,
                         .receives = op.kind == OpKind::Recv,
                         .process = id_,
                         .thread = kFirstStream + op.stream,
                         .start_ns = trace_ns(times_.start_s[index]),
                         .end_ns = trace_ns(times_.end_s[index])});
  }

  const std::string& group_args(std::uint16_t slot) {
    std::string& text = slot_args_.at(slot);
    if (text.empty()) {
      const GroupId id = rank_.slots[slot].group;
      text = fmt::format(
          R"("Process Group Name":"{}","Process Group Description":{},"Process Group Ranks":"{}")",
          id, json_text(view_.workload.slots.at(slot)),
          process_group_ranks(view_.workload.groups.at(id).members));
    }
    return text;
  }

  const RunView& view_;
  RankId id_;
  const Rank& rank_;
  std::uint32_t class_;
  const Program& program_;
  const OpTimes& times_;
  TraceEvents& events_;
  std::vector<std::uint32_t> calls_of_slot_;
  std::vector<std::string> slot_args_;
  std::vector<MessageEnd> messages_;
  std::string args_;  // of the slice being written, kept for its storage
};

}  // namespace

std::vector<MessageEnd> write_rank_trace(const RunView& view, RankId rank, bool memory_counters,
                                         TraceEvents& events) {
  RankTrace trace(view, rank, events);
  trace.name_process();
  trace.write_spans();
  if (memory_counters) trace.write_memory();
  return trace.take_messages();
}

}  // namespace trainyard
