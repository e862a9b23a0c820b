// Both forms are of one look at the model, as it is after all edits.
#include "targets/runtime_needs.h"

#include "targets/targets.h"

// What no version runs.
static uint32_t never(const struct target_needs *needs) {
  uint32_t set = 0;
  for (uint32_t f = 0; f < TARGET_FEATURES; f++)
    if (needs->features >> f & 1 && target_feature_row((enum target_feature)f)->ort == 0)
      set |= 1u << f;
  return set;
}

static const char *words_of(const struct target_needs *needs, struct arena *a) {
  const uint32_t lacking = never(needs);
  if (lacking || needs->none)
    return arena_printf(a, "ONNX Runtime does not run it on a CPU (%s)",
                        lacking ? target_features_words(lacking, a) : target_needs_words(needs, a));
  if (needs->ort > TARGET_OLDEST)
    return arena_printf(a, "needs ONNX Runtime 1.%u or newer (%s)", needs->ort,
                        target_needs_words(needs, a));
  return NULL;
}

struct runtime_needs runtime_needs_of(const struct model *m, struct arena *a) {
  struct target_needs needs;
  target_needs(m, &needs);
  struct runtime_needs n = {.words = words_of(&needs, a),
                            .why = arena_alloc(a, (TARGET_FEATURES + 1) * sizeof *n.why)};
  const bool newer = needs.ort > TARGET_OLDEST;
  if (newer && !never(&needs) && !needs.none) n.oldest = arena_printf(a, "1.%u", needs.ort);
  for (uint32_t f = 0; f < TARGET_FEATURES; f++) {
    const struct target_feature_row *row = target_feature_row((enum target_feature)f);
    if (needs.features >> f & 1 && (row->ort > TARGET_OLDEST || row->ort == 0))
      n.why[n.n_why++] = row->words;
  }
  if (needs.why == TARGET_FEATURES && (newer || needs.none))
    n.why[n.n_why++] = target_needs_words(&needs, a);
  return n;
}

void runtime_needs_write(const struct runtime_needs *n, struct json_out *j) {
  json_put_object(j, "needs");
  json_put_text(j, "onnxruntime", n->oldest);
  json_put_array(j, "why");
  for (uint32_t i = 0; i < n->n_why; i++)
    json_text(j, n->why[i]);
  json_end_array(j);
  json_end_object(j);
}
