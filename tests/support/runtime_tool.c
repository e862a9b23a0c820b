// Drives the client of weir-ort for tests: words are done from left to right, each prints a line of JSON.
//
//   runtime_tool [--library FILE] [--seconds S] [--memory BYTES] [--threads N] [--optimized] [--scratch FOLDER]
//       --open                                     runtime_open, with the options before it
//       --load MODEL | --load-beside MODEL FOLDER  runtime_load
//       --input NAME=DTYPE:1x2x3:FILE              one more input, read to memory (strings: u32 length, bytes each)
//       --input-file NAME=DTYPE:1x2x3:FILE         one that stays in its file
//       --sequence NAME N                          the last N inputs become a sequence of that name
//       --nothing NAME                             an optional that holds nothing
//       --want NAME                                one more output that is wanted
//       --run PREFIX                               runtime_run; elements go to PREFIX<output>[.<item>]
//       --clear                                    forgets inputs and wanted outputs
//       --release  --peak  --stop                  the stop flag is set from now on
//       --mark                                     whether there are children or descriptors that were not there before --open
#include "platform/machine.h"
#include "platform/descriptor.h"
#include "verify/runtime/runtime.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 256 };

static struct runtime_options options;
static struct runtime *runtime;
static struct arena arena;
static struct array inputs[MOST];
static uint32_t n_inputs, n_wanted;
static const char *wanted[MOST];
static volatile int stop;

static void give_up(const char *why) {
  fprintf(stderr, "runtime_tool: %s\n", why);
  exit(2);
}

static void print_text(const char *s) {
  putchar('"');
  for (; *s; s++)
    if (*s == '"' || *s == '\\' || (unsigned char)*s < 0x20)
      printf("\\u%04x", *s);
    else
      putchar(*s);
  putchar('"');
}

static void print_dims(const int64_t *dims, uint32_t rank) {
  printf("[");
  for (uint32_t i = 0; i < rank; i++)
    printf("%s%lld", i ? ", " : "", (long long)dims[i]);
  printf("]");
}

static void begin_line(const char *did, const char *end, const struct err *err) {
  printf("{\"did\": \"%s\", \"end\": \"%s\", \"kind\": %d, \"message\": ", did, end, err->kind);
  print_text(err->msg);
  printf(", \"hint\": ");
  print_text(err->hint);
}

static const char *end_words(enum runtime_end end) {
  static const char *const words[] = {"done", "refused", "died", "late", "broken", "stopped"};
  return words[end];
}

static uint32_t count_files(void) {
  uint32_t n = 0;
  DIR *d = opendir("/proc/self/fd");
  while (d && readdir(d))
    n++;
  if (d) closedir(d);
  return n;
}

static void do_mark(void) {
  static uint32_t before;
  const uint32_t now = count_files();
  if (before == 0) before = now;
  const bool child = waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD;
  printf("{\"did\": \"mark\", \"more_files\": %d, \"child\": %s}\n", (int)(now - before),
         child ? "true" : "false");
}

static void do_open(void) {
  struct err err = {0};
  options.stop = &stop;
  const int end = runtime_open(&runtime, &options, &err);
  begin_line("open", end == 0 ? "done" : "failed", &err);
  if (end == 0) {
    const struct runtime_about about = runtime_about(runtime);
    printf(", \"version\": ");
    print_text(about.version);
    printf(", \"library\": ");
    print_text(about.library);
  }
  printf("}\n");
}

static void print_values(const char *what, const struct runtime_value *list, uint32_t n) {
  printf(", \"%s\": [", what);
  for (uint32_t i = 0; i < n; i++) {
    const struct runtime_value *x = &list[i];
    printf("%s{\"name\": ", i ? ", " : "");
    print_text(x->name);
    printf(", \"kind\": \"%s\", \"optional\": %s, \"dtype\": \"%s\", \"dims\": ",
           !x->known                   ? "unknown"
           : x->kind == ARRAY_SEQUENCE ? "sequence"
                                       : "tensor",
           x->optional ? "true" : "false", dtype_name(x->dtype));
    if (x->ranked)
      print_dims(x->dims, x->rank);
    else
      printf("null");
    printf("}");
  }
  printf("]");
}

