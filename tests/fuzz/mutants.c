// Mutants of models through weir's commands, both chosen by a seed: the whole program, in a process
// of its own for each, so that what ends it is seen and kept.
//
//   mutants [--seed S] [--count N] [--more N] [--command FAMILY] [--save DIR] [--outputs 1]
//           FILE|FOLDER…
//   mutants --reduce FILE 'WORDS' FILE|FOLDER…
//   mutants --finds FILE
//   mutants --write-seeds DIR FILE|FOLDER…
//
// A mutant is made of two models of the tests (mutant_seeds.h) by mutate.h; the command is a row of
// mutant_commands.def, the passes of the case that the model is from, or one pass of the catalogue.
// A find is
//
//   a signal: an assertion, a sanitizer, more memory than the bound, a minute of the processor
//   70 or 74, or 75, which nobody asked for (2 is none: a command names a dim or an input that the
//   mutant may lack)
//   a log that does not replay to the same bytes
//   with --outputs 1 an output with faults where `check` finds none in the input: for reading, since
//   check sees more where a pass has written plainly what the model said in another way
//
// Its seed alone makes it again (--seed S --count 1). --more: N times as many with WEIR_TEST_ALL=1.
// --command control: a run that aborts, which must be a find. --reduce takes fields away from a
// find as long as it stays one of the same kind, and writes FILE.reduced. --finds: what was found
// before.
#include "chance.h"
#include "made_ranges.h"
#include "mutant_memory.h"
#include "mutant_seeds.h"
#include "mutate.h"
#include "mutate_tree.h"
#include "passes/catalogue/passes.h"
#include "stream/load/load.h"
#include "stream/sys/fs.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 64, CPU_SECONDS = 60, SAID_LINES = 40 };
static const uint64_t MEMORY_BOUND = UINT64_C(1) << 30;

int weir_main(int argc, char **argv); // tools/main.c
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

__attribute__((visibility("default"))) const char *__asan_default_options(void) {
  return "detect_leaks=0:abort_on_error=1:allocator_may_return_null=1:quarantine_size_mb=8";
}
__attribute__((visibility("default"))) const char *__ubsan_default_options(void) {
  return "abort_on_error=1:print_stacktrace=1";
}

static const struct command {
  const char *family, *words;
} commands[] = {
#define ROW(family, words) {family, words},
#include "mutant_commands.def"
#undef ROW
};
enum { COMMANDS = sizeof commands / sizeof *commands };

// ---- files --------------------------------------------------------------------------------------

// The folder that runs work in, and what they print.
static char work[PATH_MAX], said[PATH_MAX];

static void give_up(const char *what) {
  perror(what);
  exit(2);
}

static const char *in_work(const char *name) {
  static char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/%s", work, name) >= (int)sizeof path) give_up(work);
  return path;
}

static void write_file(const char *path, struct span bytes) {
  FILE *f = fopen(path, "we");
  if (!f || fwrite(bytes.at, 1, bytes.n, f) != bytes.n || fclose(f)) give_up(path);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *place) {
  (void)st, (void)type;
  return place->level > 0 ? remove(path) : 0;
}

static void empty_work(void) {
  if (nftw(work, remove_one, 16, FTW_DEPTH | FTW_PHYS)) give_up(work);
}

static void remove_work(void) {
  empty_work();
  rmdir(work);
  unlink(said);
}

static void make_work(void) {
  const char *base = getenv("TMPDIR");
  const char *under = base && *base ? base : "/tmp";
  if (snprintf(work, sizeof work, "%s/mutants-XXXXXX", under) >= PATH_MAX || !mkdtemp(work))
    give_up(under);
  if (snprintf(said, sizeof said, "%s.said", work) >= PATH_MAX) give_up(work);
}

static bool same_files(const char *a, const char *b) {
  struct arena room = {0};
  const struct span x = seeds_read_file(in_work(a), &room), y = seeds_read_file(in_work(b), &room);
  const bool same = span_eq(x, y);
  arena_free(&room);
  return same;
}

// ---- one run ------------------------------------------------------------------------------------

static int put_text(void *f, struct span text) {
  return fwrite(text.at, 1, text.n, f) == text.n ? 0 : -1;
}

