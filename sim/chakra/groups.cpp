#include "sim/chakra/groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "sim/base/check.hpp"

namespace trainyard::chakra {

namespace {

struct CollectiveRow {
  std::string_view words;
  std::optional<CollectiveOp> op;
};

// By Chakra's number; the first row of an operation of ours is how we write it.
constexpr std::array<CollectiveRow, 10> kCollectives{
    {{"ALL_REDUCE", CollectiveOp::AllReduce},
     {"REDUCE", CollectiveOp::Reduce},
     {"ALL_GATHER", CollectiveOp::AllGather},
     {"GATHER", {}},
     {"SCATTER", {}},
     {"BROADCAST", CollectiveOp::Broadcast},
     {"ALL_TO_ALL", CollectiveOp::AllToAll},
     {"REDUCE_SCATTER", CollectiveOp::ReduceScatter},
     {"REDUCE_SCATTER_BLOCK", CollectiveOp::ReduceScatter},
     {"BARRIER", CollectiveOp::AllReduce}}};

bool is_row(std::int64_t number) {
  return number >= 0 && number < static_cast<std::int64_t>(kCollectives.size());
}

}  // namespace

std::int64_t collective_number(CollectiveOp op) {
  const auto row = std::find_if(kCollectives.begin(), kCollectives.end(),
                                [op](const CollectiveRow& one) { return one.op == op; });
  TY_CHECK(row != kCollectives.end());
  return row - kCollectives.begin();
}

std::optional<CollectiveOp> collective_of(std::int64_t number) {
  return is_row(number) ? kCollectives[static_cast<std::size_t>(number)].op : std::nullopt;
}

std::string collective_words(std::int64_t number) {
  return is_row(number) ? std::string(kCollectives[static_cast<std::size_t>(number)].words)
                        : fmt::format("type {}", number);
}

std::string group_name(GroupId group) { return fmt::format("{}", std::uint64_t{group} + 1); }

std::int64_t input_bytes(const Call& call, std::size_t members) {
  const std::int64_t bytes = bytes_of(call);
  return op_of(call) == CollectiveOp::AllGather ? bytes / static_cast<std::int64_t>(members)
                                                : bytes;
}

GroupKind kind_of(const std::string& description) {
  std::string words = description;
  std::transform(words.begin(), words.end(), words.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  // An expert's data-parallel group is one of the experts; the words before others decide.
  for (const GroupKind kind : {GroupKind::Expert, GroupKind::Pipeline, GroupKind::Data,
                               GroupKind::Tensor, GroupKind::Context, GroupKind::Host})
    if (words.find(to_string(kind)) != std::string::npos) return kind;
  return GroupKind::Other;
}

}  // namespace trainyard::chakra
