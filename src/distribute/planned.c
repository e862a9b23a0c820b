#include "distribute/planned.h"

#include "base/version_number.h"
#include "execute/commit/kept_report.h"
#include "execute/execution.h"
#include "stream/run/engine.h"
#include "stream/seal/manifest.h"

#include <stdio.h>

// Did the seal go through, and the folder with it? The manifest beside the model has the id of its plan.
static bool is_in_place(struct planned *x, const char *path) {
  const char *dest, *onnx, *id;
  struct manifest m;
  struct err ignored = {0};
  if (!staging_joined_name(path, &x->arena, &dest, &onnx, &id)) return false;
  const struct manifest_names beside = manifest_names(onnx);
  struct folder dir = folder_open(HERE, dest, 0);
  if (!folder_is_open(dir)) return false;
  const bool there =
      manifest_read(&m, &(struct manifest_at){dir, beside.manifest, beside.manifest, onnx, NULL},
                    &ignored) == 0;
  folder_close(&dir);
  if (!there) return false;
  const struct digest_hex hex = digest_hex(m.plan_id);
  manifest_free(&m);
  x->dest = dest;
  x->onnx = onnx;
  x->model = strcmp(dest, ".") == 0 ? onnx : arena_printf(&x->arena, "%s/%s", dest, onnx);
  return strncmp(hex.s, id, strlen(id)) == 0;
}

// Its words go into the manifest as they are, and staging does not know them.
static int check_layout(const struct planned *x, struct err *err) {
  const char *asked = x->joined.orders.layout_asked;
  if (!asked || execution_layout_is(span_str(asked))) return 0;
  err_fill(err, ERR_INPUT, "'%s' in '%s' has a layout that 'weir plan' did not write",
           STAGING_ORDERS, quote_str(x->joined.st.name).s);
  return err_hint(err, "run the 'weir plan' command again; finished units are kept");
}

int planned_open(struct planned *x, const char *path, enum staging_as as, struct observer *o,
                 struct err *err) {
  *x = (struct planned){.observer = o};
  if (staging_join(&x->joined, path, version_number, as, err)) {
    x->in_place =
        err->kind == ERR_INPUT && staging_joined_over(path, &x->arena) && is_in_place(x, path);
    if (!x->in_place) return -1;
    *err = (struct err){0};
    return 0;
  }
  if (x->joined.bad_records && as != STAGING_AS_VIEWER)
    observer_notice(
        o, "%u line%s of the records in the folder %s damaged or of another plan: weir ignores %s",
        x->joined.bad_records, plural(x->joined.bad_records),
        x->joined.bad_records == 1 ? "is" : "are", x->joined.bad_records == 1 ? "it" : "them");
  planned_count(x);
  return check_layout(x, err);
}

static bool open_left(const struct planned *x, struct staging *left) {
  char name[STAGING_NAME_MAX];
  enum staging_seal state;
  struct err ignored = {0};
  return staging_find_seal(x->dest, x->onnx, name, &state, &ignored) == 0 &&
         state == STAGING_SEAL_FINISHED && staging_open_sealed(left, x->dest, name, &ignored) == 0;
}

void planned_clear_left(const struct planned *x) {
  struct staging left;
  struct err ignored = {0};
  if (open_left(x, &left)) (void)staging_retire(&left, &ignored);
}

struct span planned_left_provenance(const struct planned *x) {
  struct staging left;
  struct span kept = {0};
  bool changed;
  if (!open_left(x, &left)) return kept;
  kept = kept_report_take(&left, STAGING_PROVENANCE, &changed);
  staging_close(&left);
  return kept;
}

int planned_open_sources(struct planned *x, const char *folder, struct err *err) {
  return staging_join_sources(&x->joined, folder, &x->sources, err);
}

void planned_close(struct planned *x) {
  if (x->sources) sources_close(x->sources);
  staging_leave(&x->joined);
  arena_free(&x->arena);
  *x = (struct planned){.units = 0};
}

void planned_count(struct planned *x) {
  const struct staging *st = &x->joined.st;
  x->units = st->n_units;
  x->missing = st->n_units - staging_done_count(st);
  x->total = plan_total_bytes(&x->joined.plan);
  x->done = staging_done_bytes(st, &x->joined.plan);
}

bool planned_next_missing(const struct planned *x, uint32_t *unit, uint32_t *first,
                          uint32_t *last) {
  const struct staging *st = &x->joined.st;
  while (*unit < st->n_units && st->done[*unit])
    ++*unit;
  if (*unit == st->n_units) return false;
  *first = *unit;
  while (*unit < st->n_units && !st->done[*unit])
    ++*unit;
  *last = *unit - 1;
  return true;
}

const char *planned_missing_words(struct planned *x) {
  char text[200] = "";
  uint32_t unit = 0, first, last;
  size_t n = 0;
  while (planned_next_missing(x, &unit, &first, &last)) {
    if (n + 40 > sizeof text) {
      n += (size_t)snprintf(text + n, sizeof text - n, ", …");
      break;
    }
    n += (size_t)snprintf(text + n, sizeof text - n, first == last ? "%s%u" : "%s%u-%u",
                          n ? ", " : "", first, last);
  }
  return arena_string(&x->arena, span_str(text));
}

int planned_work(const struct planned *x, const struct request_limits *limits,
                 const volatile int *stop, struct work_options *work, struct err *err) {
  *work = (struct work_options){.jobs = limits->jobs,
                                .memory = limits->memory,
                                .mode = limits->io,
                                .observer = x->observer,
                                .stop = stop};
  if (engine_pick(&work->mode, limits->io_name, x->observer, err)) return -1;
  const bool null = x->joined.orders.null;
  if (!null && work->mode == IO_NULL)
    return err_set(
        err, ERR_USAGE,
        "the plan writes an output; --io=null is only for plans that were made with --io=null");
  if (null) work->mode = IO_NULL;
  return 0;
}
