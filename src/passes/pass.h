// Room: the interface of passes: the environment of a pass, and its row of name, options and
// promises. A pass decides and emits edits; it never opens a file, prints or keeps state between
// calls.
//
// A pass is one struct pass: its name, what it says of itself, its options, its function. The list
// <family>_passes of its family has it; the catalogue (catalogue/passes.h) joins the lists named in
// families.def, and flags of commands, keys of --pass NAME:key=value and of pipeline files, help,
// man pages and completions are made from the rows.
//
// To add a pass, in a family (a new family: families.def):
//   1. a file with its function and its row: name (family/pass), text, exactness, options, each with its member (PASS_MEMBER);
//   2. its declaration in a header of the family's inside/, and a line in the list <family>_passes;
//   3. a case in tests/passes/<name>/ (tests/README.md), an end-to-end test against a runtime, and the goldens of tests/cli;
//   4. the family's page in docs/, and docs/passes.md (tests/support/passes_page.py --write WEIR);
//   5. a line in PASSES of tests/e2e/test_mutants.py: `weir verify` must find wrong results of the pass. WEIR_WRITE_TABLE=FILE
//      with WEIR_TEST_ALL=1 writes the table of docs/tested/mutations.md.
//
// A pass changes the model through edit_* only. kit/kit.h is the manual of what passes share; pass_run.c checks the model after
// each pass. Groups of passes are rows of src/pipeline/groups.def.
//
//   struct tidy_options { bool deep; uint32_t most; };
//   static const struct pass_option options[] = {
//       {"deep", PASS_FLAG, NULL, NULL, "look into subgraphs too", PASS_MEMBER(tidy_options, deep)},
//       {"most", PASS_COUNT, "N", "8", "stop after N", PASS_MEMBER(tidy_options, most)},
//   };
//   static const struct pass identity = {"tidy/identity", …, PASS_OPTIONS(options, tidy_options),
//                                        .run = run_identity};
#ifndef WEIR_PASS_H
#define WEIR_PASS_H

#include "base/err.h"
#include "edit/edit.h"
#include "model/model.h"
#include "model/model_types.h"
#include "passes/exactness.h"
#include "recipe/recipe.h"
#include "tensor_stats/figures.h"

#include <stddef.h>

// ---- what a pass is given ----------------------------------------------------------------------

// Whether something holds of a site that only reports of its pass tell, as a member of that name.
struct pass_fact {
  const char *name; // NULL: none is told
  bool holds;
};

// One looked-at node, for reports: why it was changed or left.
struct pass_site {
  uint32_t node;  // id
  uint32_t index; // position among its graph's nodes in the source
  uint32_t graph;
  const char *op_type; // as in the source
  const char *status;  // "converted", "skipped"
  const char *reason;  // a stable word, in tools/render/runs/reasons.def
  struct pass_fact fact;
  struct span node_name; // as in the source; valid as long as the model
  struct span tensor;    // name of the weight that was (or would have been) changed; at NULL: none
  struct span layer;     // name of the first node that uses the weight; at NULL: not known
  // Where a measurement picked how the tensor is quantized: the words of --candidates ("4:64:sym"),
  // and what asked for it ("budget", "gate"); else NULL.
  const char *chosen, *chosen_by;
  const struct figures *figures; // of what was picked; NULL without
  // Where it was picked by the error of the output: what that was weighed by ("gram", "channels"), and the output's SQNR.
  const char *weighed_by;
  double output_db;
  uint32_t codes; // recipe id of its codes, where it is quantized by this site; else NO_ID
  // With codes: the tensor whose place they take. Tensors of equal bytes have one recipe.
  uint32_t of;
  // Of several that run together: the name of the one it is of; NULL: the one that runs.
  const char *pass;
};

// A question to a stage: something that must look at weights before it can be decided. `stage` names
// a row of the stages that the caller has ("measure": figures.h of n recipes of codes); `of` are the
// recipes that it is asked about.
struct pass_question {
  const char *stage;
  const uint32_t *of;
  uint32_t n;
};
// The answer: the whole text of an artifact, valid until the pass returns, and its SHA-256.
struct pass_answer {
  struct span text;
  uint8_t sha256[32];
};

