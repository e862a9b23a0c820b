// range-annotation/RangeAnnotation and cleanup/CleanupRangeAnnotation: ranges of values, as entries of the model's metadata.
//
//   range:t1 = [-4, 3]     range:x = [0, null]
//
// An entry is made for each value of the main graph that has a bound: node outputs, inputs, constants. What has none but
// those of its type (float, int8 …) gets none. Entries are read again by what needs ranges (ranges.c), so that a user can say
// between what numbers an input lies; those are kept, where nothing narrower is known.
#include "ranges.h"
#include "thresholds.h"

#include <stdlib.h>

static bool has_bound(const struct ranges *r, struct kit *k, uint32_t value) {
  const struct range own = ranges_of(r, value), all = ranges_of_dtype(kit_dtype(k, value));
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

// The entries that there are, by name id of their key: index + 1.
struct said {
  TABLE(uint32_t, of_key);
};

static bool says(const struct said *said, const struct model *m, const char *key,
                 const char *text) {
  const uint32_t id = model_find_name(m, span_str(key));
  if (id == NO_ID || id >= said->n_of_key || said->of_key[id] == 0) return false;
  return span_is(model_name(m, m->metadata[said->of_key[id] - 1].value), text);
}

static int annotate(struct pass_env *env, void *with, struct pass_result *result, struct err *err) {
  struct kit k;
  struct ranges r;
  struct said said = {0};
  (void)with, (void)result;
  kit_init(&k, env, env->pass->name);
  kit_infer(&k);
  const int rc = ranges_find(&r, &k, NULL, err);
  TABLE_ADD(&said, of_key, k.m->n_name_at);
  for (uint32_t i = 0; i < k.m->n_metadata; i++)
    said.of_key[k.m->metadata[i].key] = i + 1;
  bool began = false;
  for (uint32_t v = 0; rc == 0 && v < r.n_of; v++) {
    if (!is_used_or_made(k.m, v) || !has_bound(&r, &k, v)) continue;
    arena_reset(&k.site);
    const struct range own = ranges_of(&r, v);
    const char *key =
        arena_printf(&k.site, RANGES_KEY "%s", model_name_str(k.m, k.m->values[v].name));
    const char *text = arena_printf(&k.site, "[%s, %s]", words(&k, own.lo), words(&k, own.hi));
    if (says(&said, k.m, key, text)) continue;
    if (!began) edit_group(k.e, k.pass, NO_ID, "ranges");
    began = true;
    edit_set_metadata(k.e, span_str(key), span_str(text));
  }
  TABLE_FREE(&said, of_key);
  ranges_done(&r);
  return kit_done(&k, err) < 0 ? -1 : rc;
}

static int cleanup(struct pass_env *env, void *with, struct pass_result *result, struct err *err) {
  struct kit k;
  (void)with, (void)result;
  kit_init(&k, env, env->pass->name);
  bool began = false;
  // From the end, so that those behind do not move.
  for (uint32_t i = k.m->n_metadata; i-- > 0;) {
    const struct span key = model_name(k.m, k.m->metadata[i].key);
    if (key.n < sizeof RANGES_KEY - 1 || memcmp(key.at, RANGES_KEY, sizeof RANGES_KEY - 1) != 0)
      continue;
    if (!began) edit_group(k.e, k.pass, NO_ID, "ranges");
    began = true;
    edit_set_metadata(k.e, key, span_str(""));
  }
  return kit_done(&k, err);
}

const struct pass thresholds_annotate = {
    .name = "range-annotation/RangeAnnotation",
    .summary = "say in the metadata between what numbers values lie",
    .about = "Sets an entry range:NAME = [lo, hi] for every value of the main graph of which more "
             "is known than its "
             "type: constants, what Clip gives, and what follows. Entries that are there are taken "
             "as true. Weights "
             "are read once, a part at a time.",
    .needs = "nothing",
    .promises = "nothing but metadata changes",
    .exactness = EXACTNESS_EXACT,
    .run = annotate,
};

const struct pass thresholds_cleanup = {
    .name = "cleanup/CleanupRangeAnnotation",
    .summary = "remove what range-annotation said in the metadata",
    .about = "Removes all entries of the metadata whose key begins with range: .",
    .needs = "nothing",
    .promises = "nothing but metadata changes",
    .exactness = EXACTNESS_EXACT,
    .run = cleanup,
};
