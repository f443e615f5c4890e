#include "sim/base/memo.hpp"

#include <algorithm>

namespace trainyard {

std::shared_future<Memo::Held> Memo::find_or_add(const std::function<bool(const void*)>& same,
                                                 Entry fresh, std::uint64_t& number) {
  const std::scoped_lock lock(mutex_);
  number = ++clock_;
  // The search is linear, because inputs have no hash. The type is compared first: `same` reads the
  // inputs of an entry as its own type.
  for (Entry& entry : entries_) {
    if (entry.type != fresh.type || !same(entry.inputs.get())) continue;
    entry.used = number;
    return entry.value;
  }
  fresh.used = fresh.number = number;
  entries_.push_back(std::move(fresh));
  return {};
}

// A value counts from here on, with at least one byte. Others are evicted, the least recently used
// ones first, until the sum is within the limit. A value above the limit evicts itself.
void Memo::keep(std::uint64_t number, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  const auto kept = std::ranges::find(entries_, number, &Entry::number);
  kept->bytes = std::max<std::size_t>(bytes, 1);
  bytes_ += kept->bytes;
  while (bytes_ > most_bytes_) {
    // Entries under computation (bytes == 0) are not evicted.
    const auto oldest = std::ranges::min_element(entries_, {}, [](const Entry& entry) {
      return entry.bytes == 0 ? UINT64_MAX : entry.used;
    });
    bytes_ -= oldest->bytes;
    entries_.erase(oldest);
  }
}

void Memo::forget(std::uint64_t number) {
  const std::scoped_lock lock(mutex_);
  entries_.erase(std::ranges::find(entries_, number, &Entry::number));
}

std::size_t Memo::bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes_;
}

}  // namespace trainyard
