// Writing protobuf by hand is the point: tests must be able to write what no library would.
#include "pb_build.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void pb_free(struct pb *p) {
  free(p->at);
  *p = (struct pb){0};
}

void pb_raw(struct pb *p, const void *bytes, size_t n) {
  if (p->cap - p->n < n) {
    p->cap = (p->n + n) * 2 + 64;
    p->at = realloc(p->at, p->cap);
    if (!p->at) abort();
  }
  if (n) memcpy(p->at + p->n, bytes, n);
  p->n += n;
}

void pb_number(struct pb *p, uint64_t x) {
  uint8_t b[10];
  size_t n = 0;
  for (; x >= 0x80; x >>= 7)
    b[n++] = (uint8_t)(x | 0x80);
  b[n++] = (uint8_t)x;
  pb_raw(p, b, n);
}

void pb_varint(struct pb *p, uint32_t field, uint64_t x) {
  pb_number(p, (uint64_t)field << 3);
  pb_number(p, x);
}

void pb_fixed32(struct pb *p, uint32_t field, uint32_t x) {
  pb_number(p, (uint64_t)field << 3 | 5);
  pb_raw(p, &x, 4);
}

void pb_fixed64(struct pb *p, uint32_t field, uint64_t x) {
  pb_number(p, (uint64_t)field << 3 | 1);
  pb_raw(p, &x, 8);
}

void pb_bytes(struct pb *p, uint32_t field, const void *bytes, size_t n) {
  pb_number(p, (uint64_t)field << 3 | 2);
  pb_number(p, n);
  pb_raw(p, bytes, n);
}

void pb_text(struct pb *p, uint32_t field, const char *s) {
  pb_bytes(p, field, s, strlen(s));
}

void pb_message(struct pb *p, uint32_t field, struct pb *message) {
  pb_bytes(p, field, message->at, message->n);
  pb_free(message);
}

void pb_entry(struct pb *p, uint32_t field, const char *key, const char *value) {
  struct pb e = {0};
  pb_text(&e, 1, key);
  pb_text(&e, 2, value);
  pb_message(p, field, &e);
}

void pb_node(struct pb *graph, const char *op, const char *a, const char *b, const char *out) {
  struct pb n = {0};
  if (a) pb_text(&n, 1, a);
  if (b) pb_text(&n, 1, b);
  if (out) pb_text(&n, 2, out);
  pb_text(&n, 4, op);
  pb_message(graph, 1, &n);
}

void pb_io(struct pb *graph, uint32_t field, const char *name) {
  struct pb dim = {0}, shape = {0}, tensor = {0}, type = {0}, info = {0};
  pb_varint(&dim, 1, 4);
  pb_message(&shape, 1, &dim);
  pb_varint(&tensor, 1, 1);
  pb_message(&tensor, 2, &shape);
  pb_message(&type, 1, &tensor);
  pb_text(&info, 1, name);
  pb_message(&info, 2, &type);
  pb_message(graph, field, &info);
}

void pb_identity(struct pb *graph) {
  pb_node(graph, "Identity", "x", NULL, "y");
  pb_text(graph, 2, "g");
  pb_io(graph, 11, "x");
  pb_io(graph, 12, "y");
}

struct pb pb_model(struct pb *graph) {
  struct pb m = {0}, opset = {0};
  pb_varint(&m, 1, 9);
  pb_message(&m, 7, graph);
  pb_text(&opset, 1, "");
  pb_varint(&opset, 2, 18);
  pb_message(&m, 8, &opset);
  return m;
}

// ---- a folder -----------------------------------------------------------------------------------

void pb_home_open(struct pb_home *h) {
  memset(h, 0, sizeof *h);
  const char *base = getenv("TMPDIR");
  snprintf(h->folder, sizeof h->folder, "%.30s/weir-load-XXXXXX", base ? base : "/tmp");
  if (!mkdtemp(h->folder)) abort();
  snprintf(h->onnx, sizeof h->onnx, "%s/m.onnx", h->folder);
}

static void forget(struct pb_home *h) {
  if (h->loaded) model_free(&h->m);
  sources_close(h->sources);
  h->sources = NULL;
  h->loaded = false;
  h->err = (struct err){0};
  h->faults[0] = '\0';
}

static void empty_folder(const char *path) {
  DIR *d = opendir(path);
  if (!d) abort();
  for (struct dirent *e; (e = readdir(d));)
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
      char name[512];
      snprintf(name, sizeof name, "%s/%s", path, e->d_name);
      remove(name);
    }
  closedir(d);
}

void pb_home_close(struct pb_home *h) {
  forget(h);
  empty_folder(h->folder);
  rmdir(h->folder);
}

void pb_home_write(struct pb_home *h, const char *name, const void *bytes, size_t n) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", h->folder, name);
  FILE *f = fopen(path, "wb");
  if (!f || (n && fwrite(bytes, 1, n, f) != n) || fclose(f)) abort();
}

static void collect(void *ctx, enum fault_level level, const char *place, const char *message,
                    const struct err *cause) {
  static const char *const names[] = {"note", "warning", "error"};
  struct pb_home *h = ctx;
  const size_t n = strlen(h->faults);
  snprintf(h->faults + n, sizeof h->faults - n,
           cause && cause->hint[0] ? "%s %s: %s (%s)\n" : "%s %s: %s\n", names[level], place,
           message, cause ? cause->hint : "");
}

int pb_home_load_with(struct pb_home *h, const struct pb *model, struct load_options options) {
  forget(h);
  pb_home_write(h, "m.onnx", model->at, model->n);
  if (sources_open(&h->sources, h->onnx, NULL, &h->err)) return -1;
  model_init(&h->m);
  h->loaded = true;
  return load_model(&h->m, h->sources, &options, &h->err);
}

int pb_home_load(struct pb_home *h, const struct pb *model) {
  return pb_home_load_with(h, model, (struct load_options){0});
}

int pb_home_collect(struct pb_home *h, const struct pb *model) {
  const struct fault_sink sink = {collect, h};
  return pb_home_load_with(h, model, (struct load_options){.faults = &sink});
}