static void do_load(const char *path, const char *folder) {
  struct err err = {0};
  struct runtime_model model = {0};
  const enum runtime_end end = runtime_load(runtime, path, folder, &model, &err);
  begin_line("load", end_words(end), &err);
  if (end == RUNTIME_DONE) {
    print_values("inputs", model.inputs, model.n_inputs);
    print_values("outputs", model.outputs, model.n_outputs);
  }
  printf("}\n");
}

static void read_strings(struct array *x, struct span all) {
  struct span *list = arena_alloc(&arena, (size_t)x->count * sizeof *list + 1);
  for (uint64_t i = 0; i < x->count; i++) {
    uint32_t n;
    memcpy(&n, all.at, 4);
    list[i] = span_of(all.at + 4, n);
    all.at += 4 + n;
  }
  x->strings = list;
}

static void do_input(const char *spec, bool by_file) {
  if (n_inputs == MOST) give_up("too many inputs");
  struct array *x = &inputs[n_inputs++];
  const char *equals = strchr(spec, '=');
  const char *colon = equals ? strchr(equals, ':') : NULL;
  const char *second = colon ? strchr(colon + 1, ':') : NULL;
  int64_t *dims = arena_alloc(&arena, ARRAY_MAX_RANK * sizeof *dims);
  if (!second) give_up("NAME=DTYPE:DIMS:FILE");
  *x = (struct array){.name = arena_string(&arena, span_of(spec, (size_t)(equals - spec))),
                      .dtype = dtype_by_name(span_of(equals + 1, (size_t)(colon - equals - 1))),
                      .dims = dims};
  for (const char *at = colon + 1; at < second;) {
    char *end;
    dims[x->rank++] = strtoll(at, &end, 10);
    at = end + (*end == 'x');
  }
  if (!array_sizes(x->dtype, x->rank, dims, &x->count, &x->bytes)) give_up("dims");
  const int fd = open(second + 1, O_RDONLY | O_CLOEXEC);
  const off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
  if (size < 0) give_up("cannot read an input");
  if (by_file) x->file = file_of_descriptor(fd);
  if (by_file) return;
  uint8_t *at = arena_alloc(&arena, (size_t)size + 1);
  if (pread(fd, at, (size_t)size, 0) != size) give_up("cannot read an input");
  close(fd);
  if (x->dtype == DTYPE_STRING)
    read_strings(x, span_of(at, (size_t)size));
  else
    x->at = at;
}

static void forget_inputs(void) {
  for (uint32_t i = 0; i < n_inputs; i++)
    file_close(&inputs[i].file);
  n_inputs = n_wanted = 0;
}

static void do_close(void) {
  forget_inputs();
  runtime_close(runtime);
  runtime = NULL;
}

static void do_sequence(const char *name, uint32_t n) {
  struct array *items = arena_alloc(&arena, n * sizeof *items + 1);
  if (n > n_inputs) give_up("too few inputs");
  n_inputs -= n;
  for (uint32_t i = 0; i < n; i++)
    items[i] = inputs[n_inputs + i];
  inputs[n_inputs++] =
      (struct array){.name = name, .kind = ARRAY_SEQUENCE, .items = items, .n_items = n};
}

static void write_tensor(const struct array *x, const char *path) {
  struct err err = {0};
  FILE *f = fopen(path, "wb");
  if (!f) give_up("cannot write an output");
  for (uint64_t i = 0; x->strings && i < x->count; i++) {
    const uint32_t n = (uint32_t)x->strings[i].n;
    fwrite(&n, 4, 1, f);
    fwrite(x->strings[i].at, 1, n, f);
  }
  for (uint64_t off = 0; !x->strings && off < x->bytes;) {
    uint8_t piece[4096];
    const size_t n = (size_t)min_u64(sizeof piece, x->bytes - off);
    if (array_read(x, off, piece, n, &err) < 0) give_up(err.msg);
    fwrite(piece, 1, n, f);
    off += n;
  }
  fclose(f);
}

