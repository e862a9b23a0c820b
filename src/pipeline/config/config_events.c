// libyaml's events in, a flat list out.
//
//   anchor   &name  the stretch of the list that its value takes is remembered
//   alias    *name  that stretch comes once more
//
// So whoever reads the list knows no aliases. They can make a small file large (a list of ten aliases of a list of ten
// aliases …), hence CONFIG_EVENTS. An alias inside what it stands for is refused, as in every tree. Tags and second
// documents are refused: nothing here would need them. Merge keys (<<) are keys like others, which nobody knows.
#include "pipeline/config/inside/config_events.h"

#include "resources/resources.h"

#include <string.h>
#include <yaml.h>

struct anchor {
  struct span name;
  uint32_t first, end; // of the list; end 0: its value is not whole yet
};

// Of libyaml: what it holds is its own.
struct yaml {
  yaml_parser_t parser;
  yaml_event_t event;
};

struct making {
  struct config_events *e;
  struct arena *a;
  struct span text;
  struct yaml *yaml;
  TABLE(struct anchor, anchors);
  TABLE(uint32_t, begun); // anchors of the lists and mappings that are open, NO_ID: none
};

static struct config_event at_mark(yaml_mark_t at) {
  return (struct config_event){.line = (uint32_t)at.line + 1, .column = (uint32_t)at.column + 1};
}

static void add_fault(struct making *m, yaml_mark_t at, const char *fault, const char *hint) {
  struct config_event e = at_mark(at);
  e.kind = CONFIG_FAULT;
  e.fault = fault;
  e.hint = hint;
  *TABLE_PUSH(m->e, list) = e;
}

// Tabs are what people mistake for an indent; libyaml speaks of a character that starts no token.
static bool is_indented_by_tab(const struct making *m, size_t line) {
  size_t at = 0;
  for (; line > 0 && at < m->text.n; at++)
    if (m->text.at[at] == '\n') line--;
  while (at < m->text.n && m->text.at[at] == ' ')
    at++;
  return at < m->text.n && m->text.at[at] == '\t';
}

static void add_syntax_fault(struct making *m) {
  if (m->yaml->parser.error == YAML_MEMORY_ERROR) arena_must(NULL, sizeof *m->yaml);
  const char *problem =
      arena_string(m->a, span_str(m->yaml->parser.problem ? m->yaml->parser.problem : "not YAML"));
  const yaml_mark_t at = m->yaml->parser.problem_mark;
  if (m->yaml->parser.error == YAML_READER_ERROR) { // it has an offset, but no place
    const char *fault = arena_printf(m->a, "byte %zu: %s", m->yaml->parser.problem_offset, problem);
    *TABLE_PUSH(m->e, list) = (struct config_event){.kind = CONFIG_FAULT, .fault = fault};
  } else if (strstr(problem, "cannot start any token") && is_indented_by_tab(m, at.line)) {
    add_fault(m, at, "the line is indented with a tab", "YAML allows only spaces there");
  } else {
    add_fault(m, at, problem, NULL);
  }
}

static struct anchor *anchor_named(struct making *m, struct span name) {
  for (uint32_t i = m->n_anchors; i-- > 0;)
    if (span_eq(m->anchors[i].name, name)) return &m->anchors[i];
  return NULL;
}

// The last of that name counts, as in YAML.
static uint32_t take_anchor(struct making *m, const yaml_char_t *name) {
  if (!name) return NO_ID;
  const char *kept = arena_string(m->a, span_str((const char *)name));
  *TABLE_PUSH(m, anchors) = (struct anchor){.name = span_str(kept), .first = m->e->n_list};
  return m->n_anchors - 1;
}

static void end_value(struct making *m, uint32_t anchor) {
  if (anchor != NO_ID) m->anchors[anchor].end = m->e->n_list;
}

// False: a fault.
static bool add_alias(struct making *m) {
  const struct span name = span_str((const char *)m->yaml->event.data.alias.anchor);
  const struct anchor *x = anchor_named(m, name);
  const char *why = NULL;
  if (!x)
    why = arena_printf(m->a, "there is no anchor '%s' before this alias", quote(name).s);
  else if (!x->end)
    why = arena_printf(m->a, "the alias '%s' is inside the value that it refers to", quote(name).s);
  else if (m->e->n_list + (x->end - x->first) > CONFIG_EVENTS)
    why = "with its aliases replaced, the file is too large";
  if (why) {
    add_fault(m, m->yaml->event.start_mark, why, NULL);
    return false;
  }
  for (uint32_t i = x->first, end = x->end; i < end; i++) {
    const struct config_event e = m->e->list[i];
    *TABLE_PUSH(m->e, list) = e;
  }
  return true;
}

