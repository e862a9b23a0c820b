// A case becomes a file that has all of its elements (made_file.h): those that the case keeps from
// passes are small floats there.
#include "mutant_seeds.h"

#include "graph_text.h"
#include "made_file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

struct span seeds_read_file(const char *path, struct arena *a) {
  struct stat st;
  FILE *f = fopen(path, "re");
  if (!f || fstat(fileno(f), &st)) {
    perror(path);
    exit(2);
  }
  char *text = arena_zalloc(a, (size_t)st.st_size + 1);
  if (fread(text, 1, (size_t)st.st_size, f) != (size_t)st.st_size) exit(2);
  fclose(f);
  return span_of(text, (size_t)st.st_size);
}

// "NAME:…,ranges=ranges.json,…" with our ranges.
static const char *with_ranges(struct seeds *s, const char *pass, const char *ranges) {
  const char *key = strstr(pass, "ranges=");
  if (!key) return pass;
  const char *rest = strchrnul(key, ',');
  return arena_printf(&s->arena, "%.*sranges=%s%s", (int)(key - pass), pass, ranges, rest);
}

// The lines of the head that are about the run; the others are the model.
static const char *read_head(struct seeds *s, struct seed *seed, char *head, const char *ranges) {
  char *out = arena_zalloc(&s->arena, strlen(head) + 2), *model = out, *line;
  seed->passes = arena_alloc(&s->arena, (strlen(head) / 5 + 1) * sizeof *seed->passes);
  while ((line = strsep(&head, "\n"))) {
    if (strncmp(line, "pass ", 5) == 0)
      seed->passes[seed->n_passes++] = with_ranges(s, line + 5, ranges);
    else if (strncmp(line, "exactness ", 10) != 0)
      out = stpcpy(stpcpy(out, line), "\n");
  }
  return model;
}

static void add(struct seeds *s, struct seed seed) {
  seed.key = span_hash(seed.model);
  if (seed.model.n <= SEED_MOST_BYTES) *TABLE_PUSH(s, list) = seed;
}

static void add_case(struct seeds *s, const char *path, const char *ranges) {
  struct seed seed = {.name = path};
  struct model m;
  struct err err = {0};
  const struct graph_text_kept *kept;
  char *text = arena_string(&s->arena, seeds_read_file(path, &s->arena));
  char *says = strstr(text, "---- says\n");
  if (says) *says = '\0';
  const char *lines = read_head(s, &seed, text, ranges);
  if (graph_text_read(&m, lines, &kept, &s->arena, &err) == 0) {
    seed.model = made_file(&m, &s->arena);
    add(s, seed);
  }
  model_free(&m);
}

static void add_file(struct seeds *s, const char *path, const char *ranges) {
  if (str_ends(path, ".case")) add_case(s, path, ranges);
  if (!str_ends(path, ".onnx")) return;
  add(s, (struct seed){.name = path, .model = seeds_read_file(path, &s->arena)});
}

void seeds_add(struct seeds *s, const char *path, const char *ranges) {
  struct stat st;
  if (stat(path, &st)) {
    perror(path);
    exit(2);
  }
  if (!S_ISDIR(st.st_mode)) {
    add_file(s, path, ranges);
    return;
  }
  struct dirent **entries;
  const int n = scandir(path, &entries, NULL, alphasort);
  for (int i = 0; i < n; i++) {
    if (entries[i]->d_name[0] != '.')
      seeds_add(s, arena_printf(&s->arena, "%s/%s", path, entries[i]->d_name), ranges);
    free(entries[i]);
  }
  if (n >= 0) free(entries);
}

void seeds_free(struct seeds *s) {
  TABLE_FREE(s, list);
  arena_free(&s->arena);
}
