// What the parts of the loader share: the state of one pass over the .onnx.
//
//   load.c          the pass itself: frames, the skeleton, which field goes where
//   wire.c          framing: the next field, through a window
//   onnx_schema.c   what is done with a field: decode, record as a payload, keep its place
//   load_decode.c   protobuf-c: units decoded, one at a time
//   load_graph.c    rows for graphs, functions, value infos, the model
//   load_node.c     rows for nodes and attributes
//   load_tensor.c   rows for tensors: dims, dtype, where the elements lie
//   load_payload.c  payload fields as pieces; small ones as bytes
//   load_external.c external_data
//   load_finish.c   after the pass: names become values, tables are sorted
//   load_digest.c   meta_sha256
//   load_sniff.c    what a file is that is no ONNX model
#ifndef WEIR_LOADER_H
#define WEIR_LOADER_H

#include "stream/load/inside/onnx_schema.h"
#include "stream/load/inside/wire.h"
#include "stream/load/load.h"

#include "onnx.pb-c.h"

enum {
  RANGE_MAX_BYTES = 64 << 10, // of metadata of a value that may be its range
  NAME_MAX_BYTES = 64 << 10,  // of a name; also of an attribute list or string that is held
  RANK_MAX = 1024,
  EXTERNAL_ENTRIES_MAX = 16,
};

// Bytes of the .onnx that count as their length for meta_sha256. A run: of fields with a length, one
// after the other, each of whose contents counts so by itself (the strings of an attribute).
struct elided {
  struct place at;
  bool run;
};

// The payload field of a tensor or attribute as it goes by.
struct payload {
  TABLE(struct piece, pieces);
  TABLE(uint64_t, marks); // checkpoints; piece.checkpoint indexes these until the row is made
  const struct schema_field *field; // NULL: none seen
  const struct schema_field *other; // a second kind of payload, which is one too many
  uint64_t entries;                 // BYTES: of raw_data its bytes, else the count
  uint64_t wire_bytes;              // all of it, tags of unpacked entries included
  uint64_t run_end;                 // where the last piece ends if it is an unpacked run
  bool held;                        // attributes: the whole list is in the skeleton
};

// An attribute whose node has not ended: it gets its id then.
struct pending_attr {
  struct model_attr row;
  uint32_t first_kept, n_kept; // in m->kept_fields
  uint32_t pieces, n_pieces;   // in m->pieces: of value_floats …, which may be a tensor
};

// One message that has begun and not ended.
struct frame {
  const struct schema_field *field; // in the message around it; NULL for the model
  enum message message;
  bool dropped;        // framing is checked, nothing is kept
  uint64_t start, end; // tag included
  uint32_t graph;      // to which rows in here belong
  uint32_t row;        // NODE, GRAPH, FUNCTION, TRAINING: its row
  uint32_t last_node;  // GRAPH, FUNCTION: end of its node list
  TABLE(uint8_t, skeleton);
  TABLE(struct place, kept);
  TABLE(struct model_item, items);
  TABLE(uint32_t, inputs);
  TABLE(uint32_t, outputs); // GRAPH: value ids, name ids
  TABLE(struct pending_attr, attrs);
  struct payload payload;
  // ATTRIBUTE: its tensors, graphs or sparse tensors. SPARSE: its two tensors.
  const struct schema_field *child_field;
  uint32_t first_child, n_children, reserved_children;
  uint32_t values, indices;
  uint32_t n_entries;  // TENSOR: external_data; INFO: entries that its row holds
  struct place type;   // INFO
  struct place noname; // TENSOR: its name where that is given as empty
};

// What is wrong with a data file, and how many tensors that meets (load_external.c).
enum { LACKS_TOLD = 3 }; // tensors of one file that are told of one by one
struct load_lack {
  const char *why, *hint;
  enum err_kind kind;
  enum err_reason reason;
  uint64_t tensors, bytes, end; // end: the furthest
  struct {
    const char *place;
    uint64_t off, len;
  } first[LACKS_TOLD];
};

