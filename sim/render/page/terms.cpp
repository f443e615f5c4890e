#include "sim/render/page/terms.hpp"

#include <algorithm>

namespace trainyard {

namespace {

constexpr PageTerm kTerms[] = {
    {"step",
     "step time",
     "The time from the start of one optimizer step to the start of the "
     "next, with everything in it: forward, backward, communication and the optimizer.",
     {"step", "one step", "step_time_s"}},
    {"mfu",
     "MFU",
     "Model FLOP utilisation: the FLOPs that the model needs, divided by the step "
     "time, the number of GPUs and the peak rate of a GPU. Recomputed work does not count.",
     {"mfu"}},
    {"hfu", "HFU", "Hardware FLOP utilisation: as MFU, but recomputed work counts as well."},
    {"tokens",
     "tokens/s per GPU",
     "Training tokens that one GPU gets through in a second: the "
     "tokens of a batch, divided by the step time and the number of GPUs.",
     {"tokens/s/GPU", "tok/s/GPU", "tokens_per_s_per_gpu"}},
    {"modelflops",
     "model FLOP/s per GPU",
     "The floating-point operations that the mathematics "
     "of the model needs, for one GPU and second.",
     {"TFLOP/s per GPU"}},
    {"hardwareflops", "hardware FLOP/s per GPU",
     "The floating-point operations that the GPU "
     "really executes, recomputation included, for one GPU and second."},
    {"peak",
     "peak memory",
     "The largest amount of GPU memory that is in use at one moment of the "
     "step, with what the software around the step holds.",
     {"peak", "peak_bytes", "peak GiB"}},
    {"stage", "stage",
     "One of the consecutive parts into which pipeline parallelism cuts the "
     "layers of the model. All ranks of a stage hold the same layers."},
    {"microbatch",
     "microbatch",
     "The sequences that pass through the pipeline together. A batch "
     "is many microbatches, one after the other.",
     {"mbs"}},
    {"layout", "layout",
     "How the work is divided among the GPUs: the sizes of tensor, pipeline, "
     "data, context and expert parallelism, and the schedule."},
    {"tp",
     "tensor parallel (TP)",
     "Each matrix is cut into parts that several GPUs hold, which "
     "exchange results in every layer.",
     {"TP", "exposed_tensor", "tensor"}},
    {"pp",
     "pipeline parallel (PP)",
     "Consecutive layers lie on different GPUs, and microbatches "
     "pass from one to the next.",
     {"PP", "exposed_pipeline", "pipeline"}},
    {"dp",
     "data parallel (DP)",
     "Groups of GPUs hold the same layers and work on different "
     "sequences; they add up their gradients once per step.",
     {"DP", "exposed_data", "data"}},
    {"ep",
     "expert parallel (EP)",
     "The experts of a mixture-of-experts layer lie on different "
     "GPUs, and tokens travel to them.",
     {"EP", "exposed_expert", "expert"}},
    {"cp",
     "context parallel (CP)",
     "Each sequence is cut into parts on several GPUs.",
     {"CP", "exposed_context", "context"}},
    {"compute",
     "compute",
     "Time in which the compute stream of a rank runs a kernel.",
     {"compute", "kernels"}},
    {"optimizer", "optimizer", "Time of the update of the weights.", {"optimizer", "optim."}},
    {"exposed",
     "exposed communication",
     "Communication that no computation hides: the compute "
     "stream waits for it.",
     {"exposed", "exposed_other", "other exposed", "exposed TP", "exposed PP", "exposed DP",
      "exposed EP", "exposed CP"}},
    {"hostcopies",
     "exposed copies to the host",
     "Copies between GPU and host memory that no "
     "computation hides.",
     {"exposed_host", "CPU", "exposed copies"}},
    {"bubble",
     "pipeline bubble",
     "Time in which a pipeline stage has nothing to do because "
     "another stage has not sent its microbatch yet.",
     {"bubble"}},
    {"waiting", "waiting", "Time in which a rank waits for slower ranks of its group."},
    {"host", "host",
     "Time in which a GPU idles because the CPU has not issued the next kernel "
     "yet."},
    {"idle", "idle", "The rest of the step, after the last work of a rank."},
    {"recompute",
     "recomputation",
     "Activations are dropped in the forward pass and computed "
     "again in the backward pass, which saves memory and costs time.",
     {"recompute"}},
    {"zero", "ZeRO",
     "Data-parallel ranks share the optimizer state (1), the gradients (2) and "
     "the weights (3) among them instead of each holding all."},
    {"path",
     "critical path",
     "The chain of operations and waits that determines the step time. "
     "Only what lies on it can make the step shorter.",
     {"on the critical path", "on the path"}},
    {"slack",
     "slack",
     "How much later an operation could end without making the step longer.",
     {"least slack", "mean slack"}},
    {"size", "size", "Bytes of the whole buffer, as nccl-tests counts them.", {"size (B)"}},
    {"algbw", "algbw",
     "Algorithm bandwidth: bytes of the buffer divided by the time of the "
     "call."},
    {"busbw", "busbw",
     "Bus bandwidth: algbw times a factor of the collective and the number of "
     "ranks, so that it compares with the rate of a link whatever the number of ranks."},
    {"latency", "latency", "The share of a call's time in which no bytes move."},
    {"busiest",
     "busiest link",
     "The link whose capacity the call uses most.",
     {"busiest", "shared link"}},
    {"load", "load", "The bytes that cross a link, divided by its capacity and the time."},
    {"use",
     "mean use",
     "The bytes that a link carries, divided by its capacity and the step time.",
     {"mean use", "peak use", "use"}},
    {"busy", "busy", "The share of the step in which a link carries something."},
    {"bottleneck", "bottleneck",
     "What limits a call: latency, NCCL's protocol and channels, or "
     "the kind of the busiest link."},
    {"switches", "switches", "The most switches that lie between two neighbours of a group."},
    {"provenance",
     "measured, interpolated, extrapolated, roofline",
     "Where a kernel's duration "
     "comes from: measured at this shape, between measured shapes, beyond them, or bounded by "
     "the "
     "data sheet.",
     {"known from"}},
    {"pareto",
     "Pareto front",
     "The layouts that nothing beats in both time and memory.",
     {"quickest for its memory", "Pareto"}},
    {"bound",
     "least time, least memory",
     "Lower bounds that the search computes without a "
     "simulation. A layout whose bounds rule it out is not simulated.",
     {"least time"}},
    {"likeruns", "like runs",
     "Measured runs of the same kind of model, precision and GPU that "
     "the simulator predicted; their mean error is what to expect of this prediction."},
    {"slower", "slower by",
     "How much longer the time is: than that of the quickest algorithm, or than that of the same "
     "call alone."},
    {"headroom", "free", "GPU memory that stays free at the peak.", {"free"}},
    // what was simulated
    {"model", "model", "The network that is trained, with the number of its parameters."},
    {"cluster", "cluster",
     "The GPUs, how many nodes hold them, and the network between the nodes."},
    {"batch", "batch",
     "The sequences of one step of the optimizer, and how they are divided into microbatches for "
     "each replica."},
    {"precision", "precision", "The number format of the matrix products, and what is recomputed."},
    {"limit", "limit",
     "What takes most of a mean rank's time, and the largest part of its time without "
     "computation."},
    {"fault", "fault",
     "A part of the cluster that is slower for a part of the run (cluster.faults with dates)."},
    {"waits", "waits",
     "The time that ranks wait for other ranks, in collectives and for messages of the pipeline."},
    {"changed", "changed", "The fields that the command line set, against the scenario's file."},
    // memory
    {"weights", "weights", "The parameters of the model that a GPU holds."},
    {"gradients", "gradients", "The derivatives of the loss by these parameters."},
    {"optimizerstate", "optimizer_state",
     "What the optimizer keeps for each parameter, such as Adam's two moments and a copy of the "
     "weights in 32 bits."},
    {"activations", "activations", "Results of the forward pass that the backward pass needs."},
    {"logits", "logits",
     "The scores of all words of the vocabulary, and their gradients, in the last stage."},
    {"commbuffers", "communication", "Buffers of the communication library."},
    {"framework", "framework", "What the CUDA context and the training framework hold."},
    {"workspace", "workspace", "Scratch space of kernels."},
    {"fragmentation", "fragmentation", "Memory that the allocator holds and cannot use."},
    {"when", "when", "The operation in which the peak is reached."},
    {"at", "at", "The time in the step at which the peak is reached."},
    // communication
    {"group", "group", "The ranks that communicate with one another, by the kind of parallelism."},
    {"ranks", "ranks", "The GPUs of one group."},
    {"calls", "calls", "How often the step makes such a call, over all groups."},
    {"linkclass", "link class", "Links of one kind and rate. Each direction is a link."},
    {"each", "each", "The rate of one link, in one direction.", {"each way"}},
    {"carried", "carried", "The bytes that all links of the class carry in the step."},
    {"betweennodes", "between nodes", "The share of neighbours in a group that lie on two nodes."},
    {"pernode", "per node", "The most members of a group on one node."},
    // what takes the time
    {"gputime", "GPU time", "Step time times the number of GPUs, against the plan as it is."},
    {"saves", "saves", "How much shorter the step would be, as a share of it."},
    {"forward", "forward", "The forward pass, layer by layer."},
    {"backward", "backward", "The backward pass, which computes gradients."},
    {"weightgradient", "weight gradient",
     "The part of the backward pass that computes the gradients of weights, where a schedule "
     "splits it off."},
};

}  // namespace

std::span<const PageTerm> page_terms() { return kTerms; }

const PageTerm* find_term(std::string_view word) {
  const std::string_view plain = word.substr(0, word.find(" ("));
  const auto names = [&](const PageTerm& term) {
    return term.id == plain || term.name == word || term.name == plain ||
           std::ranges::find(term.also, plain) != term.also.end();
  };
  if (plain.empty()) return nullptr;
  const std::span<const PageTerm> all = page_terms();
  const auto found = std::ranges::find_if(all, names);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace trainyard
