// A memo keeps what the stages of a simulation gave: a stage with equal inputs is not run again.
//
// A stage is a function of its inputs alone. Its value is found by its type and by comparing the
// inputs, so the digits are those of a run that starts afresh. Data files count as inputs by their
// names: a memo holds for their contents as they were first read.
//
//   Memo memo;
//   const auto cluster = memo.get<Cluster>([&] { return build_cluster(spec); }, spec);
//
// Several threads may use one memo. Who asks for a value that another thread is finding waits for
// it.
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

namespace trainyard {

class Memo {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{1} << 30U;

  // Values of more than `most_bytes` together are not kept: those used least lately go first. They
  // live on with whoever holds them. A memo of 0 bytes keeps neither values nor inputs.
  explicit Memo(std::size_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  // The value that make() returns, or returned for equal inputs; it may return a shared one. A
  // value says by footprint(value) how many bytes it holds, about; one that stands under two keys
  // counts twice. Throws what make() throws, and keeps nothing then. REQUIRES: make() asks for no
  // value of its own type and inputs.
  template <class Value, class Make, class... Inputs>
  [[nodiscard]] std::shared_ptr<const Value> get(const Make& make, const Inputs&... inputs);

  // Bytes of the values kept.
  [[nodiscard]] std::size_t bytes() const;

 private:
  using Held = std::shared_ptr<const void>;
  struct Entry {
    std::type_index type;                // of value and inputs
    std::shared_ptr<const void> inputs;  // a tuple
    std::shared_future<Held> value;
    std::size_t bytes = 0;     // 0: it is being found
    std::uint64_t used = 0;    // counts up
    std::uint64_t number = 0;  // names the entry
  };

  template <class Value>
  static std::shared_ptr<const Value> shared(std::shared_ptr<const Value> value) {
    return value;
  }
  template <class Value>
  static std::shared_ptr<const Value> shared(Value value) {
    return std::make_shared<const Value>(std::move(value));
  }

  // The value of an entry of that type for whose inputs `same` holds; an invalid future, and a
  // fresh entry, where there is none.
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
  if (known.valid()) return std::static_pointer_cast<const Value>(known.get());
  try {
    const std::shared_ptr<const Value> value = shared<Value>(make());
    keep(number, footprint(*value));
    promise.set_value(value);
    return value;
  } catch (...) {
    forget(number);
    promise.set_exception(std::current_exception());
    throw;
  }
}

}  // namespace trainyard
