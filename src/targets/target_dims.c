// Which dims of a model's inputs have no number. What nodes make of them is not looked at: with inputs of fixed
// shapes a runtime finds it by itself, unless it depends on data.
#include "targets/target_dims.h"

#include "model/model_types.h"

enum { NAMES_SAID = 8 };

// The type of the i-th of the main graph's inputs, if it is a tensor that callers must give.
static bool input_type(const struct model *m, uint32_t i, struct model_type *t) {
  const uint32_t value = m->graph_io[m->graphs[m->main_graph].inputs + i];
  if (value == NO_ID || m->values[value].kind != VALUE_INPUT) return false;
  MODEL_EACH_INFO (m, value, x)
    if (m->infos[x].flags & INFO_TENSOR) return model_types_get(NULL, m, value, t);
  return false;
}

static uint32_t n_inputs(const struct model *m) {
  return m->main_graph == NO_ID ? 0 : m->graphs[m->main_graph].n_inputs;
}

bool target_dims_open(const struct model *m) {
  struct model_type t;
  for (uint32_t i = 0; i < n_inputs(m); i++) {
    if (!input_type(m, i, &t)) continue;
    if (!t.ranked) return true;
    for (uint32_t d = 0; d < t.rank; d++)
      if (model_type_dim(m, &t, d).value < 0) return true;
  }
  return false;
}

const char *target_dims_names(const struct model *m, struct arena *a) {
  uint32_t said[NAMES_SAID], n = 0;
  bool more = false;
  const char *words = "";
  struct model_type t;
  for (uint32_t i = 0; i < n_inputs(m); i++) {
    if (!input_type(m, i, &t) || !t.ranked) continue;
    for (uint32_t d = 0; d < t.rank; d++) {
      const struct model_dim dim = model_type_dim(m, &t, d);
      uint32_t s = 0;
      if (dim.value >= 0 || dim.param == NO_ID) continue;
      while (s < n && said[s] != dim.param)
        s++;
      if (s < n) continue;
      if (n == NAMES_SAID) {
        more = true;
        continue;
      }
      said[n++] = dim.param;
      words =
          arena_printf(a, "%s%s%s", words, *words ? ", " : "", quote(model_name(m, dim.param)).s);
    }
  }
  return more ? arena_printf(a, "%s and others", words) : words;
}

uint32_t target_dims_nameless(const struct model *m) {
  struct model_type t;
  for (uint32_t i = 0; i < n_inputs(m); i++) {
    bool nameless = false;
    if (!input_type(m, i, &t)) continue;
    for (uint32_t d = 0; t.ranked && d < t.rank; d++) {
      const struct model_dim dim = model_type_dim(m, &t, d);
      nameless = nameless || (dim.value < 0 && dim.param == NO_ID);
    }
    if (!t.ranked || nameless) return m->graph_io[m->graphs[m->main_graph].inputs + i];
  }
  return NO_ID;
}
