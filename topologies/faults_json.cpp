#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "topologies/faults.hpp"

namespace trainyard {

using Json = nlohmann::ordered_json;

namespace {

void read_severity(JsonObject& object, Fault& fault) {
  const bool dead = object.boolean("dead", false);
  if (object.has("dead") == object.has("capacity_factor")) {
    object.ignore("capacity_factor");
    object.report("", "a fault has either \"dead\" or \"capacity_factor\"",
                  "say \"dead\": true, or which part of the capacity is left");
    return;
  }
  if (object.has("dead")) {
    if (!dead) object.report("dead", "is false, so nothing is wrong", "leave the fault out");
    return;
  }
  fault.capacity_factor = object.number("capacity_factor", {.least = 0.0, .most = 1.0});
  if (fault.capacity_factor > 0.0 && fault.capacity_factor < 1e-6)
    object.report("capacity_factor",
                  fmt::format("{} leaves next to nothing", fault.capacity_factor),
                  "say \"dead\": true, or at least 1e-6");
  if (object.raw("capacity_factor") == 0.0) {
    object.report("capacity_factor", "nothing is left", "say \"dead\": true");
  }
}

Fault read_fault(JsonObject& object) {
  Fault fault;
  const int parts = int{object.has("link")} + int{object.has("rail")} + int{object.has("device")};
  if (parts != 1) {
    for (const char* key : {"link", "rail", "device"}) object.ignore(key);
    object.report("", "a fault names one of \"link\", \"rail\" and \"device\"",
                  "write one fault for each");
  } else if (object.has("link")) {
    JsonObject link = object.object("link");
    fault.from = link.text("from");
    fault.to = link.text("to");
  } else if (object.has("rail")) {
    fault.part = Fault::Part::Rail;
    fault.rail = static_cast<std::uint32_t>(object.integer("rail", {.least = 0, .most = 65536}));
  } else {
    fault.part = Fault::Part::Device;
    fault.device = object.text("device");
  }
  object.ignore("description");
  read_severity(object, fault);
  return fault;
}

}  // namespace

std::vector<Fault> read_faults(JsonObject& cluster) {
  std::vector<Fault> faults;
  for (JsonObject object : cluster.objects("faults")) faults.push_back(read_fault(object));
  return faults;
}

Json to_json(std::span<const Fault> faults) {
  Json list = Json::array();
  for (const Fault& fault : faults) {
    Json json;
    if (fault.part == Fault::Part::Link) json["link"] = {{"from", fault.from}, {"to", fault.to}};
    if (fault.part == Fault::Part::Rail) json["rail"] = fault.rail;
    if (fault.part == Fault::Part::Device) json["device"] = fault.device;
    if (fault.capacity_factor > 0.0) {
      json["capacity_factor"] = fault.capacity_factor;
    } else {
      json["dead"] = true;
    }
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace trainyard
