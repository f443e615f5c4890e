// Concurrent execution of independent work on two threads.
//
//    const auto sums = run_concurrently(links > kMany, [&] { count(); }, [&] { return add_up(); });
//    parallel_for(programs > 1, programs, [&](std::size_t program) { work_on(program); });
#pragma once

#include <atomic>
#include <cstddef>
#include <future>
#include <system_error>
#include <type_traits>

#include "sim/base/data_use.hpp"

namespace trainyard {

// Starts `work` on a second thread if that is `worth` it. Otherwise, or if the system has no thread
// or stack to give, the work runs when the caller waits for the future. The data files that it reads
// are noted as those of this thread.
template <class Work>
std::future<void> started(bool worth, const Work& work) {
  if (worth) {
    try {
      return std::async(std::launch::async, [work, recorder = DataUse::current()] {
        const DataUse::OnThisThread on_this_thread(recorder);
        work();
      });
    } catch (const std::system_error&) {  // the work runs on this thread, later
    }
  }
  return std::async(std::launch::deferred, work);
}

// Runs `first` on a second thread, if that is `worth` it, and `second` on this thread. Returns the
// result of `second` when both have ended. Rethrows their exceptions, that of `second` before that
// of `first`. REQUIRES: neither writes data that the other reads or writes, caches included.
template <class First, class Second>
auto run_concurrently(bool worth, const First& first, Second second) {
  std::future<void> other = started(worth, first);
  if constexpr (std::is_void_v<decltype(second())>) {
    second();
    other.get();
  } else {
    auto result = second();
    other.get();
    return result;
  }
}

// Runs every index below `count` once, by `first` on a second thread, if that is `worth` it, or by
// `second` on this thread. A thread that is free takes the next index. Rethrows their exceptions.
// REQUIRES: no index writes data that another one reads or writes, except data that only `first` or
// only `second` uses.
template <class First, class Second>
void parallel_for(bool worth, std::size_t count, const First& first, const Second& second) {
  std::atomic<std::size_t> next = 0;
  const auto some = [&](const auto& work) {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  run_concurrently(
      worth, [&] { some(first); }, [&] { some(second); });
}

// This overload runs one `work` on both threads.
template <class Work>
void parallel_for(bool worth, std::size_t count, const Work& work) {
  parallel_for(worth, count, work, work);
}

}  // namespace trainyard
