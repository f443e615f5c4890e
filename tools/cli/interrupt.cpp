#include "tools/cli/interrupt.hpp"

#include <pthread.h>

#include <ctime>

namespace trainyard {

namespace {

sigset_t interrupts() {
  sigset_t set{};
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

Interrupt::Interrupt() {
  const sigset_t held = interrupts();
  pthread_sigmask(SIG_BLOCK, &held, &before_);
}

// One that came was answered; it must not end the process when it is let through.
Interrupt::~Interrupt() {
  const sigset_t held = interrupts();
  const timespec now{};
  (void)sigtimedwait(&held, nullptr, &now);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool Interrupt::came() const {
  sigset_t pending{};
  sigpending(&pending);
  return sigismember(&pending, SIGINT) == 1;
}

}  // namespace trainyard
