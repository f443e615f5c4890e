#include "tools/serve/server.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/base/letters.hpp"
#include "tools/serve/answers.hpp"
#include "tools/serve/assets.hpp"
#include "tools/serve/http/http_server.hpp"
#include "tools/serve/pool.hpp"

namespace trainyard::serve {

// Each connection has a thread of the HTTP server, in which a request for a job waits until the job
// has changed (long polling). Each worker process has a thread of the pool. The threads share the
// jobs, which are all that the server keeps of a page.

namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::size_t kMostBody = std::size_t{4} << 20U;  // of a request, in bytes
constexpr std::size_t kMostJobs = 500;                    // that are remembered
constexpr std::size_t kMostConnections = 96;
constexpr std::chrono::milliseconds kMostWait{10'000};

// cpp-httplib compresses what is called application/json, which on loopback costs more than it
// saves.
constexpr const char* kJson = "application/json; charset=utf-8";

// The page runs only its own modules and styles, and speaks only with this server.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw RunError("the system gives no random numbers for a token");
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

// Compares in a time that does not depend on where the texts differ.
bool equal_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const unsigned byte_of_a = static_cast<unsigned char>(a[i]);
    const unsigned byte_of_b = static_cast<unsigned char>(b[i]);
    different |= byte_of_a ^ byte_of_b;
  }
  return different == 0;
}

// The name in "localhost:8420" or "[::1]:8420". The port may be that of a tunnel.
std::string_view host_name(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

// An address as a URL has it: one of IPv6 in brackets. One of IPv4 that an IPv6 socket has taken is
// written as IPv4.
std::string url_host(const std::string& address) {
  constexpr std::string_view kMapped = "::ffff:";
  if (address.starts_with(kMapped)) return address.substr(kMapped.size());
  return address.find(':') == std::string::npos ? address : "[" + address + "]";
}

// Whether a server at this address listens at every address of the machine.
bool is_every_address(std::string_view host) { return host == "0.0.0.0" || host == "::"; }

std::string error_text(std::string_view problem, std::string_view hint) {
  return Json{{"error",
               {{"kind", "request"},
                {"problems", {{{"pointer", ""}, {"problem", problem}, {"hint", hint}}}}}}}
      .dump();
}

void answer(HttpResponse& response, std::string json) {
  response.type = kJson;
  response.body = std::move(json);
}

void refuse(HttpResponse& response, int status, std::string_view problem, std::string_view hint) {
  response.status = status;
  answer(response, error_text(problem, hint));
}

std::uint64_t number(const HttpRequest& request, const char* key) {
  const std::string text = request.parameter(key);
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string_view word_of(JobStatus status) {
  constexpr std::array<std::string_view, 5> kWords{"waiting", "running", "done", "failed",
                                                   "cancelled"};
  return kWords[static_cast<std::size_t>(status)];
}

// The jobs of all pages, by their number. The oldest are forgotten beyond kMostJobs: a page that
// still asks for one gets 404. The pool keeps a job alive while it waits or runs.
class Jobs {
 public:
  std::uint64_t add(std::shared_ptr<Job> job) {
    const std::scoped_lock lock(mutex_);
    jobs_.emplace(++last_, std::move(job));
    while (jobs_.size() > kMostJobs) jobs_.erase(jobs_.begin());
    return last_;
  }
  std::shared_ptr<Job> find(std::uint64_t id) const {
    const std::scoped_lock lock(mutex_);
    const auto found = jobs_.find(id);
    return found == jobs_.end() ? nullptr : found->second;
  }
  // The jobs of a page that its next run replaces.
  void replace(const std::string& client) {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, job] : jobs_)
      if (job->order().replaced && job->order().client == client) job->cancel();
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Job>> jobs_;
  std::uint64_t last_ = 0;
};

// A job as JSON. Rows and answer are JSON already.
std::string job_text(std::uint64_t id, const Job& job) {
  const JobState state = job.state();
  std::string text = fmt::format(
      R"({{"id":{},"status":"{}","progress":{:.4f},"revision":{},"rows":[{}])", id,
      word_of(state.status), state.progress, state.revision, fmt::join(state.rows, ","));
  if (!state.answer.empty())
    text += fmt::format(R"(,"{}":{})", state.status == JobStatus::Done ? "answer" : "error",
                        state.answer);
  return text + "}";
}

// Returns the scenario that the page shows to somebody who brings none.
Json first_document() {
  constexpr const char* kFirst = "scenarios/llama3/llama3_70b_64xh100.json";
  const std::optional<fs::path> file = find_in_data(kFirst);
  if (!file) throw RunError(fmt::format("{} is not among the data", kFirst));
  Json document = parse_json(file->string(), read_file(*file));
  document.erase("$schema");
  return document;
}

// A folder that ends with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_((fs::temp_directory_path() / "trainyard-serve-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) throw RunError(fmt::format("{} cannot be made", path_));
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] fs::path path() const { return path_; }

 private:
  std::string path_;
};

