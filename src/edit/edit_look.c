// What edits were decided by: none of these changes anything, but the edits that follow are right for these
// weights only, so who replays the log has it found again and compares.
//
//   {"edit":"artifact","stage":"measure","of":[{"quantize":{"tensor":"g0/t12:w",…},…},…],"sha256":"…"}
//   {"edit":"look","tensor":"g0/t5:gamma","sha256":"…"}
//   {"edit":"source","file":2,"name":"ranges.jsonl.data","size":4194304,"sha256":"…"}
//   {"edit":"see","value":"g0/v7:w","tensor":"g0/t9:w","dtype":"float","dims":[8,8],"recipe":{"cast":{…},"to":"float"}}
//
// An artifact is what an earlier stage of the stream found in the weights: the line names the stage, what
// it was asked about and the digest of its answer. A look is a tensor whose elements a pass asked for,
// beyond those that are at hand anyway: small values are part of what identifies a source
// (meta_sha256), a vector of 2 KB is not. It is written down once, as long as the tensor stays what it
// is: a replaced one may be looked at again. A source is a file beside the model that recipes read: not part of what
// identifies the model, so its digest is written down before the first of them. A see names a value that nodes make of a
// constant, and the elements that it has: a pass takes it for a weight. Its tensor has a number as others have, since
// recipes and looks behind it may name it, and is none of the model's: it is born dead.
#include "edit/edit_asked.h"
#include "edit/edit_make.h"

void edit_artifact(struct edits *e, const struct edit_artifact *artifact) {
  struct edit_asked x = {.kind = EDIT_ARTIFACT,
                         .stage = span_str(artifact->stage),
                         .of = artifact->of,
                         .n_of = artifact->n};
  memcpy(x.sha256, artifact->sha256, sizeof x.sha256);
  edit_ask(e, &x);
}

void edit_apply_artifact(struct edits *e, struct edit_asked *x) {
  (void)e, (void)x;
}

// What the tensor holds now, as a number that is not 0.
static uint32_t state_of(const struct edits *e, uint32_t tensor) {
  const uint32_t recipe = e->m->tensors[tensor].recipe;
  return recipe == NO_ID ? 1 : recipe + 2;
}

bool edit_looked(const struct edits *e, uint32_t tensor) {
  return tensor < e->n_looked && e->looked[tensor] == state_of(e, tensor);
}

void edit_look(struct edits *e, const struct edit_look *look) {
  struct edit_asked x = {.kind = EDIT_LOOK, .tensor = look->tensor};
  memcpy(x.sha256, look->sha256, sizeof x.sha256);
  if (!edit_looked(e, look->tensor)) edit_ask(e, &x);
}

void edit_apply_look(struct edits *e, struct edit_asked *x) {
  if (x->tensor >= e->n_looked) TABLE_ADD(e, looked, x->tensor + 1 - e->n_looked);
  e->looked[x->tensor] = state_of(e, x->tensor);
}

void edit_source(struct edits *e, const struct edit_source *source) {
  struct edit_asked x = {.kind = EDIT_SOURCE,
                         .slot = source->file,
                         .name = span_str(source->name),
                         .number = (int64_t)source->size};
  memcpy(x.sha256, source->sha256, sizeof x.sha256);
  if (!edit_source_is_known(e, source->file)) edit_ask(e, &x);
}

// Lines come in the order of the files.
bool edit_source_is_known(const struct edits *e, uint32_t file) {
  uint32_t before = 0;
  for (uint32_t i = 0; i < file && i < e->m->n_files; i++)
    before += e->m->files[i].companion;
  return before < e->n_sources;
}

void edit_apply_source(struct edits *e, struct edit_asked *x) {
  struct model *m = e->m;
  e->n_sources++;
  if (x->slot < m->n_files)
    return; // loaded with it: it was a source before the model was read again
  *TABLE_PUSH(m, files) = (struct model_file){
      .name = arena_string(&m->arena, x->name), .size = (uint64_t)x->number, .companion = true};
}

uint32_t edit_see(struct edits *e, uint32_t value, uint32_t recipe) {
  struct edit_asked x = {.kind = EDIT_SEE, .value = value, .recipe = recipe};
  edit_ask(e, &x);
  return x.tensor;
}

void edit_apply_see(struct edits *e, struct edit_asked *x) {
  struct model *m = e->m;
  x->tensor = edit_make_tensor(e, m->values[x->value].graph, m->values[x->value].name, x->recipe);
  m->tensors[x->tensor].home = HOME_INITIALIZER;
  m->tensors[x->tensor].flags |= TENSOR_SEEN | TENSOR_DEAD;
}
