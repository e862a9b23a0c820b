// "infer:set_shape=a\=1xT+b\=2,set_dim=…,strict=true" for the pipeline's own reader.
#include "pipeline/infer_step.h"

static const char *escaped(struct pipeline *p, const char *text) {
  char *out = arena_alloc(&p->arena, 2 * strlen(text) + 1), *to = out;
  for (; *text; text++) {
    if (strchr(",:=+\\", *text)) *to++ = '\\';
    *to++ = *text;
  }
  *to = '\0';
  return out;
}

static const char *list_key(struct pipeline *p, const char *const *list, uint32_t n,
                            const char *key) {
  const char *text = "";
  for (uint32_t i = 0; i < n; i++)
    text = arena_printf(&p->arena, "%s%s%s", text, i ? "+" : "", escaped(p, list[i]));
  return n ? arena_printf(&p->arena, ",%s=%s", key, text) : "";
}

int infer_step_add(struct pipeline *p, const struct infer_step_sets *sets, const char *keys,
                   struct err *err) {
  const char *shapes = sets ? list_key(p, sets->shapes, sets->n_shapes, "set_shape") : "";
  const char *dims = sets ? list_key(p, sets->dims, sets->n_dims, "set_dim") : "";
  char *text = arena_printf(&p->arena, "infer%s%s%s%s", shapes, dims, *keys ? "," : "", keys);
  char *comma = strchr(text, ',');
  if (comma) *comma = ':';
  return pipeline_add_text(p, text, err);
}
