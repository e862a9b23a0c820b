// Sessions lie in a table of places, which their numbers name; they live until they are closed or the program ends.
//
// Settings are those under which the same model gives the same numbers in every run, on any machine of the kind: one
// thread for an operator unless more are asked for, operators one after the other, deterministic kernels, the graph as it
// is (unless the runtime's rewrites are asked for). Memory is asked for when it is needed and given back at once, since many
// models are run once each: no arena, no pattern of an earlier run.
//
// A session is made from a path, so that the runtime maps the files of external data beside it. If they lie elsewhere, it is
// made from the bytes of the model (mapped here), and the runtime is told the folder.
#include "ort/ort_sessions.h"

#include "platform/machine.h"

#include <stdlib.h>

struct model {
  struct ort_session *session; // NULL: the place is free
  const char *const *outputs;  // names, in `names`
  uint32_t n_outputs;
  struct arena names;
};

struct ort_sessions {
  const struct ort *o;
  bool cuda; // computes; else the processor
  struct ort_files files;
  struct model models[ORT_MAX_SESSIONS];
  struct ort_held held; // of the last run
};

struct ort_sessions *ort_sessions_new(const struct ort *o, struct ort_files files) {
  static struct ort_sessions only; // of a process that serves one client
  only.o = o;
  only.files = files;
  return &only;
}

// ---- opening ------------------------------------------------------------------------------------

static int set_entry(const struct ort *o, struct ort_session_options *options, const char *key,
                     const char *value, struct ort_failure *f) {
  return ort_check(o, o->AddSessionConfigEntry(options, key, value), f);
}

// What the processor does not compute. Sums are of the type that the model says: CUDA would take TF32 for float32.
static int set_cuda(const struct ort *o, struct ort_session_options *options,
                    struct ort_failure *f) {
  static const char *const keys[] = {"use_tf32"}, *const values[] = {"0"};
  struct ort_cuda_options *cuda = NULL;
  struct ort_failure why = {.code = FRAME_REFUSED};
  int end = ort_check(o, o->CreateCUDAProviderOptions(&cuda), &why);
  if (end == 0) end = ort_check(o, o->UpdateCUDAProviderOptions(cuda, keys, values, 1), &why);
  if (end == 0)
    end = ort_check(o, o->SessionOptionsAppendExecutionProvider_CUDA_V2(options, cuda), &why);
  if (cuda) o->ReleaseCUDAProviderOptions(cuda);
  return end == 0 ? 0
                  : ort_fail(f, FRAME_LACKING, "ONNX Runtime %s has no CUDA here: %s", o->version,
                             why.text);
}

static int set_options(const struct ort *o, const struct frame_of_open *asked, bool cuda,
                       struct ort_session_options *options, struct ort_failure *f) {
  enum { SEQUENTIAL = 0, NONE = 0, ALL = 99 };
  const int level = asked->optimized ? ALL : NONE;
  if (ort_check(o, o->SetSessionExecutionMode(options, SEQUENTIAL), f) < 0) return -1;
  if (ort_check(o, o->SetIntraOpNumThreads(options, (int)asked->threads), f) < 0) return -1;
  if (ort_check(o, o->SetInterOpNumThreads(options, 1), f) < 0) return -1;
  if (ort_check(o, o->SetSessionGraphOptimizationLevel(options, level), f) < 0) return -1;
  if (ort_check(o, o->SetDeterministicCompute(options, true), f) < 0) return -1;
  if (ort_check(o, o->DisableMemPattern(options), f) < 0) return -1;
  if (ort_check(o, o->DisableCpuMemArena(options), f) < 0) return -1;
  if (set_entry(o, options, "session.intra_op.allow_spinning", "0", f) < 0) return -1;
  if (cuda && set_cuda(o, options, f) < 0) return -1;
  for (uint32_t i = 0; i < asked->settings.n; i += 2)
    if (set_entry(o, options, asked->settings.list[i], asked->settings.list[i + 1], f) < 0)
      return -1;
  return 0;
}

static int open_from_bytes(const struct ort *o, const struct frame_of_open *asked,
                           struct ort_session_options *options, struct ort_session **out,
                           struct ort_failure *f) {
  enum { FOLDER_SINCE = 21 };
  if (!ort_since(o, FOLDER_SINCE))
    return ort_fail(f, FRAME_LACKING,
                    "ONNX Runtime %s reads external data only from the folder of the model "
                    "(session.model_external_initializers_file_folder_path needs 1.%d)",
                    o->version, FOLDER_SINCE);
  if (set_entry(o, options, "session.model_external_initializers_file_folder_path",
                asked->data_folder, f) < 0)
    return -1;
  struct entry_facts is;
  struct file_map map;
  int end = -1;
  struct file file = file_open(HERE, asked->path, 0);
  if (!file_is_open(file) || file_look(file, &is) < 0 || is.size == 0) {
    ort_fail(f, FRAME_REFUSED, "cannot read '%s': %s", quote_path(asked->path).s,
             file_is_open(file) ? "it is empty" : err_errno_words(errno));
  } else if (map_open(&map, file, 0, (size_t)is.size) < 0) {
    ort_fail(f, FRAME_REFUSED, "cannot map '%s': %s", quote_path(asked->path).s,
             err_errno_words(errno));
  } else {
    end = ort_check(o, o->CreateSessionFromArray(o->env, map.at, (size_t)is.size, options, out), f);
    map_close(&map);
  }
  file_close(&file);
  return end;
}

