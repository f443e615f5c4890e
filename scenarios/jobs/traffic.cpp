#include "scenarios/jobs/traffic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/words.hpp"
#include "topologies/fields.hpp"

namespace trainyard {

namespace {

using T = TrafficSpec;
constexpr std::int64_t kServersMost = 1'000'000;

constexpr Words<TrafficPattern, 5> kPatterns{{{TrafficPattern::Ring, "ring"},
                                              {TrafficPattern::Pairs, "pairs"},
                                              {TrafficPattern::AllToAll, "all_to_all"},
                                              {TrafficPattern::AllToOne, "all_to_one"},
                                              {TrafficPattern::OneToAll, "one_to_all"}}};

bool has_servers(const T& traffic) {
  return traffic.pattern == TrafficPattern::AllToOne || traffic.pattern == TrafficPattern::OneToAll;
}

const Field<T> kTraffic[] = {
    {"pattern",
     "ring: from each GPU to the next; pairs: from GPU i of the first half to GPU i of the second "
     "half; all_to_all: from each GPU to all others; all_to_one, one_to_all: between clients and "
     "the last `servers` GPUs, to them (writes) or from them (reads)",
     word_of<T, &T::pattern, kPatterns>(true)},
    {"bytes", "size of a message; all_to_all: of what a GPU sends to all others together",
     bytes<&T::bytes, Absent::Reported>()},
    {"every",
     "time from one start of the messages to the next, more than 0 s; later where they have not "
     "ended by then",
     time<&T::every, Absent::Reported>()},
    {"servers", "all_to_one, one_to_all: GPUs that receive or send, the last ones of the job",
     count<&T::servers, 1, Absent::Default, kServersMost>(), has_servers},
};

// A message between two ranks.
struct Route {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};

std::vector<Route> routes_of(const TrafficSpec& traffic, std::uint32_t ranks) {
  std::vector<Route> routes;
  if (traffic.pattern == TrafficPattern::Ring) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) routes.push_back({rank, (rank + 1) % ranks});
  } else if (traffic.pattern == TrafficPattern::Pairs) {
    for (std::uint32_t rank = 0; rank < ranks / 2; ++rank)
      routes.push_back({rank, rank + ranks / 2});
  } else {
    const std::uint32_t clients = ranks - traffic.servers;
    for (std::uint32_t client = 0; client < clients; ++client) {
      const std::uint32_t server = clients + client % traffic.servers;
      routes.push_back(traffic.pattern == TrafficPattern::AllToOne ? Route{client, server}
                                                                   : Route{server, client});
    }
  }
  return routes;
}

void refuse_too_few(const TrafficSpec& traffic, std::uint32_t ranks) {
  const bool served = has_servers(traffic);
  if (const std::uint32_t least = served ? traffic.servers + 1 : 2; ranks < least)
    throw RunError(fmt::format("this traffic needs at least {} GPUs, not {}", least, ranks));
  if (traffic.pattern == TrafficPattern::Pairs && ranks % 2 != 0)
    throw RunError(fmt::format("pairs need an even number of GPUs, not {}", ranks));
  // Each message of a rank has its own stream, and a stream is numbered by a byte.
  constexpr std::uint32_t kClientsMost = 200;
  if (served && ranks - traffic.servers > kClientsMost * traffic.servers)
    throw RunError(fmt::format("{} clients are more than {} a server (give more servers)",
                               ranks - traffic.servers, kClientsMost));
}

// Writes the workload of messages, each on a stream and a slot of its own.
class MessageWriter {
 public:
  MessageWriter(Workload& workload, const std::vector<Route>& routes) : workload_(workload) {
    sends_.resize(workload.ranks.size());
    receives_.resize(workload.ranks.size());
    for (const Route& route : routes) {
      const auto group = static_cast<GroupId>(workload.groups.size());
      workload.groups.push_back({.members = {RankId{route.from}, RankId{route.to}}});
      sends_[route.from].push_back(group);
      receives_[route.to].push_back(group);
    }
  }

  void write() {
    std::size_t most = 0;
    for (std::size_t rank = 0; rank < sends_.size(); ++rank)
      most = std::max(most, sends_[rank].size() + receives_[rank].size());
    for (std::size_t message = 0; message < most; ++message) {
      workload_.streams.push_back(fmt::format("message {}", message));
      workload_.slots.push_back(fmt::format("message {}", message));
    }
    for (std::size_t rank = 0; rank < sends_.size(); ++rank) bind(rank);
  }

