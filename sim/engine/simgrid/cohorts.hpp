// Flows that start together and share links with nobody but each other.
//
// What they do to each other is settled when they start: rates are max-min fair until the first
// ends, then anew for the rest (sim/contention/max_min.hpp). The same flows start together again in
// every microbatch, so their ends are worked out once and are timers from then on. When a flow
// comes that shares a link with one of them, the cohort is broken up: what is left of its flows
// becomes company, which SimGrid prices.
//
// A flow in a cohort moves at the rates SimGrid would give it: by links as often as its route lists
// them. Flows must not be slowed by anything else while they are alive.
//
//   Cohorts cohorts(platform, ledger);
//   const Cohorts::Placed& placed = cohorts.place(fresh, now);
//   for (const Cohorts::End& end : placed.ends) ...;         // ends after end.seconds
//   for (const Cohorts::Company& flow : placed.company) ...;  // a Comm with so much to move
//   if (cohorts.finish(end.cohort, end.place)) ...;           // when the time has come
//   cohorts.company_ended(flow_class);
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/contention/max_min.hpp"
#include "sim/engine/link_ledger.hpp"
#include "sim/engine/pricing.hpp"
#include "sim/engine/simgrid/platform.hpp"

namespace trainyard {

class Cohorts {
 public:
  // REQUIRES: both outlive this.
  Cohorts(const Platform& platform, LinkLedger& ledger);

  struct Member {
    Token token = 0;
    std::uint32_t flow_class = 0;
  };
  struct End {
    Member flow;
    std::uint32_t cohort = 0;
    std::uint32_t place = 0;
    double seconds = 0.0;  // from now
  };
  struct Company {
    Member flow;
    std::uint64_t payload_units = 0;
  };
  struct Placed {
    std::vector<End> ends;
    std::vector<Company> company;  // with the flows of cohorts that were broken up
  };
  // All flows that start at this instant. Valid until the next call.
  [[nodiscard]] const Placed& place(std::span<const Member> fresh, double now_s);
  // True when the announced end counts; the flow is then gone.
  [[nodiscard]] bool finish(std::uint32_t cohort, std::uint32_t place);
  // A flow that was company has ended.
  void company_ended(std::uint32_t flow_class);

 private:
  // What the same flows do whenever they start together.
  struct Pattern {
    MaxMinFlows start = {};               // before anything has moved
    std::vector<double> ends_s = {};      // by place
    std::vector<std::uint32_t> interval;  // by place: of constant rates, at whose end it ends
    // By interval: the links (Platform::links) fuller than in any before, and their share in use.
    std::vector<std::vector<std::pair<std::uint32_t, double>>> fuller = {};
    std::size_t told = 0;  // intervals the ledger knows of
  };
  struct Cohort {
    std::shared_ptr<Pattern> pattern = nullptr;
    double start_s = 0.0;
    std::vector<Member> members = {};
    std::vector<bool> alive = {};  // by place
    std::size_t left = 0;          // alive
  };
  struct LinkState {
    std::uint32_t company = 0;  // flows alive that SimGrid prices
    std::uint32_t lonely = 0;   // flows alive of `cohort`
    std::uint32_t cohort = kNone;
    std::uint32_t first = 0;  // the first fresh flow that crosses it, where seen_at is this call
    std::uint32_t seen_at = 0;
  };

  std::vector<std::size_t> first_joined(std::span<const Member> fresh);
  [[nodiscard]] bool meets_someone(std::span<const Member> flows) const;
  [[nodiscard]] std::shared_ptr<Pattern> pattern_of(std::span<const Member> flows);
  void settle_pattern(Pattern& pattern, std::span<const Member> flows) const;
  std::map<std::uint32_t, std::size_t> start_of(MaxMinFlows& start,
                                                std::span<const Member> flows) const;
  [[nodiscard]] std::map<std::uint32_t, double> fills_of(
      const MaxMinFlows& moving, std::span<const Member> flows,
      const std::map<std::uint32_t, std::size_t>& numbers) const;
  void place_together(std::span<const Member> flows, double now_s);
  void start_cohort(std::span<const Member> flows, double now_s);
  void start_company(const Member& flow, std::uint64_t payload_units);
  [[nodiscard]] static std::size_t move(MaxMinFlows& flows, double passed_s);
  void break_up(std::uint32_t id, double now_s);
  void leave(Cohort& cohort, std::uint32_t place);
  void tell(Pattern& pattern, std::size_t intervals);

  const Platform& platform_;
  LinkLedger& ledger_;
  std::vector<LinkState> links_;  // as Platform::links
  // By flow classes in order.
  std::map<std::vector<std::uint32_t>, std::shared_ptr<Pattern>> patterns_;
  std::size_t flows_kept_ = 0;                         // of all patterns
  std::unordered_map<std::uint32_t, Cohort> cohorts_;  // alive
  std::uint32_t next_ = 0;
  std::uint32_t call_ = 0;
  Placed placed_;
};

}  // namespace trainyard
