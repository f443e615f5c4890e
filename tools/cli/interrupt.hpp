// Lets Ctrl-C end a study of many runs early, with the results so far.
//
//    const Interrupt interrupt;
//    run_batch(variants,
//              {.journal = journal, .end = [&] { return interrupt.pending_interrupt(); }});
#pragma once

#include <pthread.h>

#include <csignal>
#include <ctime>

namespace trainyard {

// While this object lives, SIGINT is blocked, also in child processes that are forked meanwhile.
// The study polls pending_interrupt() and returns when a signal is pending.
class Interrupt {
 public:
  Interrupt() { pthread_sigmask(SIG_BLOCK, &held_, &before_); }
  // The study has already handled a pending signal. It is taken out of the queue here, because it
  // would end the process when the mask is restored.
  ~Interrupt() {
    const timespec now{};
    (void)sigtimedwait(&held_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  [[nodiscard]] bool pending_interrupt() const {
    sigset_t pending{};
    sigpending(&pending);
    return sigismember(&pending, SIGINT) == 1;
  }

 private:
  static sigset_t interrupts() {
    sigset_t set{};
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    return set;
  }

  sigset_t held_ = interrupts();
  sigset_t before_ = {};
};

}  // namespace trainyard
