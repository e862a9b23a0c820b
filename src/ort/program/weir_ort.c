// weir-ort: the only program of the house that opens ONNX Runtime's library, started by weir
// (src/verify/runtime/runtime_process.c) and spoken to over its standard input and output, which are a socket there
// (docs/weir-ort.md).
//
//   0   requests        moved away, so that what the runtime or a custom operator prints to stdout
//   1   answers         lands on stderr and not among the answers
//   2   stderr
//   3   file of large inputs, read           4   file of large outputs, written; both may be missing
//
// It ends when the requests end. If they come by a socket, a thread waits for its other end to be closed, so that a run that
// takes hours does not outlive who asked for it. It leaves without tidying up: memory and sessions are the system's to take
// back, and a runtime's own destructors are one more place where it may crash.
#include "ort/ort_serve.h"
#include "platform/children.h"
#include "platform/machine.h"

#include <stdio.h>
#include <string.h>

enum { EXIT_USAGE = 2, EXIT_SYSTEM = 74 };

static int say_what_this_is(void) {
  fputs("weir-ort runs models with ONNX Runtime for weir. weir starts it and communicates with it "
        "on stdin and stdout.\nIt has no options. See docs/weir-ort.md.\n",
        stdout);
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--help") == 0) return say_what_this_is();
  if (argc == 2 && strcmp(argv[1], "--version") == 0)
    return printf("weir-ort %s\n", WEIR_VERSION) < 0;
  struct child_self self;
  const bool begun = argc == 1 && child_self_begin(&self) == 0;
  if (argc != 1 || (!begun && errno == ENOTTY)) {
    fputs("weir-ort: only weir starts this program; see --help\n", stderr);
    return EXIT_USAGE;
  }
  if (!begun) {
    perror("weir-ort");
    return EXIT_SYSTEM;
  }
  const struct ort_files files = {self.given[0], self.given[1]};
  process_end(ort_serve(self.requests, self.answers, files));
}
