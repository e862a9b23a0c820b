// The client: values of ours become messages, answers become values of ours; how a process is kept is runtime_process.c's.
//
//   runtime_open ─▶ hello    runtime_load ─▶ close, open    runtime_run ─▶ run, run …    (again hello, where it died)
//
// Large arrays go by two files without a name in the scratch folder, which weir-ort is given when it starts: inputs lie in the one
// from its beginning on, one after the other, for the time of a run; results lie in the other, where runtime_release
// makes it empty again. Nothing is taken from an answer before it was checked: places in the file must be new and
// in it, and the outputs must be those that were asked for.
#include "verify/runtime/runtime.h"

#include "base/version_number.h"
#include "frames/frame.h"
#include "platform/machine.h"
#include "resources/resources.h"
#include "verify/runtime/runtime_find.h"
#include "verify/runtime/runtime_process.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

enum { LARGE = 1 << 20, MOST_INLINE = 32 << 20, FILE_ALIGN = 4096 };
static const double DEFAULT_SECONDS = 600;

struct runtime {
  struct runtime_options o;
  struct arena arena; // of names
  const char *library, *program, *version;
  struct runtime_process process;
  struct file inputs, outputs;
  uint64_t outputs_bytes; // that hold results
  uint64_t session;       // 0: no model is open
  const char *model;      // its path, or what messages call it
  uint32_t n_outputs;     // that it has
  bool keeps_sums;        // runtime_keep_sums
  bool keeps_floats;      // runtime_keep_floats
  struct arena lists, scratch;
  struct frame_buffer request, answer;
};

// ---- requests -------------------------------------------------------------------------------------

// Text of the runtime as a part of a sentence: in one line, and not too long.
static const char *tidy(struct arena *a, const char *text) {
  enum { MOST = 700 };
  char *s = arena_string(a, span_of(text, str_length(text, MOST)));
  for (char *at = s; *at; at++)
    if ((uint8_t)*at < 0x20 || *at == 0x7f) *at = ' ';
  size_t n = strlen(s);
  while (n > 0 && (s[n - 1] == ' ' || s[n - 1] == '.'))
    s[--n] = '\0';
  return s;
}

static enum runtime_end refused(struct runtime *r, const struct frame_of_failed *f,
                                const char *cannot, struct err *err) {
  const char *text = tidy(&r->scratch, f->text);
  if (f->code != FRAME_REFUSED)
    err_fill(err, ERR_FAIL, "%s", text);
  else
    err_fill(err, ERR_FAIL, "ONNX Runtime %s cannot %s '%s': %s", r->version, cannot,
             quote_path(r->model).s, text);
  return RUNTIME_REFUSED;
}

// An answer of that kind, or `failed`.
static enum runtime_end ask(struct runtime *r, struct frame *f, enum frame_kind wanted,
                            const char *doing, struct err *err) {
  const struct runtime_process_ask how = {r->o.seconds, r->o.memory_bytes, r->o.stop, doing};
  if (frame_encode(&r->request, f, err) < 0) return RUNTIME_REFUSED;
  const enum runtime_end end =
      runtime_process_ask(&r->process, &how, &r->request, &r->answer, f, &r->scratch, err);
  if (end != RUNTIME_DONE) r->session = 0;
  if (end != RUNTIME_DONE || f->kind == wanted || f->kind == FRAME_failed) return end;
  runtime_process_end(&r->process);
  r->session = 0;
  err_fill(err, ERR_FAIL, "weir-ort sent an unexpected answer while it %s: '%s'", doing,
           frame_kind_words(f->kind).s);
  return RUNTIME_BROKEN;
}

static int tell_library(const struct runtime *r, const struct frame_of_failed *f, struct arena *a,
                        struct err *err) {
  const bool searched = !strchr(r->library, '/'); // by the dynamic loader, at last
  if (f->code == FRAME_NO_LIBRARY && searched)
    err_fill(err, ERR_RUNTIME, "ONNX Runtime was not found");
  else
    err_fill(err, ERR_RUNTIME, "%s", tidy(a, f->text));
  if (f->code == FRAME_LACKING)
    return err_hint(
        err,
        "pip install onnxruntime-gpu and the CUDA version that it needs, or leave out --provider");
  return runtime_find_hint(err);
}

