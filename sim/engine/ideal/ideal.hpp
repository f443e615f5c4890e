// The engine without contention: every flow has its links for itself.
//
//    T(flow) = payload / min(rate cap, min over its links of capacity / flow_load)
//
// where flow_load is what the flow itself puts on the link, in payloads. Worked: 8 GB over links of
// 10 and 4 GB/s, the second crossed twice: 8 / min(10, 4 / 2) = 4 s. The engine is an oracle for
// the tests and the fast path of sweeps. It gives a lower bound of every other engine where
// communication takes nothing from computation, nor computation from communication (engine.hpp
// explains why only there).
#pragma once

#include <memory>

#include "sim/engine/engine.hpp"

namespace trainyard {

[[nodiscard]] std::unique_ptr<Engine> make_ideal_engine();

}  // namespace trainyard
