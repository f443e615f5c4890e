// The module trainyard-simgrid: the only translation unit of the program that is linked to SimGrid.
#include <fmt/core.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <deque>

#include "sim/engine/simgrid/fluid_solver.hpp"
#include "sim/engine/simgrid/shim.hpp"

namespace trainyard {
namespace {

namespace shim = simgrid_shim;
namespace s4u = shim::s4u;
using ::simgrid::kernel::timer::Timer;

// SimGrid's signals are global and outlive an engine. Their callbacks reach the listener through
// the one engine that is alive.
class HeardEngine : public s4u::Engine {
 public:
  explicit HeardEngine(FluidSolver::Listener& listener)
      : s4u::Engine("trainyard"), listener_(listener) {
    // Once per process: SimGrid refuses a second configuration of its models, and keeps the first.
    static const bool configured = (shim::configure(), true);
    static_cast<void>(configured);
  }

 private:
  friend HeardEngine make_engine(FluidSolver::Listener& listener);
  static void connect_completions();
  static void connect_time();
  [[nodiscard]] static FluidSolver::Listener& listener() {
    return static_cast<HeardEngine*>(s4u::Engine::get_instance())->listener_;
  }

  FluidSolver::Listener& listener_;
};

// A new engine of SimGrid handles signals: Ctrl-C would print a text of SimGrid and end the
// process, also when a program that embeds Trainyard, such as Python, handles it itself. This
// object gives the signals back.
class KeptSignals {
 public:
  KeptSignals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i)
      ::sigaction(kSignals.at(i), nullptr, &before_.at(i));
  }
  ~KeptSignals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i)
      ::sigaction(kSignals.at(i), &before_.at(i), nullptr);
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;
  KeptSignals(KeptSignals&&) = delete;
  KeptSignals& operator=(KeptSignals&&) = delete;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGSEGV, SIGBUS};
  std::array<struct sigaction, kSignals.size()> before_ = {};
};

HeardEngine make_engine(FluidSolver::Listener& listener) {
  const KeptSignals kept;
  shim::restart_clock();
  static bool connected = false;
  if (shim::disconnect_completions() || !connected) HeardEngine::connect_completions();
  if (!connected) HeardEngine::connect_time();
  connected = true;
  return HeardEngine(listener);
}

struct Transfer {
  std::uint32_t number = 0;
  s4u::CommPtr comm = nullptr;
};

void HeardEngine::connect_completions() {
  shim::on_comm_completion([](const s4u::Activity& activity) {
    listener().transfer_ended(activity.get_data<Transfer>()->number);
  });
}

void HeardEngine::connect_time() {
  s4u::Engine::on_time_advance_cb([](double seconds) { listener().time_advanced(seconds); });
}

class SimgridSolver final : public FluidSolver {
 public:
  explicit SimgridSolver(Listener& listener)
      : engine_(make_engine(listener)), zone_(shim::make_zone(engine_, "world")) {}

  void add_link(const LinkSpec& link) override {
    links_.push_back(shim::make_link(zone_, fmt::format("link {}", links_.size()), link.units_per_s,
                                     link.shared));
  }

  void close(std::span<const std::vector<std::uint32_t>> routes) override;

  [[nodiscard]] double clock_s() const override { return s4u::Engine::get_clock(); }

  void call_at(double date_s, std::function<void()> call) override {
    Timer::set(date_s, std::move(call));
  }

  void start(const Start& start) override {
    while (transfers_.size() <= start.transfer)
      transfers_.push_back({.number = static_cast<std::uint32_t>(transfers_.size())});
    Transfer& transfer = transfers_[start.transfer];
    const Ends& ends = ends_[start.route];
    transfer.comm = s4u::Comm::sendto_init(ends.from, ends.to);
    transfer.comm->set_data(&transfer);
    transfer.comm->set_payload_size(start.units);
    transfer.comm->start();
  }

  void forget(std::uint32_t transfer) override { transfers_[transfer].comm = nullptr; }

  void set_bandwidth(std::uint32_t link, double units_per_s) override {
    shim::set_bandwidth(links_[link], units_per_s);
  }

  [[nodiscard]] double usage_of(std::uint32_t link) const override {
    return shim::usage_of(links_[link]);
  }

  void run() override { engine_.run(); }

 private:
  struct Ends {
    s4u::Host* from = nullptr;
    s4u::Host* to = nullptr;
  };

  HeardEngine engine_;
  s4u::NetZone* zone_;
  std::vector<s4u::Link*> links_;
  std::vector<Ends> ends_;  // indexed by route
  // By number. A deque: Comms point to their transfers, whose addresses must be stable.
  std::deque<Transfer> transfers_;
};

// k hosts have k (k - 1) ordered pairs, one for each route: 12 routes need 4 hosts, not 24.
void SimgridSolver::close(std::span<const std::vector<std::uint32_t>> routes) {
  std::size_t count = 2;
  while (count * (count - 1) < routes.size()) ++count;
  std::vector<s4u::Host*> hosts;
  for (std::size_t host = 0; host < count; ++host)
    hosts.push_back(shim::make_host(zone_, fmt::format("host {}", host)));
  for (std::size_t route = 0; route < routes.size(); ++route) {
    const std::size_t from = route / (count - 1);
    const std::size_t step = route % (count - 1);
    const Ends ends = {.from = hosts[from], .to = hosts[step < from ? step : step + 1]};
    std::vector<s4u::LinkInRoute> hops;
    for (const std::uint32_t link : routes[route]) hops.emplace_back(links_[link]);
    shim::make_route(zone_, ends.from, ends.to, hops);
    ends_.push_back(ends);
  }
  zone_->seal();
}

}  // namespace
}  // namespace trainyard

extern "C" [[gnu::visibility("default")]] trainyard::FluidSolver* TRAINYARD_MODULE_ENTRY(
    trainyard::FluidSolver::Listener& listener) {
  return new trainyard::SimgridSolver(listener);
}
