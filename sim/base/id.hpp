// Numbers that name things of one kind: a link, a device. An id reads as its number, so it indexes
// tables and compares as one; but no id becomes one of another kind, and no number that is only
// known at run time becomes an id, without saying so.
//
//   using LinkId = Id<struct LinkTag>;
//   LinkId link = 0;        // a constant
//   link = LinkId{number};  // anything else
//   link + 1;               // the next link
//   capacities[link];
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

namespace trainyard {

template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  explicit constexpr Id(std::uint32_t number) : number_(number) {}
  // Sizes and differences. REQUIRES: the number fits.
  template <std::integral Number>
    requires(!std::same_as<Number, int> && !std::same_as<Number, std::uint32_t>)
  explicit constexpr Id(Number number) : number_(static_cast<std::uint32_t>(number)) {}
  // A constant becomes an id by itself: a literal, or kNone.
  template <class Constant>
    requires std::same_as<Constant, int> || std::same_as<Constant, std::uint32_t>
  consteval Id(Constant number) : number_(static_cast<std::uint32_t>(number)) {}

  constexpr operator std::uint32_t() const { return number_; }

  constexpr Id& operator++() {
    ++number_;
    return *this;
  }
  constexpr Id& operator+=(std::uint32_t offset) {
    number_ += offset;
    return *this;
  }
  // The id so many behind. A difference of two is a number.
  template <class Offset>
    requires std::same_as<Offset, int> || std::same_as<Offset, std::uint32_t>
  friend constexpr Id operator+(Id id, Offset offset) {
    return Id(id.number_ + static_cast<std::uint32_t>(offset));
  }

 private:
  std::uint32_t number_ = 0;
};

// In JSON an id is its number (nlohmann/json finds this by its name).
template <class Json, class Tag>
void to_json(Json& json, Id<Tag> id) {
  json = static_cast<std::uint32_t>(id);
}

}  // namespace trainyard

template <class Tag>
struct std::hash<trainyard::Id<Tag>> {
  std::size_t operator()(trainyard::Id<Tag> id) const noexcept {
    return std::hash<std::uint32_t>{}(id);
  }
};

template <class Tag>
struct std::numeric_limits<trainyard::Id<Tag>> : std::numeric_limits<std::uint32_t> {
  static constexpr trainyard::Id<Tag> min() noexcept { return 0; }
  static constexpr trainyard::Id<Tag> max() noexcept {
    return std::numeric_limits<std::uint32_t>::max();
  }
};

template <class Tag>
struct fmt::formatter<trainyard::Id<Tag>> : fmt::formatter<std::uint32_t> {
  template <class Context>
  auto format(trainyard::Id<Tag> id, Context& context) const {
    return fmt::formatter<std::uint32_t>::format(id, context);
  }
};
