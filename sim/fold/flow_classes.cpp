#include "sim/fold/flow_classes.hpp"

#include <map>
#include <tuple>
#include <utility>

#include "sim/base/mixed.hpp"
#include "sim/fold/folding_graph.hpp"

namespace trainyard {

std::size_t footprint(const FoldClasses& classes) {
  std::size_t bytes =
      (classes.of_shape.size() + classes.partition.class_of_rank.size() +
       classes.partition.class_of_group.size() + classes.partition.class_of_link.size()) *
      sizeof(std::uint32_t);
  for (const std::vector<ClassLoad>& loads : classes.loads)
    bytes += loads.size() * sizeof(ClassLoad);
  return bytes;
}

namespace {

std::uint32_t size_of(const auto& container) {
  return static_cast<std::uint32_t>(container.size());
}

// Writes the flows of the classes: their bytes, loads and rate caps.
class FlowDescriber {
 public:
  // `merge`: interchangeable flows of one phase become one flow class.
  FlowDescriber(const Workload& workload, const Contention& found, const FoldClasses& classes,
                bool merge)
      : workload_(workload),
        joint_(*found.graph),
        traffic_(found.traffic),
        classes_(classes),
        merge_flows_(merge),
        result_(classes.partition) {}

  Partition described() {
    for (std::uint32_t group = 0; group < result_.groups.size(); ++group) describe_flows(group);
    return std::move(result_);
  }

 private:
  void describe_flows(std::uint32_t group_class) {
    std::vector<std::vector<FoldedPhase>>& calls = result_.phases.emplace_back();
    calls.resize(workload_.calls.size());
    const GroupId group = result_.groups[group_class].representative;
    for (const GroupCall& made : traffic_.of(group)) {
      for (std::uint32_t phase = 0; phase < made.phases.size(); ++phase) {
        FoldedPhase folded{.latency_s = made.phases[phase].latency_s, .flows = {}};
        for (const ShapedFlow& link_flow : distinct_flows(group, made.phases[phase])) {
          folded.flows.push_back(size_of(result_.flows));
          result_.flows.push_back(flow(group_class, made.call, phase, link_flow));
        }
        calls[made.call].push_back(std::move(folded));
      }
    }
  }

  [[nodiscard]] std::uint32_t shape_class(GroupId group, const ShapedFlow& link_flow) const {
    return classes_.of_shape[joint_.first_shape[group] + link_flow.shape];
  }

  // Returns the flows of a phase of one group, with interchangeable flows merged: those whose
  // shapes are of one class, with equal bytes and rates. Rates are compared by rounded keys,
  // because equal sums in another order differ in their last bits. Without `merge` each flow is
  // separate.
  [[nodiscard]] std::vector<ShapedFlow> distinct_flows(GroupId group,
                                                       const ShapedPhase& phase) const {
    using Key = std::tuple<std::uint32_t, std::uint64_t, std::uint64_t, std::uint64_t>;
    std::map<Key, std::size_t> known;
    std::vector<ShapedFlow> distinct;
    for (const ShapedFlow& link_flow : phase.flows) {
      if (!merge_flows_) {
        ShapedFlow one = link_flow;
        one.count = 1;
        distinct.insert(distinct.end(), link_flow.count, one);
        continue;
      }
      const Key key{shape_class(group, link_flow), rounded_key(link_flow.payload_bytes),
                    rounded_key(link_flow.rate_cap_bytes_per_s), alone_key(link_flow)};
      const auto [entry, fresh] = known.try_emplace(key, distinct.size());
      if (fresh) {
        distinct.push_back(link_flow);
      } else {
        distinct[entry->second].count += link_flow.count;
      }
    }
    return distinct;
  }

  [[nodiscard]] FlowClass flow(std::uint32_t group_class, std::uint32_t call, std::uint32_t phase,
                               const ShapedFlow& link_flow) const {
    FlowClass flow{.group_class = group_class,
                   .call = call,
                   .phase = phase,
                   .members = link_flow.count * result_.groups[group_class].members,
                   .payload_bytes = link_flow.payload_bytes,
                   .rate_cap_bytes_per_s = link_flow.rate_cap_bytes_per_s,
                   .rate_alone = link_flow.rate_alone,
                   .weights = {}};
    const std::uint32_t shapes = shape_class(result_.groups[group_class].representative, link_flow);
    const double members = flow.members;
    for (const ClassLoad& load : classes_.loads[shapes]) {
      // members / members_of_shape_class: these flows per shape. Each of them loads links as its
      // shape does.
      //
      // Example: 64 groups with one ring each are 64 shapes of one class, and 8 of the rings cross
      // any one uplink. Then `together` is 8, and so is the weight of the 64 flows. On the 32
      // uplinks of the class a flow has 8 * 32 / 64 = 4 payloads in all.
      const double weight = members / classes_.members_of_shape_class[shapes] * load.together;
      flow.weights.push_back({.link_class = load.link_class,
                              .weight = weight,
                              .flow_load = load.most,
                              .bytes = link_flow.payload_bytes * weight *
                                       result_.links[load.link_class].members / members,
                              .contended = load.contended});
    }
    return flow;
  }

  const Workload& workload_;
  const JointGraph& joint_;
  const GroupTraffic& traffic_;
  const FoldClasses& classes_;
  bool merge_flows_;
  Partition result_;
};

}  // namespace

Partition with_flows(const Workload& workload, const Contention& found, const FoldClasses& classes,
                     bool merge) {
  return FlowDescriber(workload, found, classes, merge).described();
}

}  // namespace trainyard
