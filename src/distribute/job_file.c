#include "distribute/job_file.h"

#include "base/shell_words.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

enum { GITHUB_MATRIX_MAX = 256 };

const struct job_file *job_file_of(const char *scheduler) {
  static const struct job_file files[] = {
#define JOB_FILE(name, summary, text) {name, text},
#include "distribute/job_files.def"
#undef JOB_FILE
  };
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (strcmp(files[i].name, scheduler) == 0) return &files[i];
  return NULL;
}

struct word {
  const char *name, *value;
};

static const char *json_text_of(const char *s, struct arena *a) {
  struct json_out j = {0};
  json_text(&j, s);
  return json_take(&j, a);
}

// The longest folder that both lie in.
static const char *common_folder(const char *x, const char *y, struct arena *a) {
  size_t common = 0;
  for (size_t i = 0;; i++) {
    const bool ends = (x[i] == '/' || !x[i]) && (y[i] == '/' || !y[i]);
    if (ends) common = i;
    if (x[i] != y[i] || !x[i]) break;
  }
  return common ? arena_string(a, span_of(x, common)) : "/";
}

static const char *list_of(uint32_t n, struct arena *a) {
  struct json_out j = {0};
  json_array(&j);
  for (uint32_t i = 0; i < n; i++)
    json_uint(&j, i);
  json_end_array(&j);
  const char *text = json_take(&j, a);
  return arena_string(a, span_of(text + 1, strlen(text) - 2));
}

// The text with the words replaced, into out (NULL: nowhere): its length.
static size_t put(char *out, const char *text, const struct word *words, size_t n) {
  size_t at = 0;
  while (*text) {
    size_t k = 0;
    while (k < n && strncmp(text, words[k].name, strlen(words[k].name)) != 0)
      k++;
    const char *piece = k < n ? words[k].value : text;
    const size_t bytes = k < n ? strlen(piece) : 1;
    if (out) memcpy(out + at, piece, bytes);
    at += bytes;
    text += k < n ? strlen(words[k].name) : 1;
  }
  return at;
}

static const char *replace(const char *text, const struct word *words, size_t n, struct arena *a) {
  const size_t bytes = put(NULL, text, words, n);
  char *out = arena_alloc(a, bytes + 1);
  out[put(out, text, words, n)] = 0;
  return out;
}

// The folder that both lie in. Kubernetes takes ':' in no path of a mount.
static int can_be_mounted(const char *shared, const char *dest, const char *source,
                          struct err *err) {
  if (strcmp(shared, "/") == 0) {
    err_fill(err, ERR_USAGE,
             "the plan (in %s) and its input (in %s) are in no common folder that can be mounted",
             quote_path(dest).s, quote_path(source).s);
    return err_hint(err, "move both below one folder, and plan again");
  }
  if (!strchr(shared, ':')) return 0;
  err_fill(err, ERR_USAGE, "%s has a ':' in its path, and Kubernetes cannot mount such a folder",
           quote_path(shared).s);
  return err_hint(err, "give it another name, and plan again");
}

int job_file_make(const struct job_file *f, struct planned *x, const char *image, const char **text,
                  struct err *err) {
  struct arena *a = &x->arena;
  char full[PATH_BYTES];
  const struct staging_joined *j = &x->joined;
  const uint32_t shards = j->orders.shards;
  if (strcmp(f->name, "github") == 0 && shards > GITHUB_MATRIX_MAX) {
    err_fill(err, ERR_USAGE, "a GitHub matrix has at most %d jobs, but the plan has %u shards",
             GITHUB_MATRIX_MAX, shards);
    return err_hint(err, "plan again with --shards %d or fewer; finished units are kept",
                    GITHUB_MATRIX_MAX);
  }
  struct entry_facts owner = {0};
  if (folder_look(j->st.folder, &owner) != 0)
    return err_errno(err, errno, ERR_IO, "cannot read the attributes of %s",
                     quote_path(j->st.name).s);
  const char *dest =
      path_real(j->st.dest_path, full) ? j->st.dest_path : arena_string(a, span_str(full));
  const char *plan = arena_printf(a, "%s/%s", dest, j->st.name);
  const struct digest_hex id = digest_hex(j->plan.id);
  const char *shared = common_folder(dest, j->source_folder, a);
  if (strcmp(f->name, "kubernetes") == 0 && can_be_mounted(shared, dest, j->source_folder, err))
    return -1;
  const char *plan_text = json_text_of(plan, a);
  static const struct word of_kubernetes = {"$", "$$"}, of_github = {"${{", "${{ '${{' }}"};
  const struct word words[] = {
      {"@PLAN@", shell_words_quote(plan, a)},
      {"@PLAN_TEXT@", plan_text},
      {"@PLAN_OF_KUBERNETES@", replace(plan_text, &of_kubernetes, 1, a)},
      {"@PLAN_OF_GITHUB@", replace(plan_text, &of_github, 1, a)},
      {"@SHARDS@", arena_printf(a, "%u", shards)},
      {"@LAST@", arena_printf(a, "%u", shards - 1)},
      {"@LIST@", list_of(shards, a)},
      {"@FOLDER_TEXT@", json_text_of(shared, a)},
      {"@IMAGE_TEXT@", json_text_of(image, a)},
      {"@ID@", arena_string(a, span_of(id.s, 16))},
      {"@OWNER@", arena_printf(a, "%u", (unsigned)owner.owner)},
      {"@GROUP@", arena_printf(a, "%u", (unsigned)owner.group)},
  };
  *text = replace(f->text, words, sizeof words / sizeof *words, a);
  return 0;
}
