#include "topologies/faults.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/nearest.hpp"
#include "sim/cluster/blueprint.hpp"

namespace trainyard {

namespace {

[[noreturn]] void refuse_fault(std::string pointer, std::string problem, std::string hint) {
  throw InputError(Problem{"", std::move(pointer), std::move(problem), std::move(hint)});
}

// The share of its rate that a link has while it is dead: SimGrid knows no rate of 0. In a minute
// it moves as much as it otherwise moves in 60 ns.
constexpr double kStalled = 1e-9;

// How an InfiniBand queue pair waits for an answer: it sends a packet again after 4.096 us *
// 2^timeout, and reports an error after `retries` tries. With NCCL's defaults a try takes 4.3 s.
struct Retransmission {
  double interval_s = 0.0;  // between two tries
  int retries = 0;
};

Retransmission load_retransmission() {
  JsonFile file = JsonFile::read(data_file("sim/nccl/data", "retransmission"));
  JsonObject root = file.root();
  root.ignore("description");
  JsonObject timeout = sourced(root, "timeout");
  JsonObject retries = sourced(root, "retries");
  const Retransmission retry{
      .interval_s = std::ldexp(
          4.096e-6, static_cast<int>(timeout.integer("value", {.least = 1, .most = 31}))),
      .retries = static_cast<int>(retries.integer("value", {.least = 1, .most = 7}))};
  file.finish();
  return retry;
}

// Applies faults to the links of a cluster. Lasting faults become factors of capacities, by which
// rest() draws the remaining links again; faults with dates go to a list and change no link.
class Breaker {
 public:
  Breaker(const Wiring& whole, const std::vector<DeviceId>& gpus)
      : whole_(whole), gpus_(gpus), factor_(whole.link_count(), 1.0) {
    for (DeviceId id = 0; id < whole.device_count(); ++id) by_name_.emplace(whole.name(id), id);
  }

  void apply(const Fault& fault, std::size_t number) {
    const std::string pointer = fmt::format("/faults/{}", number);
    switch (fault.part) {
      case Fault::Part::Link:
        return break_link(fault, pointer);
      case Fault::Part::Rail:
        return break_rail(fault, pointer);
      case Fault::Part::Device:
        return break_device(fault, pointer);
    }
  }

  [[nodiscard]] const std::vector<TimedFault>& timed() const { return timed_; }

  [[nodiscard]] Wiring rest() const {
    const auto draw = [&](const Link& link, Blueprint& blueprint) {
      if (factor_[link.id] <= 0.0) return;
      Wire wire = wire_of(link);
      wire.capacity *= factor_[link.id];
      blueprint.link(link.from, link.to, wire);
    };
    // Faults of the fabric alone leave the inside of nodes as it is, which avoids redrawing every
    // node.
    return inside_nodes_ ? with_replaced_links(whole_, draw)
                         : with_replaced_outer_links(whole_, draw);
  }

 private:
  // Applies the fault to every link for which `hit` holds and returns the number of such links.
  template <class Hit>
  std::size_t slow(const Fault& fault, const std::string& pointer, Hit hit) {
    std::size_t count = 0;
    // A timed fault names two devices: their links in both directions, and parallel ones, are one.
    std::set<std::pair<DeviceId, DeviceId>> slowed;
    for (const Link link : whole_.links()) {
      if (!hit(link)) continue;
      ++count;
      if (fault.is_timed()) {
        if (slowed.insert(std::minmax(link.from, link.to)).second)
          slow_for_a_time(fault, pointer, link);
        continue;
      }
      // Several faults of one link multiply.
      factor_[link.id] *= fault.capacity_factor;
      inside_nodes_ = inside_nodes_ || !is_fabric_side(link.kind);
    }
    return count;
  }

  void slow_for_a_time(const Fault& fault, const std::string& pointer, const Link& link) {
    const auto [from, to] = std::minmax({link.from, link.to});
    TimedFault timed =
        timed_fault(fault, fmt::format("{} to {}", whole_.name(from), whole_.name(to)));
    timed.from = from;
    timed.to = to;
    timed.rate_left = fault.capacity_factor;
    if (fault.capacity_factor <= 0.0) flap(link, pointer, timed);
    timed_.push_back(std::move(timed));
  }

