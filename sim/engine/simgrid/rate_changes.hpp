// Which links may carry another rate than when they were last looked at.
//
// In max-min fairness a flow that starts or ends changes the rates of those it shares a link with,
// these those of theirs, and no others: flows that are joined to it by no flow of shared links
// keep their rates. Of thousands of links a step holds busy, one event reaches a few dozen.
//
//   changes.started(flow_class);
//   for (const std::uint32_t link : changes.take()) look_at(platform.links[link]);
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
  // Its own limit is another one now; nothing happens where it is not alive.
  void limited(std::uint32_t flow_class);

  // The links (of Platform::links) that what happened since the last call can have reached, each
  // once; valid until the next call.
  [[nodiscard]] const std::vector<std::uint32_t>& take();
  // Forgets the changes as if all links had been looked at.
  void forget() { changed_.clear(); }

 private:
  struct FlowState {
    std::uint32_t alive = 0;       // how many of the class
    bool listed = false;           // stands in flows_on_ of all its links
    bool ending = false;           // stands in ending_
    std::uint32_t reached_at = 0;  // the number of the call
  };

  template <class Visit>
  void for_each_link(std::uint32_t flow_class, const Visit& visit) const;
  void reach_links_of(std::uint32_t flow_class);
  void reach_flows_on(std::uint32_t link);

  const Platform& platform_;
  const LinkSets& sets_;
  std::vector<FlowState> flows_;                      // by class
  std::vector<std::vector<std::uint32_t>> flows_on_;  // by link
  std::vector<std::uint32_t> changed_;                // flow classes since the last call
  // Flow classes that were no longer alive at some moment. They leave the lists of their links when
  // those are gone through anyhow: often they are alive again before.
  std::vector<std::uint32_t> ending_;
  std::vector<std::uint32_t> reached_;          // links
  std::vector<std::uint32_t> link_reached_at_;  // by link: the number of the call
  std::uint32_t call_ = 0;
};

}  // namespace trainyard
