// One pass over the .onnx, from the first byte to the last, with a stack of our own.
//
//   ModelProto ─ GraphProto ─ NodeProto ─ AttributeProto ─ TensorProto      frames[0..depth]
//       │            │            │             │              │
//    skeleton     skeleton      skeleton      skeleton       skeleton        fields to decode
//
// A message that begins pushes a frame, one that ends pops it; nothing recurses, so a file decides
// nothing about our stack. onnx_fields.def says what happens to each field: those to decode are appended
// to the frame's skeleton, payloads are recorded as places and stepped over, others are remembered
// as places only. When a *unit* (a node, a tensor, …) ends, its skeleton is decoded by protobuf-c
// and becomes a row of the model (load_graph.c, load_tensor.c). When any other submessage to decode ends
// (a type, a shape, an external_data entry), its skeleton is appended to that of the message around
// it, with a length that is true again: leaving things out never breaks a length prefix.
//
// What is checked here: framing, nesting, wire types against the schema, names (length, NUL), the
// size of the metadata. What rows mean is checked where they are made. Framing errors end the load
// even where a sink collects faults, because nothing after them can be trusted.
#include "check/check.h"
#include "stream/load/inside/loader.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

// ---- faults ------------------------------------------------------------------------------------

int load_fault(struct loader *l, enum fault_level level, const char *place, const char *fmt, ...) {
  char text[768];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  const struct fault_sink *sink = l->options.faults;
  if (sink) sink->report(sink->ctx, level, place, text, NULL);
  if (sink || level != FAULT_ERROR) return 0;
  return err_set(l->err, ERR_MODEL, "'%s': %s: %s", quote_path(l->w.name).s, place, text);
}

int load_fault_from(struct loader *l, const char *place, const struct err *cause) {
  const struct fault_sink *sink = l->options.faults;
  if (sink) {
    sink->report(sink->ctx, FAULT_ERROR, place, cause->msg, cause);
    return 0;
  }
  err_fill(l->err, cause->kind, "'%s': %s: %s", quote_path(l->w.name).s, place, cause->msg);
  err_fill_hint_of(l->err, cause);
  return -1;
}

int load_room(struct loader *l, uint64_t now, uint64_t n, const char *what) {
  if (range_fits(now, n, l->options.limits.rows)) return 0;
  return load_fatal(l, wire_offset(&l->w), "more than %s %s", decimal(l->options.limits.rows).s,
                    what);
}

struct place_text load_place(const char *what, struct span name, uint64_t start) {
  struct place_text p;
  if (name.n)
    snprintf(p.s, sizeof p.s, "%s '%s'", what, quote(name).s);
  else
    snprintf(p.s, sizeof p.s, "%s at byte %s", what, decimal(start).s);
  return p;
}

// ---- items and kept ----------------------------------------------------------------------------

void load_add_item(struct frame *f, enum item_kind kind, uint32_t first) {
  struct model_item *last = f->n_items ? &f->items[f->n_items - 1] : NULL;
  if (last && last->kind == kind && last->first + last->count == first)
    last->count++;
  else
    *TABLE_PUSH(f, items) = (struct model_item){kind, first, 1};
}

// Adjacent fields of one kind become one place: the last item's last place ends where this begins.
void load_add_other(struct loader *l, struct frame *f, enum item_kind kind, struct place at) {
  struct model *m = l->m;
  struct model_item *last = f->n_items ? &f->items[f->n_items - 1] : NULL;
  if (last && last->kind == kind) {
    struct place *p = &m->others[last->first + last->count - 1];
    assert(p->off + p->len == at.off);
    p->len += at.len;
    return;
  }
  const uint32_t id = TABLE_ADD(m, others, 1);
  m->others[id] = at;
  load_add_item(f, kind, id);
}

void load_flush_kept_fields(struct loader *l, struct frame *f, enum kept_of of, uint32_t id) {
  if (f->n_kept == 0) return;
  const uint32_t first = TABLE_ADD(l->m, kept_fields, f->n_kept);
  for (uint32_t i = 0; i < f->n_kept; i++)
    l->m->kept_fields[first + i] = (struct model_kept_field){of, id, f->kept[i]};
  f->n_kept = 0;
}

