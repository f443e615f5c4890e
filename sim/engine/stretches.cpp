#include "sim/engine/stretches.hpp"

#include "sim/engine/stretch_search.hpp"
#include "sim/engine/stretch_shapes.hpp"

namespace trainyard {

ProgramStretches find_stretches(const Program& program, const MayJoin& may_join) {
  return find_stretches(program, may_join, ProgramOrder(program));
}

ProgramStretches find_stretches(const Program& program, const MayJoin& may_join,
                                const ProgramOrder& order) {
  return stretch_shapes(program, order, search_stretches(program, may_join, order));
}

}  // namespace trainyard
