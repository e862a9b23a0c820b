// Golden cases of inference: infer_cases [--update] FILE.case…
//
// A file has blocks with a line "====" between them. A block is a model (graph_text.h), which may begin
// with a line "options declared=keep least=0 to-end=N guess-rank", and behind a line "----", written
// by --update, what is known of what its nodes make:
//
//   h: float[N,(t + 1)//2]              type and dims
//   s: int64[2] {N, (t + 1)//2}         with the elements of a small value; ? is not known
//   y: float (depends-on-data)          and why not more
//   q: sequence of float[N,3]
//   ! node n3: axis 4 of 2 dims         what inference said
#include "check/check.h"
#include "graph_text.h"
#include "infer/infer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct text {
  char *at;
  size_t n, cap;
};

static void put(struct text *t, const char *s) {
  const size_t n = strlen(s);
  if (t->n + n + 1 > t->cap) t->at = table_grow(t->at, &t->cap, t->n + n + 1, 1);
  memcpy(t->at + t->n, s, n + 1);
  t->n += n;
}

struct said {
  struct text *out;
  const struct model *m;
  struct arena *a;
};

static void say(void *ctx, uint32_t node, uint32_t value, const char *sentence) {
  const struct said *s = ctx;
  const struct model *m = s->m;
  const uint32_t name = node != NO_ID ? m->nodes[node].name : m->values[value].name;
  put(s->out, arena_printf(s->a, "! %s %s: %s\n", node != NO_ID ? "node" : "value",
                           model_name_str(m, name), sentence));
}

static const char *dim(struct infer *in, dim_id d, struct arena *a) {
  return d == NO_ID ? "?" : arena_string(a, dims_text(infer_dims(in), d, a));
}

static void put_type(struct infer *in, uint32_t value, struct text *out, struct arena *a) {
  struct infer_type t;
  const struct infer_number *list;
  uint32_t n;
  static const char *const kinds[] = {"", "sequence of ", "optional ", "other "};
  infer_type_of(in, value, &t);
  put(out, kinds[t.kind]);
  put(out, t.dtype == DTYPE_UNDEFINED ? "?" : dtype_name(t.dtype));
  if (t.ranked) {
    put(out, "[");
    for (uint32_t i = 0; i < t.rank; i++)
      put(out, arena_printf(a, "%s%s", i ? "," : "", dim(in, t.dims[i], a)));
    put(out, "]");
  }
  if (infer_numbers(in, value, &list, &n)) {
    put(out, " {");
    for (uint32_t i = 0; i < n && i < 16; i++) {
      put(out, arena_printf(a, "%s%s", i ? ", " : "", dim(in, list[i].num, a)));
      if (list[i].den != 1) put(out, arena_printf(a, " / %lld", (long long)list[i].den));
    }
    put(out, n > 16 ? ", ...}" : "}");
  }
  if (infer_why(in, value) != INFER_WHY_KNOWN)
    put(out, arena_printf(a, " (%s)", infer_why_code(infer_why(in, value))));
}

static struct infer_options options_of(char *model) {
  struct infer_options o = {INFER_REFINE, 1, INT64_MAX, false};
  if (strncmp(model, "options", 7) != 0) return o;
  char *end = strchrnul(model, '\n');
  char *copy = strndup(model, (size_t)(end - model)), *rest = copy, *word;
  while ((word = strsep(&rest, " "))) {
    if (strcmp(word, "declared=keep") == 0) o.declared = INFER_KEEP;
    if (strcmp(word, "declared=override") == 0) o.declared = INFER_OVERRIDE;
    if (strcmp(word, "guess-rank") == 0) o.guess_rank = true;
    if (strncmp(word, "least=", 6) == 0) o.least_dim = atoll(word + 6);
    if (strncmp(word, "to-end=", 7) == 0) o.to_end = atoll(word + 7);
  }
  free(copy);
  memset(model, ' ', (size_t)(end - model));
  model[0] = '#';
  return o;
}

// What inference makes of a block; NULL: it is no model.
static bool outcome(const char *block, struct text *out, struct arena *a, const char *path) {
  struct model m;
  struct err err = {0};
  const struct graph_text_kept *kept;
  char *model = arena_string(a, span_str(block));
  const struct infer_options o = options_of(model);
  if (graph_text_read(&m, model, &kept, a, &err) || check_structure(&m, NULL, NULL, &err)) {
    printf("FAILED %s: %s\n%s", path, err.msg, block);
    model_free(&m);
    return false;
  }
  struct infer *in = infer_new(&m, &o);
  struct said said = {out, &m, a};
  infer_all(in, &(struct infer_told){.say = say, .ctx = &said});
  for (uint32_t value = 0; value < m.n_values; value++) {
    if (m.values[value].kind != VALUE_NODE_OUTPUT || m.values[value].flags & VALUE_DEAD) continue;
    put(out, arena_printf(a, "%s: ", model_name_str(&m, m.values[value].name)));
    put_type(in, value, out, a);
    put(out, "\n");
  }
  infer_free(in);
  model_free(&m);
  return true;
}

static char *read_all(const char *path, struct arena *a) {
  FILE *f = fopen(path, "re");
  if (!f) {
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(2);
  }
  struct text t = {0};
  char part[4096];
  put(&t, "");
  while (fgets(part, sizeof part, f))
    put(&t, part);
  fclose(f);
  char *all = arena_string(a, span_of(t.at, t.n));
  table_free(t.at, t.cap, 1);
  return all;
}

static bool run_file(const char *path, bool update) {
  struct arena a = {0};
  struct text all = {0};
  char *rest = read_all(path, &a);
  bool good = true;
  put(&all, "");
  while (rest && *rest) {
    char *block = rest, *next = strstr(rest, "====\n");
    rest = next ? next + 5 : NULL;
    if (next) *next = '\0';
    char *cut = strstr(block, "----\n");
    const char *head = cut ? arena_string(&a, span_of(block, (size_t)(cut - block))) : block;
    struct text got = {0};
    put(&got, "----\n");
    if (!outcome(head, &got, &a, path)) good = false;
    if (!update && (!cut || strcmp(cut, got.at) != 0)) {
      printf("FAILED %s\n%s-- wanted:\n%s-- got:\n%s", path, head, cut ? cut + 5 : "", got.at + 5);
      good = false;
    }
    put(&all, head);
    put(&all, got.at);
    if (rest) put(&all, "====\n");
    table_free(got.at, got.cap, 1);
  }
  if (update && good) {
    FILE *f = fopen(path, "we");
    good = f && fputs(all.at, f) >= 0;
    if (f && fclose(f)) good = false;
    printf("%s %s\n", good ? "updated" : "FAILED to write", path);
  }
  table_free(all.at, all.cap, 1);
  arena_free(&a);
  return good;
}

int main(int argc, char **argv) {
  const bool update = argc > 1 && strcmp(argv[1], "--update") == 0;
  int failed = 0;
  if (argc < 2 + update) {
    fprintf(stderr, "usage: infer_cases [--update] FILE.case...\n");
    return 2;
  }
  for (int i = 1 + update; i < argc; i++)
    failed += !run_file(argv[i], update);
  printf("%d files, %d failed\n", argc - 1 - update, failed);
  return failed > 0;
}