static void add_word(struct making *m) {
  const uint32_t anchor = take_anchor(m, m->yaml->event.data.scalar.anchor);
  struct config_event e = at_mark(m->yaml->event.start_mark);
  const struct span w =
      span_of(m->yaml->event.data.scalar.value, m->yaml->event.data.scalar.length);
  e.kind = CONFIG_WORD;
  e.plain = m->yaml->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
  e.word = span_of(arena_string(m->a, w), w.n);
  *TABLE_PUSH(m->e, list) = e;
  end_value(m, anchor);
}

static void add_start(struct making *m, enum config_kind kind, const yaml_char_t *name) {
  const uint32_t anchor = take_anchor(m, name);
  struct config_event e = at_mark(m->yaml->event.start_mark);
  e.kind = kind;
  *TABLE_PUSH(m, begun) = anchor;
  *TABLE_PUSH(m->e, list) = e;
}

static void add_end(struct making *m, enum config_kind kind) {
  struct config_event e = at_mark(m->yaml->event.start_mark);
  e.kind = kind;
  *TABLE_PUSH(m->e, list) = e;
  end_value(m, m->begun[--m->n_begun]);
}

static bool has_tag(const yaml_event_t *e) {
  switch (e->type) {
  case YAML_SCALAR_EVENT: return e->data.scalar.tag;
  case YAML_SEQUENCE_START_EVENT: return e->data.sequence_start.tag;
  case YAML_MAPPING_START_EVENT: return e->data.mapping_start.tag;
  default: return false;
  }
}

// One event. False: the list is at its end. (libyaml takes the square of the depth in time.)
static bool take(struct making *m, uint32_t *documents) {
  if (m->n_begun > CONFIG_DEPTH) {
    add_fault(m, m->yaml->event.start_mark, "lists and mappings are nested too deeply", NULL);
    return false;
  }
  if (has_tag(&m->yaml->event)) {
    add_fault(m, m->yaml->event.start_mark, "tags are not allowed in a pipeline",
              "write the values without them");
    return false;
  }
  switch (m->yaml->event.type) {
  case YAML_SCALAR_EVENT: add_word(m); return true;
  case YAML_SEQUENCE_START_EVENT:
    add_start(m, CONFIG_LIST, m->yaml->event.data.sequence_start.anchor);
    return true;
  case YAML_MAPPING_START_EVENT:
    add_start(m, CONFIG_MAPPING, m->yaml->event.data.mapping_start.anchor);
    return true;
  case YAML_SEQUENCE_END_EVENT: add_end(m, CONFIG_END_LIST); return true;
  case YAML_MAPPING_END_EVENT: add_end(m, CONFIG_END_MAPPING); return true;
  case YAML_ALIAS_EVENT: return add_alias(m);
  case YAML_DOCUMENT_START_EVENT:
    if ((*documents)++ == 0) return true;
    add_fault(m, m->yaml->event.start_mark, "a second document", NULL);
    return false;
  case YAML_STREAM_END_EVENT:
    if (*documents == 0) {
      add_fault(m, m->yaml->event.start_mark, "the file contains no pipeline", NULL);
    } else {
      struct config_event e = at_mark(m->yaml->event.start_mark);
      e.kind = CONFIG_END;
      *TABLE_PUSH(m->e, list) = e;
    }
    return false;
  default: return true;
  }
}

static void yaml_left(void *left, size_t n) {
  struct yaml *yaml = left;
  (void)n;
  yaml_event_delete(&yaml->event);
  yaml_parser_delete(&yaml->parser);
}

void config_events_read(struct config_events *e, struct span text, struct arena *a) {
  struct making m = {.e = e, .a = a, .text = text};
  uint32_t documents = 0;
  bool more = true;
  *e = (struct config_events){.n_list = 0};
  m.yaml = arena_must(resources_zalloc(1, sizeof *m.yaml), sizeof *m.yaml);
  if (!yaml_parser_initialize(&m.yaml->parser)) arena_must(NULL, sizeof *m.yaml);
  resources_hold(m.yaml, 0, yaml_left);
  yaml_parser_set_encoding(&m.yaml->parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&m.yaml->parser, text.at, text.n);
  while (more) {
    if (yaml_parser_parse(&m.yaml->parser, &m.yaml->event)) {
      more = take(&m, &documents);
      yaml_event_delete(&m.yaml->event);
    } else {
      add_syntax_fault(&m);
      more = false;
    }
  }
  resources_drop_thing(m.yaml, 0);
  yaml_left(m.yaml, 0);
  resources_free(m.yaml);
  TABLES_FREE(&m, anchors, begun);
}

void config_events_free(struct config_events *e) {
  TABLE_FREE(e, list);
}

const struct config_event *config_events_behind(const struct config_event *at) {
  uint32_t depth = 0;
  do {
    if (at->kind >= CONFIG_END) return at;
    if (at->kind == CONFIG_LIST || at->kind == CONFIG_MAPPING) depth++;
    if (at->kind == CONFIG_END_LIST || at->kind == CONFIG_END_MAPPING) depth--;
    at++;
  } while (depth > 0);
  return at;
}