struct JobKind {
  std::string_view name;
  bool front = true;             // a person waits for it
  bool replaced = false;         // by the next run of its page
  std::string_view suffix = {};  // of the file that it writes
  std::string_view type = {};
};
constexpr std::array<JobKind, 8> kJobKinds{
    {{.name = "run", .replaced = true},
     {.name = "neighbours", .front = false, .replaced = true},
     {.name = "layout"},
     {.name = "model"},
     {.name = "search", .front = false},
     {.name = "jobs", .front = false, .suffix = ".html", .type = "text/html; charset=utf-8"},
     {.name = "page", .suffix = ".html", .type = "text/html; charset=utf-8"},
     {.name = "trace", .suffix = ".json.gz", .type = "application/gzip"}}};

const JobKind* find_kind(std::string_view name) {
  const auto* const found = std::ranges::find(kJobKinds, name, &JobKind::name);
  return found == kJobKinds.end() ? nullptr : found;
}

class PageServer {
 public:
  explicit PageServer(const ServerOptions& options)
      : options_(options),
        token_(options.token ? *options.token : random_token()),
        start_(start_text(options)),
        pool_({.program = options.worker, .front = options.processes, .back = options.processes}) {}

  Address bind();
  void listen() { server_->listen(); }
  void stop() { server_->stop(); }

 private:
  static std::string start_text(const ServerOptions& options) {
    Json start = start_lists();
    start["scenario"] = options.scenario.is_null() ? first_document() : options.scenario;
    return start.dump();
  }
  [[nodiscard]] std::string host() const;
  [[nodiscard]] std::unique_ptr<HttpServer> server_with_routes();
  [[nodiscard]] bool is_this_host(const std::string& name, const HttpRequest& request) const;
  bool is_refused(const HttpRequest& request, HttpResponse& response) const;
  void post_job(const HttpRequest& request, HttpResponse& response);
  // Calls `act` with the job of the path, or answers that there is none.
  template <class Act>
  void with_job(const HttpRequest& request, HttpResponse& response, const Act& act);

  ServerOptions options_;
  std::string token_;
  std::string start_;
  // Members are destroyed in the reverse order: requests end first, then workers and jobs, and then
  // the folder with their files.
  TemporaryFolder files_;
  std::atomic<std::uint64_t> last_file_ = 0;
  Jobs jobs_;
  WorkerPool pool_;
  std::unique_ptr<HttpServer> server_;
};

// Returns the handler with its exceptions written into the response.
template <class Handle>
HttpHandler guarded(Handle handle) {
  return [handle](const HttpRequest& request, HttpResponse& response) {
    try {
      handle(request, response);
    } catch (const InputError& wrong) {
      refuse(response, 400, wrong.problems().front().problem, wrong.problems().front().hint);
    } catch (const std::exception& fault) {
      refuse(response, 500, fault.what(), "report it with the request");
    }
  };
}

