// Records back to values: pass_values_json, read again.
//
// A record has what every option had, not who said so. Most passes do not care; some want to know whether a value was given
// (`struct pass_value`), and that follows from the value: one that is neither the preset nor what the pass would put in its
// place beside the others (struct pass.instead) was given.
#include "passes/catalogue/pass_values.h"

#include "json/json.h"

struct record {
  struct pass_values *v;
  struct arena *a;
  struct err *err;
};

static int refuse(const struct record *r, uint32_t o, const struct json_value *value) {
  return err_set(r->err, ERR_MODEL, "'%s' is not a value of '%s'",
                 quote_str(json_value_text(value, r->a)).s, r->v->pass->options[o].name);
}

static int put_word(const struct record *r, uint32_t o, const struct json_value *value) {
  struct span text;
  struct err why = {0};
  if (json_is_array(value) || json_is_object(value)) return refuse(r, o, value);
  if (!json_as_string(value, &text)) text = span_str(json_value_text(value, r->a));
  if (pass_values_put(r->v, o, text, r->a, &why) == 0) return 0;
  return err_set(r->err, ERR_MODEL, "%.900s", why.msg);
}

// A record has no folders, which would be those of whoever made it: any path of this machine.
static bool is_base_name(struct span name) {
  return name.n > 0 && !span_has_nul(name) && !memchr(name.at, '/', name.n) &&
         !span_is(name, ".") && !span_is(name, "..");
}

static int refuse_file(const struct record *r, uint32_t o, const struct json_value *value) {
  return err_set(r->err, ERR_MODEL, "'%s' of '%s' is not a file given by its name and SHA-256",
                 quote_str(json_value_text(value, r->a)).s, r->v->pass->options[o].name);
}

static int put(const struct record *r, uint32_t o, const struct json_value *value) {
  struct pass_value *x = &r->v->of[o];
  const enum pass_kind kind = r->v->pass->options[o].kind;
  if (kind == PASS_LIST) {
    x->given = true;
    x->n_list = 0;
    if (!json_is_array(value)) return refuse(r, o, value);
    for (const struct json_value *e = json_first(value); e; e = json_next(e))
      if (put_word(r, o, e)) return -1;
    return 0;
  }
  if (kind == PASS_TEXT && json_is_object(value)) { // a file
    struct span name, sha256;
    if (!json_as_string(json_get(value, "name"), &name) ||
        !json_as_string(json_get(value, "sha256"), &sha256) || !is_base_name(name))
      return refuse_file(r, o, value);
    x->text = arena_string(r->a, name);
    x->sha256 = arena_string(r->a, sha256);
    x->about = json_is_object(json_get(value, "calibration"))
                   ? json_value_text(json_get(value, "calibration"), r->a)
                   : NULL;
    x->given = true;
    return 0;
  }
  if (r->v->pass->options[o].reads != PASS_READS_NOTHING) return refuse_file(r, o, value);
  return put_word(r, o, value);
}

// As records have it.
static bool has(const struct record *r, uint32_t o, const struct json_value *value) {
  return strcmp(pass_values_option_json(r->v, o, r->a), json_value_text(value, r->a)) == 0;
}

// Would the pass itself put this value there?
static bool is_instead(const struct record *r, uint32_t o, const struct json_value *value,
                       bool *any) {
  struct err ignored = {0};
  const char *text = r->v->pass->instead ? r->v->pass->instead(r->v->of, o) : NULL;
  const struct pass_value was = r->v->of[o];
  *any = text != NULL;
  if (!text) return false;
  r->v->of[o].given = false;
  const bool is = pass_values_state(r->v, o, text, r->a, &ignored) == 0 && has(r, o, value);
  if (!is) r->v->of[o] = was;
  return is;
}

int pass_values_take_json(struct pass_values *v, const struct json_value *options, struct arena *a,
                          struct err *err) {
  const struct record r = {v, a, err};
  v->recorded = true;
  if (!json_is_object(options)) return err_set(err, ERR_MODEL, "the options are not a JSON object");
  // Options that hang on another one come second: version 0.1.0 recorded those without effect, too.
  for (uint32_t round = 0; round < 2; round++)
    for (const struct json_value *m = json_first(options); m; m = json_next(m)) {
      const uint32_t o = pass_values_option(v->pass, span_str(json_name(m)));
      if (o == NO_ID)
        return err_set(err, ERR_MODEL, "pass '%s' has no option '%s'", v->pass->name,
                       quote_str(json_name(m)).s);
      if (round != (v->pass->options[o].only_with != NULL)) continue;
      if (pass_values_has_effect(v, o) && !has(&r, o, m) && put(&r, o, m)) return -1;
    }
  for (const struct json_value *m = json_first(options); m; m = json_next(m)) {
    const uint32_t o = pass_values_option(v->pass, span_str(json_name(m)));
    bool any;
    if (is_instead(&r, o, m, &any) || !any || v->of[o].given) continue;
    if (put(&r, o, m)) return -1;
  }
  return 0;
}
