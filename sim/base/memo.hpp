// A cache for the results of simulation stages (memoization): a stage with equal inputs runs only
// once.
//
// A stage is a function of its inputs alone. The cache finds a value by its type and by a
// comparison of all inputs, so results are identical to those of a run without it. Data files are
// inputs by name only: a Memo is valid for their contents as first read.
//
//    Memo memo;
//    const auto cluster = memo.get<Cluster>([&] { return build_cluster(spec); }, spec);
//
// Thread-safe. A caller waits for a value that another thread is computing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <tuple>
#include <typeindex>
#include <utility>
#include <vector>

#include "sim/base/data_use.hpp"

namespace trainyard {

class Memo {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{1} << 30U;

  // The total size of cached values is limited to `most_bytes`; the least recently used ones are
  // evicted. Callers that hold an evicted value keep it alive. A Memo of 0 bytes caches neither
  // values nor inputs.
  explicit Memo(std::size_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  // Returns the value of make(), or the earlier one for equal inputs. make() may return a
  // shared_ptr. footprint(value) estimates the bytes of a value; a value under two keys counts
  // twice. If make() throws, the exception propagates and nothing is cached. REQUIRES: make() does
  // not request a value of its own type and inputs.
  template <class Value, class Make, class... Inputs>
  [[nodiscard]] std::shared_ptr<const Value> get(const Make& make, const Inputs&... inputs);

  // Total bytes of the cached values.
  [[nodiscard]] std::size_t bytes() const;

 private:
  struct Held {
    std::shared_ptr<const void> value;
    std::vector<OwnDataFile> files = {};  // of the user, that the value was made of
  };
  struct Entry {
    std::type_index type;                // of value and inputs
    std::shared_ptr<const void> inputs;  // a tuple of the inputs
    std::shared_future<Held> value;
    std::size_t bytes = 0;     // 0: it is being computed
    std::uint64_t used = 0;    // clock of the last use
    std::uint64_t number = 0;  // identifies the entry
  };

  template <class Value>
  static std::shared_ptr<const Value> shared(std::shared_ptr<const Value> value) {
    return value;
  }
  template <class Value>
  static std::shared_ptr<const Value> shared(Value value) {
    return std::make_shared<const Value>(std::move(value));
  }

  // Returns the value of the entry of the same type for whose inputs `same` is true. If there is
  // none, adds `fresh` and returns an invalid future.
  std::shared_future<Held> find_or_add(const std::function<bool(const void*)>& same, Entry fresh,
                                       std::uint64_t& number);
  void keep(std::uint64_t number, std::size_t bytes);
  void forget(std::uint64_t number);

  mutable std::mutex mutex_;
  std::list<Entry> entries_;
  std::size_t most_bytes_;
  std::size_t bytes_ = 0;
  std::uint64_t clock_ = 0;
};

template <class Value, class Make, class... Inputs>
std::shared_ptr<const Value> Memo::get(const Make& make, const Inputs&... inputs) {
  if (most_bytes_ == 0) return shared<Value>(make());
  using Key = std::tuple<Inputs...>;
  std::promise<Held> promise;
  std::uint64_t number = 0;
  const std::shared_future<Held> known = find_or_add(
      [&](const void* other) { return *static_cast<const Key*>(other) == std::tie(inputs...); },
      {.type = typeid(std::pair<Value, Key>),
       .inputs = std::make_shared<const Key>(inputs...),
       .value = promise.get_future().share()},
      number);
  if (known.valid()) {
    const Held& held = known.get();
    DataUse::note(held.files);
    return std::static_pointer_cast<const Value>(held.value);
  }
  try {
    const DataUse use;
    const std::shared_ptr<const Value> value = shared<Value>(make());
    keep(number, footprint(*value));
    promise.set_value({value, use.files()});
    return value;
  } catch (...) {
    forget(number);
    promise.set_exception(std::current_exception());
    throw;
  }
}

}  // namespace trainyard
