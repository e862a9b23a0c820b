// Inside the edit room: what an edit is, whoever asks for it.
//
//   edit_set_input(…) ──┐                        ┌─ check: what it promises
//                       ├─▶ struct edit_asked ──▶┼─ apply: the rows change
//   line of a log ──────┘                        └─ line: the members that its row names
//
// What a call promises (edit_ask asserts it) is what a line is doubted for (edit_log_replay_line): ids that
// come next, names beside ids and the like are given by both, and checked alike.
#ifndef WEIR_EDIT_ASKED_H
#define WEIR_EDIT_ASKED_H

#include "edit/edit.h"

enum edit_kind {
#define EDIT(id, ...) EDIT_##id,
#include "edit/edit_kinds.def"
  EDIT_KINDS, // how many
};

// What is asked for. What its kind does not have is not looked at. Ids of new rows are known once it
// was applied.
struct edit_asked {
  enum edit_kind kind;
  int64_t number; // of a group; a version
  uint32_t node, before, slot;
  uint32_t value, from; // from: REPLACE_USES
  uint32_t graph, parent, function;
  uint32_t tensor, recipe, attr;
  struct span name, op, domain, import, key, text, pass, reason, stage;
  enum dtype dtype;
  const struct model_dim *dims;
  uint32_t rank;
  struct edit_node spec;       // NODE_ADD
  struct edit_output out;      // SET_OUTPUT
  struct edit_attr attr_value; // SET_ATTR; its name is `name`
  const uint32_t *of;          // ARTIFACT: n_of recipes
  uint32_t n_of;
  uint8_t sha256[32];
};

// How a member is written in a line and read from it.
enum edit_field_type {
  FIELD_NUMBER,   // int64_t
  FIELD_POSITION, // uint32_t
  FIELD_STRING,   // span
  FIELD_TEXT,     // span, left out if empty
  FIELD_DIGEST,   // 32 bytes
  FIELD_NODE,     // addresses of rows that are there
  FIELD_VALUE,
  FIELD_TENSOR,
  FIELD_GRAPH, // "g4", and "f1": the row may be one to come
  FIELD_FUNCTION,
  FIELD_NEW_NODE,    // and its graph
  FIELD_NEW_VALUE,   // and its graph and name
  FIELD_MAKER,       // the new Constant that makes the value, in a function
  FIELD_NEW_TENSOR,  // address, dtype, dims and recipe
  FIELD_SEEN_TENSOR, // the same, of the graph and name of `value`
  FIELD_DATA,        // the same of a tensor that is there
  FIELD_TYPE,        // dtype and dims of a value
  FIELD_INPUTS,      // of `spec`
  FIELD_OUTPUTS,
  FIELD_ATTRS,
  FIELD_DEFAULTS, // the same of a function, null: without a default
  FIELD_OUTPUT,   // an old value or a new one, `out` while it is asked for, null or absent: none
  FIELD_ATTR,     // `attr_value` while it is asked for, null: removed
  FIELD_RECIPES,  // `of`
};

struct edit_field {
  const char *keys; // NULL: behind the last
  enum edit_field_type type;
  bool may_lack;
  size_t at; // of the member in struct edit_asked
};

struct edit_kind_row {
  const char *word;
  int (*check)(const struct edits *e, const struct edit_asked *x, struct err *err);
  void (*apply)(struct edits *e, struct edit_asked *x);
  struct edit_field fields[10];
};
extern const struct edit_kind_row edit_kinds[EDIT_KINDS];

#define EDIT(id, word, stem, ...)                                                                  \
  int edit_check_##stem(const struct edits *e, const struct edit_asked *x, struct err *err);       \
  void edit_apply_##stem(struct edits *e, struct edit_asked *x);
#include "edit/edit_kinds.def"

// An edit of our own caller: a promise that does not hold is said, and aborts as assert does.
void edit_ask(struct edits *e, struct edit_asked *x);
// An edit that was checked: applies, records and counts it.
void edit_take(struct edits *e, struct edit_asked *x);
// Writes its line, and hands it to the sink. Nothing if nobody records.
void edit_line(struct edits *e, const struct edit_asked *x);

// What a line calls the types that edits make, by type, up to ATTR_STRINGS.
extern const char *const edit_attr_words[];

// Parts of checks that others need.
int edit_check_node(const struct edits *e, uint32_t node, struct err *err); // exists and lives
int edit_check_value(const struct edits *e, uint32_t value, struct err *err);
int edit_check_graph(const struct edits *e, uint32_t graph, struct err *err);
int edit_check_tensor(const struct edits *e, uint32_t tensor, struct err *err);

// Which of the n imports from the first one on is the domain's; n: none.
uint32_t edit_opset_row(const struct model *m, uint32_t first, uint32_t n, struct span domain);

#endif