  // Nothing moves until the first retransmission after the link has come back.
  void flap(const Link& link, const std::string& pointer, TimedFault& timed) const {
    if (!is_fabric_side(link.kind))
      refuse_fault(
          pointer,
          fmt::format("the link {} is inside a node, and the job ends without it", timed.part),
          "leave out the dates, or give a \"capacity_factor\"");
    const Retransmission retry = load_retransmission();
    // Outages of a link that touch are one outage to the transport.
    for (const TimedFault& other : timed_) {
      const bool same = other.from == timed.from && other.to == timed.to;
      if (!same || other.rate_left != kStalled) continue;
      if (other.from_s > timed.until_s || timed.from_s > other.until_s) continue;
      timed.from_s = std::min(timed.from_s, other.from_s);
      timed.until_s = std::max(timed.until_s, other.until_s);
    }
    // An outage without an end takes infinitely many tries and is refused here too.
    const double tries = std::ceil((timed.until_s - timed.from_s) / retry.interval_s);
    if (!(tries <= retry.retries))
      refuse_fault(
          pointer,
          fmt::format("after {} tries of {:.3g} s without {} NCCL gives up and the job ends",
                      retry.retries, retry.interval_s, timed.part),
          fmt::format("let it end within {:.3g} s, or ask `goodput` what interruptions cost",
                      retry.retries * retry.interval_s));
    timed.until_s = timed.from_s + tries * retry.interval_s;
    timed.rate_left = kStalled;
  }

  static TimedFault timed_fault(const Fault& fault, std::string part) {
    TimedFault timed{.part = std::move(part), .from_s = fault.begins.value()};
    if (fault.ends) timed.until_s = fault.ends->value();
    return timed;
  }

  // The kernels of a GPU are slower.
  void slow_gpu(const Fault& fault, const std::string& pointer, DeviceId device) {
    const auto found = std::ranges::find(gpus_, device);
    if (found == gpus_.end())
      refuse_fault(pointer + "/speed_factor",
                   fmt::format("\"{}\" is no GPU of the job", fault.device),
                   "give a \"capacity_factor\", which slows the links of a device");
    TimedFault timed = timed_fault(fault, fault.device);
    timed.gpu = static_cast<std::uint32_t>(found - gpus_.begin());
    timed.rate_left = *fault.speed_factor;
    timed_.push_back(std::move(timed));
  }

  DeviceId device(const std::string& name, const std::string& pointer) const {
    if (const auto found = by_name_.find(name); found != by_name_.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [known, id] : by_name_) names.push_back(known);
    const std::string near = nearest(name, names);
    refuse_fault(pointer, fmt::format("there is no device \"{}\"", name),
                 near.empty() ? "`show topology --format dot` lists the devices"
                              : fmt::format("did you mean \"{}\"?", near));
  }

  void break_link(const Fault& fault, const std::string& pointer) {
    const DeviceId a = device(fault.from, pointer + "/link/from");
    const DeviceId b = device(fault.to, pointer + "/link/to");
    const std::size_t hit = slow(fault, pointer, [&](const Link& link) {
      return (link.from == a && link.to == b) || (link.from == b && link.to == a);
    });
    if (hit > 0) return;
    std::vector<std::string> joined;
    for (const Link link : whole_.links_from(a)) {
      if (joined.size() < 4) joined.push_back(whole_.name(link.to));
    }
    refuse_fault(
        pointer + "/link", fmt::format("no link joins \"{}\" and \"{}\"", fault.from, fault.to),
        joined.empty() ? ""
                       : fmt::format("{} is joined to {}", fault.from, fmt::join(joined, ", ")));
  }

  void break_rail(const Fault& fault, const std::string& pointer) {
    // The highest index of a NIC, for the message.
    std::int32_t last = -1;
    // Both ends are looked up before the test, so that `last` sees every NIC that has a cable.
    const auto on_rail = [&](DeviceId id) {
      const Device& nic = whole_.device(id);
      if (nic.kind == DeviceKind::Nic) last = std::max(last, nic.index);
      return nic.kind == DeviceKind::Nic && nic.index == static_cast<std::int32_t>(fault.rail);
    };
    const std::size_t hit = slow(fault, pointer, [&](const Link& link) {
      const bool from = on_rail(link.from);
      const bool to = on_rail(link.to);
      return link.kind == LinkKind::NicPort && (from || to);
    });
    if (hit > 0) return;
    if (static_cast<std::int32_t>(fault.rail) <= last)
      refuse_fault(pointer + "/rail", fmt::format("rail {} joins no nodes", fault.rail),
                   "leave the fault out: a cluster of one node has no fabric");
    refuse_fault(pointer + "/rail", fmt::format("there is no rail {}", fault.rail),
                 last < 0 ? "the nodes have no NICs" : fmt::format("rails are 0 to {}", last));
  }

