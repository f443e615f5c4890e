#include "sim/engine/link_sets.hpp"

#include <cmath>
#include <map>
#include <utility>

#include "sim/base/check.hpp"

namespace trainyard {
namespace {

// Proportions between weights are compared to this many bits. Classes that are merged differ by
// 1e-12 at most.
constexpr int kProportionBits = 40;

// Two proportions that were computed in different ways may differ in their last bits. Rounded to
// kProportionBits bits of the mantissa they compare equal.
double rounded(double proportion) {
  int exponent = 0;
  const double mantissa = std::frexp(proportion, &exponent);
  return std::ldexp(std::round(std::ldexp(mantissa, kProportionBits)), exponent - kProportionBits);
}

using Signature = std::vector<std::pair<std::uint32_t, double>>;

// Link classes have equal signatures when the same flows cross them with weights in the same
// proportions.
Signature signature(const std::vector<LinkSet::User>& users) {
  Signature result;
  result.reserve(users.size());
  for (const LinkSet::User& user : users) {
    result.emplace_back(user.flow_class, rounded(user.weight / users.front().weight));
  }
  return result;
}

// By link class: whether at least one weight on it is uncontended.
std::vector<bool> uncontended_links(const Partition& partition) {
  std::vector<bool> result(partition.links.size(), false);
  for (const FlowClass& flow : partition.flows)
    for (const FlowClass::Weight& weight : flow.weights)
      if (!weight.contended) result.at(weight.link_class) = true;
  return result;
}

// By link class: the users whose weights count.
std::vector<std::vector<LinkSet::User>> users_of_links(const Partition& partition, LinkUses uses) {
  std::vector<bool> uncontended;
  if (uses == LinkUses::OfUncontended) uncontended = uncontended_links(partition);
  std::vector<std::vector<LinkSet::User>> users(partition.links.size());
  for (std::uint32_t flow = 0; flow < partition.flows.size(); ++flow) {
    for (const FlowClass::Weight& weight : partition.flows[flow].weights) {
      const bool counts =
          uses == LinkUses::Contended ? weight.contended : uncontended[weight.link_class];
      if (!counts) continue;
      TY_CHECK(weight.weight > 0.0 && weight.flow_load > 0.0, flow, weight.link_class,
               weight.weight);
      users.at(weight.link_class).push_back({flow, weight.weight, weight.flow_load});
    }
  }
  return users;
}

// The utilisation of the link when the first user moves one payload per second. Classes of one set
// have proportional weights, so that this number orders them.
double tightness(const std::vector<LinkSet::User>& users, double capacity) {
  return users.front().weight / capacity;
}

}  // namespace

LinkSets merge_links(const Cluster& cluster, const Partition& partition, LinkUses uses) {
  std::vector<std::vector<LinkSet::User>> users = users_of_links(partition, uses);
  LinkSets result;
  result.set_of_class.assign(users.size(), kNone);
  result.relative_use.assign(users.size(), 1.0);
  std::vector<double> tightness_of_class(users.size(), 0.0);
  std::map<Signature, std::uint32_t> set_of_signature;
  for (std::uint32_t link_class = 0; link_class < users.size(); ++link_class) {
    if (users[link_class].empty()) continue;
    const Link link = cluster.link(partition.links[link_class].representative);
    const double capacity = link.capacity.value();
    TY_CHECK(capacity > 0.0, link_class, capacity);
    tightness_of_class[link_class] = tightness(users[link_class], capacity);
    Signature of_class = signature(users[link_class]);
    // A link whose capacity changes fills on its own. The additional pair makes its signature
    // unlike any other, so it forms a set by itself.
    if (!rates_of_links(cluster, link.id).empty()) of_class.emplace_back(kNone, link_class);
    const auto [place, is_new] = set_of_signature.try_emplace(
        std::move(of_class), static_cast<std::uint32_t>(result.sets.size()));
    const std::uint32_t set = result.set_of_class[link_class] = place->second;
    // The tightest class describes the set. Among equally tight ones it is the lowest.
    if (is_new) {
      result.sets.push_back({link_class, capacity, users[link_class]});
    } else if (tightness_of_class[link_class] > tightness_of_class[result.sets[set].tightest]) {
      result.sets[set] = {link_class, capacity, users[link_class]};
    }
  }
  for (std::uint32_t link_class = 0; link_class < users.size(); ++link_class) {
    if (result.set_of_class[link_class] == kNone) continue;
    const std::uint32_t tightest = result.sets[result.set_of_class[link_class]].tightest;
    result.relative_use[link_class] = tightness_of_class[link_class] / tightness_of_class[tightest];
  }
  result.of_flow = {partition.flows.size(), [&](const auto& put) {
                      for (std::uint32_t set = 0; set < result.sets.size(); ++set) {
                        for (const LinkSet::User& user : result.sets[set].users)
                          put(user.flow_class, {set, user.weight});
                      }
                    }};
  return result;
}

}  // namespace trainyard
