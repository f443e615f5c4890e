#include "tools/studies/run_log/timestamp.hpp"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cmath>

namespace trainyard {

namespace {

constexpr double kMinute = 60.0;
constexpr double kHour = 3600.0;
constexpr double kDay = 86400.0;

// Reads parts of a text from its front.
class Parts {
 public:
  explicit Parts(std::string_view text) : rest_(text) {}

  [[nodiscard]] bool skip(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  // A number of exactly so many digits, within the range.
  [[nodiscard]] std::optional<int> digits(std::size_t count, int least, int most) {
    int value = 0;
    const std::string_view word = rest_.substr(0, count);
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || word.size() < count || end != word.data() + count) return {};
    // from_chars takes a minus sign, which no part of a date has.
    if (word.front() == '-' || value < least || value > most) return {};
    rest_.remove_prefix(count);
    return value;
  }
  // ".25" or ",25"; 0 without.
  [[nodiscard]] double fraction() {
    if (!rest_.starts_with('.') && !rest_.starts_with(',')) return 0.0;
    double value = 0.0;
    double place = 1.0;
    rest_.remove_prefix(1);
    while (!rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9') {
      place /= 10.0;
      value += place * (rest_.front() - '0');
      rest_.remove_prefix(1);
    }
    return value;
  }
  [[nodiscard]] bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

// Days since 1970-01-01.
std::optional<double> days(Parts& parts) {
  const auto year = parts.digits(4, 1970, 2999);
  if (!year || !parts.skip("-")) return {};
  const auto month = parts.digits(2, 1, 12);
  if (!month || !parts.skip("-")) return {};
  const auto day = parts.digits(2, 1, 31);
  if (!day) return {};
  const std::chrono::year_month_day date(std::chrono::year{*year},
                                         std::chrono::month{static_cast<unsigned>(*month)},
                                         std::chrono::day{static_cast<unsigned>(*day)});
  if (!date.ok()) return {};
  return static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count());
}

std::optional<double> seconds_of_day(Parts& parts) {
  const auto hour = parts.digits(2, 0, 23);
  if (!hour || !parts.skip(":")) return {};
  const auto minute = parts.digits(2, 0, 59);
  if (!minute) return {};
  double seconds = *hour * kHour + *minute * kMinute;
  if (!parts.skip(":")) return seconds;
  // 60 is a leap second, which ISO 8601 allows.
  const auto second = parts.digits(2, 0, 60);
  if (!second) return {};
  return seconds + *second + parts.fraction();
}

// Seconds by which the local time is ahead of UTC.
std::optional<double> zone(Parts& parts) {
  if (parts.empty() || parts.skip("Z") || parts.skip(" UTC")) return 0.0;
  const bool east = parts.skip("+");
  if (!east && !parts.skip("-")) return {};
  const auto hours = parts.digits(2, 0, 14);
  if (!hours) return {};
  // The minutes of the zone may follow a colon ("+05:30"), follow directly ("+0530") or be absent
  // ("+05").
  const bool ends = !parts.skip(":") && parts.empty();
  const auto minutes = ends ? std::optional(0) : parts.digits(2, 0, 59);
  if (!minutes) return {};
  const double ahead = *hours * kHour + *minutes * kMinute;
  return east ? ahead : -ahead;
}

std::optional<Timestamp> date(std::string_view text) {
  Parts parts(text);
  const auto day = days(parts);
  if (!day) return {};
  if (parts.empty()) return Timestamp{*day * kDay, true};
  if (!parts.skip("T") && !parts.skip(" ")) return {};
  const auto seconds = seconds_of_day(parts);
  if (!seconds) return {};
  const auto ahead = zone(parts);
  if (!ahead || !parts.empty()) return {};
  return Timestamp{*day * kDay + *seconds - *ahead, true};
}

}  // namespace

// A plain number is tried first. A date is no plain number, since from_chars stops at its first
// dash, before the end of the text.
std::optional<Timestamp> timestamp(std::string_view text) {
  double seconds = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error == std::errc() && end == text.data() + text.size() && std::isfinite(seconds))
    return Timestamp{seconds, false};
  return date(text);
}

std::string date_text(double unix_s) {
  const auto day = std::chrono::floor<std::chrono::days>(
      std::chrono::sys_seconds(std::chrono::seconds(static_cast<std::int64_t>(unix_s))));
  const std::chrono::year_month_day date(day);
  const auto minutes = static_cast<int>(
      (unix_s - static_cast<double>(day.time_since_epoch().count()) * kDay) / kMinute);
  return fmt::format("{}-{:02}-{:02} {:02}:{:02} UTC", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     minutes / 60, minutes % 60);
}

}  // namespace trainyard