// A field that no row holds, of whatever message it is a part.
static int keep_field(struct loader *l, struct frame *f, struct place at) {
  switch (f->message) {
  case MESSAGE_MODEL:
  case MESSAGE_GRAPH:
  case MESSAGE_FUNCTION:
    if (load_room(l, l->m->n_others, 1, "other fields")) return -1;
    load_add_other(l, f, ITEM_OTHER, at);
    return 0;
  case MESSAGE_NODE:
  case MESSAGE_ATTRIBUTE:
  case MESSAGE_TENSOR:
  case MESSAGE_SPARSE:
  case MESSAGE_INFO:
  case MESSAGE_TRAINING:
  case MESSAGE_OPSET:
    if (load_room(l, (uint64_t)l->m->n_kept_fields + f->n_kept, 1, "other fields")) return -1;
    struct place *last = f->n_kept ? &f->kept[f->n_kept - 1] : NULL;
    if (last && last->off + last->len == at.off)
      last->len += at.len;
    else
      *TABLE_PUSH(f, kept) = at;
    return 0;
  default: return 0;
  }
}

int load_keep_empty_name(struct loader *l, struct frame *f) {
  return f->noname.len ? keep_field(l, f, f->noname) : 0;
}

// ---- the skeleton ------------------------------------------------------------------------------

// More than any sane unit needs, less than a decoder can make trouble of: one byte on the wire can
// become 40 in memory.
static uint64_t skeleton_limit(enum message message) {
  switch (message) {
  case MESSAGE_NODE:
  case MESSAGE_FUNCTION: return 64 << 20;
  case MESSAGE_ENTRY: return UINT32_MAX; // metadata_props hold vocabularies; nothing expands them
  default: return 4 << 20;
  }
}

enum { HEADER_ROOM = 32 }; // a tag and a length, or a tag and a scalar

// Appends a tag and, for BYTES, the length; `more` bytes will follow. Gives where they go.
static uint8_t *skeleton_header(struct frame *f, uint32_t number, enum wire_type type,
                                uint64_t more) {
  const size_t room = HEADER_ROOM + (size_t)more;
  if (f->skeleton_cap - f->n_skeleton < room) TABLE_ROOM(f, skeleton, room);
  uint8_t *to = varint_put_tag(f->skeleton + f->n_skeleton, number, type);
  return type == WIRE_BYTES ? varint_put(to, more) : to;
}

static void skeleton_end(struct frame *f, const uint8_t *end) {
  f->n_skeleton = (uint32_t)(end - f->skeleton);
}

static int check_skeleton(struct loader *l, const struct frame *f, uint64_t start, uint64_t more) {
  const uint64_t limit = skeleton_limit(f->message);
  if (range_fits((uint64_t)f->n_skeleton + HEADER_ROOM, more, limit)) return 0;
  return load_fatal(l, start, "the metadata of one %s is more than %s bytes",
                    onnx_schema_message(f->message), decimal(limit).s);
}

int load_skeleton_add(struct loader *l, struct frame *f, const struct wire_field *wf) {
  if (check_skeleton(l, f, wf->start, wf->len)) return -1;
  const uint64_t bytes = wf->type == WIRE_BYTES ? wf->len : 0;
  uint8_t *to = skeleton_header(f, wf->number, (enum wire_type)wf->type, bytes);
  if (wf->type == WIRE_VARINT) {
    to = varint_put(to, wf->value);
  } else if (wf->type == WIRE_BYTES) {
    if (wire_copy(&l->w, to, (size_t)bytes, l->err)) return -1;
    to += bytes;
  } else {
    memcpy(to, &wf->value, (size_t)wf->len);
    to += wf->len;
  }
  skeleton_end(f, to);
  return 0;
}

// ---- frames ------------------------------------------------------------------------------------

static void clear_frame(struct frame *f) {
  f->field = NULL;
  f->dropped = false;
  f->row = f->last_node = f->values = f->indices = NO_ID;
  f->n_skeleton = f->n_kept = f->n_items = f->n_inputs = f->n_outputs = f->n_attrs = 0;
  f->child_field = NULL;
  f->first_child = NO_ID;
  f->n_children = f->reserved_children = f->n_entries = 0;
  f->type = f->noname = (struct place){0, 0};
  load_payload_clear(&f->payload);
}

