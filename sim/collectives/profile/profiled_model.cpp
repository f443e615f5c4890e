#include "sim/collectives/profile/profiled_model.hpp"

#include <algorithm>

#include "sim/base/error.hpp"
#include "sim/collectives/loads.hpp"
#include "sim/collectives/placement.hpp"
#include "sim/nccl/nccl_model.hpp"

namespace trainyard {

namespace {

// The algorithm that loads the links if NCCL's data do not contain the GPU.
std::string plain_algorithm(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::AllReduce:
    case CollectiveOp::AllGather:
    case CollectiveOp::ReduceScatter:
      return "ring";
    case CollectiveOp::Broadcast:
    case CollectiveOp::Reduce:
      return "chain";
    case CollectiveOp::AllToAll:
    case CollectiveOp::SendRecv:
    case CollectiveOp::HostCopy:
      return "direct";
  }
  return "direct";
}

}  // namespace

ProfiledModel::ProfiledModel(const Cluster& cluster, const CommunicationModel& other,
                             const CollectiveProfile& profile, std::string name)
    : cluster_(cluster), other_(other), profile_(profile), name_(std::move(name)) {}

const MeasuredCurve* ProfiledModel::curve(const Call& call,
                                          std::span<const std::uint32_t> gpus) const {
  if (algorithm_of(call) != nccl::kNcclName || gpus.size() <= 1 || bytes_of(call) <= 0)
    return nullptr;
  if (!matrix_of(call).empty()) return nullptr;  // nccl-tests sends equal blocks only
  const Placement placement = placement_of({.cluster = cluster_, .gpus = gpus});
  return profile_.find({.op = op_of(call),
                        .ranks = static_cast<std::uint32_t>(gpus.size()),
                        .nodes = static_cast<std::uint32_t>(placement.nodes.size()),
                        .dtype = dtype_of(call)});
}

std::vector<MultiLinkFlow> ProfiledModel::flows(const Call& call,
                                                std::span<const std::uint32_t> gpus) const {
  // A profile has one time for the whole call, so the flows of all phases run together in one
  // phase.
  std::vector<Phase> phases;
  try {
    phases = other_.phases(call, gpus);
  } catch (const RunError&) {
    const Call plain = with_algorithm(call, plain_algorithm(op_of(call)));
    phases = AlgorithmModel(cluster_).phases(plain, gpus);
  }
  return all_flows(std::move(phases));
}

std::vector<Phase> ProfiledModel::phases(const Call& call,
                                         std::span<const std::uint32_t> gpus) const {
  const MeasuredCurve* measured = curve(call, gpus);
  if (measured == nullptr) return other_.phases(call, gpus);
  const CurveTime time = measured->at(static_cast<double>(bytes_of(call)));
  const double total_s = time.latency_s + time.transfer_s;
  Phase phase{.latency = {}, .flows = flows(call, gpus)};
  // Bytes take at least the time that the links need, even where the fit attributes all of the time
  // to latency.
  const double needed_s = links_need(cluster_, phase.flows).value();
  const double transfer_s = std::max(time.transfer_s, std::min(needed_s, total_s));
  phase.latency = Seconds{total_s - transfer_s};
  // The cap applies to the most loaded link, so on idle links each flow ends after exactly
  // transfer_s.
  for (MultiLinkFlow& flow : phase.flows) flow.rate_cap_bytes_per_s = payload(flow) / transfer_s;
  return {std::move(phase)};
}

SelectedAlgorithm ProfiledModel::selected_algorithm(const Call& call,
                                                    std::span<const std::uint32_t> gpus) const {
  const MeasuredCurve* measured = curve(call, gpus);
  if (measured == nullptr) return other_.selected_algorithm(call, gpus);
  const bool within = measured->at(static_cast<double>(bytes_of(call))).measured_range;
  return {
      .algorithm = std::string(nccl::kNcclName),
      .label = std::string(kProfileLabel) + name_ + (within ? "" : ", beyond the sizes measured")};
}

}  // namespace trainyard
