#include "models/lower/data_parallel/data_parallel.hpp"

#include "models/lower/data_parallel/bucketed.hpp"
#include "models/lower/data_parallel/fully_sharded.hpp"

namespace trainyard {

std::unique_ptr<DataParallel> make_data_parallel(const DataParallelParts& parts) {
  if (parts.plan.parallelism.zero_stage == 3) return std::make_unique<FullySharded>(parts);
  return std::make_unique<BucketedReplicas>(parts);
}

}  // namespace trainyard