// What was verified is told with it: none that is too old to have run anything, and the same each time. A text that is no
// number is only told.
static bool is_believable(const struct runtime *r, const char *version) {
  const struct version_numbers v = version_numbers(version);
  const bool number = *version >= '0' && *version <= '9';
  if (number && (v.major < 1 || (v.major == 1 && v.minor < 20))) return false;
  return *version && (!r->version || strcmp(r->version, quote_str(version).s) == 0);
}

const char *runtime_provider(const char *asked) {
  return asked && strcmp(asked, "cpu") != 0 ? asked : NULL;
}

static enum runtime_end start(struct runtime *r, struct err *err) {
  const struct runtime_process_start how = {r->program, {r->inputs, r->outputs}};
  struct frame f = {.kind = FRAME_hello,
                    .hello = {FRAME_PROTOCOL, r->library, r->o.provider ? r->o.provider : ""}};
  if (runtime_process_start(&r->process, &how, err) < 0) return RUNTIME_DIED;
  const char *doing =
      arena_printf(&r->scratch, "loaded ONNX Runtime ('%s')", quote_path(r->library).s);
  const enum runtime_end end = ask(r, &f, FRAME_ready, doing, err);
  if (end != RUNTIME_DONE) return end;
  if (f.kind == FRAME_failed) {
    tell_library(r, &f.failed, &r->scratch, err);
    runtime_process_end(&r->process);
    return RUNTIME_REFUSED;
  }
  if (f.ready.protocol != FRAME_PROTOCOL) {
    runtime_process_end(&r->process);
    err_fill(err, ERR_RUNTIME,
             "'%s' speaks another version of the protocol: it belongs to another version of weir",
             quote_path(r->program).s);
    return RUNTIME_BROKEN;
  }
  if (!is_believable(r, f.ready.version)) {
    runtime_process_end(&r->process);
    err_fill(err, ERR_RUNTIME, "'%s' reports that it opened ONNX Runtime '%s'%s",
             quote_path(r->program).s, quote_str(f.ready.version).s,
             r->version ? arena_printf(&r->scratch, ", and %s before", r->version)
                        : ": 1.20 is the oldest that works");
    return RUNTIME_BROKEN;
  }
  r->version = quote_str(f.ready.version).s[0]
                   ? arena_string(&r->arena, span_str(quote_str(f.ready.version).s))
                   : "";
  r->library = arena_string(&r->arena, span_str(f.ready.library));
  return RUNTIME_DONE;
}

// ---- open and close -------------------------------------------------------------------------------

static int make_scratch(const char *folder, struct file *out, struct err *err) {
  *out = file_make_nameless(HERE, folder, 0);
  if (file_is_open(*out)) return 0;
  return err_errno(err, errno, ERR_IO, "cannot make a scratch file in '%s'", quote_path(folder).s);
}

static int open_rest(struct runtime *r, struct err *err) {
  const char *folder = r->o.scratch ? r->o.scratch : machine_temporary_folder();
  if (runtime_find_program(&r->arena, &r->program, err) < 0) return -1;
  if (runtime_find_library(r->o.library, &r->arena, &r->library, err) < 0) return -1;
  if (make_scratch(folder, &r->inputs, err) < 0) return -1;
  if (make_scratch(folder, &r->outputs, err) < 0) return -1;
  if (start(r, err) == RUNTIME_DONE) return 0;
  if (err->kind == ERR_FAIL) err->kind = ERR_RUNTIME; // it dies or hangs before there is a model
  return -1;
}

int runtime_open(struct runtime **out, const struct runtime_options *o, struct err *err) {
  struct runtime *r = resources_zalloc(1, sizeof *r);
  if (!r) return err_set(err, ERR_NO_MEMORY, "not enough memory for the client of weir-ort");
  r->o = *o;
  if (!(r->o.seconds > 0)) r->o.seconds = DEFAULT_SECONDS;
  *out = r;
  if (open_rest(r, err) == 0) return 0;
  runtime_close(r);
  *out = NULL;
  return -1;
}

struct runtime_about runtime_about(const struct runtime *r) {
  return (struct runtime_about){r->version, r->library};
}

void runtime_close(struct runtime *r) {
  if (!r) return;
  runtime_process_end(&r->process);
  file_close(&r->inputs);
  file_close(&r->outputs);
  frame_buffer_done(&r->request);
  frame_buffer_done(&r->answer);
  arena_free(&r->arena);
  arena_free(&r->lists);
  arena_free(&r->scratch);
  resources_free(r);
}