static int begin_message(struct loader *l, const struct schema_field *field,
                         const struct wire_field *wf) {
  struct frame *around = frame_top(l);
  if (l->depth + 1 >= l->n_frames)
    return load_fatal(l, wf->start, "messages are nested deeper than %u", l->n_frames - 1);
  struct frame *f = &l->frames[++l->depth];
  clear_frame(f);
  f->field = field;
  f->message = field->submessage;
  f->dropped = around->dropped || field->role == ROLE_KEEP || field->role == ROLE_PART;
  f->start = wf->start;
  f->end = wf->body + wf->len;
  f->graph = around->graph;
  if (field->role == ROLE_UNIT) return load_begin(l, wf);
  if (f->message == MESSAGE_ANNOTATION && !around->dropped)
    l->m->graphs[f->graph].flags |= GRAPH_ANNOTATED;
  if (f->dropped) return field->role == ROLE_KEEP ? keep_field(l, around, frame_place(f)) : 0;
  // The inline submessages about which the message around wants to know.
  if (f->message == MESSAGE_LOCATION && ++around->n_entries > EXTERNAL_ENTRIES_MAX)
    return load_fatal(l, f->start, "a tensor has more than %d external_data entries",
                      EXTERNAL_ENTRIES_MAX);
  if (f->message == MESSAGE_ENTRY && f->end - f->start > RANGE_MAX_BYTES) {
    f->dropped = true;
    return keep_field(l, around, frame_place(f));
  }
  if (f->message != MESSAGE_TYPE || around->message != MESSAGE_INFO) return 0;
  if (around->type.len == 0)
    around->type = frame_place(f);
  else if (around->type.off + around->type.len == f->start)
    around->type.len += f->end - f->start;
  else
    return load_fatal(l, f->start, "ValueInfoProto.type is given twice");
  return 0;
}

static int end_message(struct loader *l) {
  struct frame *f = frame_top(l);
  if (l->depth == 0 || f->field->role == ROLE_UNIT) {
    const uint64_t most = l->options.limits.metadata_bytes;
    if (load_end(l)) return -1;
    arena_reset(&l->scratch);
    if (wire_offset(&l->w) - l->elided_bytes > most)
      return load_fatal(l, wire_offset(&l->w), "the metadata is more than %s bytes",
                        decimal(most).s);
  } else if (!f->dropped) {
    struct frame *around = frame_above(l);
    bool kept = false;
    if (f->message == MESSAGE_ENTRY && load_keeps_entry(l, f, &kept)) return -1;
    if (kept) {
      l->depth--;
      return keep_field(l, around, frame_place(f));
    }
    if (check_skeleton(l, around, f->start, f->n_skeleton)) return -1;
    uint8_t *to = skeleton_header(around, f->field->number, WIRE_BYTES, f->n_skeleton);
    if (f->n_skeleton) memcpy(to, f->skeleton, f->n_skeleton);
    skeleton_end(around, to + f->n_skeleton);
  }
  if (l->depth > 0) l->depth--;
  return 0;
}

int load_count_ahead(struct loader *l, const struct frame *f, const struct wire_field *field,
                     uint32_t *count) {
  const uint64_t back = wire_offset(&l->w);
  *count = 1;
  wire_skip(&l->w, field->len);
  while (wire_offset(&l->w) < f->end) {
    struct wire_field wf;
    if (wire_next(&l->w, f->end, &wf, l->err)) return -1;
    if (wire_skip_value(&l->w, &wf, f->end, l->err)) return -1;
    if (wf.number == field->number) (*count)++;
  }
  wire_seek(&l->w, back);
  return 0;
}

// ---- fields ------------------------------------------------------------------------------------

static bool type_fits(enum field_form form, enum wire_type type) {
  switch (form) {
  case FORM_VARINT: return type == WIRE_VARINT;
  case FORM_FIXED32: return type == WIRE_FIXED32;
  case FORM_VARINTS: return type == WIRE_VARINT || type == WIRE_BYTES;
  case FORM_FIXED32S: return type == WIRE_FIXED32 || type == WIRE_BYTES;
  case FORM_FIXED64S: return type == WIRE_FIXED64 || type == WIRE_BYTES;
  default: return type == WIRE_BYTES;
  }
}