  // A fault of a device applies to all of its links, or to the kernels of a GPU.
  void break_device(const Fault& fault, const std::string& pointer) {
    const DeviceId broken = device(fault.device, pointer + "/device");
    if (fault.speed_factor) return slow_gpu(fault, pointer, broken);
    if (whole_.device(broken).kind == DeviceKind::Gpu && fault.capacity_factor <= 0.0) {
      refuse_fault(pointer + "/device",
                   fmt::format("\"{}\" is a GPU, and no job runs on a dead one", fault.device),
                   "take its node out of the cluster");
    }
    // A device that is dead for a time loses its links to the fabric only. Without a link inside
    // the node the job would end.
    const bool flaps = fault.is_timed() && fault.capacity_factor <= 0.0;
    const std::size_t hit = slow(fault, pointer, [&](const Link& link) {
      return (link.from == broken || link.to == broken) && !(flaps && !is_fabric_side(link.kind));
    });
    if (hit == 0 && flaps)
      refuse_fault(
          pointer + "/device",
          fmt::format("\"{}\" is inside a node, and the job ends without it", fault.device),
          "leave out the dates, or give a \"capacity_factor\"");
  }

  const Wiring& whole_;
  const std::vector<DeviceId>& gpus_;  // in rank order
  std::vector<TimedFault> timed_;
  std::vector<double> factor_;  // share of the capacity that is left, by link
  bool inside_nodes_ = false;   // whether a link within a node has lost capacity
  std::map<std::string, DeviceId> by_name_;
};

// Returns, by device, whether a NIC still has a cable in each direction.
std::vector<bool> cabled_nics(const Wiring& wiring) {
  std::vector<bool> up(wiring.device_count(), false);
  std::vector<bool> down(wiring.device_count(), false);
  for (const Link& link : wiring.links()) {
    if (link.kind != LinkKind::NicPort) continue;
    up[link.from] = true;
    down[link.to] = true;
  }
  for (std::size_t i = 0; i < up.size(); ++i) up[i] = up[i] && down[i];
  return up;
}

// Returns the number of host-side hops from a GPU to the devices of its node. Paths do not pass
// through another GPU or NIC.
std::map<DeviceId, std::uint32_t> host_hops(const Wiring& wiring, DeviceId gpu) {
  std::map<DeviceId, std::uint32_t> hops = {{gpu, 0}};
  std::deque<DeviceId> queue = {gpu};
  for (; !queue.empty(); queue.pop_front()) {
    const DeviceId here = queue.front();
    const DeviceKind kind = wiring.device(here).kind;
    if (here != gpu && (kind == DeviceKind::Gpu || kind == DeviceKind::Nic)) continue;
    for (const Link link : wiring.links_from(here)) {
      if (!is_host_side(link.kind)) continue;
      if (hops.emplace(link.to, hops.at(here) + 1).second) queue.push_back(link.to);
    }
  }
  return hops;
}

// Returns the NIC that replaces a dead one: the nearest, then the one that serves the fewest GPUs,
// then the one with the lowest id.
std::optional<DeviceId> other_nic(const Wiring& wiring, DeviceId gpu,
                                  const std::vector<bool>& cabled,
                                  const std::map<DeviceId, std::uint32_t>& served) {
  std::optional<DeviceId> best;
  std::pair<std::uint32_t, std::uint32_t> best_rank;
  for (const auto& [id, hops] : host_hops(wiring, gpu)) {
    if (wiring.device(id).kind != DeviceKind::Nic || !cabled[id]) continue;
    const auto gpus = served.find(id);
    const std::pair rank{hops, gpus == served.end() ? 0U : gpus->second};
    if (best && best_rank <= rank) continue;
    best = id;
    best_rank = rank;
  }
  return best;
}

// Returns the NIC of each GPU. GPUs with a usable NIC keep it and are counted first, so that the
// choice for the others sees how many GPUs each NIC serves.
std::vector<DeviceId> usable_nics(const Wiring& wiring, const std::vector<DeviceId>& gpus,
                                  std::vector<DeviceId> nic_of_gpu) {
  const std::vector<bool> cabled = cabled_nics(wiring);
  std::map<DeviceId, std::uint32_t> served;
  std::vector<std::size_t> stranded;
  for (std::size_t i = 0; i < nic_of_gpu.size(); ++i) {
    const DeviceId nic = nic_of_gpu[i];
    if (cabled[nic] && host_hops(wiring, gpus[i]).contains(nic)) {
      ++served[nic];
    } else {
      stranded.push_back(i);
    }
  }
  // Each choice updates `served`, so the stranded GPUs of a node spread over its other NICs.
  for (const std::size_t i : stranded) {
    const std::optional<DeviceId> nic = other_nic(wiring, gpus[i], cabled, served);
    if (!nic) {
      refuse_fault("/faults",
                   fmt::format("they leave {} without a way to the network", wiring.name(gpus[i])),
                   "leave one NIC of its node alive and joined to it, or take the node out of the "
                   "cluster");
    }
    nic_of_gpu[i] = *nic;
    ++served[*nic];
  }
  return nic_of_gpu;
}

}  // namespace

// The faults change the wiring first; then each GPU whose NIC has no cable left gets another NIC of
// its node.
Cluster build_with_faults(std::span<const Fault> faults, ClusterFacts facts, Wiring wiring,
                          std::vector<DeviceId> gpus, std::vector<DeviceId> nic_of_gpu) {
  if (faults.empty())
    return {std::move(facts), std::move(wiring), std::move(gpus), std::move(nic_of_gpu)};
  Breaker breaker(wiring, gpus);
  for (std::size_t i = 0; i < faults.size(); ++i) breaker.apply(faults[i], i);
  facts.timed_faults = breaker.timed();
  Wiring rest = breaker.rest();
  std::vector<DeviceId> nics = usable_nics(rest, gpus, nic_of_gpu);
  try {
    return {facts, std::move(rest), gpus, std::move(nics)};
  } catch (const InputError& error) {
    (void)Cluster(facts, wiring, gpus, nic_of_gpu);  // throws if the faults are not the reason
    refuse_fault("/faults", "with them " + error.problems().front().problem,
                 "leave a way between all GPUs alive, or take nodes out of the cluster");
  }
}

using Json = nlohmann::ordered_json;

namespace {

// Reads the share of a GPU's speed; false where the fault has none.
bool read_speed(JsonObject& object, Fault& fault) {
  if (!object.has("speed_factor")) return false;
  fault.speed_factor = object.number("speed_factor", {.least = 1e-6, .most = 1.0});
  if (fault.part != Fault::Part::Device)
    object.report("speed_factor", "slows the kernels of a GPU, and the fault names none",
                  "say \"device\": \"node 0 gpu 0\"");
  return true;
}

void read_dates(JsonObject& object, Fault& fault) {
  fault.begins = object.time("from", Seconds{});
  if (object.has("until")) fault.ends = object.time("until", std::nullopt);
  if (fault.ends && fault.ends->value() <= fault.begins.value())
    object.report("until", "is not after \"from\"", "give a later date");
  if (object.has("dead") && object.has("from") && !fault.ends)
    object.report(
        "dead", "ends the job: from its date on nothing moves",
        "give \"until\", leave out \"from\" for a step without the part, or ask `goodput` "
        "what an interruption costs");
}

void read_severity(JsonObject& object, Fault& fault) {
  if (read_speed(object, fault)) {
    fault.capacity_factor = 1.0;
    for (const char* key : {"dead", "capacity_factor"})
      if (object.has(key)) object.report(key, "stands beside \"speed_factor\"", "write two faults");
    return;
  }
  const bool dead = object.boolean("dead", false);
  if (object.has("dead") == object.has("capacity_factor")) {
    object.ignore("capacity_factor");
    object.report("", "a fault has one of \"dead\", \"capacity_factor\" and \"speed_factor\"",
                  "say \"dead\": true, or which part of the capacity or of a GPU's speed is left");
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
  read_dates(object, fault);
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
    if (fault.begins.value() > 0.0) json["from"] = exact_text(fault.begins);
    if (fault.ends) json["until"] = exact_text(*fault.ends);
    if (fault.speed_factor) {
      json["speed_factor"] = *fault.speed_factor;
    } else if (fault.capacity_factor > 0.0) {
      json["capacity_factor"] = fault.capacity_factor;
    } else {
      json["dead"] = true;
    }
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace trainyard
