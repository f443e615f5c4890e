// Long lists of numbers, stored as arithmetic series. The numbers of regular hardware form few
// series.
//
//    StridedList<int> list;              // the tag holds other data that a series shares
//    list.append({.first = 5, .step = 23, .count = 64}, 0);
//    list.append({.first = 1477}, 0);    // continues the series: still one piece
//    list[63];                           // 1454
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace trainyard {

// first, first + step, ... modulo 2^32, so that a series may also descend.
struct StridedRange {
  std::uint32_t first = 0;
  std::uint32_t step = 0;
  std::uint32_t count = 1;

  [[nodiscard]] std::uint32_t operator[](std::uint32_t i) const { return first + i * step; }
  [[nodiscard]] std::uint32_t last() const { return (*this)[count - 1]; }
  // Appends `more` if the result is one arithmetic series; else returns false. A series of one
  // number accepts any step. REQUIRES: neither is empty.
  bool extend(const StridedRange& more) {
    const std::uint32_t apart = more.first - last();
    if ((count > 1 && apart != step) || (more.count > 1 && apart != more.step)) return false;
    step = apart;
    count += more.count;
    return true;
  }
  bool operator==(const StridedRange&) const = default;
};

// The numbers of several series, one series after the other.
class StridedSpan {
 public:
  class Iterator {
   public:
    using difference_type = std::ptrdiff_t;
    using value_type = std::uint32_t;
    Iterator() = default;
    explicit Iterator(const StridedRange* range) : range_(range) {}
    std::uint32_t operator*() const { return (*range_)[place_]; }
    Iterator& operator++() {
      if (++place_ == range_->count) *this = Iterator(range_ + 1);
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator&) const = default;

   private:
    const StridedRange* range_ = nullptr;
    std::uint32_t place_ = 0;
  };

  StridedSpan() = default;
  // REQUIRES: no series is empty; `size` is the total of their counts.
  StridedSpan(std::span<const StridedRange> range, std::size_t size) : range_(range), size_(size) {}
  [[nodiscard]] Iterator begin() const { return Iterator(range_.data()); }
  [[nodiscard]] Iterator end() const { return Iterator(range_.data() + range_.size()); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }

 private:
  std::span<const StridedRange> range_;
  std::size_t size_ = 0;
};

// The tag of series that share no other data.
struct NoTag {
  bool operator==(const NoTag&) const = default;
};

// One long list, in pieces. Access by index scans at most the pieces that begin within 16 numbers.
template <class Tag>
class StridedList {
 public:
  struct Piece {
    std::uint32_t begin = 0;  // index of its first number in the list
    StridedRange range = {};
    Tag tag = {};
  };

  // REQUIRES: the series is not empty.
  void append(const StridedRange& range, const Tag& tag) {
    if (pieces_.empty() || !(pieces_.back().tag == tag) || !pieces_.back().range.extend(range))
      pieces_.push_back({size_, range, tag});
    size_ += range.count;
    hints_.resize((std::size_t{size_} + kTogether - 1) / kTogether,
                  static_cast<std::uint32_t>(pieces_.size() - 1));
  }
  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] std::span<const Piece> pieces() const { return pieces_; }
  // REQUIRES: `place` is an index, below size().
  [[nodiscard]] const Piece& piece_at(std::uint32_t place) const {
    const Piece* piece = &pieces_[hints_[place / kTogether]];
    const Piece* const last = &pieces_.back();
    while (piece != last && (piece + 1)->begin <= place) ++piece;
    return *piece;
  }
  [[nodiscard]] std::uint32_t operator[](std::uint32_t place) const {
    const Piece& piece = piece_at(place);
    return piece.range[place - piece.begin];
  }

 private:
  static constexpr std::uint32_t kTogether = 16;
  std::vector<Piece> pieces_;
  std::vector<std::uint32_t> hints_;  // by multiple of 16: the piece that holds that index
  std::uint32_t size_ = 0;
};

// Many lists that grow in turns. Each list keeps the order of its own appends.
template <class Tag>
class StridedGroups {
 public:
  explicit StridedGroups(std::size_t groups = 0) : ends_(groups) {}

  // `group` may be size(), which adds a group. REQUIRES: the series is not empty.
  void append(std::size_t group, const StridedRange& range, const Tag& tag) {
    if (group == ends_.size()) ends_.emplace_back();
    Ends& ends = ends_[group];
    if (ends.last != kNoPiece) {
      Piece& last = pieces_[ends.last];
      if (last.tag == tag && last.range.extend(range)) return;
    }
    const auto next = static_cast<std::uint32_t>(pieces_.size());
    (ends.last == kNoPiece ? ends.first : pieces_[ends.last].next) = next;
    ends.last = next;
    pieces_.push_back({range, tag});
  }
  [[nodiscard]] std::size_t size() const { return ends_.size(); }
  // Calls use(series, tag) for each series of the group.
  template <class Use>
  void for_each(std::size_t group, Use use) const {
    for (std::uint32_t at = ends_[group].first; at != kNoPiece; at = pieces_[at].next)
      use(pieces_[at].range, pieces_[at].tag);
  }

 private:
  static constexpr std::uint32_t kNoPiece = std::numeric_limits<std::uint32_t>::max();
  struct Piece {
    StridedRange range = {};
    Tag tag = {};
    std::uint32_t next = kNoPiece;  // next piece of the same group
  };
  struct Ends {
    std::uint32_t first = kNoPiece;
    std::uint32_t last = kNoPiece;
  };
  std::vector<Ends> ends_;  // by group
  std::vector<Piece> pieces_;
};

}  // namespace trainyard