uint64_t runtime_peak_memory(struct runtime *r) {
  runtime_process_look(&r->process);
  return r->process.peak;
}

// ---- models ---------------------------------------------------------------------------------------

static struct runtime_value *take_values(struct arena *a, const struct frame_values *from) {
  struct runtime_value *list = arena_zalloc(a, from->n * sizeof *list + 1);
  for (uint32_t i = 0; i < from->n; i++) {
    const struct frame_value *x = &from->list[i];
    int64_t *dims = arena_copy(a, x->dims, x->rank * sizeof *dims);
    list[i] = (struct runtime_value){
        .name = arena_string(a, span_str(x->name)),
        .kind = x->form == FRAME_SEQUENCE ? ARRAY_SEQUENCE : ARRAY_TENSOR,
        .known = x->form == FRAME_TENSOR || x->form == FRAME_SEQUENCE,
        .optional = x->optional,
        .dtype = x->dtype,
        .ranked = x->ranked,
        .rank = x->rank,
        .dims = dims,
    };
  }
  return list;
}

// The model before. If that ends the process, the next one begins with another.
static enum runtime_end close_model(struct runtime *r, struct err *err) {
  struct frame f = {.kind = FRAME_close, .close = {r->session}};
  struct err ignored = {0};
  if (r->session == 0) return RUNTIME_DONE;
  const enum runtime_end end = ask(r, &f, FRAME_closed, "closed a model", &ignored);
  r->session = 0;
  if (end != RUNTIME_STOPPED) return RUNTIME_DONE;
  *err = ignored;
  return end;
}

void runtime_keep_sums(struct runtime *r, bool on) {
  r->keeps_sums = on;
}

void runtime_keep_floats(struct runtime *r, bool on) {
  r->keeps_floats = on;
}

enum runtime_end runtime_load(struct runtime *r, const char *path, const char *data_folder,
                              struct runtime_model *out, struct err *err) {
  enum runtime_end end = close_model(r, err);
  if (end == RUNTIME_DONE && !child_is_there(&r->process.child)) end = start(r, err);
  if (end != RUNTIME_DONE) return end;
  arena_reset(&r->lists);
  arena_reset(&r->scratch);
  static const char *const mapped[] = {"session.disable_prepacking", "1"};
  static const char *const keeping[] = {"session.x64quantprecision", "1"};
  static const char *const floats[] = {"session.qdq_matmulnbits_accuracy_level", "1"};
  const struct {
    bool on;
    const char *const *words;
  } all[] = {{r->o.mapped, mapped}, {r->keeps_sums, keeping}, {r->keeps_floats, floats}};
  const char *settings[6];
  uint32_t n_settings = 0;
  for (uint32_t i = 0; i < 3; i++)
    for (uint32_t k = 0; k < 2 && all[i].on; k++)
      settings[n_settings++] = all[i].words[k];
  r->model = arena_string(&r->lists, span_str(r->o.called ? r->o.called : path));
  struct frame f = {.kind = FRAME_open,
                    .open = {.path = path,
                             .data_folder = data_folder,
                             .threads = r->o.threads ? r->o.threads : 1,
                             .optimized = r->o.optimized || r->keeps_sums,
                             .settings = {settings, n_settings}}};
  const char *doing = arena_printf(&r->scratch, "loaded '%s'", quote_path(r->model).s);
  runtime_process_unlimit(&r->process); // files of weights count as data, and are not known yet
  end = ask(r, &f, FRAME_opened, doing, err);
  if (end != RUNTIME_DONE) return end;
  if (r->o.memory_bytes > 0) runtime_process_limit(&r->process, r->o.memory_bytes);
  if (f.kind == FRAME_failed) return refused(r, &f.failed, "load", err);
  r->session = f.opened.session;
  out->inputs = take_values(&r->lists, &f.opened.inputs);
  out->outputs = take_values(&r->lists, &f.opened.outputs);
  out->n_inputs = f.opened.inputs.n;
  out->n_outputs = f.opened.outputs.n;
  r->n_outputs = out->n_outputs;
  return RUNTIME_DONE;
}

// ---- inputs ---------------------------------------------------------------------------------------

struct given {
  struct runtime *r;
  uint64_t at, inline_bytes; // of the file of inputs; of those that go with the message
};

