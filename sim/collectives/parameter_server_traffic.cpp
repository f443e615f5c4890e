#include "sim/collectives/parameter_server_traffic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "sim/base/error.hpp"

namespace trainyard {

// The approach: each rank has one program. Every pair of a worker and a server has a stream at both
// ends, so transfers with different partners run concurrently, and those of one pair keep their
// order. Pull and push of a pair are groups of two. A server's program lists its rounds in order.
// Only the dependencies from awaited() make a pull wait, so a server serves a fast worker before
// the slow ones have pushed, as far as the staleness permits.
namespace {

constexpr std::size_t kPartnerStreamsMost = 256;  // Operation::stream is one byte

enum Name : std::uint16_t { kPull, kCompute, kPush, kServePull, kServePush, kUpdate };
enum Stream : std::uint8_t { kComputeStream, kServerStream, kFirstPartner };

[[noreturn]] void refuse(std::string problem, std::string hint) {
  throw InputError({"", "", std::move(problem), std::move(hint)});
}

// The duties of a rank: worker, server, or both on one GPU. Ranks with equal duties share a
// program.
struct RankDuty {
  std::optional<std::uint32_t> worker = {};  // worker number, if the rank is a worker
  std::optional<std::uint32_t> server = {};  // server number, if it is a server
};

// One step of one worker.
struct Turn {
  std::uint32_t worker = 0;
  std::uint32_t step = 0;
};
// The steps of several workers that a server serves together, ordered by worker.
using Round = std::vector<Turn>;

class Builder {
 public:
  explicit Builder(const ParameterServerTraffic& traffic)
      : traffic_(traffic),
        workers_(static_cast<std::uint32_t>(traffic.workers.size())),
        servers_(static_cast<std::uint32_t>(traffic.servers.size())) {}

  Workload build() {
    check();
    name_tables();
    add_ranks();
    add_groups();
    return std::move(workload_);
  }

 private:
  void check() const;
  void name_tables();
  void add_ranks();
  void add_groups();
  void add_rank(const RankDuty& duty, std::uint32_t gpu);
  std::uint32_t program_of(const RankDuty& duty);
  std::uint32_t write(const RankDuty& duty);
  [[nodiscard]] std::vector<Round> rounds() const;
  void serve_pulls(Program& program, const RankDuty& duty, const Round& round);
  void work(Program& program, const RankDuty& duty, std::uint32_t step);
  void serve_pushes(Program& program, const RankDuty& duty, const Round& round);
  void update(Program& program, std::uint32_t step, const std::vector<OpIndex>& after);
  void bind(RankId from, std::uint32_t from_slot, RankId to, std::uint32_t to_slot);

  OpIndex add(Program& program, Operation op, Name name, std::uint32_t step,
              const std::vector<OpIndex>& after) const;
  // The call that moves the parameters held by one server.
  [[nodiscard]] std::uint32_t part(std::uint32_t server) const { return parts_[server]; }
  std::uint32_t call(std::int64_t bytes);
  std::uint32_t delay(Seconds time);
  [[nodiscard]] Seconds compute(std::uint32_t worker) const {
    return traffic_.compute.empty() ? Seconds{} : traffic_.compute[worker];
  }

  [[nodiscard]] std::uint32_t steps_of(std::uint32_t worker) const {
    return traffic_.steps_of_worker.empty() ? traffic_.steps : traffic_.steps_of_worker[worker];
  }
  [[nodiscard]] bool runs_ahead() const { return !traffic_.staleness || *traffic_.staleness > 0; }
  // The updates for which the pulls of a step wait.
  [[nodiscard]] std::vector<OpIndex> awaited(std::uint32_t step) const;

  [[nodiscard]] std::uint8_t stream_to_server(std::uint32_t server) const {
    return static_cast<std::uint8_t>(kFirstPartner + server);
  }
  [[nodiscard]] std::uint8_t stream_to_worker(std::uint32_t worker) const {
    return static_cast<std::uint8_t>(kFirstPartner + servers_ + worker);
  }
  // Slots: first the pushes and pulls of a worker, by server; then those of a server, by worker.
  [[nodiscard]] std::uint16_t pushes_to(std::uint32_t server) const { return slot(2 * server); }
  [[nodiscard]] std::uint16_t pulls_from(std::uint32_t server) const {
    return slot(2 * server + 1);
  }
  [[nodiscard]] std::uint16_t pushed_by(std::uint32_t worker) const {
    return slot(2 * servers_ + 2 * worker);
  }
  [[nodiscard]] std::uint16_t pulled_by(std::uint32_t worker) const {
    return slot(2 * servers_ + 2 * worker + 1);
  }
  static std::uint16_t slot(std::uint32_t number) { return static_cast<std::uint16_t>(number); }

