#include "sim/render/traces/link_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <set>

#include "sim/render/traces/trace_options.hpp"

namespace trainyard {
namespace {

// The time at which a flow stops using a link class.
struct Release {
  std::int64_t at_ns;
  std::uint32_t link_class;
  std::int64_t rate;
  auto operator<=>(const Release&) const = default;
};

// Sweeps over the flows in order of start and holds only those alive, in a heap ordered by end.
// Rates are whole bytes per second, so that a flow's end subtracts exactly what its start added.
class LinkSweep {
 public:
  LinkSweep(const RunView& view, const std::vector<std::string>& names,
            const std::function<void(const LinkPoint&)>& visit)
      : view_(view), names_(names), visit_(visit), rate_(names.size(), 0) {}

  void run() {
    for (const FlowSpan& span : view_.timeline.flows) {
      if (span.end_s <= span.start_s) continue;
      const std::int64_t start_ns = trace_ns(span.start_s);
      release_until(start_ns);
      begin(span, start_ns);
    }
    while (!alive_.empty()) release_until(alive_.top().at_ns);
    emit();
  }

 private:
  void begin(const FlowSpan& span, std::int64_t start_ns) {
    move_to(start_ns);
    const FlowClass& flow = view_.partition.flows.at(span.flow_class);
    for (const FlowClass::Weight& weight : flow.weights) {
      if (names_.at(weight.link_class).empty()) continue;
      const double rate = weight.weight * flow.payload_bytes / (span.end_s - span.start_s);
      const std::int64_t whole = std::llround(rate);
      add(weight.link_class, whole);
      alive_.push({trace_ns(span.end_s), weight.link_class, whole});
    }
  }

  void release_until(std::int64_t until_ns) {
    while (!alive_.empty() && alive_.top().at_ns <= until_ns) {
      const Release release = alive_.top();
      alive_.pop();
      move_to(release.at_ns);
      add(release.link_class, -release.rate);
    }
  }

  void add(std::uint32_t link_class, std::int64_t rate) {
    rate_[link_class] += rate;
    changed_.insert(link_class);
  }

  // Writes the values of an instant once, when the sweep leaves it.
  void move_to(std::int64_t now_ns) {
    if (now_ns == now_ns_) return;
    emit();
    now_ns_ = now_ns;
  }

  void emit() {
    for (const std::uint32_t link_class : changed_) {
      visit_(
          {.link_class = link_class,
           .at_ns = now_ns_,
           .gigabytes_per_s = std::nearbyint(static_cast<double>(rate_[link_class]) / 1e6) / 1e3});
    }
    changed_.clear();
  }

  const RunView& view_;
  const std::vector<std::string>& names_;  // by link class; empty: not shown
  const std::function<void(const LinkPoint&)>& visit_;
  std::vector<std::int64_t> rate_;
  std::set<std::uint32_t> changed_;
  std::priority_queue<Release, std::vector<Release>, std::greater<>> alive_;
  std::int64_t now_ns_ = 0;
};

}  // namespace

std::vector<std::string> shown_links(const RunView& view, std::size_t classes) {
  std::vector<std::uint32_t> order(view.partition.links.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&view](std::uint32_t a, std::uint32_t b) {
    return view.timeline.links.at(a).bytes > view.timeline.links.at(b).bytes;
  });
  if (order.size() > classes) order.resize(classes);
  std::vector<std::string> names(view.partition.links.size());
  for (const std::uint32_t index : order) {
    const LinkClass& links = view.partition.links[index];
    const Link& link = view.cluster.link(links.representative);
    names[index] = fmt::format("{} {} to {} ({} equal links, {} each)", to_string(link.kind),
                               view.cluster.name(link.from), view.cluster.name(link.to),
                               links.members, to_text(link.capacity));
  }
  return names;
}

void for_each_link_point(const RunView& view, const std::vector<std::string>& names,
                         const std::function<void(const LinkPoint&)>& visit) {
  LinkSweep(view, names, visit).run();
}

}  // namespace trainyard