// Ranges of the mutant, if it is a model.
static void write_ranges(void) {
  struct sources *s;
  struct model m;
  struct ranges r;
  struct err err = {0};
  if (sources_open(&s, "m.onnx", NULL, &err)) return;
  model_init(&m);
  if (load_model(&m, s, NULL, &err) == 0) {
    made_ranges(&r, &m);
    FILE *f = fopen("r.jsonl", "we");
    if (!f || ranges_write(&r, put_text, f) || fclose(f)) give_up("r.jsonl");
    ranges_free(&r);
  }
  model_free(&m);
  sources_close(s);
}

static int no_sync(struct file f) {
  (void)f;
  return 0;
}
static int no_folder_sync(struct folder f) {
  (void)f;
  return 0;
}

// The disk need not have what is removed at once.
static void sync_nothing(void) {
  static struct file_calls quick;
  quick = file_calls_of_system;
  quick.file_sync = quick.file_sync_data = no_sync;
  quick.folder_sync = no_folder_sync;
  file_calls = &quick;
}

static _Noreturn void child(const char *words) {
  char *argv[WORDS + 1] = {"weir"}, *rest = strdup(words);
  int argc = 1;
  const struct rlimit no_core = {0, 0}, cpu = {CPU_SECONDS, CPU_SECONDS + 5};
  if (chdir(work) || !freopen(said, "we", stdout) || dup2(fileno(stdout), 2) < 0) give_up(work);
  setrlimit(RLIMIT_CORE, &no_core);
  setrlimit(RLIMIT_CPU, &cpu);
  sync_nothing();
  if (strcmp(words, "control") == 0) abort();
  if (strstr(words, "r.jsonl")) write_ranges();
  mutant_memory_bound = mutant_memory_asked() + MEMORY_BOUND;
  while (argc < WORDS && (argv[argc] = strsep(&rest, " ")))
    argc++;
  argv[argc] = NULL;
  exit(weir_main(argc, argv));
}

static uint64_t n_runs, n_by_code[256];

static int run(const char *words) {
  int status;
  fflush(NULL); // else the child has what is not written yet too
  const pid_t pid = fork();
  if (pid < 0) give_up("fork");
  if (pid == 0) child(words);
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) give_up("waitpid");
  n_runs++;
  if (WIFEXITED(status)) n_by_code[WEXITSTATUS(status)]++;
  return status;
}

static bool is_broken(int status) {
  if (!WIFEXITED(status)) return true;
  const int code = WEXITSTATUS(status);
  return code == ERR_INTERNAL || code == ERR_IO || code == ERR_RETRY || code > ERR_PERMISSION;
}

