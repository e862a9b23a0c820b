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
#include "base/again.h"
#include "ort/ort_serve.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILE_OF_INPUTS = 3, FILE_OF_OUTPUTS = 4, FIRST_OTHER = 5, EXIT_USAGE = 2, EXIT_SYSTEM = 74 };

static int requests = -1;

static void *watch_client(void *ctx) {
  struct pollfd p = {.fd = requests, .events = POLLRDHUP};
  (void)ctx;
  while (poll(&p, 1, -1) < 0 || !(p.revents & (POLLRDHUP | POLLHUP | POLLERR)))
    continue;
  _exit(0);
}

static bool is_socket(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

static int private_copy(int fd) {
  return fcntl(fd, F_DUPFD_CLOEXEC, FIRST_OTHER);
}

static int file_or_none(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? fd : -1;
}

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
  if (argc != 1 || isatty(0)) {
    fputs("weir-ort: only weir starts this program; see --help\n", stderr);
    return EXIT_USAGE;
  }
  // What else is open was left open by whoever started us.
#ifdef SYS_close_range
  syscall(SYS_close_range, FIRST_OTHER, ~0u, 0u);
#endif
  requests = private_copy(0);
  const int answers = private_copy(1);
  const int nothing = again_openat(AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC);
  if (requests < 0 || answers < 0 || nothing < 0 || dup2(nothing, 0) < 0 || dup2(2, 1) < 0) {
    perror("weir-ort");
    return EXIT_SYSTEM;
  }
  const struct rlimit none = {0, 0};
  pthread_t watcher;
  if (is_socket(requests)) pthread_create(&watcher, NULL, watch_client, NULL);
  setrlimit(RLIMIT_CORE,
            &none); // a crash is told to weir, and leaves no image of the weights behind
  const struct ort_files files = {file_or_none(FILE_OF_INPUTS), file_or_none(FILE_OF_OUTPUTS)};
  _exit(ort_serve(requests, answers, files));
}
