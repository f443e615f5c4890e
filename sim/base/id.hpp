// Typed numbers for things of one kind: links, devices. An Id converts to its number, so it can
// index tables and be compared. It does not convert to an Id of another kind, and a number that is
// only known at run time becomes an Id only by an explicit conversion.
//
//    using LinkId = Id<struct LinkTag>;
//    LinkId link = 0;        // a constant
//    link = LinkId{number};  // anything else
//    link + 1;               // the next link
//    capacities[link];
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
  // For sizes and differences. REQUIRES: the number fits into 32 bits.
  template <std::integral Number>
    requires(!std::same_as<Number, int> && !std::same_as<Number, std::uint32_t>)
  explicit constexpr Id(Number number) : number_(static_cast<std::uint32_t>(number)) {}
  // A constant converts implicitly: a literal, or kNone.
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
  // The id `offset` numbers later. The difference of two ids is a plain number.
  template <class Offset>
    requires std::same_as<Offset, int> || std::same_as<Offset, std::uint32_t>
  friend constexpr Id operator+(Id id, Offset offset) {
    return Id(id.number_ + static_cast<std::uint32_t>(offset));
  }

 private:
  std::uint32_t number_ = 0;
};

// Writes an id to JSON as its number (nlohmann/json finds this function by its name).
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
