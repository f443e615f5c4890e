#include "models/lower/interner.hpp"

#include <algorithm>

namespace trainyard {

std::uint16_t Interner::name(std::string_view text) {
  auto known = names_.find(text);
  if (known == names_.end()) {
    known = names_.emplace(text, static_cast<std::uint16_t>(workload_.names.size())).first;
    workload_.names.emplace_back(text);
    kernel_sequence_.last.push_back(kNone);
    call_sequence_.last.push_back(kNone);
  }
  return known->second;
}

namespace {

// The number of `value` among `all`, where it is put if it is new.
template <class Value>
std::uint32_t looked_up(const Value& value, std::vector<Value>& all,
                        std::map<Value, std::uint32_t>& numbers) {
  const auto [entry, fresh] = numbers.try_emplace(value, static_cast<std::uint32_t>(all.size()));
  if (fresh) all.push_back(value);
  return entry->second;
}

}  // namespace

template <class Value>
std::uint32_t Interner::numbered(const Value& value, std::vector<Value>& all,
                                 std::map<Value, std::uint32_t>& numbers, Sequence& sequence,
                                 std::uint16_t name) {
  std::uint32_t& last = sequence.last[name];
  const std::uint32_t expected = last == kNone ? kNone : sequence.next[last];
  if (expected != kNone && all[expected] == value) return last = expected;
  const std::uint32_t found = looked_up(value, all, numbers);
  sequence.next.resize(all.size(), kNone);
  if (last != kNone) sequence.next[last] = found;
  return last = found;
}

std::uint32_t Interner::kernel(const Kernel& kernel, std::uint16_t name) {
  return numbered(kernel, workload_.kernels, kernels_, kernel_sequence_, name);
}

std::uint32_t Interner::call(const Call& call, std::uint16_t name) {
  return numbered(call, workload_.calls, calls_, call_sequence_, name);
}

std::uint32_t Interner::call(const CallKey& key, const std::function<Call()>& make) {
  const auto [entry, fresh] = calls_by_key_.try_emplace(key, kNone);
  if (fresh) entry->second = looked_up(make(), workload_.calls, calls_);
  return entry->second;
}

std::uint32_t Interner::delay(Seconds time) {
  const auto known = std::ranges::find(workload_.delays, time);
  const auto index = static_cast<std::uint32_t>(known - workload_.delays.begin());
  if (known == workload_.delays.end()) workload_.delays.push_back(time);
  return index;
}

}  // namespace trainyard
