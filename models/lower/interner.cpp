#include "models/lower/interner.hpp"

#include <algorithm>
#include <bit>

namespace trainyard {

std::uint16_t Interner::name(std::string_view text) {
  Spotted& spot =
      spotted_[(std::bit_cast<std::uintptr_t>(text.data()) ^ text.size()) % spotted_.size()];
  if (spot.at == text.data() && workload_.names[spot.name] == text) return spot.name;
  auto known = names_.find(text);
  if (known == names_.end()) {
    known = names_.emplace(text, static_cast<std::uint16_t>(workload_.names.size())).first;
    workload_.names.emplace_back(text);
    last_kernel_.push_back(kNone);
    last_call_.push_back(kNone);
  }
  spot = {.at = text.data(), .name = known->second};
  return known->second;
}

namespace {

// The number of `value` among `all`, where it is put if it is new; `last` is tried first.
template <class Value>
std::uint32_t numbered(const Value& value, std::vector<Value>& all,
                       std::map<Value, std::uint32_t>& numbers, std::uint32_t& last) {
  if (last != kNone && all[last] == value) return last;
  const auto [entry, fresh] = numbers.try_emplace(value, static_cast<std::uint32_t>(all.size()));
  if (fresh) all.push_back(value);
  last = entry->second;
  return last;
}

}  // namespace

std::uint32_t Interner::kernel(const Kernel& kernel, std::uint16_t name) {
  return numbered(kernel, workload_.kernels, kernels_, last_kernel_[name]);
}

std::uint32_t Interner::call(const Call& call, std::uint16_t name) {
  return numbered(call, workload_.calls, calls_, last_call_[name]);
}

std::uint32_t Interner::call(const CallKey& key, const std::function<Call()>& make) {
  const auto [entry, fresh] = calls_by_key_.try_emplace(key, kNone);
  if (fresh) {
    std::uint32_t none = kNone;
    entry->second = numbered(make(), workload_.calls, calls_, none);
  }
  return entry->second;
}

std::uint32_t Interner::delay(Seconds time) {
  const auto known = std::ranges::find(workload_.delays, time);
  const auto index = static_cast<std::uint32_t>(known - workload_.delays.begin());
  if (known == workload_.delays.end()) workload_.delays.push_back(time);
  return index;
}

}  // namespace trainyard
