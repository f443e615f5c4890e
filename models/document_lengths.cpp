#include "models/document_lengths.hpp"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <limits>

#include "sim/base/check.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A part of the distribution, from one normal quantile to another, in which the logarithm of the
// length is `at_zero + sigma * normal`.
struct LognormalPart {
  double from = 0.0;
  double to = 0.0;
  double at_zero = 0.0;
  double sigma = 0.0;

  [[nodiscard]] double crosses(double length) const { return (std::log(length) - at_zero) / sigma; }
};

double probability_below(double normal) {
  if (std::isinf(normal)) return normal < 0.0 ? 0.0 : 1.0;
  return cdf(boost::math::normal(), normal);
}

double probability(double from, double to) {
  return probability_below(to) - probability_below(from);
}

// The part above a quantile, by its number. The first one also continues below its quantile.
LognormalPart lognormal_part(const DocumentLengths& lengths, std::size_t i) {
  const auto& known = lengths.quantiles;
  const bool is_last = i + 1 == known.size();
  const double sigma = is_last ? lengths.tail_sigma
                               : (known[i + 1].logarithm - known[i].logarithm) /
                                     (known[i + 1].normal - known[i].normal);
  return {.from = i == 0 ? -kInfinity : known[i].normal,
          .to = is_last ? kInfinity : known[i + 1].normal,
          .at_zero = known[i].logarithm - sigma * known[i].normal,
          .sigma = sigma};
}

// Returns the share of the mean that a part adds. Lengths outside [shortest, longest] count as
// these. In between, the mean of exp(a + s z) from z0 to z1 is exp(a + s^2/2) (F(z1 - s) - F(z0 -
// s)).
double part_of_mean(const LognormalPart& part, const DocumentLengths& lengths) {
  const double first = std::clamp(part.crosses(lengths.shortest), part.from, part.to);
  const double last = std::clamp(part.crosses(lengths.longest), part.from, part.to);
  return lengths.shortest * probability(part.from, first) +
         std::exp(part.at_zero + part.sigma * part.sigma / 2.0) *
             probability(first - part.sigma, last - part.sigma) +
         lengths.longest * probability(last, part.to);
}

// Reads the quantiles, whose shares and lengths increase.
std::vector<DocumentLengths::Quantile> read_quantiles(JsonObject& root) {
  std::vector<DocumentLengths::Quantile> quantiles;
  double share = 0.0;
  double tokens = 1.0;
  for (JsonObject& entry : root.objects("quantiles")) {
    const double least_share = std::nextafter(share, 1.0);
    share = entry.number("share", {.least = least_share, .most = std::nextafter(1.0, 0.0)});
    tokens = entry.number("tokens", {.least = std::nextafter(tokens, kInfinity)});
    if (share >= least_share && share < 1.0 && tokens > 0.0)
      quantiles.push_back({quantile(boost::math::normal(), share), std::log(tokens)});
  }
  if (quantiles.size() < 2) root.report("quantiles", "has fewer than two", "give two or more");
  return quantiles;
}

}  // namespace

double DocumentLengths::at(double normal) const {
  TY_CHECK(quantiles.size() >= 2, quantiles.size());
  std::size_t i = 0;
  while (i + 1 < quantiles.size() && normal > quantiles[i + 1].normal) ++i;
  const LognormalPart part = lognormal_part(*this, i);
  return std::clamp(std::exp(part.at_zero + part.sigma * normal), shortest, longest);
}

double DocumentLengths::mean() const {
  double sum = 0.0;
  for (std::size_t i = 0; i < quantiles.size(); ++i)
    sum += part_of_mean(lognormal_part(*this, i), *this);
  return sum;
}

DocumentLengths load_document_lengths(const std::string& name) {
  JsonFile file = JsonFile::read(data_file("models/documents", name));
  JsonObject root = file.root();
  static_cast<void>(root.text("title"));
  static_cast<void>(root.text("source"));
  root.ignore("mean");  // as published; the tests compare it with mean()
  DocumentLengths lengths{.quantiles = read_quantiles(root)};
  lengths.shortest = root.number("shortest", {.least = 1.0});
  lengths.longest = root.number("longest", {.least = lengths.shortest});
  const bool has_tail = root.has("tail_sigma");
  if (has_tail) lengths.tail_sigma = root.number("tail_sigma", {.least = 0.01, .most = 10.0});
  file.finish();
  const auto& known = lengths.quantiles;
  if (!has_tail) {
    const DocumentLengths::Quantile& before = known[known.size() - 2];
    lengths.tail_sigma =
        (known.back().logarithm - before.logarithm) / (known.back().normal - before.normal);
  }
  return lengths;
}

}  // namespace trainyard
