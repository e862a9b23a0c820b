// Words to values: what a user writes behind a flag, in --pass NAME:key=value or in a pipeline file
// becomes a struct pass_value of the kind of its row, values become the options that the pass takes
// and canonical JSON.
#ifndef WEIR_PASS_VALUES_H
#define WEIR_PASS_VALUES_H

#include "passes/pass.h"

// One pass with what it is given. Option ids are positions in the pass's rows.
struct pass_values {
  const struct pass *pass;
  struct pass_value *of; // by option
  void *options;         // NULL before pass_values_read
  bool by_flags;         // for messages: options are typed as --flags, not as keys
  bool recorded;         // they are those of a record: its words mean what they meant then
};

// The presets of a pass. Strings and lists of values lie in *a or are literals; so does all that
// comes later.
void pass_values_start(struct pass_values *v, const struct pass *pass, struct arena *a);
// The option of a pass by its key or flag name (- and _ are the same), or NO_ID.
uint32_t pass_values_option(const struct pass *pass, struct span key);
// The same with ERR_USAGE and the nearest known one.
uint32_t pass_values_find(const struct pass *pass, struct span key, struct err *err);
// Sets one option. FLAG: true|false (text n 0: true). LIST: adds one element. ERR_USAGE for a value
// that does not fit.
int pass_values_put(struct pass_values *v, uint32_t option, struct span text, struct arena *a,
                    struct err *err);
// The same for an option that the user did not give, by what else was: it is not given then.
int pass_values_state(struct pass_values *v, uint32_t option, const char *text, struct arena *a,
                      struct err *err);
// "key=value[,key=value]…": lists are joined by +, a backslash escapes , : = + and itself (before
// anything else it stands for itself, and so do : and = inside a value). ERR_USAGE names the pass
// and the option.
int pass_values_parse(struct pass_values *v, struct span text, struct arena *a, struct err *err);
// The same for n passes of a family: each option is handed to those that have it. ERR_USAGE for one that
// none has.
int pass_values_parse_family(struct pass_values *const *list, uint32_t n, struct span text,
                             struct arena *a, struct err *err);
// Has any of n passes of a family the option? ERR_USAGE with the nearest known one.
int pass_values_find_family(struct pass_values *const *list, uint32_t n, struct span key,
                            struct err *err);
// How far the text goes up to one of `ends` that no backslash stands before; and the text without
// the backslashes that escape something.
size_t pass_values_up_to(struct span text, const char *ends);
struct span pass_values_plain(struct span text, struct arena *a);

// Takes a whole number of the range. NULL, or in words what the text should have been: "a whole number from
// 1". The upper bound is said if it is below that of the type, or if the number is past it.
const char *pass_values_whole(struct span text, uint64_t least, uint64_t most, uint64_t *n,
                              struct arena *a);

// Makes the pass's options of the values, and checks what they mean together: v->options. To be
// given to pass_values_done, also after it failed.
int pass_values_read(struct pass_values *v, struct arena *a, struct err *err);
void pass_values_done(struct pass_values *v);

// Every option that has a value and means something beside the others, presets included, as a canonical JSON object: for edit logs and
// plans, which must mean the same when a later version has other presets. Keys in the order of the
// rows. A file that was read (pass_value.sha256) is {"name":…,"sha256":…}.
const char *pass_values_json(const struct pass_values *v, struct arena *a);
// The value of one option there.
const char *pass_values_option_json(const struct pass_values *v, uint32_t option, struct arena *a);
// Values that pass_values_json wrote, into those that pass_values_start made: pass_values_json of them is the same text then. A
// file has its name and its digest, and is to be found (pass_value.text). ERR_MODEL for what this version does not know, and for
// what is none.
struct json_value;
int pass_values_take_json(struct pass_values *v, const struct json_value *options, struct arena *a,
                          struct err *err);
// What an option has, as a user types it: "--block-size 64", "symmetric=false"; and the value alone.
const char *pass_values_typed(const struct pass_values *v, uint32_t option, struct arena *a);
const char *pass_values_text(const struct pass_values *v, uint32_t option, struct arena *a);
// Does it mean something beside the others?
bool pass_values_has_effect(const struct pass_values *v, uint32_t option);
// "key": the name with _ for -. In *a.
const char *pass_values_key(const struct pass_option *row, struct arena *a);
// Does a user's word mean this one of the row's? Case does not count, nor whether - or _ stands; `also` as in struct pass_option.
bool pass_values_means(const char *also, struct span text, struct span word);
// Word k of those that a metavar lists with `between` between them; n 0: there are fewer.
struct span pass_values_word(const char *metavar, char between, uint32_t k);

#endif