  const ParameterServerTraffic& traffic_;
  std::uint32_t workers_;
  std::uint32_t servers_;
  Workload workload_;
  std::vector<std::uint32_t> parts_;  // index into the calls, by server
  // By the key of program_of(), the index of the program.
  std::map<std::tuple<double, std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t>
      programs_;
  std::map<std::uint32_t, std::vector<OpIndex>> updates_;  // by step, of the current program
  OpIndex computed_ = 0;  // the last compute of the current program
  std::vector<RankId> server_ranks_;
};

void Builder::check() const {
  if (workers_ == 0 || servers_ == 0)
    refuse(fmt::format("{} workers and {} servers have nothing to exchange", workers_, servers_),
           "give at least one of each");
  if (kFirstPartner + workers_ + servers_ > kPartnerStreamsMost)
    refuse(fmt::format("{} workers and {} servers", workers_, servers_),
           fmt::format("at most {} together can be served side by side",
                       kPartnerStreamsMost - kFirstPartner));
  for (const auto* gpus : {&traffic_.workers, &traffic_.servers})
    if (std::set<std::uint32_t>(gpus->begin(), gpus->end()).size() != gpus->size())
      refuse("a GPU is listed twice", "one worker and one server per GPU at most");
  if (!traffic_.compute.empty() && traffic_.compute.size() != workers_)
    refuse(fmt::format("{} compute times for {} workers", traffic_.compute.size(), workers_),
           "give one per worker, or none");
  const std::vector<std::uint32_t>& steps = traffic_.steps_of_worker;
  if (!steps.empty() && steps.size() != workers_)
    refuse(fmt::format("{} counts of steps for {} workers", steps.size(), workers_),
           "give one per worker, or none");
  if (!runs_ahead() && std::ranges::adjacent_find(steps, std::not_equal_to{}) != steps.end())
    refuse("workers that wait for each other make as many steps each", "give one count for all");
  if (traffic_.bytes < 0) refuse(fmt::format("{} bytes cannot be sent", traffic_.bytes), "");
}

void Builder::name_tables() {
  workload_.streams = {"compute", "server"};
  for (std::uint32_t server = 0; server < servers_; ++server) {
    workload_.streams.push_back(fmt::format("server {}", server));
    workload_.slots.push_back(fmt::format("push to server {}", server));
    workload_.slots.push_back(fmt::format("pull from server {}", server));
    // First byte of server i's part. The parts sum to the whole.
    const auto edge = [&](std::int64_t i) {
      return traffic_.bytes / servers_ * i + traffic_.bytes % servers_ * i / servers_;
    };
    parts_.push_back(call(edge(server + 1) - edge(server)));
  }
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    workload_.streams.push_back(fmt::format("worker {}", worker));
    workload_.slots.push_back(fmt::format("push of worker {}", worker));
    workload_.slots.push_back(fmt::format("pull of worker {}", worker));
  }
  workload_.names = {"pull", "compute", "push", "serve pull", "serve push", "update"};
}

std::uint32_t Builder::call(std::int64_t bytes) {
  const Call made = TransferCall{.bytes = bytes, .dtype = traffic_.dtype};
  const auto known = std::ranges::find(workload_.calls, made);
  if (known != workload_.calls.end())
    return static_cast<std::uint32_t>(known - workload_.calls.begin());
  workload_.calls.push_back(made);
  return static_cast<std::uint32_t>(workload_.calls.size() - 1);
}

// Workers come first. A server on the GPU of a worker shares the rank of the worker.
void Builder::add_ranks() {
  std::map<std::uint32_t, std::uint32_t> server_on;
  for (std::uint32_t i = 0; i < servers_; ++i) server_on[traffic_.servers[i]] = i;
  server_ranks_.assign(servers_, kNone);
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    RankDuty duty{.worker = worker};
    if (const auto shared = server_on.find(traffic_.workers[worker]); shared != server_on.end()) {
      duty.server = shared->second;
      server_ranks_[shared->second] = RankId{worker};
    }
    add_rank(duty, traffic_.workers[worker]);
  }
  for (std::uint32_t server = 0; server < servers_; ++server) {
    if (server_ranks_[server] != kNone) continue;
    server_ranks_[server] = static_cast<RankId>(workload_.ranks.size());
    add_rank({.server = server}, traffic_.servers[server]);
  }
}

