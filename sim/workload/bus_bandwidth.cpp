#include "sim/workload/bus_bandwidth.hpp"

namespace trainyard {

double bus_bandwidth_factor(CollectiveOp op, std::uint64_t ranks) {
  if (ranks < 2) return 1.0;
  const auto n = static_cast<double>(ranks);
  switch (op) {
    case CollectiveOp::AllReduce:
      return 2.0 * (n - 1.0) / n;
    case CollectiveOp::AllGather:
    case CollectiveOp::ReduceScatter:
    case CollectiveOp::AllToAll:
      return (n - 1.0) / n;
    case CollectiveOp::Broadcast:
    case CollectiveOp::Reduce:
    case CollectiveOp::SendRecv:
    case CollectiveOp::HostCopy:
      return 1.0;
  }
  return 1.0;
}

}  // namespace trainyard