struct ranges; // ranges.h

struct pass_env {
  struct model *m;
  struct edits *edits;
  const struct pass *pass;  // the row that runs: one function may stand behind many
  enum exactness exactness; // the cap. The pass itself is within it; of several rewrites that it
                            // has, those beyond it are held back and counted (pass_result)
  // Until the pass returns; what belongs to one site lies in the kit's `site`.
  struct arena *scratch;
  void (*site)(void *ctx, const struct pass_site *site); // may be NULL
  void *site_ctx;
  // One sentence that does not stop the work, and a hint or NULL. May be NULL.
  void (*warn)(void *ctx, const char *sentence, const char *hint);
  void *warn_ctx;
  // Asks a stage. Costs one more read of what it asks about: ask once, for all that is needed. The
  // caller records the answer in the edit log, and makes it an input of the plan. NULL where there
  // are no weights at hand. questions/measured.h asks for figures.
  int (*ask)(void *ctx, const struct pass_question *question, struct pass_answer *answer,
             struct err *err);
  void *ask_ctx;
  // The first n bytes of the elements of a tensor in RAW form, all of them by what the kit asks: for
  // small float tensors that a decision needs (kit.h, which records it). -1: it cannot be read. NULL
  // where there are no weights at hand.
  int (*read)(void *ctx, uint32_t tensor, uint8_t *out, size_t n, struct err *err);
  void *read_ctx;
  // Makes a file beside the model (RANGES.data) a source of the run, recorded in the edit log: recipes behind it may
  // have extents in file *file. ERR_INPUT if its digest is another one. NULL where nothing is read.
  int (*source)(void *ctx, const char *path, const uint8_t sha256[32], uint32_t *file,
                struct err *err);
  void *source_ctx;
  // Files that the pass's options name (pass_option.reads), by the words of the option: what calibration found of the
  // model's values; a text. The caller read them before the first pass, and records have their SHA-256. Valid until the
  // pass returns. NULL where there are no files.
  struct {
    int (*ranges)(void *ctx, const char *path, const struct ranges **out, struct err *err);
    int (*file)(void *ctx, const char *path, struct span *text, struct err *err);
    void *ctx;
  } files;
  int (*refuse)(void *ctx, const struct err *why, struct err *err); // pass_refuse; NULL: -1
  void *refuse_ctx;
  // How much too many bytes a pass that keeps to a size counted in an earlier round (pass_counted), over
  // what its plan then had; below 0: too few. NULL: nobody knows yet.
  const int64_t *overcount;
  struct model_types *types; // what passes and inference noted so far; NULL: of this pass only
  // What inference found (infer.h), from the first pass on that infers; pass_run.c infers what is new behind each
  // pass and gives it back in the end. NULL: none has. A pass that infers sets it, and frees the one before.
  struct infer *infer;
  bool keeps_declared;        // a pass was told to keep declarations that are wrong
  struct pass_result *result; // of a pass that runs by itself (struct pass.run); else NULL
};

// Refuses the run for *why. 0: the caller goes on as if all were well, for the figures of a run that
// would fail (a dry run); else -1 with *err.
static inline int pass_refuse(const struct pass_env *env, const struct err *why, struct err *err) {
  if (env->refuse) return env->refuse(env->refuse_ctx, why, err);
  *err = *why;
  return -1;
}

// What a pass that keeps to a size took the output to be, whose true size is known when it is planned.
struct pass_counted {
  uint64_t bytes;
  double error;  // summed squares, of what was picked
  bool smallest; // nothing fits by the count: it picked the smallest of all
};

// Some of the model's graphs: those below n that are `in`.
struct pass_graphs {
  bool *in;
  uint32_t n;
};
static inline bool pass_graphs_has(const struct pass_graphs *g, uint32_t graph) {
  return graph < g->n && g->in[graph];
}

