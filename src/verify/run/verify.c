// What verification of models and of sites share: the runtime, a folder for what is written on the way (scratch.h), the
// verdict.
#include "verify/run/verify.h"

#include "passes/custom_ops/custom_ops.h"
#include "platform/machine.h"
#include "stream/sys/scratch.h"
#include "verify/runtime/runtime_find.h"

#include <string.h>

static int make_scratch(struct verify *v, struct err *err) {
  struct scratch s;
  if (scratch_make(&s, "verify", &v->arena, err)) return -1;
  v->scratch = s.path;
  v->scratch_at = s.at;
  return 0;
}

// Where there is no runtime, that is said, and not what else it would have needed.
static int check_runtime(struct verify *v, struct err *err) {
  const char *found;
  if (runtime_find_program(&v->arena, &found, err)) return -1;
  return runtime_find_library(v->options.runtime.library, &v->arena, &found, err);
}

int verify_begin(struct verify *v, const struct verify_options *o, struct err *err) {
  *v = (struct verify){.options = *o, .began = machine_clock()};
  v->options.runtime.stop = observer_stop(v->options.observer);
  if (check_runtime(v, err) || make_scratch(v, err)) return -1;
  v->options.runtime.scratch = v->scratch;
  if (runtime_open(&v->runtime, &v->options.runtime, err)) return -1;
  v->found.cuda = v->options.runtime.provider != NULL;
  v->found.runtime = arena_string(&v->found.arena, span_str(runtime_about(v->runtime).version));
  v->found.drawn.seed = o->seed;
  v->found.drawn.lengths = o->lengths;
  v->found.drawn.n_lengths = o->n_lengths;
  v->found.scope = !(o->scope & VERIFY_SITES) ? "model"
                   : o->scope == VERIFY_SITES ? "sites"
                                              : "all";
  return 0;
}

// The runtime lets go of its files before the folder is removed, which is empty then.
void verify_end(struct verify *v) {
  if (v->import_close) v->import_close(v);
  if (v->runtime) runtime_close(v->runtime);
  if (v->log) stream_close(v->log);
  if (v->log_path) (void)file_remove(HERE, v->log_path);
  scratch_end(&(struct scratch){v->scratch, v->scratch_at});
  TABLES_FREE(&v->found, rows, layers);
  arena_free(&v->found.arena);
  arena_free(&v->arena);
  *v = (struct verify){.runtime = NULL};
}

bool verify_lacks_kernel(const struct err *cause) {
  return strstr(cause->msg, "Could not find an implementation for") ||
         strstr(cause->msg, "NOT_IMPLEMENTED");
}

static const struct verified_row *first_of(const struct verified *f, enum verified_end end) {
  for (uint32_t i = 0; i < f->n_rows; i++)
    if (f->rows[i].end == end) return &f->rows[i];
  return NULL;
}

static const struct verified_row *first_unmet(const struct verified *f) {
  for (uint32_t i = 0; i < f->n_rows; i++)
    if (f->rows[i].unmet) return &f->rows[i];
  return NULL;
}

int verify_judge(const struct verify *v, struct err *err) {
  const struct verified *f = &v->found;
  const uint64_t all = verified_all(f);
  const struct verified_row *failed = first_of(f, VERIFIED_FAILED),
                            *not = first_of(f, VERIFIED_NOT), *unmet = first_unmet(f);
  if (failed) {
    err_fill(err, ERR_FAIL, "verification failed: '%s'%s: %s", quote_str(failed->name).s,
             verified_differs(failed) ? " differs"
             : failed->listed         ? " differs from reference.out"
                                      : "",
             failed->why);
    const struct quoted name = quote_str(failed->name);
    if (failed->output) return -1;
    if (failed->cut_off)
      return err_hint(err,
                      "this processor has no VNNI: ONNX Runtime cuts off sums of int8 products "
                      "on it; %s--exclude '%s' leaves it unchanged",
                      failed->loses ? "--reduce-range keeps them whole, " : "", name.s);
    if (!failed->fault)
      return failed->loses ? err_hint(err, "--exclude '%s' leaves it unchanged", name.s) : -1;
    return failed->loses ? err_hint(err, "caused by %s; --exclude '%s' leaves it unchanged",
                                    failed->fault, name.s)
                         : err_hint(err, "caused by %s", failed->fault);
  }
  if (unmet) {
    err_fill(err, ERR_FAIL, "a requested bound could not be checked: '%s': %s",
             quote_str(unmet->name).s, unmet->why);
    return -1;
  }
  if (f->rest.differs) {
    err_fill(err, ERR_FAIL,
             "verification failed: the %s differs from the source, but no edit changes it",
             f->rest.first);
    return -1;
  }
  if (f->n_passed == 0 && f->n_unjudged == 0 && all > 0) {
    err_fill(err, ERR_FAIL, "nothing could be verified: '%s': %s", quote_str(not ->name).s,
             not ->why);
    if (strstr(not ->why, CUSTOM_OPS_QONNX ":") || strstr(not ->why, CUSTOM_OPS_BREVITAS ":"))
      return err_hint(
          err,
          "operators of QONNX and Brevitas run only after an import: make import-qonnx the first "
          "pass, so that later passes are compared with the imported model; or run 'weir run IN "
          "imported.onnx --pass import-qonnx' and verify against imported.onnx");
    // Nothing was drawn, since inference does not know a type or rank.
    if (!not ->stopped && strstr(not ->why, DRAW_NOT_KNOWN))
      return err_hint(err,
                      "%s INPUT=SHAPE sets the shape of an input, as in x=1x3x224x224, from "
                      "which others follow; %s DIR runs whole models on your arrays",
                      v->options.asked ? "--verify-shape" : "--shape",
                      v->options.asked ? "--verify=model --verify-inputs"
                                       : "without --edits, --inputs");
    if (v->options.inputs || !not ->stopped) return -1;
    return err_hint(err,
                    "the model may not accept the sizes of the drawn inputs: %s N sets another "
                    "length; %s DIR reads arrays",
                    v->options.names.lengths, v->options.names.inputs);
  }
  if (all == 0 && f->n_left > 0 && (v->options.sites || v->options.asked)) {
    err_fill(err, ERR_FAIL, "nothing was verified: %s none of the %s site%s",
             v->options.sites ? "--sites names" : "the pipeline verifies", decimal(f->n_left).s,
             plural(f->n_left));
    return v->options.sites ? err_hint(err, "without --sites, weir verifies all of them") : -1;
  }
  if (v->options.require >= 0 && (double)f->n_passed < v->options.require * (double)all) {
    err_fill(err, ERR_FAIL, "%s of %s were verified (%.1f %%), less than the %g %% asked for",
             decimal(f->n_passed).s, decimal(all).s, 100 * (double)f->n_passed / (double)all,
             100 * v->options.require);
    if (!not ) not = first_of(f, VERIFIED_UNJUDGED);
    return err_hint(err, "%s: '%s': %s", verified_word(not ), quote_str(not ->name).s, not ->why);
  }
  return 0;
}
