// Text that several writers have in common but for a few places, which each fills with its own.
//
//   SharedText text;
//   text.append("\"pid\":");
//   text.append_value(0);
//   text.write(values_of_a_rank, out);      // "pid":3
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/render/output_stream.hpp"

namespace trainyard {

class SharedText {
 public:
  void append(std::string_view text) { text_ += text; }
  template <class... Values>
  void print(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Values>(values)...);
  }
  // Here stands the value of that index.
  void append_value(std::size_t index) { places_.push_back({text_.size(), index}); }

  [[nodiscard]] std::size_t size() const { return text_.size(); }
  void clear();
  void write(std::span<const std::string> values, OutputStream& out) const;

 private:
  struct Place {
    std::size_t offset;
    std::size_t value;
  };
  std::string text_;
  std::vector<Place> places_;
};

}  // namespace trainyard