bool PageServer::is_this_host(const std::string& name, const HttpRequest& request) const {
  const auto is = [&](const std::string& known) {  // browsers send names in lower case
    return !known.empty() && lower_case(name) == lower_case(known);
  };
  if (is("localhost") || is("127.0.0.1") || is("[::1]")) return true;
  if (!is_every_address(options_.host)) return is(url_host(options_.host));
  return is(url_host(request.local_address())) || is(machine_name());
}

// Three checks, each against another attacker. Host: a site whose name resolves to 127.0.0.1 in its
// second answer (DNS rebinding) sends its own name. Origin: a page of another site may send
// requests to any address. Token: another user of this machine can connect to the port. The files
// of the page need no token, because a browser sends no such header when it loads a module or a
// style.
bool PageServer::is_refused(const HttpRequest& request, HttpResponse& response) const {
  const std::string host = request.header("Host");
  const std::string name(host_name(host));
  if (!is_this_host(name, request)) {
    refuse(response, 403, fmt::format("this server is not \"{}\"", name),
           "use the address that `trainyard serve` printed");
    return true;
  }
  const std::string origin = request.header("Origin");
  if (!origin.empty() && origin != "http://" + host) {
    refuse(response, 403, "a page of another origin may not ask", "open the printed address");
    return true;
  }
  if (!request.path().starts_with("/api/")) return false;
  if (equal_secret(request.header("Authorization"), "Bearer " + token_)) return false;
  refuse(response, 401, "the token is missing or wrong",
         "open the address that `trainyard serve` printed, with its token");
  return true;
}

std::unique_ptr<HttpServer> PageServer::server_with_routes() {
  std::unique_ptr<HttpServer> server =
      make_http_server({.most_body = kMostBody,
                        .most_connections = kMostConnections,
                        .headers = {{"Content-Security-Policy", kPolicy},
                                    {"X-Content-Type-Options", "nosniff"},
                                    {"Referrer-Policy", "no-referrer"},
                                    {"Cross-Origin-Resource-Policy", "same-origin"},
                                    {"Cache-Control", "no-store"}},
                        .refuses = [this](const HttpRequest& request, HttpResponse& response) {
                          return is_refused(request, response);
                        }});
  const auto on = [&server](HttpMethod method, const std::string& path, const auto& handle) {
    server->on(method, path, guarded(handle));
  };
  for (const Asset& asset : assets()) {
    on(HttpMethod::Get, std::string(asset.path),
       [&asset](const HttpRequest&, HttpResponse& response) {
         response.type = asset.type;
         response.body = asset.text;
       });
  }
  on(HttpMethod::Get, "/api/start",
     [this](const HttpRequest&, HttpResponse& response) { answer(response, start_); });
  on(HttpMethod::Post, "/api/jobs",
     [this](const HttpRequest& request, HttpResponse& response) { post_job(request, response); });
  const std::string job_path = R"(/api/jobs/(\d{1,18}))";
  on(HttpMethod::Get, job_path, [this](const HttpRequest& request, HttpResponse& response) {
    with_job(request, response, [&](std::uint64_t id, const Job& job) {
      const std::chrono::milliseconds wait(number(request, "wait_ms"));
      job.wait(number(request, "after"), std::min(wait, kMostWait));
      answer(response, job_text(id, job));
    });
  });
  on(HttpMethod::Delete, job_path, [this](const HttpRequest& request, HttpResponse& response) {
    with_job(request, response, [&](std::uint64_t id, Job& job) {
      job.cancel();
      answer(response, job_text(id, job));
    });
  });
  on(HttpMethod::Get, job_path + "/file",
     [this](const HttpRequest& request, HttpResponse& response) {
       with_job(request, response, [&](std::uint64_t, const Job& job) {
         if (job.order().file.empty() || job.state().status != JobStatus::Done)
           return refuse(response, 404, "the job has no file", "wait until it is done");
         // read_file() would decompress a name in .gz.
         std::ifstream in(job.order().file, std::ios::binary);
         response.type = "application/octet-stream";
         response.body.assign(std::istreambuf_iterator<char>(in), {});
       });
     });
  return server;
}

