// Finds the links whose rate may have changed since they were last looked at.
//
// In max-min fairness a flow that starts or ends changes the rates of the flows it shares a link
// with. Those change the rates of the flows they share links with, and so on. Flows that no
// sequence of shared links joins to it keep their rates. A step keeps thousands of links busy; one
// event reaches a few dozen of them.
//
//    changes.started(flow_class);
//    for (const std::uint32_t link : changes.take()) use(platform.links[link]);
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/link_sets.hpp"
#include "sim/engine/simgrid/platform.hpp"

namespace trainyard {

class RateChanges {
 public:
  // REQUIRES: both outlive this.
  RateChanges(const Platform& platform, const LinkSets& sets);

  void started(std::uint32_t flow_class);
  void ended(std::uint32_t flow_class);
  // The cap of the flow class itself has changed. Does nothing where no flow of the class is alive.
  void limited(std::uint32_t flow_class);

  // Returns the links (of Platform::links) that the changes since the last call can have reached,
  // each once. The result is valid until the next call.
  [[nodiscard]] const std::vector<std::uint32_t>& take();
  // Drops the changes, for a caller that needs none of their links.
  void forget() { changed_.clear(); }

 private:
  struct FlowState {
    std::uint32_t alive = 0;       // number of alive flows of the class
    bool listed = false;           // it is in flows_on_ of all its links
    bool ending = false;           // it is in ending_
    std::uint32_t reached_at = 0;  // the number of the call that reached it
  };

  template <class Visit>
  void for_each_link(std::uint32_t flow_class, const Visit& visit) const;
  void reach_links_of(std::uint32_t flow_class);
  void reach_flows_on(std::uint32_t link);

  const Platform& platform_;
  const LinkSets& sets_;
  std::vector<FlowState> flows_;                      // indexed by class
  std::vector<std::vector<std::uint32_t>> flows_on_;  // indexed by link: flow classes
  std::vector<std::uint32_t> changed_;  // flow classes that have changed since the last call
  // Flow classes with no flow alive at some moment. They are removed from the lists of their links
  // only when take() goes through those lists anyway: often a flow of the class is alive again by
  // then.
  std::vector<std::uint32_t> ending_;
  std::vector<std::uint32_t> reached_;          // links
  std::vector<std::uint32_t> link_reached_at_;  // by link: the number of the call that reached it
  std::uint32_t call_ = 0;
};

}  // namespace trainyard
