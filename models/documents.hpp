// Documents packed into the sequences of a microbatch: attention stays within a document, so that
// its work follows from the sum of their squares.
//
//   microbatch_documents(document_draw(plan), {.microbatch = 3});   // {4096, 1024, 3072}
//
// Everything but attention works on tokens and does not see them. A sequence of s tokens in
// documents of l_i has sum l_i (l_i + 1)/2 pairs of query and key instead of s (s + 1)/2: four of
// 2048 make 8 392 704, a quarter of the 33 558 528 of one of 8192
// (tests/models/lower/documents_test.cpp).
#pragma once

#include <cstdint>
#include <vector>

namespace trainyard {

struct TrainingPlan;

// None: a sequence is one document. List: every sequence is packed as listed. Lognormal: lengths
// are drawn, with the mean given, until a sequence is full; the last one is cut.
enum class DocumentKind : std::uint8_t { None, List, Lognormal };

struct Documents {
  DocumentKind kind = DocumentKind::None;
  std::vector<std::int64_t> lengths = {};  // List: they add up to the sequence
  std::int64_t mean_length = 0;            // Lognormal
  double sigma = 1.0;                      // Lognormal: of the logarithm of the length
  // Replicas draw documents of their own; otherwise all see the same ones.
  bool independent_replicas = true;

  [[nodiscard]] bool drawn() const { return kind == DocumentKind::Lognormal; }

  bool operator==(const Documents&) const = default;
};

// The source of a microbatch's documents, and its size.
struct DocumentDraw {
  const Documents& documents;
  std::uint64_t seed = 0;
  std::int64_t sequences = 1;
  std::int64_t length = 0;  // of a sequence
};
[[nodiscard]] DocumentDraw document_draw(const TrainingPlan& plan);

struct DocumentsOf {
  std::int64_t microbatch = 0;
  std::int64_t replica = 0;
};
// The lengths of all documents of a microbatch, sequence by sequence. One of the whole length for
// each sequence where nothing is packed. The same for the same seed.
[[nodiscard]] std::vector<std::int64_t> microbatch_documents(const DocumentDraw& draw,
                                                             const DocumentsOf& of);

// Pairs of query and key within the documents: sum l (l + 1)/2.
[[nodiscard]] std::int64_t document_pairs(const std::vector<std::int64_t>& lengths);

}  // namespace trainyard
