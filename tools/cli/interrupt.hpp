// Ctrl-C as a question to a long command: it ends with what it has, instead of being ended.
//
//   const Interrupt interrupt;
//   while (!interrupt.came()) work();
#pragma once

#include <csignal>

namespace trainyard {

class Interrupt {
 public:
  // SIGINT is held back while this lives, in processes that are forked meanwhile too.
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  Interrupt(Interrupt&&) = delete;
  Interrupt& operator=(Interrupt&&) = delete;

  [[nodiscard]] bool came() const;

 private:
  sigset_t before_ = {};
};

}  // namespace trainyard
