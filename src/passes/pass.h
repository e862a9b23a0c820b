// What a pass is given and what it says of itself. A pass decides and emits edits; it never opens a
// file, prints or keeps state between calls.
//
// Rows: passes.def (what there is) and pass_options.def (their options: the flags of the commands, the
// keys of --pass NAME:key=value and of pipeline files are all made from these rows). A pass has two
// faces: pass_<stem>(env, typed options, …) for who calls it from C, and run_<stem> behind the table for
// who has words.
#ifndef WEIR_PASS_H
#define WEIR_PASS_H

#include "edit.h"
#include "err.h"
#include "model.h"
#include "recipe.h"

// One looked-at node, for reports: why it was changed or left.
struct pass_site {
  uint32_t node;  // id
  uint32_t index; // position among its graph's nodes in the source
  uint32_t graph;
  const char *op_type;   // as in the source
  const char *status;    // "converted", "skipped"
  const char *reason;    // a stable word
  bool flag;             // pass-specific (conv2matmul: used_extended_mode)
  struct span node_name; // as in the source; valid as long as the model
  struct span tensor;    // name of the weight that was (or would have been) changed; at NULL: none
  uint32_t codes;        // recipe id of its codes, where it is quantized by this site; else NO_ID
};

struct pass_env {
  struct model *m;
  struct edits *edits;
  struct arena *scratch;                                 // reset after the pass
  void (*site)(void *ctx, const struct pass_site *site); // may be NULL
  void *site_ctx;
  // One sentence that does not stop the work, and a hint or NULL. May be NULL.
  void (*warn)(void *ctx, const char *sentence, const char *hint);
  void *warn_ctx;
};

// ---- the catalogue -----------------------------------------------------------------------------

enum pass_id {
#define PASS(stem, ...) PASS_##stem,
#include "passes.def"
#undef PASS
  PASSES, // how many
};

enum pass_option_id {
#define PASS_OPTION(id, ...) PASS_OPT_##id,
#include "pass_options.def"
#undef PASS_OPTION
  PASS_OPTIONS, // how many
};

enum pass_kind { PASS_FLAG, PASS_COUNT, PASS_CHOICE, PASS_TEXT, PASS_LIST };

struct pass_option {
  const char *name; // of the flag, without dashes; the key has _ for -
  enum pass_kind kind;
  const char *metavar; // NULL for flags; CHOICE: "a|b|c"
  const char *preset;  // as a user would write it, or NULL
  uint32_t passes;     // bit per enum pass_id
  const char *help;
};

struct pass_value {
  bool given;
  const char *text;        // CHOICE (a word of the metavar), TEXT
  uint64_t number;         // FLAG (0, 1), COUNT
  const char *const *list; // LIST
  uint32_t n_list;
};

struct pass_row {
  const char *name; // the stem
  const char *summary, *about, *needs, *promises;
  int (*run)(struct pass_env *env, const struct pass_value values[PASS_OPTIONS], struct err *err);
};

const struct pass_row *pass_row(enum pass_id pass);
const struct pass_option *pass_option(enum pass_option_id option);
// The pass of that name, or PASSES.
enum pass_id pass_by_name(struct span name);

// pass_values.c: words to values. `values` starts with the presets of the pass.
void pass_values_start(enum pass_id pass, struct pass_value values[PASS_OPTIONS], struct arena *a);
// Sets one option by its key (or flag name). FLAG: true|false (text n 0: true). LIST: adds one element.
// ERR_USAGE for an unknown key (with the nearest known one) or a value that does not fit.
int pass_values_set(enum pass_id pass, struct pass_value values[PASS_OPTIONS], struct span key,
                    struct span text, struct arena *a, struct err *err);
// "NAME" or "NAME:key=value[,key=value]…": lists are joined by +, a backslash escapes , : = + and itself.
int pass_values_parse(const char *text, enum pass_id *pass, struct pass_value values[PASS_OPTIONS],
                      struct arena *a, struct err *err);
// The options that differ from their presets, as a canonical JSON object: for edit logs and plans.
const char *pass_values_json(enum pass_id pass, const struct pass_value values[PASS_OPTIONS],
                             struct arena *a);

#endif