static int write_at(struct file f, uint64_t at, const uint8_t *bytes, size_t n, struct err *err) {
  if (file_write_all_at(f, bytes, n, at) == 0) return 0;
  return err_errno(err, errno, ERR_IO, "cannot write an input to the scratch file");
}

static int give_by_file(struct given *g, const struct array *x, struct frame_array *out,
                        struct err *err) {
  uint8_t *piece = x->at ? NULL : arena_alloc(&g->r->scratch, LARGE);
  out->place = FRAME_FILE;
  out->offset = round_up(g->at, FILE_ALIGN);
  out->length = x->bytes;
  g->at = out->offset + x->bytes;
  for (uint64_t off = 0; off < x->bytes; off += LARGE) {
    const size_t n = (size_t)min_u64(x->bytes - off, LARGE);
    if (!x->at && array_read(x, off, piece, n, err) < 0) return -1;
    if (write_at(g->r->inputs, out->offset + off, x->at ? x->at + off : piece, n, err) < 0)
      return -1;
  }
  return 0;
}

static int give_tensor(struct given *g, const struct array *x, struct frame_array *out,
                       struct err *err) {
  *out = (struct frame_array){
      .name = x->name, .form = FRAME_TENSOR, .dtype = x->dtype, .rank = x->rank, .dims = x->dims};
  if (x->dtype == DTYPE_STRING) {
    out->place = FRAME_STRINGS;
    out->strings = x->strings;
    out->n_strings = x->count;
    return 0;
  }
  if (x->bytes > LARGE || g->inline_bytes + x->bytes > MOST_INLINE)
    return give_by_file(g, x, out, err);
  g->inline_bytes += x->bytes;
  out->place = FRAME_INLINE;
  const uint8_t *at;
  if (array_load(x, &g->r->scratch, &at, err)) return -1;
  out->bytes = span_of(at, (size_t)x->bytes);
  return 0;
}

static int give(struct given *g, const struct array *x, struct frame_array *out, struct err *err) {
  if (x->kind == ARRAY_TENSOR) return give_tensor(g, x, out, err);
  *out = (struct frame_array){.name = x->name, .form = FRAME_NOTHING};
  if (x->kind == ARRAY_NOTHING) return 0;
  struct frame_array *items = arena_alloc(&g->r->scratch, x->n_items * sizeof *items + 1);
  for (uint32_t i = 0; i < x->n_items; i++) {
    assert(x->items[i].kind == ARRAY_TENSOR);
    if (give_tensor(g, &x->items[i], &items[i], err) < 0) return -1;
  }
  out->form = FRAME_SEQUENCE;
  out->items = items;
  out->n_items = x->n_items;
  return 0;
}

static int give_all(struct runtime *r, const struct arrays *inputs, struct frame_arrays *out,
                    struct err *err) {
  struct given g = {.r = r};
  struct frame_array *list = arena_alloc(&r->scratch, inputs->n * sizeof *list + 1);
  for (uint32_t i = 0; i < inputs->n; i++)
    if (give(&g, &inputs->list[i], &list[i], err) < 0) return -1;
  *out = (struct frame_arrays){list, inputs->n};
  return 0;
}

// ---- results --------------------------------------------------------------------------------------

struct taken {
  struct runtime *r;
  struct arena *a;
  uint64_t from, end,
      size; // of the file of outputs: where new results begin, where the last one ends
  const char *wrong;
};

static void take_strings(struct taken *t, const struct frame_array *x, struct array *out) {
  struct span *list = arena_alloc(t->a, (size_t)x->n_strings * sizeof *list + 1);
  for (uint64_t i = 0; i < x->n_strings; i++)
    list[i] = span_of(arena_string(t->a, x->strings[i]), x->strings[i].n);
  out->strings = list;
}