// The results of a pass, beside edits and sites. Starts zeroed, but for `worn`, which keeps the graphs of earlier rounds.
struct pass_result {
  struct pass_counted counted; // where there is an output_limit
  uint64_t output_limit;       // bytes that all files of the output may have (of_output); 0: any
  uint64_t held_back;          // rewrites that the cap on exactness kept from being made
  // Graphs in which it was stopped, and would go on for long: it does nothing there in later rounds. In env->scratch
  // where the pass made it.
  struct pass_graphs worn;
  // Quantized in blocks: weights whose stored blocks are at least half empty (nbits.h), and the least
  // block size that holds a column of each.
  uint32_t half_empty, fitting_block;
};

// ---- options -----------------------------------------------------------------------------------

// COUNT: a whole number from 1; NUMBER: from 0; both below 2^31. LIST: given several times, each
// adds an element; a metavar with commas ("MatMul,Gemm") names the words that it takes, and commas
// may join them. What is given replaces the preset, also of a list.
// What file the words of a TEXT name: the caller reads it (pass_env), and records have its base name and SHA-256
// instead: {"name":"r.jsonl","sha256":"…"}, and of ranges how they were found ("calibration"). side_inputs.c reads it
// once, before the first pass; the pass gets it by the option's words (env->files.ranges, env->files.file). A replay does not need the file.
enum pass_reads { PASS_READS_NOTHING, PASS_READS_RANGES, PASS_READS_TEXT };

enum pass_kind { PASS_FLAG, PASS_COUNT, PASS_NUMBER, PASS_CHOICE, PASS_TEXT, PASS_LIST };

// As a user gave it, or the preset.
struct pass_value {
  bool given;        // by the user: not the preset
  bool stated;       // by what else the user gave (struct pass.instead): not the preset either
  const char *text;  // CHOICE (a word of the metavar), TEXT; NULL: no value
  uint32_t choice;   // CHOICE: which word of the metavar, from 0
  uint64_t number;   // FLAG (0, 1), COUNT, NUMBER
  const char **list; // LIST
  uint32_t n_list;
  const char *sha256; // of the file that a TEXT names, in hex; NULL: it names none, or was not read
  const char *about;  // what that file says of itself, a JSON object; NULL: nothing
};

struct pass_option {
  const char *name; // of the flag, without dashes; the key has _ for -
  enum pass_kind kind;
  const char *metavar; // NULL for flags; CHOICE: "a|b|c"
  const char *preset;  // as a user would write it, or NULL
  const char *help;
  // Other words for words of the metavar: "half=float16 bf16=bfloat16"; NULL: none. Case never counts, and - is _.
  const char *also;
  // What completions offer where the metavar is a form: values, or how they begin, separated by blanks.
  const char *offers;
  // The member of the pass's options that takes the value (PASS_MEMBER): a bool of a FLAG, a
  // uint32_t, uint64_t or int64_t of COUNT and NUMBER, a const char * of a TEXT, for a CHOICE an enum
  // or uint32_t (the position of its word) or, of two words, a bool; of one word a bool that it is given.
  // Of a LIST (PASS_LIST_MEMBER) the words, and how many there are. Without a value it stays zero.
  // means: of a CHOICE what the member is for each word; NULL: the word's position.
  struct {
    size_t at, bytes, count_at;
    const uint32_t *means;
  } member;
  // For what a member cannot say (words with a form): fills what it will of the options, which
  // has the rows before this one read; called without a value too. Words live as long as *a.
  // ERR_USAGE. NULL: as the member.
  int (*read)(const struct pass_value *value, void *options, struct arena *a, struct err *err);
  // The option without which this one means nothing: "budget", which must have a value, or a choice's
  // word, "method=float_weights". Records then leave it out. NULL: it always means something.
  const char *only_with;
  bool commas;   // LIST: elements have none, so that commas may join them
  bool measured; // says which weights are looked at, or how: 'measure' has it too
  bool required; // help says so, and names it first; `read` refuses a missing value
  // CHOICE: the command that lists its words, which are too many for help; or NULL.
  const char *listed;
  bool of_output;        // about all files of the output: only one step of a pipeline may have it
  enum pass_reads reads; // TEXT: what it names
  bool later;    // came after the pass: where it is not given, records are as they were before
  bool from_one; // CHOICE: the member counts its words from 1, and is 0 without a value
  // CHOICE: words that stand for another one when a user or a target says them, "newest=version-2"; records have the other one. A
  // record that has them is older than that, and keeps them. NULL: none.
  const char *resolves;
};
#define PASS_MEMBER(type, name)                                                                    \
  .member.at = offsetof(struct type, name), .member.bytes = sizeof(((struct type *)NULL)->name)