static bool done(int status) {
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool outputs; // are they checked?

// `shrink` names its output itself.
static void take_output_of_shrink(void) {
  static char from[PATH_MAX];
  snprintf(from, sizeof from, "%s", in_work("m_o.onnx"));
  if (rename(from, in_work("o.onnx")) && errno != ENOENT) give_up(from);
}

// What is wrong with what it wrote; NULL: nothing.
static const char *judge_output(const char *words) {
  int status;
  if (strstr(words, "--suffix _o.onnx")) take_output_of_shrink();
  if (access(in_work("o.onnx"), F_OK)) return NULL;
  if (strstr(words, "e.jsonl")) {
    // Under its own name, which the .onnx says of its data file.
    if (mkdir(in_work("again"), 0700)) give_up("again");
    status = run("replay e.jsonl m.onnx again/o.onnx");
    if (is_broken(status)) return "replay breaks";
    if (!done(status)) return "no replay";
    if (!same_files("o.onnx", "again/o.onnx")) return "another replay";
  }
  if (!outputs || !done(run("check m.onnx"))) return NULL;
  status = run("check o.onnx");
  return is_broken(status) ? "check breaks" : done(status) ? NULL : "faults";
}

// Runs it over a model. How it is a find; NULL: it is none.
static const char *judge(struct span model, struct span seed, const char *words, bool further) {
  static char kind[32];
  empty_work();
  write_file(in_work("m.onnx"), model);
  write_file(in_work("seed.onnx"), seed);
  const int status = run(words);
  if (is_broken(status)) {
    if (WIFEXITED(status))
      snprintf(kind, sizeof kind, "exit %d", WEXITSTATUS(status));
    else
      snprintf(kind, sizeof kind, "signal %d", WTERMSIG(status));
    return kind;
  }
  return further && done(status) ? judge_output(words) : NULL;
}

// ---- what is chosen -----------------------------------------------------------------------------

struct asked {
  uint64_t seed, count;
  const char *family, *save;
  struct seeds seeds;
};

static const char *one_of(const char *family) {
  const struct command *found = NULL;
  uint32_t seen = 0;
  for (uint32_t i = 0; i < COMMANDS; i++)
    if ((!family || strcmp(commands[i].family, family) == 0) && chance_below(++seen) == 0)
      found = &commands[i];
  return found ? found->words : NULL;
}

static const char *command_of(const struct asked *k, const struct seed *s, struct arena *a) {
  const uint32_t kind = chance_below(10);
  if (k->family && strcmp(k->family, "control") == 0) return "control";
  if (k->family || kind < 5 || (kind < 9 && s->n_passes == 0)) return one_of(k->family);
  const char *words = "run m.onnx o.onnx --edit-log e.jsonl";
  if (kind == 9)
    return arena_printf(a, "%s --pass %s", words,
                        passes_at(NULL, chance_below(passes_count(NULL)))->name);
  for (uint32_t i = 0; i < s->n_passes; i++)
    words = arena_printf(a, "%s --pass %s", words, s->passes[i]);
  return words;
}

// ---- finds --------------------------------------------------------------------------------------

static void print_said(void) {
  FILE *f = fopen(said, "re");
  char *line = NULL;
  size_t cap = 0;
  for (uint32_t n = 0; f && n < SAID_LINES && getline(&line, &cap, f) >= 0; n++)
    printf("  | %s", line);
  free(line);
  if (f) fclose(f);
}

static void tell_find(const struct asked *k, uint64_t seed, struct span model, const char *kind,
                      const char *words, const char *what) {
  printf("FOUND --seed %llu: %s\n  weir %s\n  (%s; %zu bytes)\n", (unsigned long long)seed, kind,
         words, what, model.n);
  print_said();
  if (k->save) {
    struct arena room = {0};
    const char *path = arena_printf(&room, "%s/%llu.onnx", k->save, (unsigned long long)seed);
    write_file(path, model);
    printf("  kept: %s\n", path);
    arena_free(&room);
  }
  fflush(stdout);
}

// One of the models by chance. A model more or less in the tests changes few of the others'
// mutants.
static const struct seed *choose(const struct seeds *s) {
  const struct seed *found = s->list;
  uint64_t most = 0;
  const uint64_t draw = chance_64();
  for (uint32_t i = 0; i < s->n_list; i++) {
    const uint64_t h = span_hash_mix(draw, s->list[i].key);
    if (h < most) continue;
    most = h;
    found = &s->list[i];
  }
  return found;
}

// Is it a find?
static bool try_one(const struct asked *k, uint64_t seed) {
  struct arena room = {0};
  const char *what;
  chance_seed = seed;
  chance_64();
  const struct seed *s = choose(&k->seeds), *other = choose(&k->seeds);
  const char *words = command_of(k, s, &room);
  const bool further = chance_below(4) == 0;
  const uint64_t how = chance_64();
  if (!words) {
    fprintf(stderr, "no commands of the family '%s'\n", k->family);
    exit(2);
  }
  const struct span model = mutate(s->model, other->model, how, &room, &what);
  const char *kind = judge(model, s->model, words, further);
  if (kind) tell_find(k, seed, model, kind, words, arena_printf(&room, "%s: %s", s->name, what));
  arena_free(&room);
  return kind;
}

static int try_all(const struct asked *k) {
  uint64_t found = 0;
  for (uint64_t i = 0; i < k->count; i++)
    found += try_one(k, k->seed + i);
  printf("%llu mutants of %u models, %llu runs, %llu found;", (unsigned long long)k->count,
         k->seeds.n_list, (unsigned long long)n_runs, (unsigned long long)found);
  for (uint32_t i = 0; i < 256; i++)
    if (n_by_code[i]) printf(" exit %u: %llu", i, (unsigned long long)n_by_code[i]);
  printf("\n");
  return found > 0;
}

// ---- reduction ----------------------------------------------------------------------------------

// Takes each field away in turn, the last first, and leaves away what the find does not need. Was
// there any?
static bool reduce_once(struct span *model, const char *words, const char *kind, struct arena *a) {
  struct tree t;
  bool smaller = false;
  tree_read(&t, *model, a);
  for (uint32_t i = t.n_all; i-- > 0;) {
    struct field *f = t.all[i], *in = f->up, *before = f->prev;
    if (!in) continue;
    const bool first = !before;
    tree_take(f);
    const char *now = judge(tree_write(&t), *model, words, true);
    if (now && strcmp(now, kind) == 0) {
      smaller = true;
      continue;
    }
    if (first && in->first) { // back where it was
      struct field *next = in->first;
      tree_put(in, next, f);
      tree_take(next);
      tree_put(in, f, next);
    } else {
      tree_put(in, before, f);
    }
  }
  *model = tree_write(&t);
  tree_free(&t);
  return smaller;
}

static int reduce(const char *path, const char *words) {
  struct arena room = {0};
  struct span model = seeds_read_file(path, &room);
  const char *now = judge(model, model, words, true);
  if (!now) {
    printf("%s: no find\n", path);
    return 1;
  }
  const char *kind = arena_printf(&room, "%s", now);
  while (reduce_once(&model, words, kind, &room))
    ;
  judge(model, model, words, true);
  write_file(arena_printf(&room, "%s.reduced", path), model);
  printf("%s: %zu bytes\n", kind, model.n);
  print_said();
  arena_free(&room);
  return 0;
}

// What was found once: lines of a file beside the models, "MODEL WORDS". Each is no find any more.
static int replay_finds(const char *path) {
  struct arena room = {0};
  char *text = arena_string(&room, seeds_read_file(path, &room)), *line;
  const char *folder = arena_folder(&room, path);
  uint32_t n = 0, found = 0;
  while ((line = strsep(&text, "\n"))) {
    const char *name = strsep(&line, " ");
    if (!line || *name == '#') continue;
    const struct span model = seeds_read_file(arena_printf(&room, "%s/%s", folder, name), &room);
    const char *kind = judge(model, model, line, true);
    if (kind) {
      printf("FOUND %s: %s\n  weir %s\n", name, kind, line);
      print_said();
    }
    found += kind != NULL;
    n++;
  }
  printf("%u replayed, %u found\n", n, found);
  arena_free(&room);
  return n == 0 || found > 0;
}

static int write_seeds(const struct seeds *s, const char *folder) {
  struct arena room = {0};
  for (uint32_t i = 0; i < s->n_list; i++)
    write_file(arena_printf(&room, "%s/%04u.onnx", folder, i), s->list[i].model);
  arena_free(&room);
  return 0;
}

// ---- the command line ---------------------------------------------------------------------------

int main(int argc, char **argv) {
  struct asked k = {.seed = 1, .count = 100};
  const char *all = getenv("WEIR_TEST_ALL"), *reduced = NULL, *words = NULL, *folder = NULL;
  const char *finds = NULL;
  uint64_t more = 1;
  setenv("WEIR_JOBS", "1", 1);
  setenv("WEIR_IO", "sync", 1);
  setenv("WEIR_MEMORY", "16MiB", 1);
  for (int i = 1; i < argc; i++) {
    const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
    if (strncmp(word, "--", 2) != 0) {
      seeds_add(&k.seeds, word, "r.jsonl");
      continue;
    }
    i++;
    if (strcmp(word, "--seed") == 0) k.seed = strtoull(value, NULL, 10);
    if (strcmp(word, "--count") == 0) k.count = strtoull(value, NULL, 10);
    if (strcmp(word, "--more") == 0) more = strtoull(value, NULL, 10);
    if (strcmp(word, "--command") == 0) k.family = value;
    if (strcmp(word, "--save") == 0) k.save = value;
    if (strcmp(word, "--outputs") == 0) outputs = strcmp(value, "1") == 0;
    if (strcmp(word, "--write-seeds") == 0) folder = value;
    if (strcmp(word, "--finds") == 0) finds = value;
    if (strcmp(word, "--reduce") == 0) {
      reduced = value;
      words = i + 1 < argc ? argv[++i] : "";
    }
  }
  if (k.seeds.n_list == 0 && !reduced && !finds) {
    fprintf(stderr, "mutants: no models\n");
    return 2;
  }
  if (all && strcmp(all, "1") == 0) k.count *= more;
  make_work();
  const int rc = folder    ? write_seeds(&k.seeds, folder)
                 : finds   ? replay_finds(finds)
                 : reduced ? reduce(reduced, words)
                           : try_all(&k);
  remove_work();
  seeds_free(&k.seeds);
  return rc;
}
