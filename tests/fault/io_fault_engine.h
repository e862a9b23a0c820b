// The fault engine: wraps the engine that a queue would have had and spoils the nth operation.
// Linked into tests only; it gets in through io_engine_wrap.
#ifndef WEIR_IO_FAULT_ENGINE_H
#define WEIR_IO_FAULT_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

// Every queue opened from now on misbehaves as the spec says, until io_fault_disarm. Counting
// starts anew, over all queues of the process together.
//
//   spec   op:n[:persist]:action[,…]    the nth op of that kind (from 1); persist: and all after it
//   op     open write read clone (short and eof: write and read only), and of engines that can be lost
//          submit (a start) and wait (a reap while something is in flight): E… only, which loses the
//          engine. What the ring had then goes on in the kernel; nobody waits for it.
//   action E… (EIO, ENOSPC, EINTR, …)   fails with that errno, nothing moved
//          short                        half of the bytes are moved, and it says so
//          torn                         half of the bytes are moved, then it fails with EIO
//          eof                          says 0 (read: the file ended; write: nothing was taken)
//          kill                         half of the bytes are moved, then SIGKILL
//
// weir-fault takes such a spec from WEIR_FAULT_IO, and tells the counts by WEIR_FAULT_COUNTS (fault_counts.h).
//
// False if the spec is malformed (nothing is armed then). Not while another thread opens queues.
bool io_fault_arm(const char *spec);
void io_fault_disarm(void);

// How many operations were spoiled since io_fault_arm: "N = 1, 2, 3, … until nothing was injected".
uint32_t io_fault_injected(void);

#endif
