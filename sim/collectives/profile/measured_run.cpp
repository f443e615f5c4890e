#include "sim/collectives/profile/measured_run.hpp"

namespace trainyard {

std::string_view nccl_type_name(DataType dtype) {
  switch (dtype) {
    case DataType::Bf16:
      return "bfloat16";
    case DataType::Fp16:
      return "half";
    case DataType::Fp8:
      return "f8e4m3";
    case DataType::Fp32:
    case DataType::Tf32:
      return "float";
  }
  return "float";
}

}  // namespace trainyard
