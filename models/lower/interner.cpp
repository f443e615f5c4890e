#include "models/lower/interner.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace trainyard {

std::uint16_t Interner::name(std::string_view text) {
  auto known = names_.find(text);
  if (known == names_.end()) {
    known = names_.emplace(text, static_cast<std::uint16_t>(workload_.names.size())).first;
    workload_.names.emplace_back(text);
  }
  return known->second;
}

namespace {

// Returns the number of `value` among `all`, where it is put if it is new.
template <class Value>
std::uint32_t number_of(const Value& value, std::vector<Value>& all,
                        std::map<Value, std::uint32_t>& numbers) {
  const auto [entry, fresh] = numbers.try_emplace(value, static_cast<std::uint32_t>(all.size()));
  if (fresh) all.push_back(value);
  return entry->second;
}

}  // namespace

std::uint32_t Interner::kernel(const Kernel& kernel) {
  return number_of(kernel, workload_.kernels, kernels_);
}

std::uint32_t Interner::call(const Call& call) { return number_of(call, workload_.calls, calls_); }

std::uint32_t Interner::call(const CallKey& key, const std::function<Call()>& make) {
  const auto [entry, fresh] = calls_by_key_.try_emplace(key, kNone);
  if (fresh) entry->second = number_of(make(), workload_.calls, calls_);
  return entry->second;
}

void Interner::note_choice(std::uint16_t slot, CollectiveOp op, const std::string& field) {
  if (field.empty()) return;
  const auto [known, fresh] = workload_.chosen_fields.try_emplace({slot, op}, field);
  TY_CHECK(known->second == field, slot);
}

std::uint32_t Interner::delay(Seconds time) {
  const auto known = std::ranges::find(workload_.delays, time);
  const auto index = static_cast<std::uint32_t>(known - workload_.delays.begin());
  if (known == workload_.delays.end()) workload_.delays.push_back(time);
  return index;
}

}  // namespace trainyard
