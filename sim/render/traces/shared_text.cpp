#include "sim/render/traces/shared_text.hpp"

namespace trainyard {

void SharedText::clear() {
  text_.clear();
  places_.clear();
}

void SharedText::write(std::span<const std::string> values, OutputStream& out) const {
  const std::string_view text = text_;
  std::size_t written = 0;
  for (const Place& place : places_) {
    out.write(text.substr(written, place.offset - written));
    out.write(values[place.value]);
    written = place.offset;
  }
  out.write(text.substr(written));
}

}  // namespace trainyard
