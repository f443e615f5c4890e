// The measured distribution of the lengths of a corpus's documents, as some of its quantiles.
//
// Sources print a few quantiles, or a histogram. Between two of them the length is lognormal: the
// logarithm of the length is linear in the quantile of the standard normal distribution, so two
// quantiles make exactly a lognormal distribution. Below the first quantile and above the last one
// the nearest line continues, within the shortest and the longest document. A preset may give the
// slope above the last quantile (`tail_sigma`), where the source also prints the mean.
//
//    const DocumentLengths web = load_document_lengths("txt360_web");
//    web.at(0.0);   // 622, the median
//    web.mean();    // 1003.6
#pragma once

#include <string>
#include <vector>

namespace trainyard {

struct DocumentLengths {
  struct Quantile {
    double normal = 0.0;     // quantile of the standard normal distribution
    double logarithm = 0.0;  // of the length in tokens
    bool operator==(const Quantile&) const = default;
  };
  std::vector<Quantile> quantiles = {};  // in increasing order; empty: no distribution
  double tail_sigma = 0.0;               // slope above the last quantile
  double shortest = 0.0;                 // tokens
  double longest = 0.0;

  // The length, in tokens, that corresponds to a number from the standard normal distribution.
  [[nodiscard]] double at(double normal) const;
  [[nodiscard]] double mean() const;

  bool operator==(const DocumentLengths&) const = default;
};

// Reads models/documents/<name>.json. Throws InputError.
[[nodiscard]] DocumentLengths load_document_lengths(const std::string& name);

}  // namespace trainyard
