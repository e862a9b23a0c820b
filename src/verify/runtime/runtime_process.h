// The process of weir-ort: started under limits, sent a message, waited for. Whatever it does, the wait ends and the process is
// reaped.
#ifndef WEIR_RUNTIME_PROCESS_H
#define WEIR_RUNTIME_PROCESS_H

#include "frames/frame.h"
#include "platform/children.h"
#include "verify/runtime/runtime.h"

enum { RUNTIME_PROCESS_SAID = 512 };

struct runtime_process {
  struct child child;
  char last[RUNTIME_PROCESS_SAID]; // what it said at last, on stderr
  size_t n_last;
  uint64_t peak; // resident memory of the processes so far, as far as it was looked at
};

struct runtime_process_start {
  const char *program;
  struct file files[2]; // of large arrays: inputs, outputs
};
// ERR_RUNTIME: it cannot be started; ERR_RETRY: the system has no room for a process now.
int runtime_process_start(struct runtime_process *p, const struct runtime_process_start *how,
                          struct err *err);

struct runtime_process_ask {
  double seconds;
  uint64_t memory_bytes; // it is ended if it has more that is of no file; 0: no limit
  const volatile int *stop;
  const char *doing; // for messages: "ran 'x.onnx'"
};
// Sends the request and receives the answer into *f: its lists lie in *a, its elements in *in. In all ends but DONE the process is
// gone.
enum runtime_end runtime_process_ask(struct runtime_process *p,
                                     const struct runtime_process_ask *how,
                                     const struct frame_buffer *request, struct frame_buffer *in,
                                     struct frame *f, struct arena *a, struct err *err);
// From now on it may get as much memory as is left of `bytes`, and is told so where it asks for more. What is mapped now
// counts for nothing if it is of a file. And: no more limit of that kind.
void runtime_process_limit(struct runtime_process *p, uint64_t bytes);
void runtime_process_unlimit(struct runtime_process *p);
// Looks at its peak.
void runtime_process_look(struct runtime_process *p);
// Ends it. Nothing happens if there is none.
void runtime_process_end(struct runtime_process *p);

#endif