static int open_session(const struct ort_sessions *s, const struct frame_of_open *asked,
                        struct ort_session **out, struct ort_failure *f) {
  const struct ort *o = s->o;
  struct ort_session_options *options = NULL;
  if (ort_check(o, o->CreateSessionOptions(&options), f) < 0) return -1;
  int end = set_options(o, asked, s->cuda, options, f);
  if (end == 0)
    end = asked->data_folder[0]
              ? open_from_bytes(o, asked, options, out, f)
              : ort_check(o, o->CreateSession(o->env, asked->path, options, out), f);
  o->ReleaseSessionOptions(options);
  return end;
}

int ort_sessions_provide(struct ort_sessions *s, const char *provider, struct ort_failure *f) {
  const struct ort *o = s->o;
  struct ort_session_options *options = NULL;
  if (*provider == 0) return 0;
  if (strcmp(provider, "cuda") != 0)
    return ort_fail(f, FRAME_MISUSED, "there is no provider '%s'", quote_str(provider).s);
  if (ort_check(o, o->CreateSessionOptions(&options), f) < 0) return -1;
  const int end = set_cuda(o, options, f);
  o->ReleaseSessionOptions(options);
  s->cuda = end == 0;
  return end;
}

// ---- what it takes and gives ----------------------------------------------------------------------

// The functions that ask about inputs, and their twins for outputs.
struct side {
  struct ort_status *(*count)(const struct ort_session *, size_t *);
  struct ort_status *(*name)(const struct ort_session *, size_t, struct ort_allocator *, char **);
  struct ort_status *(*type)(const struct ort_session *, size_t, struct ort_type_info **);
};

static int describe_one(const struct ort *o, const struct ort_session *session,
                        const struct side *side, size_t i, struct arena *a, struct frame_value *out,
                        struct ort_failure *f) {
  struct ort_type_info *info = NULL;
  char *name = NULL;
  if (ort_check(o, side->name(session, i, o->allocator, &name), f) < 0) return -1;
  if (!name) return ort_fail(f, FRAME_REFUSED, "it has no name for an input or output");
  out->name = arena_string(a, span_str(name));
  if (ort_check(o, o->AllocatorFree(o->allocator, name), f) < 0) return -1;
  if (ort_check(o, side->type(session, i, &info), f) < 0) return -1;
  const int end = ort_values_describe(o, info, a, out, f);
  o->ReleaseTypeInfo(info);
  return end;
}

static int describe(const struct ort *o, const struct ort_session *session, const struct side *side,
                    struct arena *a, struct frame_values *out, struct ort_failure *f) {
  enum { MOST = 1 << 20 };
  size_t n = 0;
  if (ort_check(o, side->count(session, &n), f) < 0) return -1;
  if (n > MOST)
    return ort_fail(f, FRAME_REFUSED, "it reports %zu inputs or outputs: the limit is %d", n, MOST);
  struct frame_value *list = arena_zalloc(a, n * sizeof *list + 1);
  for (size_t i = 0; i < n; i++)
    if (describe_one(o, session, side, i, a, &list[i], f) < 0) return -1;
  *out = (struct frame_values){list, (uint32_t)n};
  return 0;
}

static void keep_outputs(struct model *m, const struct frame_values *outputs) {
  const char **list = arena_alloc(&m->names, outputs->n * sizeof *list + 1);
  for (uint32_t i = 0; i < outputs->n; i++)
    list[i] = arena_string(&m->names, span_str(outputs->list[i].name));
  m->outputs = list;
  m->n_outputs = outputs->n;
}

int ort_sessions_open(struct ort_sessions *s, const struct frame_of_open *asked, struct arena *a,
                      struct frame_of_opened *out, struct ort_failure *f) {
  enum { MOST_THREADS = 1024 };
  const struct ort *o = s->o;
  const struct side inputs = {o->SessionGetInputCount, o->SessionGetInputName,
                              o->SessionGetInputTypeInfo};
  const struct side outputs = {o->SessionGetOutputCount, o->SessionGetOutputName,
                               o->SessionGetOutputTypeInfo};
  uint32_t at = 0;
  while (at < ORT_MAX_SESSIONS && s->models[at].session)
    at++;
  if (at == ORT_MAX_SESSIONS)
    return ort_fail(f, FRAME_MISUSED, "%d models are open, which is the limit", ORT_MAX_SESSIONS);
  if (asked->threads < 1 || asked->threads > MOST_THREADS || asked->settings.n % 2 != 0)
    return ort_fail(f, FRAME_MISUSED,
                    "the request to open a model has %s threads and %u words of settings",
                    decimal(asked->threads).s, asked->settings.n);
  struct model *m = &s->models[at];
  if (open_session(s, asked, &m->session, f) < 0) return -1;
  out->session = at + 1;
  if (describe(o, m->session, &inputs, a, &out->inputs, f) < 0 ||
      describe(o, m->session, &outputs, a, &out->outputs, f) < 0) {
    struct ort_failure ignored;
    ort_sessions_close(s, out->session, &ignored);
    return -1;
  }
  keep_outputs(m, &out->outputs);
  return 0;
}

