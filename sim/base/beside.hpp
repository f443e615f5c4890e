// Two pieces of work that share nothing they write, at the same time.
//
//   const auto sums = beside(links > kMany, [&] { count(); }, [&] { return add_up(); });
#pragma once

#include <future>
#include <type_traits>
#include <utility>

namespace trainyard {

// Does `first` on a second thread, where that is `worth` starting one, and `second` on this one;
// returns what `second` does when both are done. Throws what either throws, that of `second` before
// that of `first`. REQUIRES: neither writes what the other reads or writes, caches included.
template <class First, class Second>
auto beside(bool worth, First first, Second second) {
  std::future<void> other =
      std::async(worth ? std::launch::async : std::launch::deferred, std::move(first));
  if constexpr (std::is_void_v<decltype(second())>) {
    second();
    other.get();
  } else {
    auto result = second();
    other.get();
    return result;
  }
}

}  // namespace trainyard
