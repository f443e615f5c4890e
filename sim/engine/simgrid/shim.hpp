// One name for each SimGrid function that we use, for SimGrid 3.32 (Debian 12) to 4.1.
//
// Only this folder includes SimGrid. We use: one full zone, hosts as the endpoints of flows, links
// without latency, explicit one-way routes, Comms from host to host, and timers.
#pragma once

#include <simgrid/s4u.hpp>
// (s4u.hpp comes first: the other headers rely on what it includes.)
#include <simgrid/version.h>
#include <xbt/log.h>

#include <simgrid/kernel/Timer.hpp>
#include <string>
#include <vector>

namespace trainyard::simgrid_shim {

namespace s4u = ::simgrid::s4u;

// SimGrid's clock, EngineImpl::now_. It is static, and no header that SimGrid installs declares it.
// Weak: its address is null where a version of SimGrid does not export it.
extern double simgrid_clock __asm__("_ZN7simgrid6kernel10EngineImpl4now_E") __attribute__((weak));

// Sets the clock to 0. Otherwise it goes on from one engine to the next, and a process that runs
// one simulation after the other gets dates with ever fewer digits behind the point: the results
// depend on earlier runs, and SimGrid takes more steps to end a flow. REQUIRES: no engine exists.
inline void restart_clock() {
  if (&simgrid_clock != nullptr) simgrid_clock = 0.0;
}

// The zone that holds everything. 3.32 takes the first zone made as the root; 4.x provides a root
// zone.
inline s4u::NetZone* make_zone(s4u::Engine& engine, const std::string& name) {
#if SIMGRID_VERSION >= 40000
  return engine.get_netzone_root()->add_netzone_full(name);
#else
  static_cast<void>(engine);
  return s4u::create_full_zone(name);
#endif
}

inline s4u::Host* make_host(s4u::NetZone* zone, const std::string& name) {
#if SIMGRID_VERSION >= 40000
  return zone->add_host(name, 1.0);
#else
  return zone->create_host(name, 1.0);
#endif
}

// A link without latency. An unshared link limits each flow alone (a rate cap).
inline s4u::Link* make_link(s4u::NetZone* zone, const std::string& name, double bandwidth,
                            bool shared) {
#if SIMGRID_VERSION >= 40000
  s4u::Link* link = zone->add_link(name, bandwidth);
#else
  s4u::Link* link = zone->create_link(name, bandwidth);
#endif
  link->set_latency(0.0);
  if (!shared) link->set_sharing_policy(s4u::Link::SharingPolicy::FATPIPE);
  return link;
}

inline void make_route(s4u::NetZone* zone, s4u::Host* from, s4u::Host* to,
                       const std::vector<s4u::LinkInRoute>& links) {
#if SIMGRID_VERSION >= 40000
  zone->add_route(from, to, links, false);
#else
  zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, links, false);
#endif
}

// Returns the rate through a link now, in the units of its bandwidth.
inline double usage_of(const s4u::Link* link) {
#if SIMGRID_VERSION >= 40000
  return link->get_load();
#else
  return link->get_usage();
#endif
}

// Sets the bandwidth from now on, also for Comms that are alive.
inline void set_bandwidth(s4u::Link* link, double bandwidth) { link->set_bandwidth(bandwidth); }

#if SIMGRID_VERSION < 33400
// Activity::on_completion, which is private. Weak, like simgrid_clock.
extern ::simgrid::xbt::signal<void(const s4u::Activity&)> activity_completion __asm__(
    "_ZN7simgrid3s4u8Activity13on_completionE") __attribute__((weak));
#endif

// Disconnects the callbacks of on_comm_completion() and those of SimGrid's model of virtual
// machines, which we do not use: every engine connects them once more, so that the end of a Comm
// would cost as many calls as the process has had engines. Returns false where SimGrid does not
// export the signal; all callbacks are then still connected. REQUIRES: no engine exists.
inline bool disconnect_completions() {
#if SIMGRID_VERSION < 33400
  if (&activity_completion == nullptr) return false;
  activity_completion.disconnect_slots();
  return true;
#else
  return false;
#endif
}

template <class Callback>
void on_comm_completion(const Callback& callback) {
#if SIMGRID_VERSION >= 33400
  s4u::Comm::on_completion_cb([callback](const s4u::Comm& comm) { callback(comm); });
#else
  s4u::Activity::on_completion_cb(
      [callback](const s4u::Activity& activity) { callback(activity); });
#endif
}

// The settings under which SimGrid is a plain fluid max-min model.
// tests/sim/engine/simgrid_law_test.cpp checks each of them. With the library's defaults a latency
// counts 13 times, 5 % of a flow runs backwards, a TCP window caps rates, and events nearer than 1
// ns merge.
inline void configure() {
  xbt_log_control_set("xbt_cfg.thres:warning");
  s4u::Engine::set_config("network/model:CM02");
  s4u::Engine::set_config("network/crosstraffic:0");
  s4u::Engine::set_config("network/TCP-gamma:0");
#if SIMGRID_VERSION >= 40000
  s4u::Engine::set_config("precision/timing:1e-12");
#else
  s4u::Engine::set_config("surf/precision:1e-12");
#endif
}

}  // namespace trainyard::simgrid_shim
