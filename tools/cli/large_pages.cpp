#include "tools/cli/large_pages.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#endif

namespace trainyard {

#if defined(__GLIBC__) && defined(MADV_HUGEPAGE)

void prefer_large_pages() {
  constexpr std::size_t kMebibyte = std::size_t{1} << 20U;
  constexpr std::size_t kLargePage = 2 * kMebibyte;
  constexpr std::size_t kHeap = 128 * kMebibyte;
  // Blocks below 32 MiB, the most that the C library allows here, come from the heap, and what is
  // given back to it stays there.
  mallopt(M_ARENA_MAX, 1);  // for all threads: heaps of their own would have small pages
  mallopt(M_MMAP_THRESHOLD, 32 * kMebibyte);
  mallopt(M_TRIM_THRESHOLD, 1024 * kMebibyte);
  mallopt(M_TOP_PAD, kHeap);
  const auto first = reinterpret_cast<std::uintptr_t>(sbrk(0));
  // More than what is left of the heap that the program began with: it grows. Volatile, or the
  // compiler would leave out what nobody reads.
  void* volatile grown = std::malloc(kMebibyte);
  const auto last = reinterpret_cast<std::uintptr_t>(sbrk(0));
  std::free(grown);
  const std::uintptr_t begin = (first + kLargePage - 1) / kLargePage * kLargePage;
  if (last >= begin + kLargePage)
    madvise(reinterpret_cast<void*>(begin), last - begin, MADV_HUGEPAGE);
}

#else

void prefer_large_pages() {}

#endif

}  // namespace trainyard