void Builder::add_rank(const RankDuty& duty, std::uint32_t gpu) {
  std::string label = duty.worker ? fmt::format("worker {}", *duty.worker) : "";
  if (duty.server) label += fmt::format("{}server {}", label.empty() ? "" : ", ", *duty.server);
  workload_.ranks.push_back({.program = program_of(duty),
                             .gpu = gpu,
                             .slots = std::vector<SlotBinding>(workload_.slots.size()),
                             .label = std::move(label)});
}

// Returns the program of a rank. All workers with equal compute time and number of steps share one,
// and all servers with parts of equal size share one. A rank that is both has its own.
std::uint32_t Builder::program_of(const RankDuty& duty) {
  const bool shared = duty.worker && duty.server;
  // A pure server has no compute time; -1 keeps its key apart from those of workers.
  const double seconds = duty.worker ? compute(*duty.worker).value() : -1.0;
  const std::tuple key{seconds, duty.server ? part(*duty.server) : kNone,
                       shared ? *duty.worker : kNone, duty.worker ? steps_of(*duty.worker) : 0};
  const auto known = programs_.find(key);
  if (known != programs_.end()) return known->second;
  return programs_[key] = write(duty);
}

std::uint32_t Builder::write(const RankDuty& duty) {
  Program program;
  program.name = duty.worker && duty.server ? "worker and server"
                 : duty.worker              ? "worker"
                                            : "server";
  updates_.clear();
  if (!duty.server) {
    for (std::uint32_t step = 0; step < steps_of(*duty.worker); ++step) work(program, duty, step);
  } else {
    // A server serves all pulls of a round, then its own worker runs the step, then it serves the
    // pushes.
    for (const Round& round : rounds()) {
      serve_pulls(program, duty, round);
      const auto own =
          std::ranges::find_if(round, [&](const Turn& turn) { return duty.worker == turn.worker; });
      if (own != round.end()) work(program, duty, own->step);
      serve_pushes(program, duty, round);
    }
  }
  workload_.programs.push_back(std::move(program));
  return static_cast<std::uint32_t>(workload_.programs.size() - 1);
}

// The order in which a server serves the steps of the workers. With a staleness bound, round s
// contains step s of every worker. Without a bound, steps are ordered by the completed fraction of
// their worker: a worker with twice as many steps has two rounds while the others have one. No pull
// waits for an update then; the order only fixes the order of operations in the program.
std::vector<Round> Builder::rounds() const {
  std::vector<Turn> turns;
  for (std::uint32_t worker = 0; worker < workers_; ++worker)
    for (std::uint32_t step = 0; step < steps_of(worker); ++step) turns.push_back({worker, step});
  const auto position = [this](const Turn& turn) {
    // Equal fractions, such as 1/2 and 2/4, round to equal doubles, so rounds() may compare
    // positions for equality.
    const double done = turn.step + 1.0;
    return traffic_.staleness ? done : done / steps_of(turn.worker);
  };
  std::ranges::stable_sort(turns, {}, position);
  std::vector<Round> rounds;
  for (const Turn& turn : turns) {
    if (rounds.empty() || position(rounds.back().front()) != position(turn)) rounds.emplace_back();
    rounds.back().push_back(turn);
  }
  return rounds;
}

// The pull of step s waits for the updates of step s - staleness - 1. The first steps wait for
// none.
std::vector<OpIndex> Builder::awaited(std::uint32_t step) const {
  if (!traffic_.staleness || step <= *traffic_.staleness) return {};
  return updates_.at(step - *traffic_.staleness - 1);
}