template <class Act>
void PageServer::with_job(const HttpRequest& request, HttpResponse& response, const Act& act) {
  const std::string text = request.match(1);
  std::uint64_t id = 0;
  std::from_chars(text.data(), text.data() + text.size(), id);
  const std::shared_ptr<Job> job = jobs_.find(id);
  if (!job) return refuse(response, 404, fmt::format("there is no job {}", id), "ask once more");
  act(id, *job);
}

void PageServer::post_job(const HttpRequest& request, HttpResponse& response) {
  if (!request.header("Content-Type").starts_with("application/json"))
    return refuse(response, 415, "the request is no JSON", "send Content-Type: application/json");
  Json body = parse_json("request", request.body());
  const auto text = [&body](const char* key) {
    return body.is_object() && body.contains(key) && body[key].is_string()
               ? body[key].get<std::string>()
               : std::string();
  };
  const JobKind* const kind = find_kind(text("kind"));
  if (kind == nullptr)
    return refuse(response, 400, fmt::format("\"{}\" is no kind of request", text("kind")),
                  "send for example {\"kind\": \"run\", \"scenario\": {...}}");
  // The server alone chooses the file that a worker writes.
  body.erase("file");
  fs::path file;
  if (!kind->suffix.empty()) {
    file = files_.path() / fmt::format("{}{}", ++last_file_, kind->suffix);
    body["file"] = file.string();
  }
  // A page that changes fast asks for a run at every change, and only the last one counts. The
  // earlier ones are cancelled before this one joins the queue.
  const std::string client = text("client");
  if (kind->name == "run" && !client.empty()) jobs_.replace(client);
  const std::shared_ptr<Job> job =
      pool_.submit({.request = body.dump(-1, ' ', false, Json::error_handler_t::replace),
                    .front = kind->front,
                    .replaced = kind->replaced,
                    .client = client,
                    .file = file});
  if (!job) return refuse(response, 503, "too many requests wait already", "try it again later");
  const std::uint64_t id = jobs_.add(job);
  // The answer of most jobs is there soon; their progress is for those who ask again.
  job->wait(UINT64_MAX, std::min(std::chrono::milliseconds(number(request, "wait_ms")), kMostWait));
  answer(response, job_text(id, *job));
}

// The host of the printed address. Other machines cannot open "0.0.0.0".
std::string PageServer::host() const {
  const std::string name = is_every_address(options_.host) ? machine_name() : options_.host;
  return name.empty() ? "localhost" : url_host(name);
}

Address PageServer::bind() {
  const int last = options_.port == 0 ? kFirstPort + 99 : options_.port;
  for (int port = options_.port == 0 ? kFirstPort : options_.port; port <= last; ++port) {
    // A server that failed to bind cannot bind to the next port, so each port needs a new one.
    server_ = server_with_routes();
    if (server_->bind(options_.host, port)) return {.host = host(), .port = port, .token = token_};
  }
  server_ = server_with_routes();
  if (constexpr int kAnyPort = 0; !server_->bind(options_.host, kAnyPort))
    throw InputError(Problem{.file = "--host",
                             .pointer = {},
                             .problem = options_.host + " is no address of this machine",
                             .hint = "give one, such as localhost, or 0.0.0.0 for all of them"});
  throw InputError(Problem{.file = "--port",
                           .pointer = {},
                           .problem = fmt::format("{}:{} cannot be used", options_.host, last),
                           .hint = "another program may have it: give another --port, or none"});
}

// The signals that end the server, blocked in all threads and taken by one. Threads inherit the
// mask of the thread that starts them, so this is made before the others.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  void wait() const {
    int got = 0;
    (void)sigwait(&set_, &got);
  }

 private:
  sigset_t set_{};
};

}  // namespace

std::string machine_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

void serve_pages(const ServerOptions& options, const std::function<void(const Address&)>& ready) {
  const EndSignals signals;
  PageServer server(options);
  ready(server.bind());
  std::thread waiting([&] {
    signals.wait();
    server.stop();
  });
  server.listen();
  ::pthread_kill(waiting.native_handle(), SIGTERM);  // for a server that ended by itself
  waiting.join();
}

}  // namespace trainyard::serve
