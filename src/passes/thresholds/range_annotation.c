// range-annotation/RangeAnnotation and cleanup/CleanupRangeAnnotation: ranges of values, as metadata of theirs.
//
//   value_info t1   metadata_props: range = [-4, 3]
//   input x         metadata_props: range = [0, null]
//
// A range is said of each value of the main graph that has a bound: node outputs, inputs, constants. Of what has none but
// those of its type (float, int8 …) none is said. Ranges are read again by what needs them (sure_ranges.c), so that a user can say
// between what numbers an input lies; those are kept, where nothing narrower is known. It is the form of onnx-passes, and goes
// with a value that gets another name. Who cannot write metadata of a value may say it in the model's (range:x): that is read
// and removed, but never made.
#include "passes/thresholds/inside/sure_ranges.h"
#include "passes/thresholds/inside/thresholds.h"

#include <stdlib.h>

static bool has_bound(const struct sure_ranges *r, struct kit *k, uint32_t value) {
  const struct range own = sure_ranges_of(r, value),
                     all = sure_ranges_of_dtype(kit_dtype(k, value));
  return own.lo > all.lo || own.hi < all.hi;
}

static bool is_used_or_made(const struct model *m, uint32_t value) {
  const struct model_value *v = &m->values[value];
  return v->graph == m->main_graph && !(v->flags & VALUE_DEAD) && v->name != m->empty &&
         v->kind != VALUE_UNDEFINED &&
         (v->kind == VALUE_NODE_OUTPUT || v->first_use != NO_ID || v->n_graph_outputs > 0);
}

// The shortest decimal that reads back.
static const char *words(struct kit *k, double bound) {
  const char *text = "null";
  if (fabs(bound) < 1e15 && nearbyint(bound) == bound)
    return arena_printf(&k->site, "%.0f", bound == 0 ? 0 : bound);
  for (int digits = 1; isfinite(bound) && digits <= 17; digits++) {
    text = arena_printf(&k->site, "%.*g", digits, bound);
    if (strtod(text, NULL) == bound) break;
  }
  return text;
}

static bool says(const struct model *m, uint32_t value, const char *text) {
  MODEL_EACH_INFO (m, value, i)
    if (span_is(model_name(m, m->infos[i].range), text)) return true;
  return false;
}

// Groups begin with the first change.
static void say(struct kit *k, bool *began, uint32_t value, const char *text) {
  if (!*began) edit_group(k->e, k->pass, NO_ID, "ranges");
  *began = true;
  edit_say_range(k->e, value, span_str(text));
}

static int annotate(struct pass_env *env, void *with, struct err *err) {
  struct kit k;
  struct sure_ranges r;
  (void)with;
  kit_init(&k, env, env->pass->name);
  kit_infer(&k);
  const int rc = sure_ranges_find(&r, &k, NULL, err);
  bool began = false;
  for (uint32_t v = 0; rc == 0 && v < r.n_of; v++) {
    if (!is_used_or_made(k.m, v) || !has_bound(&r, &k, v)) continue;
    arena_reset(&k.site);
    const struct range own = sure_ranges_of(&r, v);
    const char *text = arena_printf(&k.site, "[%s, %s]", words(&k, own.lo), words(&k, own.hi));
    if (!says(k.m, v, text)) say(&k, &began, v, text);
  }
  sure_ranges_done(&r);
  return kit_done(&k, err) < 0 ? -1 : rc;
}

static int cleanup(struct pass_env *env, void *with, struct err *err) {
  struct kit k;
  (void)with;
  kit_init(&k, env, env->pass->name);
  bool began = false;
  for (uint32_t i = 0; i < k.m->n_infos; i++) {
    const struct model_info *info = &k.m->infos[i];
    if (info->range != k.m->empty && !(info->flags & INFO_DEAD) && info->value != NO_ID)
      say(&k, &began, info->value, "");
  }
  // From the end, so that those behind do not move.
  for (uint32_t i = k.m->n_metadata; i-- > 0;) {
    const struct span key = model_name(k.m, k.m->metadata[i].key);
    if (key.n < sizeof SURE_RANGES_KEY - 1 ||
        memcmp(key.at, SURE_RANGES_KEY, sizeof SURE_RANGES_KEY - 1) != 0)
      continue;
    if (!began) edit_group(k.e, k.pass, NO_ID, "ranges");
    began = true;
    edit_set_metadata(k.e, key, span_str(""));
  }
  return kit_done(&k, err);
}

const struct pass thresholds_annotate = {
    .name = "range-annotation/RangeAnnotation",
    .summary = "write the ranges of values into the metadata",
    .about = "Writes range = [lo, hi] into the metadata of every value of the main graph whose "
             "range is known better than from its type: constants, outputs of Clip, and values "
             "computed from them. Existing ranges are assumed to be true. Weights are read once, "
             "a part at a time.",
    .promises = "only metadata changes",
    .exactness = EXACTNESS_EXACT,
    .run = annotate,
};

const struct pass thresholds_cleanup = {
    .name = "cleanup/CleanupRangeAnnotation",
    .summary = "remove the metadata that range-annotation wrote",
    .about = "Removes the range from the metadata of all values, and all entries of the model's "
             "metadata whose key begins with range: .",
    .promises = "only metadata changes",
    .exactness = EXACTNESS_EXACT,
    .run = cleanup,
};
