#include "scenarios/jobs/link_sharing.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

namespace trainyard {

namespace {

using Span = std::pair<double, double>;

// Returns the same times as spans that do not overlap, ascending.
std::vector<Span> merged(std::vector<Span> spans) {
  std::ranges::sort(spans);
  std::vector<Span> all;
  for (const Span& span : spans) {
    if (!all.empty() && span.first <= all.back().second) {
      all.back().second = std::max(all.back().second, span.second);
    } else {
      all.push_back(span);
    }
  }
  return all;
}

double length(const std::vector<Span>& spans) {
  double sum = 0.0;
  for (const auto& [begin, end] : spans) sum += end - begin;
  return sum;
}

// Returns the time that at least two of the lists cover. REQUIRES: each list does not overlap.
double covered_twice(const std::vector<std::vector<Span>>& lists) {
  std::vector<std::pair<double, int>> edges;
  for (const std::vector<Span>& list : lists)
    for (const auto& [begin, end] : list) {
      edges.emplace_back(begin, 1);
      edges.emplace_back(end, -1);
    }
  std::ranges::sort(edges);
  double sum = 0.0;
  int alive = 0;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    if (alive >= 2) sum += edges[i].first - edges[i - 1].first;
    alive += edges[i].second;
  }
  return sum;
}

// The flows of each job on each class of links.
struct Use {
  std::map<std::uint32_t, std::vector<Span>> spans;  // by job
  std::map<std::uint32_t, bool> contended;           // by job
};

// Calls visit(job, span, weight) for each flow between the two dates and each class of links that
// it loads.
template <class Visit>
void visit_flows(std::span<const JobPart> jobs, const Partition& partition,
                 const Timeline& timeline, double begin_s, double end_s, const Visit& visit) {
  const std::vector<std::uint32_t> owners = job_of_group_class(jobs, partition);
  for (const FlowSpan& flow : timeline.flows) {
    const Span span{std::max(flow.start_s, begin_s), std::min(flow.end_s, end_s)};
    if (!(span.first < span.second)) continue;
    const FlowClass& flow_class = partition.flows[flow.flow_class];
    for (const FlowClass::Weight& weight : flow_class.weights)
      visit(owners[flow_class.group_class], span, weight);
  }
}

}  // namespace

std::vector<std::uint32_t> job_of_group_class(std::span<const JobPart> jobs,
                                              const Partition& partition) {
  std::vector<std::uint32_t> owners;
  for (const GroupClass& group : partition.groups) {
    std::uint32_t job = 0;
    while (group.representative >= jobs[job].first_group + jobs[job].groups) ++job;
    owners.push_back(job);
  }
  return owners;
}

std::vector<LinkSharing> link_sharing(std::span<const JobPart> jobs, const Partition& partition,
                                      const Timeline& timeline, double begin_s, double end_s) {
  std::vector<Use> uses(partition.links.size());
  visit_flows(jobs, partition, timeline, begin_s, end_s,
              [&](std::uint32_t job, const Span& span, const FlowClass::Weight& weight) {
                Use& use = uses[weight.link_class];
                use.spans[job].push_back(span);
                use.contended[job] = use.contended[job] || weight.contended;
              });
  std::vector<LinkSharing> all;
  for (std::uint32_t link_class = 0; link_class < uses.size(); ++link_class) {
    Use& use = uses[link_class];
    if (use.spans.size() < 2) continue;
    LinkSharing sharing{.link_class = link_class};
    std::vector<std::vector<Span>> lists;
    std::size_t contending = 0;
    for (auto& [job, spans] : use.spans) {
      lists.push_back(merged(std::move(spans)));
      sharing.jobs.push_back(job);
      sharing.busy_s.push_back(length(lists.back()));
      if (use.contended[job]) ++contending;
    }
    sharing.shared_s = covered_twice(lists);
    sharing.contended = contending > 1;
    all.push_back(std::move(sharing));
  }
  std::ranges::stable_sort(all, std::ranges::greater{}, &LinkSharing::shared_s);
  return all;
}

std::vector<std::vector<LinkStateSpan>> link_states(std::span<const JobPart> jobs,
                                                    const Partition& partition,
                                                    const Timeline& timeline,
                                                    std::uint32_t link_class, double begin_s,
                                                    double end_s) {
  std::map<double, std::vector<int>> changes;  // of the number of flows, by time and job
  const auto change = [&](double at_s, std::uint32_t job, int by) {
    std::vector<int>& counts = changes.try_emplace(at_s, jobs.size(), 0).first->second;
    counts[job] += by;
  };
  visit_flows(jobs, partition, timeline, begin_s, end_s,
              [&](std::uint32_t job, const Span& span, const FlowClass::Weight& weight) {
                if (weight.link_class != link_class) return;
                change(span.first, job, 1);
                change(span.second, job, -1);
              });
  changes.try_emplace(begin_s, jobs.size(), 0);
  changes.try_emplace(end_s, jobs.size(), 0);
  std::vector<int> flows(jobs.size(), 0);
  std::vector<std::vector<LinkStateSpan>> spans(jobs.size());
  for (auto now = changes.begin(); std::next(now) != changes.end(); ++now) {
    std::ranges::transform(flows, now->second, flows.begin(), std::plus{});
    const auto users = std::ranges::count_if(flows, [](int count) { return count > 0; });
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      const LinkState state = flows[job] == 0 ? LinkState::Unused
                              : users > 1     ? LinkState::SharedFlows
                                              : LinkState::OwnFlows;
      if (!spans[job].empty() && spans[job].back().state == state)
        spans[job].back().end_s = std::next(now)->first;
      else
        spans[job].push_back({now->first, std::next(now)->first, state});
    }
  }
  return spans;
}

}  // namespace trainyard
