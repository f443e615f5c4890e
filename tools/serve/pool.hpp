// Jobs of `trainyard serve`, and the worker processes that do them.
//
//    WorkerPool pool({.program = {"/usr/bin/trainyard", "serve-worker"}, .front = 2, .back = 2});
//    const std::shared_ptr<Job> job = pool.submit({.request = R"({"kind": "run", ...})"});
//    job->wait(0, std::chrono::seconds(1));
//    job->state().answer;
//
// Runs that somebody waits for have workers of their own (front), so that a search or neighbours
// (back) never hold them up. A worker that crashes, or that does not heed a cancellation, is
// replaced by a new one, and only its own job fails.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace trainyard::serve {

enum class JobStatus : std::uint8_t { Waiting, Running, Done, Failed, Cancelled };

// The progress and the result of a job. `revision` grows with every change.
struct JobState {
  JobStatus status = JobStatus::Waiting;
  double progress = 0.0;
  std::vector<std::string> rows = {};  // JSON, as the worker sends them
  std::string answer = {};             // JSON: the answer, or the error of a failed job
  std::uint64_t revision = 0;

  [[nodiscard]] bool ended() const { return status > JobStatus::Running; }
};

// All functions are thread-safe.
class Job {
 public:
  struct Order {
    std::string request = {};         // one line of JSON (worker.hpp)
    bool front = true;                // somebody waits for it
    bool replaced = false;            // by the next run of its page
    std::string client = {};          // the page that asked
    std::filesystem::path file = {};  // that the worker writes; removed with the job
  };

  explicit Job(Order order) : order_(std::move(order)) {}
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  [[nodiscard]] const Order& order() const { return order_; }
  [[nodiscard]] JobState state() const;
  // Waits until the revision is larger than `revision`, the job has ended, or the time is over.
  void wait(std::uint64_t revision, std::chrono::milliseconds most) const;
  // A job that has ended stays as it is.
  void cancel();
  [[nodiscard]] bool is_cancelled() const;

  // For the pool.
  [[nodiscard]] bool start();  // false if it was cancelled before
  void tell(double progress);
  void add_row(std::string row);
  void end(JobStatus status, std::string answer);

 private:
  const Order order_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  JobState state_;
  bool cancelled_ = false;
};

class WorkerPool {
 public:
  struct Options {
    std::vector<std::string> program;  // with its arguments; "background" is added for the back
    std::size_t front = 1;
    std::size_t back = 1;
    std::size_t most_waiting = 200;                             // jobs, on each side
    std::chrono::seconds most_time = std::chrono::minutes(10);  // of a job
  };

  explicit WorkerPool(Options options);
  // Ends the workers; jobs that run fail.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Returns nullptr if too many jobs wait already.
  [[nodiscard]] std::shared_ptr<Job> submit(Job::Order order);

 private:
  struct Side {
    std::deque<std::shared_ptr<Job>> waiting;
    std::condition_variable_any arrived;
  };
  void work(const std::stop_token& stop, Side& side, bool front);
  std::shared_ptr<Job> next(const std::stop_token& stop, Side& side);

  const Options options_;
  std::mutex mutex_;
  Side front_, back_;
  std::vector<std::jthread> threads_;
};

}  // namespace trainyard::serve