static void print_array(const struct array *x, const char *prefix, uint32_t k, uint32_t item) {
  printf("{\"name\": ");
  print_text(x->name);
  if (x->kind == ARRAY_NOTHING) {
    printf(", \"kind\": \"nothing\"}");
  } else if (x->kind == ARRAY_SEQUENCE) {
    printf(", \"kind\": \"sequence\", \"items\": %u}", x->n_items);
  } else {
    const char *path = item == NO_ID ? arena_printf(&arena, "%s%u", prefix, k)
                                     : arena_printf(&arena, "%s%u.%u", prefix, k, item);
    write_tensor(x, path);
    printf(", \"kind\": \"tensor\", \"dtype\": \"%s\", \"by_file\": %s, \"dims\": ",
           dtype_name(x->dtype), file_is_open(x->file) ? "true" : "false");
    print_dims(x->dims, x->rank);
    printf(", \"path\": ");
    print_text(path);
    printf("}");
  }
}

static void do_run(const char *prefix) {
  struct err err = {0};
  struct arrays results = {0};
  const struct arrays given = {inputs, n_inputs};
  const enum runtime_end end =
      runtime_run(runtime, &given, n_wanted ? wanted : NULL, n_wanted, &arena, &results, &err);
  begin_line("run", end_words(end), &err);
  printf(", \"outputs\": [");
  const char *comma = "";
  for (uint32_t i = 0; i < results.n; i++) {
    printf("%s", comma);
    comma = ", ";
    print_array(&results.list[i], prefix, i, NO_ID);
    for (uint32_t k = 0; k < results.list[i].n_items; k++) {
      printf(", ");
      print_array(&results.list[i].items[k], prefix, i, k);
    }
  }
  printf("]}\n");
}

// How many words it took behind itself; -1: it is not known.
static int do_word(const char *word, char **rest) {
  if (!strcmp(word, "--optimized")) return options.optimized = true, 0;
  if (!strcmp(word, "--open")) return do_open(), 0;
  if (!strcmp(word, "--clear")) return forget_inputs(), 0;
  if (!strcmp(word, "--release")) return runtime_release(runtime), 0;
  if (!strcmp(word, "--stop")) return stop = 15, 0;
  if (!strcmp(word, "--mark")) return do_mark(), 0;
  if (!strcmp(word, "--close")) return do_close(), 0;
  if (!strcmp(word, "--peak"))
    return printf("{\"did\": \"peak\", \"bytes\": %llu}\n",
                  (unsigned long long)runtime_peak_memory(runtime)),
           0;
  if (!rest[0]) return -1;
  if (!strcmp(word, "--library")) return options.library = rest[0], 1;
  if (!strcmp(word, "--seconds")) return options.seconds = strtod(rest[0], NULL), 1;
  if (!strcmp(word, "--memory")) return options.memory_bytes = strtoull(rest[0], NULL, 10), 1;
  if (!strcmp(word, "--threads")) return options.threads = (uint32_t)atoi(rest[0]), 1;
  if (!strcmp(word, "--scratch")) return options.scratch = rest[0], 1;
  if (!strcmp(word, "--load")) return do_load(rest[0], NULL), 1;
  if (!strcmp(word, "--input")) return do_input(rest[0], false), 1;
  if (!strcmp(word, "--input-file")) return do_input(rest[0], true), 1;
  if (!strcmp(word, "--want")) return wanted[n_wanted++ % MOST] = rest[0], 1;
  if (!strcmp(word, "--run")) return do_run(rest[0]), 1;
  if (!strcmp(word, "--nothing"))
    return inputs[n_inputs++ % MOST] = (struct array){.name = rest[0], .kind = ARRAY_NOTHING}, 1;
  if (!rest[1]) return -1;
  if (!strcmp(word, "--load-beside")) return do_load(rest[0], rest[1]), 2;
  if (!strcmp(word, "--sequence")) return do_sequence(rest[0], (uint32_t)atoi(rest[1])), 2;
  return -1;
}

int main(int argc, char **argv) {
  process_begin(argv[0]);
  for (int i = 1; i < argc; i++) {
    const int took = do_word(argv[i], argv + i + 1);
    if (took < 0) give_up(argv[i]);
    i += took;
    fflush(stdout);
  }
  do_close();
  arena_free(&arena);
  return 0;
}
