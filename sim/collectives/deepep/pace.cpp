#include "sim/collectives/deepep/pace.hpp"

#include "sim/base/data_directory.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

namespace {

constexpr const char* kFolder = "sim/collectives/deepep/data";

ExchangeConstants::Reach read_reach(JsonObject object) {
  return {.start = object.time("start"), .rate_per_sm = object.rate("rate_per_sm")};
}

ExchangeConstants read_constants() {
  JsonFile file = JsonFile::read(data_file(kFolder, "pace"));
  JsonObject root = file.root();
  for (const char* note : {"description", "source", "command", "errors"}) root.ignore(note);
  JsonObject sms = root.object("sms");
  static_cast<void>(sms.text("source"));
  ExchangeConstants constants{.sms = sms.integer("value", {.least = 1, .most = 1000}),
                              .in_node = read_reach(root.object("in_node")),
                              .across = read_reach(root.object("across"))};
  file.finish();
  return constants;
}

}  // namespace

const ExchangeConstants& exchange_constants() {
  static const ExchangeConstants constants = read_constants();
  return constants;
}

ExchangePace exchange_pace(const ExchangeConstants& constants, std::int64_t nodes) {
  const auto& reach = nodes > 1 ? constants.across : constants.in_node;
  return {.start = reach.start, .rate = reach.rate_per_sm * static_cast<double>(constants.sms)};
}

}  // namespace trainyard