 private:
  void bind(std::size_t number) {
    Rank& rank = workload_.ranks[number];
    const std::pair kind{sends_[number].size(), receives_[number].size()};
    const auto [program, fresh] =
        programs_.try_emplace(kind, static_cast<std::uint32_t>(programs_.size()));
    if (fresh) workload_.programs.push_back(program_of(kind.first, kind.second));
    rank.program = program->second;
    for (const GroupId group : sends_[number]) rank.slots.push_back({group, 0});
    for (const GroupId group : receives_[number]) rank.slots.push_back({group, 1});
  }

  // The slots of a rank name its groups, so ranks with equally many messages run one program.
  [[nodiscard]] static Program program_of(std::size_t sends, std::size_t receives) {
    Program program{.name = fmt::format("traffic, {} out and {} in", sends, receives)};
    // The delay of `every` runs beside the messages. The step ends when both have ended, and with
    // it the wait for the next messages.
    program.append({.kind = OpKind::Delay});
    for (std::size_t message = 0; message < sends + receives; ++message)
      program.append({.kind = message < sends ? OpKind::Send : OpKind::Recv,
                      .stream = static_cast<std::uint8_t>(message + 1),
                      .name = 1,
                      .slot = static_cast<std::uint16_t>(message)});
    return program;
  }

  Workload& workload_;
  std::vector<std::vector<GroupId>> sends_;                                // by rank
  std::vector<std::vector<GroupId>> receives_;                             // by rank
  std::map<std::pair<std::size_t, std::size_t>, std::uint32_t> programs_;  // by sends, receives
};

// An all_to_all of n ranks sends (n - 1)/n of its size, so the call is n/(n - 1) times as large as
// what each GPU sends.
void write_all_to_all(const TrafficSpec& traffic, Workload& workload) {
  const auto ranks = static_cast<double>(workload.ranks.size());
  workload.calls = {make_call(CollectiveOp::AllToAll,
                              std::llround(traffic.bytes.value() * ranks / (ranks - 1.0)),
                              DataType::Bf16, "direct")};
  workload.streams.emplace_back("messages");
  workload.slots = {"all"};
  Group all;
  for (std::uint32_t rank = 0; rank < workload.ranks.size(); ++rank) {
    all.members.emplace_back(rank);
    workload.ranks[rank].slots = {{GroupId{0}, rank}};
  }
  workload.groups = {std::move(all)};
  Program program{.name = "traffic"};
  program.append({.kind = OpKind::Delay});
  program.append({.kind = OpKind::Collective, .stream = 1, .name = 1});
  workload.programs = {std::move(program)};
}

}  // namespace

std::span<const Field<TrafficSpec>> traffic_fields() { return kTraffic; }

TrafficSpec read_traffic(JsonObject traffic) {
  auto spec = read_fields<T>(traffic, kTraffic, {});
  const nlohmann::ordered_json& every = traffic.raw("every");
  if (every.is_string() && parse_time(every.get<std::string>()) == Seconds{})
    traffic.report("every", fmt::format("must be more than 0 s, not {}", shown(every)),
                   "give the time between two messages");
  const nlohmann::ordered_json& bytes = traffic.raw("bytes");
  if (bytes.is_string() && parse_bytes(bytes.get<std::string>()) == Bytes{})
    traffic.report("bytes", fmt::format("must be more than 0 B, not {}", shown(bytes)),
                   "give the size of a message");
  if (!has_servers(spec) && traffic.has("servers")) {
    traffic.ignore("servers");
    traffic.report("servers", fmt::format("{} has none", word_for(kPatterns, spec.pattern)),
                   "leave them out, or choose all_to_one or one_to_all");
  }
  return spec;
}

std::string to_text(const TrafficSpec& traffic) {
  return fmt::format("{} of {} every {}", word_for(kPatterns, traffic.pattern),
                     to_text(traffic.bytes), to_text(traffic.every));
}

Workload traffic_step(const TrafficSpec& traffic, const std::vector<std::uint32_t>& gpus) {
  const auto ranks = static_cast<std::uint32_t>(gpus.size());
  refuse_too_few(traffic, ranks);
  Workload workload{.streams = {"compute"},
                    .names = {"pause", "message"},
                    .calls = {make_call(CollectiveOp::SendRecv, std::llround(traffic.bytes.value()),
                                        DataType::Bf16, "direct")},
                    .delays = {traffic.every}};
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    workload.ranks.push_back({.gpu = gpus[rank], .label = fmt::format("sender {}", rank)});
  if (traffic.pattern == TrafficPattern::AllToAll) {
    write_all_to_all(traffic, workload);
  } else {
    MessageWriter(workload, routes_of(traffic, ranks)).write();
  }
  return workload;
}

}  // namespace trainyard
