// What a pass is given and what it says of itself. A pass decides and emits edits; it never opens a
// file, prints or keeps state between calls.
//
// Rows: passes.def (what there is) and pass_options.def (their options: the flags of the commands,
// the keys of --pass NAME:key=value and of pipeline files are all made from these rows). A pass has
// two faces: pass_<stem>(env, typed options, …) for who calls it from C, and run_<stem> behind the
// table for who has words.
#ifndef WEIR_PASS_H
#define WEIR_PASS_H

#include "edit.h"
#include "err.h"
#include "figures.h"
#include "model.h"
#include "model_types.h"
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
  // Where a measurement picked how the tensor is quantized: the words of --candidates ("4:64:sym"),
  // and what asked for it ("budget", "gate"); else NULL.
  const char *chosen, *chosen_by;
  const struct figures *figures; // of what was picked; NULL without
  uint32_t codes; // recipe id of its codes, where it is quantized by this site; else NO_ID
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
  // What quantizing would cost: figures of n recipes of codes (RECIPE_QUANTIZE, PART_CODES), in
  // their order, from an earlier stage over the weights: one more read of their operands, recorded
  // in the edit log and an input of the plan. Ask once, for all that is needed. Formats: those of
  // NBITS, QDQ, GATHER, and SHRINK with an axis. NULL where there are no weights at hand.
  int (*evaluate)(void *ctx, const uint32_t *codes, uint32_t n, struct figures *out,
                  struct err *err);
  void *evaluate_ctx;
  // The first n bytes of the elements of a tensor in RAW form, all of them by what the kit asks: for
  // small float tensors that a decision needs (kit.h, which records it). -1: it cannot be read. NULL
  // where there are no weights at hand.
  int (*read)(void *ctx, uint32_t tensor, uint8_t *out, size_t n, struct err *err);
  void *read_ctx;
  struct model_types *types; // what passes and inference noted so far; NULL: of this pass only
  uint64_t output_limit;     // set by a pass: bytes that all files of the output may have; 0: any
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

// COUNT: a whole number from 1; NUMBER: from 0; both below 2^31. LIST: given several times, each
// adds an element; a metavar with commas ("MatMul,Gemm") names the words that it takes, and commas
// may join them. What is given replaces the preset, also of a list.
enum pass_kind { PASS_FLAG, PASS_COUNT, PASS_NUMBER, PASS_CHOICE, PASS_TEXT, PASS_LIST };

struct pass_option {
  const char *name; // of the flag, without dashes; the key has _ for -
  enum pass_kind kind;
  const char *metavar; // NULL for flags; CHOICE: "a|b|c"
  const char *preset;  // as a user would write it, or NULL
  uint32_t passes;     // bit per enum pass_id
  const char *help;
};

struct pass_value {
  bool given;        // by the user: not the preset
  const char *text;  // CHOICE (a word of the metavar), TEXT
  uint64_t number;   // FLAG (0, 1), COUNT, NUMBER
  const char **list; // LIST
  uint32_t n_list;
};

struct pass_row {
  const char *name; // the stem
  const char *summary, *about, *needs, *promises;
  int (*check)(const struct pass_value values[PASS_OPTIONS], struct err *err);
  int (*run)(struct pass_env *env, const struct pass_value values[PASS_OPTIONS], struct err *err);
};

const struct pass_row *pass_row(enum pass_id pass);
const struct pass_option *pass_option(enum pass_option_id option);
bool pass_option_belongs(enum pass_option_id option, enum pass_id pass);
// The pass of that name, or PASSES.
enum pass_id pass_by_name(struct span name);

// int check_<stem>(values, err): what the values mean, alone and together, as far as that can be
// said without a model: ERR_USAGE. They have the kinds of their rows (pass_values.c).
//
// int run_<stem>(env, values, err): the pass behind its row, for values that check_<stem> took.
// ERR_USAGE for what does not fit the model. Before it fails it may have made edits.
#define PASS(stem, ...)                                                                            \
  int check_##stem(const struct pass_value values[PASS_OPTIONS], struct err *err);                 \
  int run_##stem(struct pass_env *env, const struct pass_value values[PASS_OPTIONS],               \
                 struct err *err);
#include "passes.def"
#undef PASS

// ---- words to values (pass_values.c) -----------------------------------------------------------

// The presets of a pass. Strings and lists of values lie in *a or are literals.
void pass_values_start(enum pass_id pass, struct pass_value values[PASS_OPTIONS], struct arena *a);
// The option of a pass by its key or flag name (- and _ are the same), or PASS_OPTIONS and
// ERR_USAGE with the nearest known one.
enum pass_option_id pass_values_find(enum pass_id pass, struct span key, struct err *err);
// Sets one option. FLAG: true|false (text n 0: true). LIST: adds one element. ERR_USAGE for a value
// that does not fit.
int pass_values_put(enum pass_option_id option, struct pass_value values[PASS_OPTIONS],
                    struct span text, struct arena *a, struct err *err);
// "NAME" or "NAME:key=value[,key=value]…": lists are joined by +, a backslash escapes , : = + and
// itself (before anything else it stands for itself, and so do : and = inside a value). Starts with
// the presets. ERR_USAGE names the pass and the option.
int pass_values_parse(const char *text, enum pass_id *pass, struct pass_value values[PASS_OPTIONS],
                      struct arena *a, struct err *err);
// PASSES and ERR_USAGE for a name that no pass has, with the nearest.
enum pass_id pass_values_pass(struct span name, struct err *err);
// Every option that has a value, presets included, as a canonical JSON object: for edit logs and
// plans, which must mean the same when a later version has other presets. Keys in the order of the
// rows.
const char *pass_values_json(enum pass_id pass, const struct pass_value values[PASS_OPTIONS],
                             struct arena *a);
// "key": the name with _ for -. In *a.
const char *pass_values_key(enum pass_option_id option, struct arena *a);

#endif
