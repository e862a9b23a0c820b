// Where the weights of the output go: as the command line says, and as edit logs record it.
//
//   convert --split 1GiB  ──▶ exec->layout ──▶ {"form":…,"data_file":…,"align":…,"inline_below":…,"each":…,"split":…}
//   replay EDITS          ──▶ the record  ──▶ exec->layout, and over it what the command line says
//
// A replay without an option of its own makes the recorded files again. Of the options of one, those
// that it contradicts are no longer true: --inline leaves nothing of data files, --external means one.
#include "execute/execution.h"

void execution_layout_take(struct plan_layout *l, const struct request_layout *asked) {
  const bool named = asked->data_file != NULL;
  if (asked->in_one_file) {
    l->form = PLAN_DATA_INLINE;
    l->data_name = NULL;
    l->split = l->align = 0;
    l->each = false;
  }
  if (asked->external) {
    l->form = PLAN_DATA_EXTERNAL;
    l->split = 0;
    l->each = false;
  }
  if (named || asked->splits) l->each = false;
  if (asked->file_each) {
    l->form = PLAN_DATA_EXTERNAL;
    l->each = true;
    l->split = 0;
    l->data_name = NULL;
  }
  if ((named || asked->splits) && l->form == PLAN_DATA_INLINE)
    l->form = PLAN_DATA_EXTERNAL; // as recorded
  if (named) {
    l->data_name = *asked->data_file ? asked->data_file : NULL;
    if (!*asked->data_file) l->form = PLAN_DATA_EXTERNAL;
  }
  if (asked->thresholds) l->form = PLAN_DATA_EXTERNAL;
  if (asked->thresholds) l->inline_below = asked->threshold;
  if (asked->splits) l->split = asked->split;
  if (asked->aligns) l->align = asked->align;
}

void execution_layout_write(const struct plan_layout *l, struct json_out *j) {
  static const char *const forms[] = {"default", "external", "inline"};
  json_object(j);
  json_put_text(j, "form", forms[l->form]);
  json_put_text(j, "data_file", l->data_name);
  json_put_uint(j, "align", l->align);
  json_put_uint(j, "inline_below", l->inline_below);
  if (l->each) json_put_bool(j, "each", true);
  if (l->split) json_put_uint(j, "split", l->split);
  json_end_object(j);
}

int execution_layout_read(struct plan_layout *l, const struct json_value *v, struct arena *a,
                    struct err *err) {
  const struct json_value *split = json_get(v, "split");
  struct span form, name;
  uint64_t align = 0, below = 0, most = 0;
  bool each = false;
  bool ok =
      json_as_string(json_get(v, "form"), &form) && json_as_uint(json_get(v, "align"), &align) &&
      json_as_uint(json_get(v, "inline_below"), &below) && (!split || json_as_uint(split, &most)) &&
      (!json_get(v, "each") || json_as_bool(json_get(v, "each"), &each)) &&
      !(each && (split || json_as_string(json_get(v, "data_file"), &name)));
  if (!ok || (align & (align - 1))) {
    err_set(err, ERR_MODEL, "the head of the edit log (line 1) has no layout");
    return err_hint(err,
                    "the first line must be as --edit-log wrote it: form, align, inline_below");
  }
  l->align = align;
  l->inline_below = below;
  l->split = most;
  l->each = each;
  l->data_name = NULL;
  l->form = span_is(form, "external") ? PLAN_DATA_EXTERNAL
            : span_is(form, "inline") ? PLAN_DATA_INLINE
                                      : PLAN_DATA_DEFAULT;
  if (!json_as_string(json_get(v, "data_file"), &name)) return 0;
  if (name.n == 0 || name.n > 255 || memchr(name.at, '/', name.n) || memchr(name.at, 0, name.n))
    return err_set(err, ERR_MODEL, "the head of the edit log names an impossible data file");
  l->data_name = arena_string(a, name);
  return 0;
}

bool execution_layout_is(struct span text) {
  struct arena scratch = {0};
  struct err ignored = {0};
  struct plan_layout l = {.split = 0};
  struct json_out again = {0};
  struct json_value *v = json_parse(text, "a layout", &ignored);
  const bool read = v && execution_layout_read(&l, v, &scratch, &ignored) == 0;
  if (read) execution_layout_write(&l, &again);
  const bool is = read && span_is(text, again.text);
  json_done(&again);
  json_free(v);
  arena_free(&scratch);
  return is;
}
