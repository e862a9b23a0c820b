#include "check/model/model_check.h"

#include "check/check.h"
#include "infer/infer.h"
#include "stream/load/load.h"
#include "stream/staging/unfinished.h"

#include <stdio.h>
#include <string.h>

static void tell_fault(struct model_check *c, const struct model_check_fault *fault) {
  const enum err_kind kind = fault->cause ? fault->cause->kind : ERR_MODEL;
  c->count[fault->level]++;
  if (fault->level == FAULT_ERROR) {
    snprintf(c->last_error, sizeof c->last_error, "%s", fault->text);
    if (c->code == ERR_NONE || kind == ERR_MODEL) c->code = kind;
  }
  c->tell(c->ctx, fault);
}

static void take_fault(void *ctx, enum fault_level level, const char *place, const char *text,
                       const struct err *cause) {
  struct model_check *c = ctx;
  struct model_check_fault fault = {level, place ? place : "", text, cause, false};
  struct err why = cause ? *cause : (struct err){0};
  if (cause && unfinished_explains(c->path, &why)) {
    if (c->unfinished) return; // the same of every data file
    c->unfinished = true;
    fault = (struct model_check_fault){level, "", why.msg, &why, false};
  }
  tell_fault(c, &fault);
}

void model_check_tell_end(struct model_check *c, const struct err *found) {
  const struct model_check_fault fault = {FAULT_ERROR, "", found->msg, found, true};
  if (strcmp(c->last_error, found->msg) != 0) tell_fault(c, &fault);
}

// ---- what inference says -----------------------------------------------------------------------

struct shapes {
  struct model_check *c;
  const struct model *m;
};

// A node that cannot run with its inputs is an error; a declared shape that is not what comes out is one that runtimes warn
// of, or overlook.
static void take_shape(void *ctx, uint32_t node, uint32_t value, const char *sentence) {
  const struct shapes *s = ctx;
  char place[448], message[640];
  if (node == NO_ID) {
    snprintf(place, sizeof place, "value '%s'", quote(model_value_name(s->m, value)).s);
    take_fault(s->c, FAULT_WARNING, place, sentence, NULL);
    return;
  }
  snprintf(message, sizeof message, "cannot run with these inputs: %s", sentence);
  take_fault(s->c, FAULT_ERROR, model_node_words(s->m, node).s, message, NULL);
}

// Readers that know the dtype too refuse the model.
static void take_dtype(void *ctx, uint32_t node, uint32_t value, const char *sentence) {
  const struct shapes *s = ctx;
  char place[448];
  (void)node;
  snprintf(place, sizeof place, "value '%s'", quote(model_value_name(s->m, value)).s);
  take_fault(s->c, FAULT_ERROR, place, sentence, NULL);
}

static int check_shapes(struct model_check *c, struct model *m, const struct fault_sink *sink,
                        struct err *err) {
  struct model_types types = {0};
  struct shapes s = {c, m};
  struct infer *in = infer_new(m, NULL);
  infer_all(in, &(struct infer_told){take_shape, &s, take_dtype});
  infer_fill(in, m, &types);
  infer_free(in);
  const int rc = c->count[FAULT_ERROR] ? 0 : check_dtypes(m, &types, sink, err);
  model_types_done(&types);
  return rc;
}

// ---- all of it ---------------------------------------------------------------------------------

int model_check_run(struct model_check *c, struct sources **sources, struct err *found) {
  const struct fault_sink sink = {take_fault, c};
  const struct load_options loading = {.faults = &sink};
  struct model m;
  model_init(&m);
  int rc = load_model_at(&m, sources, c->path, c->allow_links, &loading, found);
  if (rc == 0) rc = check_operators(&m, &sink, found);
  if (rc == 0 && c->count[FAULT_ERROR] == 0) rc = check_shapes(c, &m, &sink, found);
  model_free(&m);
  return rc;
}

int model_check_code(const struct model_check *c, int rc, const struct err *found) {
  return rc < 0 && found->kind != ERR_MODEL && found->kind != ERR_INPUT ? (int)found->kind
                                                                        : (int)c->code;
}