static struct model *model_of(struct ort_sessions *s, uint64_t session, struct ort_failure *f) {
  if (session >= 1 && session <= ORT_MAX_SESSIONS && s->models[session - 1].session)
    return &s->models[session - 1];
  ort_fail(f, FRAME_MISUSED, "model %s is not open", decimal(session).s);
  return NULL;
}

int ort_sessions_close(struct ort_sessions *s, uint64_t session, struct ort_failure *f) {
  struct model *m = model_of(s, session, f);
  if (!m) return -1;
  ort_values_release(s->o, &s->held);
  s->o->ReleaseSession(m->session);
  arena_free(&m->names);
  *m = (struct model){0};
  return 0;
}

// ---- running --------------------------------------------------------------------------------------

struct run {
  const char **input_names, **output_names;
  const struct ort_value **inputs;
  struct ort_value **outputs;
  uint32_t n_inputs, n_outputs;
};

static int give_inputs(struct ort_sessions *s, const struct frame_arrays *inputs, struct arena *a,
                       struct run *run, struct ort_failure *f) {
  run->n_inputs = inputs->n;
  run->input_names = arena_alloc(a, inputs->n * sizeof *run->input_names + 1);
  run->inputs = arena_alloc(a, inputs->n * sizeof *run->inputs + 1);
  for (uint32_t i = 0; i < inputs->n; i++) {
    struct ort_value *value = NULL;
    if (ort_values_give(s->o, &s->files, &inputs->list[i], &s->held, &value, f) < 0) return -1;
    run->input_names[i] = inputs->list[i].name;
    run->inputs[i] = value;
  }
  return 0;
}

static void name_outputs(const struct model *m, const struct frame_texts *wanted, struct arena *a,
                         struct run *run) {
  run->n_outputs = wanted->n ? wanted->n : m->n_outputs;
  run->output_names = arena_alloc(a, run->n_outputs * sizeof *run->output_names + 1);
  run->outputs = arena_zalloc(a, run->n_outputs * sizeof(struct ort_value *) + 1);
  for (uint32_t i = 0; i < run->n_outputs; i++)
    run->output_names[i] = wanted->n ? wanted->list[i] : m->outputs[i];
}

static uint64_t microseconds(void) {
  return machine_clock_ns() / 1000;
}

static int take_outputs(struct ort_sessions *s, const struct frame_of_run *asked,
                        const struct run *run, struct arena *a, struct frame_of_ran *out,
                        struct ort_failure *f) {
  struct frame_array *list = arena_zalloc(a, run->n_outputs * sizeof *list + 1);
  struct ort_results results = {.o = s->o,
                                .files = &s->files,
                                .a = a,
                                .held = &s->held,
                                .inline_bytes = asked->inline_bytes,
                                .offset = asked->file_offset,
                                .room = FRAME_MAX_BODY / 4};
  for (uint32_t i = 0; i < run->n_outputs; i++)
    if (ort_values_take(&results, run->output_names[i], run->outputs[i], &list[i], f) < 0)
      return -1;
  out->outputs = (struct frame_arrays){list, run->n_outputs};
  return 0;
}

int ort_sessions_run(struct ort_sessions *s, const struct frame_of_run *asked, struct arena *a,
                     struct frame_of_ran *out, struct ort_failure *f) {
  struct run run = {0};
  const struct model *m = model_of(s, asked->session, f);
  if (!m) return -1;
  if (asked->file_offset > INT64_MAX / 2)
    return ort_fail(f, FRAME_MISUSED, "no file has an offset of %s", decimal(asked->file_offset).s);
  ort_values_release(s->o, &s->held);
  if (give_inputs(s, &asked->inputs, a, &run, f) < 0) return -1;
  name_outputs(m, &asked->wanted, a, &run);
  const uint64_t start = microseconds();
  const int end = ort_check(s->o,
                            s->o->Run(m->session, NULL, run.input_names, run.inputs, run.n_inputs,
                                      run.output_names, run.n_outputs, run.outputs),
                            f);
  out->microseconds = microseconds() - start;
  for (uint32_t i = 0; i < run.n_outputs; i++)
    if (run.outputs[i]) *TABLE_PUSH(&s->held, values) = run.outputs[i];
  return end < 0 ? -1 : take_outputs(s, asked, &run, a, out, f);
}
