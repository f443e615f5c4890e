#include "tools/serve/pool.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/json_parse.hpp"

extern char** environ;

namespace trainyard::serve {

// Each worker process has a thread here, which takes a job from the queue of its side, sends it to
// the process, and reads lines until the job has ended. The thread polls, because a cancellation,
// the time limit and the end of the pool must be noticed while no line comes. The lock of the pool
// is taken before that of a job, and never the other way round.

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// How long a worker may go on after a cancellation.
constexpr std::chrono::milliseconds kGrace{1000};
// How soon a cancellation is noticed.
constexpr int kPollMilliseconds = 5;

// A worker process and the pipes to it.
class Worker {
 public:
  explicit Worker(const std::vector<std::string>& program);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // False if the worker has ended.
  [[nodiscard]] bool send(const std::string& line) const;
  // Waits for output, and appends whole lines. False if the worker has ended.
  [[nodiscard]] bool receive(std::vector<std::string>& lines);

 private:
  int in_ = -1;   // its standard input
  int out_ = -1;  // its standard output
  pid_t pid_ = -1;
  std::string rest_;
};

struct Pipe {
  std::array<int, 2> ends{-1, -1};
  Pipe() {
    // Another worker must not inherit the ends, else this one would not see the end of its input.
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      throw RunError(fmt::format("no pipe to a worker process: {}", std::strerror(errno)));
  }
  ~Pipe() {
    for (const int end : ends)
      if (end >= 0) ::close(end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int take(std::size_t end) { return std::exchange(ends[end], -1); }
};

Worker::Worker(const std::vector<std::string>& program) {
  Pipe to;
  Pipe from;
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  // The copies that dup2 makes are not O_CLOEXEC: the worker keeps these two and loses all other
  // ends.
  posix_spawn_file_actions_adddup2(&actions, to.ends[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from.ends[1], STDOUT_FILENO);
  std::vector<std::string> words = program;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int error =
      ::posix_spawn(&pid_, arguments.front(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    throw RunError(fmt::format("{} cannot be started: {}", program.front(), std::strerror(error)));
  in_ = to.take(1);
  out_ = from.take(0);
}

Worker::~Worker() {
  // A worker writes only the file of its job, which is removed with the job, so it may end at any
  // moment.
  ::kill(pid_, SIGKILL);
  ::close(in_);
  ::close(out_);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool Worker::send(const std::string& line) const {
  const std::string text = line + "\n";
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t written = ::write(in_, text.data() + sent, text.size() - sent);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    sent += static_cast<std::size_t>(written);
  }
  return true;
}

bool Worker::receive(std::vector<std::string>& lines) {
  pollfd wait{.fd = out_, .events = POLLIN, .revents = 0};
  if (::poll(&wait, 1, kPollMilliseconds) <= 0) return true;
  std::array<char, 65536> piece{};
  const ssize_t got = ::read(out_, piece.data(), piece.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  if (got == 0) return false;
  const std::size_t before = rest_.size();
  rest_.append(piece.data(), static_cast<std::size_t>(got));
  std::size_t begin = 0;
  // A piece may end within a line, and the rest stays for the next call. What was there before has
  // no end of line.
  for (std::size_t end = rest_.find('\n', before); end != std::string::npos;
       end = rest_.find('\n', begin)) {
    lines.push_back(rest_.substr(begin, end - begin));
    begin = end + 1;
  }
  rest_.erase(0, begin);
  return true;
}

std::string error_text(const std::string& problem, const std::string& hint) {
  return Json{{"kind", "internal"},
              {"problems", {{{"pointer", ""}, {"problem", problem}, {"hint", hint}}}}}
      .dump();
}

// Ends the job if the line does. The answer may have megabytes, and is passed on as it came,
// without being parsed.
void take_line(Job& job, const std::string& line) {
  constexpr std::string_view kAnswer = R"({"answer":)";
  if (line.starts_with(kAnswer)) {
    job.end(JobStatus::Done, line.substr(kAnswer.size(), line.size() - kAnswer.size() - 1));
    return;
  }
  const Json message = parse_unchecked_json(line);
  if (message.contains("progress")) job.tell(message["progress"].get<double>());
  if (message.contains("row")) job.add_row(message["row"].dump());
  if (message.contains("error"))
    job.end(message["error"]["kind"] == "cancelled" ? JobStatus::Cancelled : JobStatus::Failed,
            message["error"].dump());
}

// Does the job. False if the worker must not be used again. Lines are taken before the limits are
// looked at, so an answer that has arrived counts, even after a cancellation.
bool do_job(Worker& worker, Job& job, std::chrono::seconds most_time, const std::stop_token& stop) {
  const Clock::time_point late = Clock::now() + most_time;
  std::optional<Clock::time_point> grace;
  if (!worker.send(job.order().request)) return false;
  std::vector<std::string> lines;
  while (true) {
    if (!worker.receive(lines)) return false;
    for (const std::string& line : lines) take_line(job, line);
    lines.clear();
    if (job.state().ended()) return true;
    const Clock::time_point now = Clock::now();
    if (!grace && job.is_cancelled()) {
      grace = now + kGrace;
      if (!worker.send(R"({"cancel":true})")) return false;
    }
    if (stop.stop_requested() || (grace && now > *grace)) return false;
    if (now > late) {
      job.end(JobStatus::Failed,
              error_text(fmt::format("it took more than {} minutes", most_time.count() / 60),
                         "use `trainyard run`, which has no limit"));
      return false;
    }
  }
}

}  // namespace

// ---- jobs

Job::~Job() {
  std::error_code ignored;
  if (!order_.file.empty()) std::filesystem::remove(order_.file, ignored);
}

JobState Job::state() const {
  const std::scoped_lock lock(mutex_);
  return state_;
}

void Job::wait(std::uint64_t revision, std::chrono::milliseconds most) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, most, [&] { return state_.ended() || state_.revision > revision; });
}

void Job::cancel() {
  const std::scoped_lock lock(mutex_);
  cancelled_ = true;
  if (state_.status != JobStatus::Waiting) return;
  state_.status = JobStatus::Cancelled;
  ++state_.revision;
  changed_.notify_all();
}

bool Job::is_cancelled() const {
  const std::scoped_lock lock(mutex_);
  return cancelled_;
}

bool Job::start() {
  const std::scoped_lock lock(mutex_);
  if (cancelled_) return false;
  state_.status = JobStatus::Running;
  return true;
}

void Job::tell(double progress) {
  const std::scoped_lock lock(mutex_);
  state_.progress = progress;
  ++state_.revision;
  changed_.notify_all();
}

void Job::add_row(std::string row) {
  const std::scoped_lock lock(mutex_);
  state_.rows.push_back(std::move(row));
  ++state_.revision;
  changed_.notify_all();
}

void Job::end(JobStatus status, std::string answer) {
  const std::scoped_lock lock(mutex_);
  if (state_.ended()) return;
  state_.status = status;
  state_.answer = std::move(answer);
  ++state_.revision;
  changed_.notify_all();
}

// ---- pool

WorkerPool::WorkerPool(Options options) : options_(std::move(options)) {
  std::signal(SIGPIPE, SIG_IGN);  // a worker that has ended is noticed by its pipe
  try {
    for (std::size_t i = 0; i < options_.front; ++i)
      threads_.emplace_back([this](const std::stop_token& stop) { work(stop, front_, true); });
    for (std::size_t i = 0; i < options_.back; ++i)
      threads_.emplace_back([this](const std::stop_token& stop) { work(stop, back_, false); });
  } catch (const std::system_error& error) {
    throw RunError(fmt::format("no thread for a worker process: {}", error.what()));
  }
}

// All threads are told before the first is waited for.
WorkerPool::~WorkerPool() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

std::shared_ptr<Job> WorkerPool::submit(Job::Order order) {
  auto job = std::make_shared<Job>(std::move(order));
  Side& side = job->order().front ? front_ : back_;
  const std::scoped_lock lock(mutex_);
  std::erase_if(side.waiting, [](const auto& one) { return one->is_cancelled(); });
  if (side.waiting.size() >= options_.most_waiting) return nullptr;
  side.waiting.push_back(job);
  side.arrived.notify_one();
  return job;
}

std::shared_ptr<Job> WorkerPool::next(const std::stop_token& stop, Side& side) {
  std::unique_lock lock(mutex_);
  side.arrived.wait(lock, stop, [&] { return !side.waiting.empty(); });
  if (stop.stop_requested()) return nullptr;
  std::shared_ptr<Job> job = std::move(side.waiting.front());
  side.waiting.pop_front();
  return job;
}

void WorkerPool::work(const std::stop_token& stop, Side& side, bool front) {
  std::vector<std::string> program = options_.program;
  if (!front) program.emplace_back("background");
  std::unique_ptr<Worker> worker;
  try {
    worker = std::make_unique<Worker>(program);  // it reads its data before the first job comes
  } catch (const RunError&) {
    worker.reset();  // the first job tries again, and is told
  }
  while (const std::shared_ptr<Job> job = next(stop, side)) {
    if (!job->start()) continue;
    try {
      if (!worker) worker = std::make_unique<Worker>(program);
      if (do_job(*worker, *job, options_.most_time, stop)) continue;
      worker.reset();
      job->end(
          job->is_cancelled() ? JobStatus::Cancelled : JobStatus::Failed,
          error_text("the worker process ended without an answer", "report it with the scenario"));
    } catch (const std::exception& error) {
      worker.reset();
      job->end(JobStatus::Failed, error_text(error.what(), ""));
    }
  }
}

}  // namespace trainyard::serve
