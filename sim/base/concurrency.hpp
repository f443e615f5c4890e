// Two pieces of work that share nothing they write, at the same time.
//
//   const auto sums = run_concurrently(links > kMany, [&] { count(); }, [&] { return add_up(); });
//   parallel_for(programs > 1, programs, [&](std::size_t program) { orders[program] = ...; });
#pragma once

#include <atomic>
#include <cstddef>
#include <future>
#include <system_error>
#include <type_traits>

namespace trainyard {

// Begins `work` on a second thread where that is `worth` it. Where it is not, or the machine has no
// thread or no stack to give, it is done when its end is waited for.
template <class Work>
std::future<void> started(bool worth, const Work& work) {
  if (worth) {
    try {
      return std::async(std::launch::async, work);
    } catch (const std::system_error&) {  // the pieces follow each other
    }
  }
  return std::async(std::launch::deferred, work);
}

// Does `first` on a second thread, where that is `worth` starting one, and `second` on this one;
// returns what `second` does when both are done. Throws what either throws, that of `second` before
// that of `first`. REQUIRES: neither writes what the other reads or writes, caches included.
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

// Does every number below `count`, each once, by `first` on a second thread, where that is `worth`
// it, or by `second` on this one; who is free takes the next. Throws what they throw. REQUIRES: no
// two numbers write what the other reads or writes, but for what each of the two has for itself.
template <class First, class Second>
void parallel_for(bool worth, std::size_t count, const First& first, const Second& second) {
  std::atomic<std::size_t> next = 0;
  const auto some = [&](const auto& work) {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  run_concurrently(
      worth, [&] { some(first); }, [&] { some(second); });
}

// The same by one `work` that has nothing for itself.
template <class Work>
void parallel_for(bool worth, std::size_t count, const Work& work) {
  parallel_for(worth, count, work, work);
}

}  // namespace trainyard
