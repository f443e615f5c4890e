// A worker process of `trainyard serve`: reads requests from standard input and writes what it
// finds to standard output, one JSON object on each line.
//
//    in    {"kind": "run", ...}       a request (answers.hpp)
//          {"cancel": true}           ends the request that is being answered
//    out   {"progress": 0.25}         as often as the work says so
//          {"row": {...}}             a part of the answer
//          {"answer": {...}}          the end of a request, or
//          {"error": {"kind": "input", "problems": [{"pointer", "problem", "hint"}]}}
//
// SimGrid has one engine per process, so the server simulates in processes. A worker keeps the
// stages of its runs in a memo: a change of one field costs what depends on that field.
#pragma once

#include <cstdint>

namespace trainyard::serve {

struct WorkerLimits {
  std::uint64_t most_gpus = 0;
  std::uint64_t most_bytes = 0;  // of address space; 0: no limit
  bool background = false;       // lower priority, for work that nobody waits for
};

// Returns when standard input ends. From here on this process reads no file outside the data
// folders.
void serve_requests(const WorkerLimits& limits);

}  // namespace trainyard::serve
