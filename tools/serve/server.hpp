// The HTTP server of `trainyard serve`: the page, and jobs that the page asks for.
//
//    GET    /                     the page; /NAME: its style and modules
//    GET    /api/start            names, fields and colours (start_lists in answers.hpp)
//    POST   /api/jobs             {"kind": "run", "client": "a1", "scenario": {...}} -> a job
//    GET    /api/jobs/ID          ?after=REVISION&wait_ms=1000: the job when it has changed
//    GET    /api/jobs/ID/file     the file that a job "page" or "trace" wrote
//    DELETE /api/jobs/ID          cancels the job
//
//    a job   {"id", "status", "progress", "revision", "rows": [...], "answer": {...}} or "error"
//
// A new run of a client replaces its earlier run and neighbours, which are cancelled.
//
// Who may ask: loopback is shared by all users of a machine, and by every page that its browser
// shows. Each request of the API needs the token of this start, in the header Authorization. Each
// request must name this host (against DNS rebinding), and a request of another origin is refused.
// A server that listens at every address has the names of each: the machine's own name, and the
// address at which the request has arrived.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::serve {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;                               // 0: the first free one from kFirstPort on
  std::vector<std::string> worker;            // program and arguments of a worker process
  std::size_t processes = 1;                  // workers for runs, and as many for the rest
  nlohmann::ordered_json scenario = nullptr;  // that the page begins with; null: its own
  std::optional<std::string> token = {};      // nothing: a random one
};

inline constexpr int kFirstPort = 8420;

// The name of this machine; empty where it has none.
[[nodiscard]] std::string machine_name();

struct Address {
  std::string host;  // as a URL has it: "login1", "[::1]"
  int port = 0;
  std::string token;
};

// Serves until SIGINT or SIGTERM comes, and calls `ready` when requests are taken. Throws
// InputError if the address cannot be bound, and RunError if no worker can be started.
void serve_pages(const ServerOptions& options, const std::function<void(const Address&)>& ready);

}  // namespace trainyard::serve
