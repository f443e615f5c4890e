#include "tools/serve/worker.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <exception>
#include <filesystem>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/base/memo.hpp"
#include "sim/engine/simgrid/solver_module.hpp"
#include "tools/serve/answers.hpp"

namespace trainyard::serve {

// A worker has two threads: one reads lines, the other answers requests one after the other. A line
// {"cancel": true} stops the request that is being answered. The process ends with its standard
// input, which the server closes, so no worker survives its server.

namespace {

using Json = nlohmann::ordered_json;

// The lines that have arrived, and the request that is being answered. One thread reads standard
// input, so that a cancellation arrives while the other simulates.
class Inbox {
 public:
  // Waits for a request; nothing after the end of the input.
  std::optional<std::string> next(std::stop_source& stop) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return ended_ || !lines_.empty(); });
    if (lines_.empty()) return std::nullopt;
    std::string line = std::move(lines_.front());
    lines_.pop_front();
    running_ = &stop;
    return line;
  }
  void finished() {
    const std::scoped_lock lock(mutex_);
    running_ = nullptr;
  }

  // A cancellation without a request that runs came too late, and changes nothing.
  void add(std::string line) {
    const std::scoped_lock lock(mutex_);
    if (line == R"({"cancel":true})") {
      if (running_ != nullptr) running_->request_stop();
      return;
    }
    lines_.push_back(std::move(line));
    arrived_.notify_one();
  }
  void end() {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    if (running_ != nullptr) running_->request_stop();
    arrived_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::string> lines_;
  std::stop_source* running_ = nullptr;
  bool ended_ = false;
};

void read_lines(Inbox& inbox) {
  std::array<char, 65536> piece{};
  std::string rest;
  while (true) {
    const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    rest.append(piece.data(), static_cast<std::size_t>(got));
    for (std::size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n')) {
      inbox.add(rest.substr(0, end));
      rest.erase(0, end + 1);
    }
  }
  inbox.end();
  // The time in which a simulation that heeds the stop can end by itself.
  std::this_thread::sleep_for(std::chrono::seconds(2));
  ::_exit(0);  // the server has ended, and the simulation has not heard of it
}

// Sends lines to the server. Nothing else may write to its pipe, so that standard output of
// libraries goes to standard error.
class Outbox {
 public:
  Outbox() : pipe_(::dup(STDOUT_FILENO)) { (void)::dup2(STDERR_FILENO, STDOUT_FILENO); }
  ~Outbox() { ::close(pipe_); }
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  void send(const Json& message) const {
    const std::string line = message.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    for (std::size_t sent = 0; sent < line.size();) {
      const ssize_t written = ::write(pipe_, line.data() + sent, line.size() - sent);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) ::_exit(0);  // the server has ended
      sent += static_cast<std::size_t>(written);
    }
  }

 private:
  int pipe_;
};

// Reports progress twenty times a second at most.
class Progress {
 public:
  explicit Progress(const Outbox& outbox) : outbox_(outbox) {}
  void operator()(double fraction) {
    const Clock::time_point now = Clock::now();
    if (now < next_) return;
    next_ = now + std::chrono::milliseconds(50);
    outbox_.send({{"progress", fraction}});
  }

 private:
  using Clock = std::chrono::steady_clock;
  const Outbox& outbox_;
  Clock::time_point next_ = Clock::now() + std::chrono::milliseconds(50);
};

Json error_json(const char* kind, const std::vector<Problem>& problems) {
  Json rows = Json::array();
  for (const Problem& problem : problems)
    rows.push_back(
        {{"pointer", problem.pointer}, {"problem", problem.problem}, {"hint", problem.hint}});
  return {{"error", {{"kind", kind}, {"problems", std::move(rows)}}}};
}

Json error_json(const char* kind, const std::string& problem) {
  return error_json(kind, {Problem{.file = {}, .pointer = {}, .problem = problem, .hint = {}}});
}

Json answered(const std::string& line, Memo& memo, const Hooks& hooks) {
  try {
    return {{"answer", answer_to(parse_unchecked_json(line), memo, hooks)}};
  } catch (const InputError& error) {
    return error_json("input", error.problems());
  } catch (const Cancelled&) {
    return error_json("cancelled", "it was cancelled");
  } catch (const RunError& error) {
    return error_json("run", error.what());
  } catch (const std::bad_alloc&) {
    return error_json("run", "it needs more memory than a worker may take");
  } catch (const std::exception& error) {
    return error_json("internal", error.what());
  }
}

// The folders that hold data below the roots, and the shipped scenarios.
std::vector<std::filesystem::path> folders_of_data() {
  std::vector<std::filesystem::path> folders;
  for (const std::filesystem::path& root : data_roots()) {
    const auto add = [&](std::string_view part) {
      std::error_code error;
      if (std::filesystem::is_directory(root / part, error)) folders.push_back(root / part);
    };
    for (const std::string_view part : data_folders()) add(part);
    add("scenarios");
  }
  return folders;
}

// Beyond this limit an allocation throws bad_alloc, which becomes an answer (`answered`). Without
// it, the kernel could end another process for lack of memory.
void limit_memory(std::uint64_t bytes) {
  if (bytes == 0) return;
  const rlimit limit{.rlim_cur = bytes, .rlim_max = bytes};
  (void)::setrlimit(RLIMIT_AS, &limit);
}

}  // namespace

void serve_requests(const WorkerLimits& limits) {
  std::signal(SIGINT, SIG_IGN);  // Ctrl-C is for the server, which then closes the pipe
  if (limits.background) (void)::nice(10);
  limit_memory(limits.most_bytes);
  confine_reading(folders_of_data());
  load_fluid_solver();
  const Outbox outbox;
  Inbox inbox;
  // The thread cannot be joined: it waits in read() until the server closes the pipe.
  std::thread(read_lines, std::ref(inbox)).detach();
  // A memo beyond this holds runs that nobody goes back to.
  Memo memo(std::size_t{256} << 20U);
  std::stop_source stop;
  while (const std::optional<std::string> line = inbox.next(stop)) {
    const Hooks hooks{.stop = stop.get_token(),
                      .progress = Progress(outbox),
                      .row =
                          [&](Json row) {
                            outbox.send({{"row", std::move(row)}});
                          },
                      .most_gpus = limits.most_gpus};
    const Json answer = answered(*line, memo, hooks);
    // The server may send the next request, or cancel it, as soon as it has the answer. The inbox
    // is ready for that before.
    inbox.finished();
    stop = std::stop_source();
    outbox.send(answer);
  }
  ::_exit(0);  // the thread that reads uses the inbox
}

}  // namespace trainyard::serve
