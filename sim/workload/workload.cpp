#include "sim/workload/workload.hpp"

namespace trainyard {

std::string_view to_string(OpKind kind) {
  switch (kind) {
    case OpKind::Compute:
      return "compute";
    case OpKind::Collective:
      return "collective";
    case OpKind::Send:
      return "send";
    case OpKind::Recv:
      return "recv";
    case OpKind::Delay:
      return "delay";
  }
  return "";
}

std::string_view to_string(StepPart part) {
  switch (part) {
    case StepPart::Forward:
      return "forward";
    case StepPart::Backward:
      return "backward";
    case StepPart::Recompute:
      return "recompute";
    case StepPart::WeightGrad:
      return "weight_grad";
    case StepPart::GradSync:
      return "grad_sync";
    case StepPart::ParamSync:
      return "param_sync";
    case StepPart::Optimizer:
      return "optimizer";
    case StepPart::Other:
      return "other";
  }
  return "";
}

std::string_view to_string(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::AllReduce:
      return "all_reduce";
    case CollectiveOp::AllGather:
      return "all_gather";
    case CollectiveOp::ReduceScatter:
      return "reduce_scatter";
    case CollectiveOp::Broadcast:
      return "broadcast";
    case CollectiveOp::Reduce:
      return "reduce";
    case CollectiveOp::AllToAll:
      return "all_to_all";
    case CollectiveOp::SendRecv:
      return "send_recv";
    case CollectiveOp::HostCopy:
      return "host_copy";
  }
  return "";
}

std::string_view to_string(GroupKind kind) {
  switch (kind) {
    case GroupKind::Tensor:
      return "tensor";
    case GroupKind::Pipeline:
      return "pipeline";
    case GroupKind::Data:
      return "data";
    case GroupKind::Expert:
      return "expert";
    case GroupKind::Context:
      return "context";
    case GroupKind::Host:
      return "host";
    case GroupKind::Other:
      return "other";
  }
  return "";
}

}  // namespace trainyard