#define PASS_LIST_MEMBER(type, list, n)                                                            \
  PASS_MEMBER(type, list), .member.count_at = _Generic(((struct type *)NULL)->n, uint32_t          \
                                                       : offsetof(struct type, n))
#define PASS_OPTIONS(rows, type)                                                                   \
  .options = (rows), .n_options = sizeof(rows) / sizeof *(rows),                                   \
  .options_bytes = sizeof(struct type)

// ---- a pass ------------------------------------------------------------------------------------

struct kit;
struct rules_book;
struct pass {
  const char *name; // "family/pass", or a word without a slash, which is a family of its own
  const char *also; // a name that it had before, accepted where names are read; NULL: none
  // Sets that it belongs to besides its family, and classes of onnx-passes that it does, which are names for it too: words
  // with blanks between them; NULL: none. A pass whose name ends in a class's (`algebraic/GroupAdd`) need not say it.
  const char *keys, *classes;
  const char *const
      *rules; // the texts of its rules, NULL behind the last; NULL: it is none of rules
  // Where these are from; NULL: the house's book (rules.h).
  const struct rules_book *book;
  uint32_t at; // which of that book's passes it is
  bool infers; // of a pass of rules: types and shapes are inferred before it matches
  const char *summary, *about;
  const char *needs;    // NULL: nothing
  const char *promises; // NULL: all outputs of the model are unchanged
  // How exactly what is computed stays the same, given the weights that are stored. What a pass does to
  // weights because it was asked to (fewer bits, a narrower type) is no part of that: it is the
  // purpose, has figures of its own, and no cap holds it back. So a quantizer says how exact its
  // rewriting of the graph is. Of a pass with several rewrites this is its most exact: a cap below that
  // holds all of it back. `loosest` is its least exact; where they are the same it need not be said.
  enum exactness exactness, loosest;
  const struct pass_option *options;
  uint32_t n_options;
  size_t options_bytes;
  // What it makes of weights, in the closing line: "quantized", "cast"; NULL: it stores none in another
  // form. quant_error_check.c checks each element, if dequant_expr.c knows the form.
  const char *stores;
  // It quantizes activations too, by ranges that were found before: how near the result is depends on
  // what it is given.
  bool activations;
  // Reasons of groups of edits (kit_site) in which it rounds activations or biases elsewhere than before, words with blanks
  // between them: these are verified as activations are. NULL: none.
  const char *activations_in;
  // What stands in place of the preset of an option that is not given, where another one asks for it (a
  // target); NULL: its preset. Values are as the user gave them. NULL: presets are all there is.
  const char *(*instead)(const struct pass_value *values, uint32_t option);
  // What the options mean together, as far as that can be said without a model: ERR_USAGE. `values`
  // are in the order of the rows. NULL: any go together.
  int (*check)(const void *options, const struct pass_value *values, struct err *err);
  // ERR_USAGE for what does not fit the model. Before it fails it may have made edits.
  int (*run)(struct pass_env *env, void *options, struct err *err);
  // What it does at each node, where its `run` is a walk that passes share (kit_run); else NULL.
  void (*visit)(struct kit *k, uint32_t node);
  // For passes that are one walk together, as the rules of a book: what `run` does for each of n of
  // them, with its options, one result each, with sites that say which they are of; env->pass is the
  // first. Neighbouring steps of a pipeline with the same function are one call (not where one of them
  // comes again with other options), and so is a step alone. NULL: each runs by `run`.
  int (*run_together)(struct pass_env *env, const struct pass *const *passes, void *const *options,
                      uint32_t n, struct pass_result *results, struct err *err);
  void (*done)(void *options); // frees what reading gave, also after a reader failed; or NULL
};

// Lists of passes, NULL behind the last.
#define FAMILY(stem) extern const struct pass *const stem##_passes[];
#include "passes/families.def"

#endif
