#include "tools/studies/goodput/run/joining.hpp"

#include "tools/studies/goodput/run/draws.hpp"

namespace trainyard {

void JoiningNodes::schedule(double now) {
  nodes_.collect_repairs(now);
  for (; unserved_ > 0 && nodes_.standing_by() > reserved_; --unserved_, ++reserved_)
    joins_.emplace(now + job_.spares.replace_s, false);
  for (; unserved_ > 0 && nodes_.elsewhere() > coming_; --unserved_, ++coming_)
    joins_.emplace(now + *job_.spares.cold_replace_s, true);
}

double JoiningNodes::next_ready() const { return joins_.empty() ? kNever : joins_.top().first; }

void JoiningNodes::make_ready() {
  ++(joins_.top().second ? ready_others_ : ready_spares_);
  joins_.pop();
}

void JoiningNodes::join() {
  nodes_.replace_from_spares(ready_spares_);
  nodes_.replace_from_elsewhere(ready_others_);
  reserved_ -= ready_spares_;
  coming_ -= ready_others_;
  ready_spares_ = ready_others_ = 0;
}

void JoiningNodes::clear() {
  joins_ = {};
  unserved_ = reserved_ = coming_ = ready_spares_ = ready_others_ = 0;
}

}  // namespace trainyard