struct loader {
  struct model *m;
  struct sources *s;
  struct wire w;
  struct load_options options; // limits filled in
  struct err *err;
  struct arena scratch; // reset after every unit
  struct frame *frames;
  size_t frames_cap;
  uint32_t depth, n_frames;            // frames[depth] is the innermost
  uint32_t tensor_name, tensor_stride; // to guess the next initializer's name: see guess_name
  uint32_t last_op, last_output;       // names of the last node: see load_name_like
  TABLE(struct model_opset, function_opsets);
  TABLE(struct elided, elided); // payloads of the .onnx that were not materialized
  uint64_t elided_bytes;
  TABLE(uint8_t, bytes);          // a payload on its way to small_bytes
  TABLE(struct load_lack, lacks); // by file, as far as one lacks something
  struct arena lacking;           // texts of theirs
};

// ---- faults -------------------------------------------------------------------------------------

// Reports a fault at `place`. 0 if the load goes on (not an error, or a sink collects), else -1
// with l->err filled: "'file': place: message".
int load_fault(struct loader *l, enum fault_level level, const char *place, const char *fmt, ...)
    ERR_PRINTF(4, 5);
// The same for an error that another module found (its kind and hint are kept).
int load_fault_from(struct loader *l, const char *place, const struct err *cause);
// Ends the load whatever the sink: framing is broken, or a limit is reached.
#define load_fatal(l, at, ...) wire_error(&(l)->w, at, (l)->err, __VA_ARGS__)
// -1 if `n` more rows of a table of `now` would pass the limit.
int load_room(struct loader *l, uint64_t now, uint64_t n, const char *what);

// ---- frames (load.c) ----------------------------------------------------------------------------

static inline struct frame *frame_top(struct loader *l) {
  return &l->frames[l->depth];
}
static inline struct frame *frame_above(struct loader *l) {
  return &l->frames[l->depth - 1];
}
static inline struct place frame_place(const struct frame *f) {
  return (struct place){f->start, f->end - f->start};
}
// Appends a run to a message's items, or grows the last one.
void load_add_item(struct frame *f, enum item_kind kind, uint32_t first);
// Appends a field that is copied as it stands: an item of `kind` that indexes m->others.
void load_add_other(struct loader *l, struct frame *f, enum item_kind kind, struct place at);
// Whether an entry of a value's metadata, which ends here, is kept by its place: all but its range. (load_graph.c)
int load_keeps_entry(struct loader *l, struct frame *f, bool *kept);
// Makes the empty name of a tensor one of its kept fields: rows cannot tell it from none, but a
// tensor that is encoded anew keeps it. Only for a tensor whose last name, the one that counts, is
// empty.
int load_keep_empty_name(struct loader *l, struct frame *f);
// Moves a frame's kept fields to m->kept_fields, as those of the row (of, id).
void load_flush_kept_fields(struct loader *l, struct frame *f, enum kept_of of, uint32_t id);
// Appends a field, whose value is at the reader, to the frame's skeleton.
int load_skeleton_add(struct loader *l, struct frame *f, const struct wire_field *wf);
// Fields numbered like `field` from its occurrence at `start` to the end of the message around.
int load_count_ahead(struct loader *l, const struct frame *f, const struct wire_field *field,
                     uint32_t *count);

// How messages call a row: "tensor 'w3'", or by its byte offset if it has no name.
struct place_text {
  char s[240];
};
struct place_text load_place(const char *what, struct span name, uint64_t start);
// A row's name, made into text only where a fault is reported: printing it costs more than loading
// a small tensor.
struct row_name {
  const char *what;
  struct span name;
  uint64_t start;
};
static inline struct place_text row_place(const struct row_name *r) {
  return load_place(r->what, r->name, r->start);
}

// ---- units --------------------------------------------------------------------------------------

// The unit that ended, in the words of the generated header: Pb__Node for &pb__node__descriptor. It
// lies in l->scratch, as do its bytes. NULL with err if its skeleton does not decode (framing was
// checked before, so that is a packed list whose last number is cut).
const void *load_decode(struct loader *l, const struct frame *f,
                        const ProtobufCMessageDescriptor *of);

