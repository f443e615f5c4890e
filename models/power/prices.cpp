#include "models/power/prices.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/data_directory.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

std::string PublishedPrice::text() const {
  return fmt::format("{:.2f} {} for a GPU-hour, {}, {}, {}: {}", per_gpu_hour, currency, kind, date,
                     quality, source);
}

std::vector<PublishedPrice> published_prices() {
  JsonFile file = JsonFile::read(data_file("models/power", "prices"));
  JsonObject root = file.root();
  static_cast<void>(root.text("title"));
  const std::string currency = root.text("currency");
  std::vector<PublishedPrice> prices;
  for (JsonObject& price : root.objects("prices"))
    prices.push_back({.name = price.text("name"),
                      .gpu = price.text("gpu"),
                      .kind = price.choice("kind", {"on_demand", "reserved", "spot"}),
                      .per_gpu_hour = price.number("per_gpu_hour", {.least = 0.0}),
                      .currency = currency,
                      .date = price.text("date"),
                      .quality = price.choice("quality", {"read", "recalled"}),
                      .source = price.text("source")});
  file.finish();
  return prices;
}

std::vector<PublishedPrice> price_presets(const PowerSettings& power) {
  if (power.price_presets.empty()) return {};
  const std::vector<PublishedPrice> prices = published_prices();
  std::vector<PublishedPrice> presets;
  for (const std::string& name : power.price_presets) {
    const auto found = std::ranges::find(prices, name, &PublishedPrice::name);
    if (found != prices.end()) presets.push_back(*found);
  }
  return presets;
}

std::optional<double> price_of_gpu_hour(const PowerSettings& power, const std::string& gpu) {
  if (power.price_per_gpu_hour) return power.price_per_gpu_hour;
  for (const PublishedPrice& preset : price_presets(power))
    if (preset.gpu == gpu) return preset.per_gpu_hour;
  return std::nullopt;
}

}  // namespace trainyard