static int wrong_type(struct loader *l, const struct frame *f, const struct schema_field *field,
                      const struct wire_field *wf) {
  static const char *const names[] = {"a varint",           "8 bytes", "a length", "a group",
                                      "the end of a group", "4 bytes"};
  return load_fatal(l, wf->start, "%s.%s (field %u) is encoded as %s, which is not allowed",
                    onnx_schema_message(f->message), field->name, field->number, names[wf->type]);
}

// A scalar or text that is decoded with its unit. In messages that keep an order of items it has a
// place there too.
static int decode_field(struct loader *l, struct frame *f, const struct schema_field *field,
                        const struct wire_field *wf) {
  const struct place at = {wf->start, wf->body + wf->len - wf->start};
  const size_t text = field->form == FORM_TEXT ? (size_t)wf->len : 0;
  if (text > NAME_MAX_BYTES)
    return load_fatal(l, wf->start, "%s.%s is %s bytes long; the limit for names is %d",
                      onnx_schema_message(f->message), field->name, decimal(wf->len).s,
                      NAME_MAX_BYTES);
  if (load_skeleton_add(l, f, wf)) return -1;
  if (span_has_nul(span_of(f->skeleton + f->n_skeleton - text, text)))
    return load_fatal(l, wf->start, "%s.%s contains a NUL byte", onnx_schema_message(f->message),
                      field->name);
  if (f->message == MESSAGE_TENSOR && field->form == FORM_TEXT && wf->len == 0) f->noname = at;
  if (f->message == MESSAGE_MODEL) load_add_other(l, f, ITEM_IR_VERSION, at);
  if (f->message == MESSAGE_GRAPH) load_add_other(l, f, ITEM_NAME, at);
  if (f->message == MESSAGE_FUNCTION) {
    const bool io = wf->number == ONNX_FUNCTION_input || wf->number == ONNX_FUNCTION_output;
    load_add_other(l, f, io ? ITEM_FUNCTION_IO : ITEM_OTHER, at);
  }
  return 0;
}

static int skip_field(struct loader *l, struct frame *f, const struct wire_field *wf,
                      bool remember) {
  if (wire_skip_value(&l->w, wf, f->end, l->err)) return -1;
  if (!remember || f->dropped) return 0;
  return keep_field(l, f, (struct place){wf->start, wire_offset(&l->w) - wf->start});
}

// What cannot be read after the graph, and does not begin as a field of a model would, was appended to the
// file; a file that is cut off ends within something known.
static int after_the_graph(struct loader *l, const struct frame *f, const struct wire_field *wf) {
  const struct schema_field *field = onnx_schema_field(f->message, wf->number);
  const bool known = field && type_fits(field->form, wf->type);
  if (l->depth > 0 || l->m->main_graph == NO_ID || known || l->err->kind != ERR_MODEL) return -1;
  l->err->hint[0] = '\0';
  return err_hint(l->err,
                  "the model ends at byte %s, but more bytes follow: was something appended to "
                  "the file?",
                  decimal(wf->start).s);
}

static int take_field(struct loader *l) {
  struct frame *f = frame_top(l);
  struct wire_field wf = {.start = wire_offset(&l->w)};
  if (wire_next(&l->w, f->end, &wf, l->err)) return after_the_graph(l, f, &wf);
  const struct schema_field *field = onnx_schema_field(f->message, wf.number);
  if (!field) return skip_field(l, f, &wf, true) ? after_the_graph(l, f, &wf) : 0;
  if (!type_fits(field->form, wf.type))
    return wrong_type(l, f, field, &wf) ? after_the_graph(l, f, &wf) : 0;
  if (field->form == FORM_MESSAGE) return begin_message(l, field, &wf);
  if (f->dropped) return skip_field(l, f, &wf, false);
  switch ((enum field_role)field->role) {
  case ROLE_DECODE: return decode_field(l, f, field, &wf);
  case ROLE_PAYLOAD: return load_payload_add(l, f, field, &wf);
  default: return skip_field(l, f, &wf, field->role == ROLE_KEEP);
  }
}