static inline struct span load_text(ProtobufCBinaryData d) {
  return span_of(d.data, d.len);
}

// ---- rows ---------------------------------------------------------------------------------------

// A message of that kind begins (frame_top) or has ended, with its skeleton complete.
int load_begin(struct loader *l, const struct wire_field *wf);
int load_end(struct loader *l);
int load_begin_node(struct loader *l, struct frame *f);
int load_begin_child(struct loader *l, struct frame *f, const struct wire_field *wf);
int load_end_tensor(struct loader *l, struct frame *f);
int load_end_node(struct loader *l, struct frame *f);
int load_end_attr(struct loader *l, struct frame *f);
// The part of a sparse tensor that a tensor in it is: its values or its indices.
static inline uint32_t *load_sparse_part(struct frame *sparse, const struct frame *tensor) {
  return tensor->field->number == ONNX_SPARSE_values ? &sparse->values : &sparse->indices;
}
// Gives ids to the attributes that wait in a NODE or FUNCTION frame; `node` may be NO_ID.
int load_flush_attrs(struct loader *l, struct frame *f, uint32_t node);

// The id of a name; most optional names are empty.
static inline uint32_t load_name(struct loader *l, struct span s) {
  return s.n ? model_intern(l->m, s) : l->m->empty;
}
// The same for a name that is probably `guess`: then the table of names, which is larger than any
// cache, is not looked at.
static inline uint32_t load_name_like(struct loader *l, struct span s, uint32_t guess) {
  return s.n && span_eq(model_name(l->m, guess), s) ? guess : load_name(l, s);
}
// The value (graph, name), made if there is none.
uint32_t load_value(struct loader *l, uint32_t graph, uint32_t name);
// The value that a tensor with a name makes, unless something else made it first (check.c reports
// that).
uint32_t load_initializer(struct loader *l, uint32_t tensor);

// A tensor of a Constant node's value_float(s), value_int(s), value_string(s).
int load_constant_tensor(struct loader *l, uint32_t attr, const struct pending_attr *p);

// ---- payloads -----------------------------------------------------------------------------------

// One occurrence of a payload field, at the reader.
int load_payload_add(struct loader *l, struct frame *f, const struct schema_field *field,
                     const struct wire_field *wf);
void load_payload_clear(struct payload *p);
void load_payload_free(struct payload *p);
enum encoding load_payload_encoding(const struct payload *p);
// Appends pieces and checkpoints to the model; gives the first piece.
uint32_t load_payload_commit(struct loader *l, const struct payload *p);
// Remembers that the payload's bytes stay out of the index (meta_sha256 takes their lengths).
void load_payload_elide(struct loader *l, struct place at);
// The elements of an inline payload in RAW form appended to m->small_bytes; *small is their place.
struct payload_source {
  const struct piece *pieces;
  uint32_t n;
  uint8_t encoding;
};
int load_payload_materialize(struct loader *l, const struct payload_source *from, enum dtype dtype,
                             uint64_t bytes, uint32_t *small);
// Room for n bytes of small_bytes; gives their address and, in *small, their place. NULL with err
// where there would be too many.
uint8_t *load_payload_small_room(struct loader *l, uint64_t n, uint32_t *small);

// What external_data said.
struct external {
  uint32_t file;
  uint64_t off, len;
};
// `bytes` is what dims and dtype ask for. *usable is false after a fault that a sink took.
int load_external_parse(struct loader *l, const Pb__Tensor *t, const struct row_name *who,
                        uint64_t bytes, struct external *out, bool *usable);
// Does the range lie in a file that is there?
bool load_external_readable(const struct loader *l, const struct external *x);
// Tells the sink of data files that lack something, one fault a file.
void load_external_report(struct loader *l);

// ---- after the pass -----------------------------------------------------------------------------

int load_resolve(struct loader *l);
int load_digest(struct loader *l);

#endif
