// The fields of a model: of a models/data file, and of the section of a scenario
// (sim/base/field.hpp says what a row is).
#pragma once

#include <span>

#include "models/architecture/architecture.hpp"
#include "sim/base/field.hpp"

namespace trainyard {

[[nodiscard]] std::span<const Field<Architecture>> architecture_fields();

// The model that fields which are left out describe: a Llama, of no size.
[[nodiscard]] Architecture default_architecture();

}  // namespace trainyard
