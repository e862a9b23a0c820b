// The words `reads` of the rows of options.def, as a table of members and readers. The type of a member says how a value is
// stored; a member of another type does not build, and an option of another kind is refused by its slot (asserted).
#include "request/fill.h"

#include "audit/audit.h"
#include "calibrate/calibrate_request.h"
#include "calibrate/calibrate_scales.h"
#include "compare/diffing.h"
#include "distribute/finalize/finalize.h"
#include "distribute/member.h"
#include "execute/passes/pass_edits.h"
#include "inspect/inspect_json.h"
#include "pipeline/infer_step.h"
#include "pipeline/optimize_steps.h"
#include "rebuild/rebuild.h"
#include "verify/run/verify.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// A value that is there, given or preset, and what its reader needs.
struct taking {
  const struct cli_args *args;
  enum cli_option option;
  struct arena *arena; // of what a reader makes
  struct err *err;     // ERR_USAGE, with -1
};

// ---- readers -----------------------------------------------------------------------------------

static const char *text(const struct taking *t) {
  return t->args->value[t->option].text;
}

static int bad(const struct taking *t, const char *value, const char *wanted) {
  return err_set(t->err, ERR_USAGE, "invalid value '%s' for %s: use %s", quote_str(value).s,
                 cli_source(t->args, t->option).s, wanted);
}

static int take_number(double *into, const struct taking *t) {
  const char *word = text(t);
  char *end;
  errno = 0;
  const double d = strtod(word, &end);
  if (*word == '\0' || *end != '\0' || errno || !isfinite(d) || d < 0)
    return bad(t, word, "a number from 0 on, such as 1e-4");
  *into = d;
  return 0;
}

static int take_io(void *limits, const struct taking *t) {
  (void)io_mode_by_name(text(t), &((struct request_limits *)limits)->io);
  return 0;
}

static int take_method(void *request, const struct taking *t) {
  struct calibrate_request *r = request;
  return range_method_parse(&r->options.how, span_str(text(t)), t->err);
}

static int take_symmetric(void *request, const struct taking *t) {
  const char *word = text(t);
  ((struct calibrate_request *)request)->options.how.symmetric =
      !word || strcmp(word, "false") != 0;
  return 0;
}

static int take_goal(void *asked, const struct taking *t) {
  ((struct optimize_asked *)asked)->goal = optimize_goal_of(text(t));
  return 0;
}

static int take_fold_limit(void *asked, const struct taking *t) {
  if (!cli_given(t->args, t->option)) return 0; // the pass has the same preset
  const uint64_t bytes = cli_size(t->args, t->option);
  ((struct optimize_asked *)asked)->fold_limit = arena_printf(t->arena, "%s", decimal(bytes).s);
  return 0;
}

// "64,80,97", "1x128x200": whole numbers from 1, appended to a list that has room for them (strlen(at) + 1).
static int numbers(const struct taking *t, const char *whole, const char *at, const char *between,
                   int64_t *to, uint32_t *n) {
  for (;; at++) {
    char *end;
    errno = 0;
    const int64_t x = strtoll(at, &end, 10);
    if (end == at || errno || x < 1 || x > INT32_MAX || *at == '+' || *at == ' ')
      return bad(t, whole, "whole numbers from 1 on");
    to[(*n)++] = x;
    at = end;
    if (*at == '\0') return 0;
    if (!strchr(between, *at)) return bad(t, whole, "whole numbers from 1 on");
  }
}

// Those of all times that the option is given.
static int take_lengths(void *options, const struct taking *t) {
  struct verify_options *o = options;
  uint32_t n;
  const char *const *words = cli_list(t->args, t->option, &n);
  size_t room = 0;
  for (uint32_t i = 0; i < n; i++)
    room += strlen(words[i]) + 1;
  o->lengths = arena_alloc(t->arena, room * sizeof *o->lengths);
  for (uint32_t i = 0; i < n; i++)
    if (numbers(t, words[i], words[i], ",", o->lengths, &o->n_lengths)) return -1;
  return 0;
}

static int take_shapes(void *options, const struct taking *t) {
  struct verify_options *o = options;
  uint32_t n;
  const char *const *words = cli_list(t->args, t->option, &n);
  o->shapes = arena_zalloc(t->arena, n * sizeof *o->shapes);
  for (uint32_t i = 0; i < n; i++) {
    struct draw_shape *s = &o->shapes[o->n_shapes++];
    const char *equals = strrchr(words[i], '=');
    int64_t *dims = arena_alloc(t->arena, (strlen(words[i]) + 1) * sizeof *dims);
    if (!equals || equals == words[i])
      return bad(t, words[i], "NAME=SHAPE, such as audio=1x128x200");
    s->name = arena_string(t->arena, span_of(words[i], (size_t)(equals - words[i])));
    if (equals[1] && numbers(t, words[i], equals + 1, "x,", dims, &s->rank)) return -1;
    s->dims = equals[1] ? dims : NULL;
  }
  return 0;
}

