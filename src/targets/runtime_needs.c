// Both forms are of one look at the model, as it is after all edits. People are told what needs the
// version, programs all that needs more than the oldest one.
#include "runtime_needs.h"

#include "targets.h"

// What no version runs.
static uint32_t never(const struct target_needs *needs) {
  uint32_t set = 0;
  for (uint32_t f = 0; f < TARGET_FEATURES; f++)
    if (needs->features >> f & 1 && target_feature_row((enum target_feature)f)->ort == 0)
      set |= 1u << f;
  return set;
}

void runtime_needs_write(const struct model *m, struct json_out *j) {
  struct arena scratch = {0};
  struct target_needs needs;
  target_needs(m, &needs);
  json_put_object(j, "needs");
  if (needs.ort > TARGET_OLDEST && !never(&needs) && !needs.none)
    json_put_text(j, "onnxruntime", arena_printf(&scratch, "1.%u", needs.ort));
  else
    json_put_null(j, "onnxruntime");
  json_put_array(j, "why");
  for (uint32_t f = 0; f < TARGET_FEATURES; f++) {
    const struct target_feature_row *row = target_feature_row((enum target_feature)f);
    if (needs.features >> f & 1 && (row->ort > TARGET_OLDEST || row->ort == 0))
      json_text(j, row->words);
  }
  if (needs.why == TARGET_FEATURES && (needs.ort > TARGET_OLDEST || needs.none))
    json_text(j, target_needs_words(&needs, &scratch));
  json_end_array(j);
  json_end_object(j);
  arena_free(&scratch);
}

const char *runtime_needs_words(const struct model *m, struct arena *a) {
  struct target_needs needs;
  target_needs(m, &needs);
  if (never(&needs))
    return arena_printf(a, "ONNX Runtime does not run it on a CPU (%s)",
                        target_features_words(never(&needs), a));
  if (needs.none)
    return arena_printf(a, "ONNX Runtime does not run it on a CPU (%s)",
                        target_needs_words(&needs, a));
  if (needs.ort > TARGET_OLDEST)
    return arena_printf(a, "needs ONNX Runtime 1.%u or newer (%s)", needs.ort,
                        target_needs_words(&needs, a));
  return NULL;
}