void Builder::serve_pulls(Program& program, const RankDuty& duty, const Round& round) {
  for (const Turn& turn : round) {
    if (duty.worker == turn.worker) continue;
    add(program,
        {.kind = OpKind::Send,
         .stream = stream_to_worker(turn.worker),
         .slot = pulled_by(turn.worker),
         .payload = part(*duty.server)},
        kServePull, turn.step, awaited(turn.step));
  }
}

void Builder::work(Program& program, const RankDuty& duty, std::uint32_t step) {
  std::vector<OpIndex> pulled;
  for (std::uint32_t server = 0; server < servers_; ++server) {
    // A worker on the GPU of a server pulls without a message; it only waits for the update.
    if (duty.server == server) {
      for (const OpIndex update : awaited(step)) pulled.push_back(update);
      continue;
    }
    pulled.push_back(add(program,
                         {.kind = OpKind::Recv,
                          .stream = stream_to_server(server),
                          .slot = pulls_from(server),
                          .payload = part(server)},
                         kPull, step, {}));
  }
  computed_ = add(
      program,
      {.kind = OpKind::Delay, .stream = kComputeStream, .payload = delay(compute(*duty.worker))},
      kCompute, step, pulled);
  for (std::uint32_t server = 0; server < servers_; ++server) {
    if (duty.server == server) continue;
    add(program,
        {.kind = OpKind::Send,
         .stream = stream_to_server(server),
         .slot = pushes_to(server),
         .payload = part(server)},
        kPush, step, {computed_});
  }
}

void Builder::serve_pushes(Program& program, const RankDuty& duty, const Round& round) {
  std::vector<OpIndex> pushed;
  for (const Turn& turn : round) {
    if (duty.worker == turn.worker) {
      pushed.push_back(computed_);
    } else {
      pushed.push_back(add(program,
                           {.kind = OpKind::Recv,
                            .stream = stream_to_worker(turn.worker),
                            .slot = pushed_by(turn.worker),
                            .payload = part(*duty.server)},
                           kServePush, turn.step, {}));
    }
  }
  // The synchronous form updates once, with all gradients of the round; the other forms update once
  // per push.
  if (!runs_ahead()) return update(program, round.front().step, pushed);
  for (std::size_t turn = 0; turn < round.size(); ++turn)
    update(program, round[turn].step, {pushed[turn]});
}

// The update takes no time. It is the event for which later pulls wait.
void Builder::update(Program& program, std::uint32_t step, const std::vector<OpIndex>& after) {
  updates_[step].push_back(
      add(program, {.kind = OpKind::Delay, .stream = kServerStream, .payload = delay(Seconds{})},
          kUpdate, step, after));
}

OpIndex Builder::add(Program& program, Operation op, Name name, std::uint32_t step,
                     const std::vector<OpIndex>& after) const {
  op.name = name;
  op.part = name == kCompute ? StepPart::Forward : StepPart::GradSync;
  op.microbatch = static_cast<std::int32_t>(step);
  return program.append(op, after);
}

std::uint32_t Builder::delay(Seconds time) {
  const auto known = std::find(workload_.delays.begin(), workload_.delays.end(), time);
  if (known != workload_.delays.end())
    return static_cast<std::uint32_t>(known - workload_.delays.begin());
  workload_.delays.push_back(time);
  return static_cast<std::uint32_t>(workload_.delays.size() - 1);
}

void Builder::add_groups() {
  for (RankId worker = 0; worker < workers_; ++worker) {
    for (std::uint32_t server = 0; server < servers_; ++server) {
      const RankId there = server_ranks_[server];
      if (there == worker) continue;
      bind(worker, pushes_to(server), there, pushed_by(worker));
      bind(there, pulled_by(worker), worker, pulls_from(server));
    }
  }
}

void Builder::bind(RankId from, std::uint32_t from_slot, RankId to, std::uint32_t to_slot) {
  const auto group = static_cast<GroupId>(workload_.groups.size());
  workload_.groups.push_back({.kind = GroupKind::Data, .members = {from, to}});
  workload_.ranks[from].slots[from_slot] = {.group = group, .group_rank = 0};
  workload_.ranks[to].slots[to_slot] = {.group = group, .group_rank = 1};
}

}  // namespace

Workload parameter_server_traffic(const ParameterServerTraffic& traffic) {
  return Builder(traffic).build();
}

}  // namespace trainyard
