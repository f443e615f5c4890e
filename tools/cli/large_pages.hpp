// Memory of the command in large pages.
//
// A step of 1 024 GPUs writes some 60 MiB once, and page by page the kernel takes as long to hand
// them out as the engine takes to replay the step: 15 000 faults, 20 to 30 ms. The heap is
// therefore grown in one piece and the kernel asked for pages of 2 MiB in it, which it is free to
// refuse. What is not touched takes no memory.
#pragma once

namespace trainyard {

// REQUIRES: called at the start of the program. Does nothing where the C library or the kernel has
// no such thing.
void prefer_large_pages();

}  // namespace trainyard
