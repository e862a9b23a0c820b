// "infer:set_shape=a\=1xT+b\=2,set_dim=…,strict=true" from the command line, for the pipeline's own reader.
#include "infer_step.h"

static const char *escaped(struct pipeline *p, const char *text) {
  char *out = arena_alloc(&p->arena, 2 * strlen(text) + 1), *to = out;
  for (; *text; text++) {
    if (strchr(",:=+\\", *text)) *to++ = '\\';
    *to++ = *text;
  }
  *to = '\0';
  return out;
}

static const char *list_key(struct pipeline *p, const struct cli_args *args, enum cli_option option,
                            const char *key) {
  uint32_t n;
  const char *const *list = cli_list(args, option, &n);
  const char *text = "";
  for (uint32_t i = 0; i < n; i++)
    text = arena_printf(&p->arena, "%s%s%s", text, i ? "+" : "", escaped(p, list[i]));
  return n ? arena_printf(&p->arena, ",%s=%s", key, text) : "";
}

bool infer_step_sets(const struct cli_args *args) {
  return cli_given(args, OPT_SET_SHAPE) || cli_given(args, OPT_SET_DIM);
}

int infer_step_add(struct pipeline *p, const struct cli_args *args, bool first, const char *keys,
                   struct err *err) {
  const char *shapes = first ? list_key(p, args, OPT_SET_SHAPE, "set_shape") : "";
  const char *dims = first ? list_key(p, args, OPT_SET_DIM, "set_dim") : "";
  char *text = arena_printf(&p->arena, "infer%s%s%s%s", shapes, dims, *keys ? "," : "", keys);
  char *comma = strchr(text, ',');
  if (comma) *comma = ':';
  return pipeline_add_text(p, text, err);
}