static void take_tensor(struct taken *t, const struct frame_array *x, struct array *out) {
  uint8_t *copy;
  int64_t *dims = arena_copy(t->a, x->dims, x->rank * sizeof *dims);
  *out = (struct array){.name = arena_string(t->a, span_str(x->name)),
                        .kind = ARRAY_TENSOR,
                        .dtype = x->dtype,
                        .rank = x->rank,
                        .dims = dims};
  frame_array_size(x, &out->count, &out->bytes);
  switch (x->place) {
  case FRAME_STRINGS: take_strings(t, x, out); return;
  case FRAME_INLINE:
    copy = arena_alloc(t->a, (size_t)out->bytes + 1);
    if (out->bytes > 0) memcpy(copy, x->bytes.at, (size_t)out->bytes);
    out->at = copy;
    return;
  case FRAME_FILE:
    if (x->offset < t->from || !range_fits(x->offset, x->length, t->size))
      t->wrong = "elements that are not in the file of outputs";
    out->file = t->r->outputs;
    out->offset = x->offset;
    t->end = max_u64(t->end, x->offset + x->length);
  }
}

static void take(struct taken *t, const struct frame_array *x, struct array *out) {
  if (x->form == FRAME_TENSOR) {
    take_tensor(t, x, out);
    return;
  }
  *out = (struct array){.name = arena_string(t->a, span_str(x->name)), .kind = ARRAY_NOTHING};
  if (x->form == FRAME_NOTHING) return;
  struct array *items = arena_alloc(t->a, x->n_items * sizeof *items + 1);
  for (uint32_t i = 0; i < x->n_items; i++)
    take_tensor(t, &x->items[i], &items[i]);
  out->kind = ARRAY_SEQUENCE;
  out->items = items;
  out->n_items = x->n_items;
}

static enum runtime_end take_all(struct taken *t, const struct frame_arrays *from,
                                 const struct frame_texts *wanted, struct arrays *results,
                                 struct err *err) {
  struct array *list = arena_alloc(t->a, from->n * sizeof *list + 1);
  for (uint32_t i = 0; i < from->n; i++)
    take(t, &from->list[i], &list[i]);
  if (from->n != (wanted->n ? wanted->n : t->r->n_outputs))
    t->wrong = "another number of outputs than requested";
  for (uint32_t i = 0; i < wanted->n && !t->wrong; i++)
    if (strcmp(wanted->list[i], list[i].name) != 0) t->wrong = "other outputs than requested";
  if (t->wrong) {
    runtime_process_end(&t->r->process);
    t->r->session = 0;
    err_fill(err, ERR_FAIL, "weir-ort sent an unexpected answer while it ran '%s': %s",
             quote_path(t->r->model).s, t->wrong);
    return RUNTIME_BROKEN;
  }
  t->r->outputs_bytes = round_up(t->end, FILE_ALIGN);
  *results = (struct arrays){list, from->n};
  return RUNTIME_DONE;
}

enum runtime_end runtime_run(struct runtime *r, const struct arrays *inputs,
                             const char *const *wanted, uint32_t n_wanted, struct arena *a,
                             struct arrays *results, struct err *err) {
  struct entry_facts is;
  if (r->session == 0) {
    err_fill(err, ERR_FAIL, "no model is open in weir-ort");
    return RUNTIME_REFUSED;
  }
  arena_reset(&r->scratch);
  const struct frame_texts names = {wanted, wanted ? n_wanted : 0};
  struct frame f = {.kind = FRAME_run,
                    .run = {.session = r->session,
                            .wanted = names,
                            .inline_bytes = r->o.inline_bytes ? r->o.inline_bytes : LARGE,
                            .file_offset = r->outputs_bytes}};
  if (give_all(r, inputs, &f.run.inputs, err) < 0) return RUNTIME_REFUSED;
  const char *doing = arena_printf(&r->scratch, "ran '%s'", quote_path(r->model).s);
  const enum runtime_end end = ask(r, &f, FRAME_ran, doing, err);
  if (file_set_size(r->inputs, 0) < 0) errno = 0; // it only keeps its room for longer
  if (end != RUNTIME_DONE) return end;
  if (f.kind == FRAME_failed) return refused(r, &f.failed, "run", err);
  struct taken t = {.r = r, .a = a, .from = r->outputs_bytes, .end = r->outputs_bytes};
  t.size = file_look(r->outputs, &is) == 0 ? is.size : 0;
  return take_all(&t, &f.ran.outputs, &names, results, err);
}

uint64_t runtime_mark(const struct runtime *r) {
  return r->outputs_bytes;
}

void runtime_release_after(struct runtime *r, uint64_t mark) {
  r->outputs_bytes = mark;
  if (file_set_size(r->outputs, mark) < 0) errno = 0; // what it holds is written over
}

void runtime_release(struct runtime *r) {
  runtime_release_after(r, 0);
}