static int scan(struct loader *l) {
  struct frame *root = frame_top(l);
  clear_frame(root);
  root->message = MESSAGE_MODEL;
  root->end = l->w.size;
  root->graph = NO_ID;
  for (bool last = false; !last;) {
    const bool ended = wire_offset(&l->w) >= frame_top(l)->end;
    last = ended && l->depth == 0;
    if (ended ? end_message(l) : take_field(l)) return -1;
  }
  return 0;
}

// ---- the story ---------------------------------------------------------------------------------

// A file that is something else fails somewhere, with a message about a byte. Say what it is
// instead.
static int explain_failure(struct loader *l, const struct err *cause) {
  struct load_likeness is = {0};
  if (cause->kind == ERR_MODEL) is = load_looks_like(l->s, 0);
  if (!is.what) {
    *l->err = *cause;
    return -1;
  }
  err_fill(l->err, ERR_MODEL, "'%s' is not an ONNX model: it %s", quote_path(l->w.name).s, is.what);
  return is.hint ? err_hint(l->err, "%s", is.hint) : -1;
}

static int load_all(struct loader *l) {
  struct model *m = l->m;
  struct err cause = {0}, *err = l->err;
  l->err = &cause;
  const int rc = scan(l);
  l->err = err;
  load_external_report(l);
  if (rc) return explain_failure(l, &cause);
  if (m->main_graph == NO_ID) {
    err_fill(&cause, ERR_MODEL, "'%s' contains no graph", quote_path(l->w.name).s);
    return explain_failure(l, &cause);
  }
  m->path = arena_string(&m->arena, span_str(sources_given(l->s)));
  const uint32_t n = sources_count(l->s), first = TABLE_ADD(m, files, n - m->n_files);
  for (uint32_t i = first; i < n; i++)
    m->files[i] =
        (struct model_file){.name = arena_string(&m->arena, span_str(sources_name(l->s, i))),
                            .size = sources_size(l->s, i),
                            .companion = sources_is_companion(l->s, i)};
  if (load_resolve(l)) return -1;
  if (load_digest(l)) return -1;
  m->loaded_nodes = m->n_nodes;
  m->loaded_values = m->n_values;
  m->loaded_tensors = m->n_tensors;
  m->loaded_infos = m->n_infos;
  if (l->w.size <= INT32_MAX) return 0;
  return load_fault(l, FAULT_NOTE, "file",
                    "it has %s bytes; readers built on protobuf refuse more than %d",
                    decimal(l->w.size).s, INT32_MAX);
}

int load_model(struct model *m, struct sources *s, const struct load_options *options,
               struct err *err) {
  struct loader l = {.m = m, .s = s, .err = err};
  if (options) l.options = *options;
  struct load_limits *limits = &l.options.limits;
  if (limits->nesting == 0) limits->nesting = 100;
  if (limits->rows == 0 || limits->rows > 1u << 30) limits->rows = 1u << 28;
  if (limits->metadata_bytes == 0) limits->metadata_bytes = INT32_MAX;
  l.n_frames = limits->nesting + 1;
  l.frames = table_grow(NULL, &l.frames_cap, l.n_frames, sizeof *l.frames);
  memset(l.frames, 0, l.frames_cap * sizeof *l.frames);
  wire_open(&l.w, l.s);
  l.last_op = l.last_output = l.tensor_name = l.m->empty;
  const int rc = load_all(&l);
  wire_close(&l.w);
  for (uint32_t i = 0; i < l.n_frames; i++) {
    struct frame *f = &l.frames[i];
    TABLES_FREE(f, skeleton, kept, items, inputs, outputs, attrs);
    load_payload_free(&f->payload);
  }
  TABLE_FREE(&l, frames);
  arena_free(&l.scratch);
  TABLES_FREE(&l, function_opsets, elided, bytes, lacks);
  arena_free(&l.lacking);
  model_trim(m);
  if (rc) return rc;
  struct check_found found;
  uint32_t *warnings = l.options.warnings;
  const int checked = check_structure(m, l.options.faults, warnings ? &found : NULL, err);
  if (warnings) *warnings = found.warnings;
  return checked;
}

int load_model_at(struct model *m, struct sources **s, const char *path, bool allow_links,
                  const struct load_options *options, struct err *err) {
  const struct sources_options opening = {.allow_links = allow_links};
  return sources_open(s, path, &opening, err) ? -1 : load_model(m, *s, options, err);
}
