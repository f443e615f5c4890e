// Every name that a scenario may use, from the registries and the data folders themselves.
//
//    for (const CatalogueKind& kind : catalogue())
//      for (const CatalogueRow& row : kind.rows()) fmt::print("{}  {}\n", row.name, row.summary);
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

struct CatalogueRow {
  std::string name;     // "llama3-70b"
  std::string summary;  // "70.6 B parameters, 80 layers of 8192"; may be empty
};
struct CatalogueKind {
  std::string_view name;   // "models"
  std::string_view title;  // "Models"
  // Reads the data files of the kind. Throws InputError if one of them cannot be read.
  std::vector<CatalogueRow> (*rows)();
};
[[nodiscard]] const std::vector<CatalogueKind>& catalogue();

}  // namespace trainyard
