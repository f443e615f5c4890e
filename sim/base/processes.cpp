#include "sim/base/processes.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"

namespace trainyard {

namespace {

// The first byte of an answer is its kind.
constexpr char kFine = 'f';
constexpr char kInputError = 'i';
constexpr char kRunError = 'r';
constexpr char kCrash = 'c';

struct Child {
  std::size_t number = 0;
  pid_t pid = -1;
  int pipe = -1;
  std::string received = {};
};

// Returns false if the parent has ended.
bool write_all(int pipe, const std::string& text) {
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t written = ::write(pipe, text.data() + sent, text.size() - sent);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    sent += static_cast<std::size_t>(written);
  }
  return true;
}

std::string answer_of(const ProcessWork& work, std::size_t number) {
  try {
    return kFine + work.work(number);
  } catch (const InputError& error) {
    return kInputError + std::string(error.what());
  } catch (const RunError& error) {
    return kRunError + std::string(error.what());
  } catch (const std::exception& error) {
    return kCrash + std::string(error.what());
  }
}

// A killed parent cannot end its children, so the kernel does it (prctl(2)).
void end_with(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // the parent ended before the prctl
}

// Exits without the parent's exit handlers and without a flush of inherited buffers. Exit code 0
// means that the answer is complete.
[[noreturn]] void be_child(const ProcessWork& work, std::size_t number, int pipe) {
  const bool whole = write_all(pipe, answer_of(work, number));
  ::close(pipe);
  ::_exit(whole ? 0 : 1);
}

// Forks a child that writes its answer into a pipe. Each process closes the end of the pipe that it
// does not use: the parent sees the end of the answer only when no process holds the writing end.
Child start(const ProcessWork& work, std::size_t number) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0)
    throw RunError(fmt::format("no pipe to a worker process: {}", std::strerror(errno)));
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    const std::string reason = std::strerror(errno);
    ::close(ends[0]);
    ::close(ends[1]);
    throw RunError(fmt::format("no worker process: {}", reason));
  }
  if (pid == 0) {
    end_with(parent);
    ::close(ends[0]);
    be_child(work, number, ends[1]);
  }
  ::close(ends[1]);
  return {.number = number, .pid = pid, .pipe = ends[0]};
}

// Waits for the end of the child. Returns why its answer is incomplete, or "" if it is complete.
std::string failure_of(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    return fmt::format("the worker process was ended by signal {} ({})", WTERMSIG(status),
                       ::strsignal(WTERMSIG(status)));
  if (WEXITSTATUS(status) == 0) return "";
  return fmt::format("the worker process ended with exit code {} and no answer",
                     WEXITSTATUS(status));
}

Answer answer(const Child& child) {
  const std::string failure = failure_of(child.pid);
  if (!failure.empty()) return {.kind = Answer::Kind::Crash, .text = failure};
  std::string text = child.received.substr(1);
  switch (child.received.front()) {
    case kFine:
      return {.kind = Answer::Kind::Fine, .text = std::move(text)};
    case kInputError:
      return {.kind = Answer::Kind::InputError, .text = std::move(text)};
    case kRunError:
      return {.kind = Answer::Kind::RunError, .text = std::move(text)};
    default:
      return {.kind = Answer::Kind::Crash, .text = std::move(text)};
  }
}

// Reads the available bytes. Returns false at the end of the answer.
bool receive(Child& child) {
  std::array<char, 65536> buffer{};
  const ssize_t got = ::read(child.pipe, buffer.data(), buffer.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  child.received.append(buffer.data(), static_cast<std::size_t>(got));
  return got > 0;
}

// The running children. The destructor kills those that are left, for instance after an exception.
class Children {
 public:
  Children() = default;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  Children(Children&&) = delete;
  Children& operator=(Children&&) = delete;
  ~Children() {
    for (const Child& child : running_) {
      ::kill(child.pid, SIGKILL);
      static_cast<void>(failure_of(child.pid));
      ::close(child.pipe);
    }
  }

  [[nodiscard]] std::size_t size() const { return running_.size(); }
  void add(Child child) { running_.push_back(std::move(child)); }

  // Waits for events, at most `most_ms` (-1: without limit), and returns the children that have
  // ended.
  std::vector<Child> wait(int most_ms) {
    std::vector<pollfd> polls;
    for (const Child& child : running_)
      polls.push_back({.fd = child.pipe, .events = POLLIN, .revents = 0});
    static_cast<void>(::poll(polls.data(), polls.size(), most_ms));
    std::vector<Child> ended;
    // The loop runs backwards, so that erase() does not shift children that are still to be
    // checked.
    for (std::size_t i = polls.size(); i-- > 0;) {
      if (polls[i].revents == 0 || receive(running_[i])) continue;
      ::close(running_[i].pipe);
      ended.push_back(std::move(running_[i]));
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return ended;
  }

 private:
  std::vector<Child> running_;
};

}  // namespace

void run_in_processes(std::size_t count, const ProcessWork& work) {
  const std::size_t most = work.processes > 0
                               ? work.processes
                               : std::max<std::size_t>(1, std::thread::hardware_concurrency());
  std::fflush(nullptr);  // else each child would inherit a copy of the buffered output
  constexpr int kAskedAfterMs = 100;
  Children children;
  bool stopped = false;
  for (std::size_t next = 0; (!stopped && next < count) || children.size() > 0;) {
    while (!stopped && next < count && children.size() < most) {
      stopped = work.stop && work.stop();
      if (!stopped) children.add(start(work, next++));
    }
    if (work.end && work.end()) return;
    if (children.size() == 0) continue;
    for (const Child& child : children.wait(work.end ? kAskedAfterMs : -1))
      work.done(child.number, answer(child));
  }
}

}  // namespace trainyard
