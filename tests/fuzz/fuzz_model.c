// The loader over arbitrary bytes as an .onnx, twice: once as it is used (the first fault ends it),
// once collecting all faults as `weir check` does, operators included. A model that loads must have
// consistent tables, whatever it says.
#include "check/check.h"
#include "stream/load/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64], path[128], data_path[128];

static void demand(int holds) {
  if (!holds) abort();
}

static void remove_files(void) {
  unlink(path);
  unlink(data_path);
  rmdir(folder);
}

static void write_file(const char *name, const uint8_t *data, size_t size) {
  FILE *f = fopen(name, "wb");
  demand(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
}

// A folder with a data file that inputs can name: ext.data.
static void make_folder(void) {
  static const uint8_t weights[4096];
  const char *base = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%.40s/weir-fuzz-XXXXXX", base ? base : "/tmp");
  demand(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/m.onnx", folder);
  snprintf(data_path, sizeof data_path, "%s/ext.data", folder);
  write_file(data_path, weights, sizeof weights);
  atexit(remove_files);
}

// `unopened`: data files are names only, and their sizes are unknown.
static void check_tensors(const struct model *m, struct sources *s, bool unopened) {
  for (uint32_t id = 0; id < m->n_tensors; id++) {
    const struct model_tensor *t = &m->tensors[id];
    uint32_t n;
    struct span small;
    const struct piece *p = model_pieces(m, id, &n);
    for (uint32_t i = 0; i < n; i++)
      demand(p[i].at.file < sources_count(s) &&
             ((unopened && p[i].at.file > 0) ||
              range_fits(p[i].at.off, p[i].at.len, sources_size(s, p[i].at.file))));
    demand(t->rank <= m->n_dims && t->dims <= m->n_dims - t->rank);
    if (model_small_value(m, id, &small))
      demand(range_fits((uint64_t)(small.at - m->small_bytes), small.n, m->n_small_bytes));
    demand(range_fits(t->src.off, t->src.len, m->files[0].size));
  }
}

static void check_nodes(const struct model *m) {
  for (uint32_t id = 0; id < m->n_nodes; id++) {
    const struct model_node *n = &m->nodes[id];
    demand(range_fits(n->refs, (uint64_t)n->n_in + n->n_out, m->n_refs));
    for (uint32_t i = 0; i < n->n_in + n->n_out; i++) {
      const uint32_t value = m->refs[n->refs + i].value;
      demand(value == NO_ID || value < m->n_values);
    }
    for (uint32_t i = 0; i < n->n_attrs; i++)
      demand(m->attrs[n->attrs + i].node == id);
  }
}

static void check_model(const struct model *m, struct sources *s, bool unopened,
                        const struct fault_sink *faults) {
  struct err err = {0};
  demand(m->main_graph < m->n_graphs);
  check_tensors(m, s, unopened);
  check_nodes(m);
  demand(check_operators(m, faults, &err) == 0 || (!faults && err.kind == ERR_MODEL));
  for (uint32_t id = 0; id < m->n_values; id++) {
    struct model_constant c;
    (void)model_resolve_constant(m, id, &c);
    (void)model_use_count(m, id);
  }
}

static void ignore_fault(void *ctx, enum fault_level level, const char *place, const char *message,
                         const struct err *cause) {
  (void)ctx, (void)cause;
  demand(level <= FAULT_ERROR && place && message[0]);
}

static void load(const struct load_options *options) {
  struct sources *s;
  struct model m;
  struct err err = {0};
  demand(sources_open(&s, path, NULL, &err) == 0);
  model_init(&m);
  if (load_model(&m, s, options, &err) == 0)
    check_model(&m, s, options && (options->no_external || options->no_matter_the_data),
                options ? options->faults : NULL);
  else
    demand(err.kind != ERR_NONE && err.msg[0]);
  model_free(&m);
  sources_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!folder[0]) make_folder();
  write_file(path, data, size);
  const struct fault_sink sink = {.report = ignore_fault};
  load(NULL);
  load(&(struct load_options){.faults = &sink});
  load(&(struct load_options){.no_matter_the_data = true});
  load(&(struct load_options){.faults = &sink, .no_external = true, .limits.nesting = 5});
  return 0;
}
