// Looking fabrics up by the name that files give them.
#pragma once

#include <string_view>

#include "topologies/fabric.hpp"

namespace trainyard {

// nullptr when there is none of that name.
[[nodiscard]] const FabricEntry* find_fabric(std::string_view kind);
[[nodiscard]] DrawFabric fabric_drawing(std::string_view kind);

}  // namespace trainyard
