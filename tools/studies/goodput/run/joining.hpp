// Nodes on their way into a job that trains on without the ones that it has lost.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "tools/studies/goodput/run/job.hpp"
#include "tools/studies/goodput/run/nodes.hpp"

namespace trainyard {

class JoiningNodes {
 public:
  // REQUIRES: both outlive the object.
  JoiningNodes(const Job& job, Nodes& nodes) : job_(job), nodes_(nodes) {}

  // So many slots more are empty.
  void need(std::int64_t slots) { unserved_ += slots; }
  // Each node that stands by takes a slot after a time, then each from elsewhere; a repaired one
  // later takes the next slot.
  void schedule(double now);
  [[nodiscard]] bool needs_repair() const { return unserved_ > 0; }
  // When the next node is ready; infinite without one.
  [[nodiscard]] double next_ready() const;
  // That node is ready. It waits for the end of the step under way.
  void make_ready();
  [[nodiscard]] bool any_ready() const { return ready_spares_ + ready_others_ > 0; }
  // Nodes that are ready take their slots.
  void join();
  // A full restart places all nodes anew. Those on their way count as standing by or elsewhere.
  void clear();

 private:
  using Join = std::pair<double, bool>;  // when, and whether from elsewhere

  const Job& job_;
  Nodes& nodes_;
  std::priority_queue<Join, std::vector<Join>, std::greater<>> joins_;
  std::int64_t unserved_ = 0;      // empty slots for which there is no node yet
  std::int64_t reserved_ = 0;      // spare nodes that are on their way or ready
  std::int64_t coming_ = 0;        // the same from elsewhere
  std::int64_t ready_spares_ = 0;  // of reserved_
  std::int64_t ready_others_ = 0;  // of coming_
};

}  // namespace trainyard