static int take_metrics(void *options, const struct taking *t) {
  uint32_t n;
  const char *const *words = cli_list(t->args, t->option, &n);
  for (uint32_t i = 0; i < n; i++)
    if (compare_take_metric(&((struct verify_options *)options)->bounds, words[i], t->err))
      return -1;
  return 0;
}

static int take_share(void *options, const struct taking *t) {
  const char *word = text(t);
  char *end;
  const double d = strtod(word, &end);
  if (end == word || (*end != '%' && *end != '\0') || (*end == '%' && end[1] != '\0') ||
      !(d >= 0 && d <= 100))
    return bad(t, word, "a share such as 100%");
  ((struct verify_options *)options)->require = d / 100;
  return 0;
}

// ---- the table ---------------------------------------------------------------------------------

enum what { BOOL = 1, WHETHER_GIVEN, OFF, TEXT, UINT32, UINT64, INT64, DOUBLE, WORDS, READER };

struct destination {
  const char *into; // the struct; NULL: no more
  enum what what;
  size_t at, at_count; // of the member, and of the number of WORDS
  int (*take)(void *into, const struct taking *t);
};

#define MEMBER(s, member) (((struct s *)NULL)->member)
#define INTO(s, member, what) {#s, what, offsetof(struct s, member), 0, NULL},
// clang-format off
#define STORED(s, member)                                                                          \
  _Generic(MEMBER(s, member), bool: BOOL, const char *: TEXT, uint32_t: UINT32, uint64_t: UINT64,  \
           int64_t: INT64, double: DOUBLE)
// clang-format on
#define TO(s, member) INTO(s, member, STORED(s, member))
#define GIVEN(s, member) INTO(s, member, _Generic(MEMBER(s, member), bool : WHETHER_GIVEN))
#define UNLESS(s, member) INTO(s, member, _Generic(MEMBER(s, member), bool : OFF))
#define LIST(s, member)                                                                            \
  {#s, _Generic(MEMBER(s, member), const char *const *: WORDS), offsetof(struct s, member),        \
   offsetof(struct s, n_##member), NULL},
#define BY(s, reader) {#s, READER, 0, 0, reader},
#define COPIES GIVEN(request_output, copies)
#define SLOT
#define UNREAD

enum { DESTINATIONS = 5 };
static const struct destination destinations[CLI_OPTIONS][DESTINATIONS] = {
#define OPTION(id, name, letter, kind, metavar, preset, commands, group, reads, ...)               \
  [OPT_##id] = {reads{.into = NULL}},
#define LISTED(id, name, metavar, commands, group, reads, ...) [OPT_##id] = {reads{.into = NULL}},
#define TWIN(id, name, writers_name, kind, metavar, preset, reads, ...)                            \
  [OPT_##id] = {reads{.into = NULL}},
#include "cli/options.def"
#undef OPTION
};

static uint64_t number(const struct taking *t) {
  const enum cli_kind kind = cli_row(t->args->command, t->option).kind;
  const bool size = kind == CLI_SIZE || kind == CLI_SIZE_FROM_0 || kind == CLI_POWER_OF_2;
  if (kind == CLI_FLAG) return cli_flag(t->args, t->option);
  return size ? cli_size(t->args, t->option) : cli_count(t->args, t->option);
}

static int put(const struct destination *p, void *into, const struct taking *t) {
  const struct cli_value *v = &t->args->value[t->option];
  void *at = (char *)into + p->at;
  if (!v->given && !v->text) return 0;
  switch (p->what) {
  case BOOL: *(bool *)at = cli_flag(t->args, t->option); break;
  case WHETHER_GIVEN: *(bool *)at |= v->given; break;
  case OFF: *(bool *)at = !cli_flag(t->args, t->option); break;
  case TEXT: *(const char **)at = cli_string(t->args, t->option); break;
  case UINT32:
    assert(number(t) <= UINT32_MAX);
    *(uint32_t *)at = (uint32_t)number(t);
    break;
  case UINT64: *(uint64_t *)at = number(t); break;
  case INT64: *(int64_t *)at = (int64_t)number(t); break;
  case DOUBLE:
    if (cli_row(t->args->command, t->option).kind == CLI_TEXT) return take_number(at, t);
    *(double *)at = (double)number(t);
    break;
  case WORDS:
    *(const char *const **)at =
        cli_list(t->args, t->option, (uint32_t *)(void *)((char *)into + p->at_count));
    break;
  case READER: return p->take(into, t);
  }
  return 0;
}

int fill_from(const struct cli_args *args, const char *name, void *into, struct arena *arena,
              struct err *err) {
  for (enum cli_option o = 0; o < CLI_OPTIONS; o++) {
    const struct taking t = {args, o, arena, err};
    for (const struct destination *p = destinations[o]; p->into; p++)
      if (strcmp(p->into, name) == 0 && cli_option_belongs(o, args->command) && put(p, into, &t))
        return -1;
  }
  return 0;
}
