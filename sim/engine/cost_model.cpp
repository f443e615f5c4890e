#include "sim/engine/cost_model.hpp"

namespace trainyard {

std::string_view to_string(Provenance provenance) {
  switch (provenance) {
    case Provenance::Measured:
      return "measured";
    case Provenance::Interpolated:
      return "interpolated";
    case Provenance::Extrapolated:
      return "extrapolated";
    case Provenance::Roofline:
      return "roofline";
  }
  return "";
}

}  // namespace trainyard
