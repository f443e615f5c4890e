// Small searches that the tests of this folder share.
#pragma once

#include <string>
#include <vector>

#include "tools/studies/search/search.hpp"

namespace trainyard::test {

inline std::string scenario(const std::string& name) {
  return TRAINYARD_SOURCE_DIRECTORY "/scenarios/" + name;
}

// A small space, all of whose layouts the tests simulate as well.
inline SearchSpace of_four_layers() {
  SearchSpace space{
      .scenario = {.file = scenario("what_if/tensor.json")},
      .over = {axis_of({"parallelism.tensor=2,8"}), axis_of({"parallelism.pipeline=1,2"}),
               axis_of({"training.micro_batch_size=1,2"}), axis_of({"parallelism.context=1,2"})}};
  space.scenario.changes = {
      {"training.global_batch_size", "16"},
      {"model",
       R"({"name": "small", "layers": 4, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336,
           "vocab": 128256, "max_positions": 16384, "source": "of our own"})"}};
  return space;
}

inline SearchResult searched(const SearchSpace& space, bool exhaustive, std::size_t processes) {
  Journal journal("");
  return search({.space = space,
                 .journal = journal,
                 .top = 5,
                 .exhaustive = exhaustive,
                 .processes = processes});
}

inline const SearchResult& found() {
  static const SearchResult kFound = searched(of_four_layers(), false, 2);
  return kFound;
}

inline std::vector<std::string> names(const std::vector<FoundLayout>& layouts) {
  std::vector<std::string> all;
  for (const FoundLayout& one : layouts) all.push_back(layout_name(one.layout));
  return all;
}

}  // namespace trainyard::test
