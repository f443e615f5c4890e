#include "topologies/clos.hpp"
#include "topologies/fabric.hpp"

namespace trainyard {

// The bound that no network beats: every NIC on one crossbar, of as many ports as it takes.
void draw_single_switch(const ClusterSpec& spec, Draft& draft) {
  const DeviceId all = add_switches(draft, DeviceKind::LeafSwitch, "leaf", 1).front();
  for (const DeviceId nic : draft.nics) draft.cable(nic, all, nic_wire(spec));
}

}  // namespace trainyard
