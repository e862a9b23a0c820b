// Room: the metadata of one ONNX model as compact rows plus tables: the index.
//
// Load (load.h) fills it, `edit` alone changes it, passes and plan read it. Nothing here
// reads a file. Rows are addressed by uint32_t ids (indexes into the tables below; NO_ID names
// nothing); ids are given in file order at load and by creation afterwards, and never reused.
//
//   names    every distinct string once            model_name(m, id) -> span
//   values   one row per (graph, value name)       who makes it, who uses it, what is known of it
//   nodes    one row per NodeProto                 inputs and outputs are runs of `refs`
//   attrs    one row per AttributeProto            small values decoded, large ones as extents
//   tensors  one row per TensorProto, wherever     dtype, dims, source (extents + encoding)
//   graphs   main graph, subgraphs, function bodies, training graphs
//
// Every row remembers the place of its source bytes in the .onnx (file 0), tag included: what no
// edit touches is written as a copy of them. Parts of a message that rows do not model (doc_string,
// metadata_props, unknown fields …) are kept as places too (model_kept_field), for when its row is
// re-encoded.
#ifndef WEIR_MODEL_H
#define WEIR_MODEL_H

#include "base/dtype.h"
#include "base/source.h"
#include "base/span.h"
#include "base/table.h"

// ---- tensors --------------------------------------------------------------------------------

enum tensor_flag {
  TENSOR_EXTERNAL = 1,  // data_location was EXTERNAL in the source
  TENSOR_DEAD = 2,      // removed by an edit
  TENSOR_NEW = 4,       // made by an edit: no source bytes, `recipe` says how it comes about
  TENSOR_REPLACED = 8,  // data replaced by an edit: `recipe`
  TENSOR_SPARSE = 16,   // values or indices of a SparseTensorProto
  TENSOR_HAS_KEPT = 32, // it has kept fields (model_kept_field)
  TENSOR_DIRTY = 64,    // renamed by an edit: re-encode, payload as it was
  TENSOR_SEEN = 128,    // what nodes over constants make (edit_see): DEAD for who looks for tensors
};

// Where a tensor row hangs.
enum tensor_home { HOME_INITIALIZER, HOME_ATTRIBUTE, HOME_SPARSE_INITIALIZER };

struct model_tensor {
  uint32_t name;   // of TensorProto.name (for initializers: the value's name)
  uint32_t graph;  // initializers: the graph that holds it; attributes: the node's graph
  uint32_t owner;  // initializer: its value id; attribute: the attr id
  uint32_t dims;   // first dim in m->dims
  uint32_t pieces; // first piece in m->pieces; materialized inline: see model_plain_place
  uint32_t small;  // offset / 8 into m->small_bytes, or NO_ID: see model_small_value
  uint32_t recipe; // NEW and REPLACED: recipe id of its bytes; else NO_ID
  uint16_t rank;
  uint8_t dtype;     // enum dtype
  uint8_t encoding;  // enum encoding
  uint8_t home;      // enum tensor_home
  uint8_t flags;     // enum tensor_flag
  uint16_t n_pieces; // UINT16_MAX: see model_pieces (never read this field directly)
  uint32_t of; // name of the weight in the input whose elements these stand for (edit_stands_for),
               // or m->empty
  uint64_t bytes;   // of its elements in RAW form (0 for strings)
  struct place src; // its TensorProto in file 0, field tag and length included; {0, 0} for tensors
                    // made of a Constant's value_ints and the like
};

// ---- values, nodes, attributes ---------------------------------------------------------------

enum value_kind {
  VALUE_NODE_OUTPUT, // def = node id
  VALUE_INITIALIZER, // def = tensor id (a graph input of the same name may exist too: IS_INPUT)
  VALUE_INPUT,       // def = NO_ID
  VALUE_UNDEFINED,   // used but made nowhere in scope (check reports it)
};
enum value_flag {
  VALUE_IS_INPUT = 1,
  VALUE_IS_OUTPUT = 2,
  VALUE_DEAD = 4,
  VALUE_NO_INNER_INFO = 8, // no live INFO_VALUE is about it (edit_rows.c; not set: not known)
  VALUE_LEFT_OUT = 16,     // an input of a function that some call leaves out: no value there
  VALUE_FLAGS = 63,        // all there is room for
};
enum { VALUE_OUTPUTS_MAX = (1 << 24) - 1 }; // an edit or a load that would list it more often fails

struct model_value {
  uint32_t name;
  uint32_t graph;
  uint32_t def;
  uint32_t first_use; // first ref of its use list, or NO_ID
  uint32_t info;      // first row of m->infos about it, or NO_ID
  uint32_t kind : 2;  // enum value_kind
  uint32_t flags : 6;
  uint32_t n_graph_outputs : 24; // times it is listed as an output, of its graph or a body in it
};

// One input or output slot of a node. Inputs are threaded on their value's use list.
struct model_ref {
  uint32_t value; // NO_ID: the empty name (an optional input left out)
  uint32_t node;
  uint32_t next, prev; // use list (inputs only), NO_ID ends it
};

enum node_flag {
  NODE_DIRTY = 1,    // re-encode instead of copying
  NODE_DEAD = 2,     // removed
  NODE_NEW = 4,      // made by an edit
  NODE_HAS_KEPT = 8, // it has kept fields
};

struct model_node {
  uint32_t name, op_type, domain, overload; // name ids (empty string: m->empty)
  uint32_t graph;
  uint32_t refs; // first input in m->refs; outputs follow the inputs
  uint32_t n_in, n_out;
  uint32_t attrs; // first attr in m->attrs
  uint16_t n_attrs;
  uint16_t flags;
  uint32_t prev, next; // order in its graph
  struct place src;
};

// AttributeProto.AttributeType numbers.
enum attr_type {
  ATTR_UNDEFINED = 0,
  ATTR_FLOAT = 1,
  ATTR_INT = 2,
  ATTR_STRING = 3,
  ATTR_TENSOR = 4,
  ATTR_GRAPH = 5,
  ATTR_FLOATS = 6,
  ATTR_INTS = 7,
  ATTR_STRINGS = 8,
  ATTR_TENSORS = 9,
  ATTR_GRAPHS = 10,
  ATTR_SPARSE_TENSOR = 11,
  ATTR_SPARSE_TENSORS = 12,
  ATTR_TYPE_PROTO = 13,
  ATTR_TYPE_PROTOS = 14,
};
enum attr_flag { ATTR_DIRTY = 1, ATTR_DEAD = 2, ATTR_NEW = 4, ATTR_HAS_KEPT = 8 };

struct model_attr {
  uint32_t name;
  uint32_t node;     // or NO_ID for a function's attribute_proto default
  uint32_t ref_name; // ref_attr_name (m->empty: none)
  uint8_t type;      // enum attr_type
  uint8_t flags;
  uint16_t reserved;
  uint32_t count; // list length; for TENSOR(S)/GRAPH(S)/SPARSE: rows from `first`
  uint32_t first; // TENSOR(S): tensor id; GRAPH(S): graph id; SPARSE(S): row in m->sparses;
                  // value_float(s), value_int(s), value_string(s) of a Constant node as loaded:
                  // the tensor made of it (see model_attr_is_constant), not a list;
  // INTS/FLOATS/STRINGS held: index into m->longs / m->floats / m->strings, NO_ID: not
  // held because large (> 64 KiB), `src` says where
  union {
    int64_t i;
    float f;
    uint32_t s; // name id of a string attribute ≤ 64 KiB, NO_ID for a larger one
  } u;
  struct place src;
};

// ---- types ----------------------------------------------------------------------------------

// A dim of a known shape: value ≥ 0, or -1 with `param` a name id (m->empty: anonymous unknown).
struct model_dim {
  int64_t value;
  uint32_t param;
};

enum info_home { INFO_INPUT, INFO_OUTPUT, INFO_VALUE };
enum info_flag {
  INFO_DIRTY = 1,
  INFO_DEAD = 2,
  INFO_NEW = 4,
  INFO_TENSOR = 8,
  INFO_SHAPED = 16,
  INFO_SEQUENCE = 32, // of tensors: of what it holds are dtype and, with INFO_HELD_SHAPED, the dims
  INFO_OPTIONAL = 64, // likewise, a tensor or nothing
  INFO_HELD_SHAPED = 128,
  INFO_TYPE = INFO_TENSOR | INFO_SHAPED | INFO_SEQUENCE | INFO_OPTIONAL | INFO_HELD_SHAPED,
};

// One ValueInfoProto. INFO_TENSOR: elem type known; INFO_SHAPED: rank and dims known.
struct model_info {
  uint32_t value; // NO_ID: about no value of its graph (a stale value_info)
  uint32_t next;  // next info about the same value, or NO_ID
  uint32_t dims;  // first in m->info_dims
  uint16_t rank;
  uint8_t dtype;
  uint8_t home; // enum info_home
  uint8_t flags;
  uint32_t range; // what the entry "range" of its metadata_props says; m->empty: there is none
  struct place src;
  struct place type; // its `type` field, tag included (len 0: absent)
};

// ---- graphs and the model -------------------------------------------------------------------

enum graph_kind { GRAPH_MAIN, GRAPH_SUB, GRAPH_FUNCTION, GRAPH_TRAINING };

// The parts of a message in source order, in runs: what emission walks. For NODES, TENSORS, SPARSE,
// INFOS, GRAPH, FUNCTIONS and TRAINING, `first` and `count` index the table of that name (TENSORS:
// initializers). All other kinds are places in m->others, adjacent fields being one place: OTHER is
// what rows do not hold (doc_string, a function's name and imports, unknown fields).
enum item_kind {
  ITEM_NODES,
  ITEM_TENSORS,
  ITEM_SPARSE,
  ITEM_INFOS,
  ITEM_OTHER, // in graphs (and function bodies)
  ITEM_NAME,  // graph name
  ITEM_FUNCTION_IO,
  ITEM_FUNCTION_ATTRS, // a function's input and output names; attribute_protos
  ITEM_GRAPH,
  ITEM_FUNCTIONS,
  ITEM_OPSETS,
  ITEM_METADATA,
  ITEM_IR_VERSION,
  ITEM_TRAINING, // model
  ITEM_KINDS,    // how many
};
struct model_item {
  uint32_t kind, first, count;
};

struct model_graph {
  uint32_t name;
  uint8_t kind;    // enum graph_kind
  uint8_t flags;   // enum below; an edit marks the enclosing graphs, attrs and nodes too
  uint16_t depth;  // 0 for main graph, function and training bodies
  uint32_t parent; // enclosing graph, or NO_ID
  uint32_t owner;  // SUB: attr id; FUNCTION: function id; else NO_ID
  uint32_t first_node, last_node; // live nodes in order, NO_ID if none
  uint32_t inputs, n_inputs;      // value ids in m->graph_io
  uint32_t outputs, n_outputs;
  uint32_t inputs_room, outputs_room; // entries of m->graph_io that lie free behind each
  uint32_t items, n_items;            // runs in m->items
  struct place src;                   // the GraphProto, tag included; functions: the FunctionProto
};
enum {
  GRAPH_DIRTY = 1,      // something in it is not a copy
  GRAPH_IO_DIRTY = 2,   // the list of its inputs or outputs, or a name in it, changed
  GRAPH_DEAD = 4,       // went with the node or function it hung on; has no live rows
  GRAPH_NEW = 8,        // made by an edit
  GRAPH_ANNOTATED = 16, // its quantization annotations (no rows) may name initializers
};

struct model_function {
  uint32_t name, domain, overload;
  uint32_t graph;            // its body
  uint32_t opsets, n_opsets; // in m->opsets
  // Its attributes that have a default, in m->attrs; of one that an edit made the others too, of type
  // UNDEFINED.
  uint32_t attrs, n_attrs;
  uint8_t flags; // FUNCTION_*
};
enum { FUNCTION_DEAD = 1, FUNCTION_NEW = 2, FUNCTION_OPSETS_DIRTY = 4 };

struct model_opset {
  uint32_t domain; // name id; "ai.onnx" is stored as ""
  int64_t version;
  uint32_t loaded; // of what load made: 1 + the id of its kept fields; else 0
};

struct model_metadata {
  uint32_t key, value;
};

// A sparse tensor: two tensors (values, indices) and its message.
struct model_sparse {
  uint32_t values, indices; // tensor ids, NO_ID if absent
  struct place src;
};

// A source file. Row 0 is the .onnx; the others are named by external_data `location`.
struct model_file {
  const char *name; // base name of the .onnx; else the location as written
  uint64_t size;
  bool companion; // no data file of the model: named by the user, at any place (edit_source)
};

// A TrainingInfoProto: its graphs (NO_ID if absent) and its message; bindings are kept fields.
struct model_training {
  uint32_t initialization, algorithm;
  struct place src;
};

// Fields of a message that its row does not hold, as places in file 0, tags included.
enum kept_of {
  KEPT_ATTR, // tp and type_protos too
  KEPT_INFO, // not its type
  KEPT_NODE,
  KEPT_OPSET, // ids are counted over the model and all functions
  KEPT_TRAINING,
  KEPT_SPARSE, // its dims
  KEPT_TENSOR,
};
struct model_kept_field {
  uint32_t of; // enum kept_of
  uint32_t id; // of the row
  struct place at;
};

// An entry of the hash table of names: the name's id (NO_ID: free) and its hash.
struct model_name_slot {
  uint32_t id, hash;
};

struct model {
  struct arena arena;
  const char *path; // of the .onnx as the user gave it, for messages; NULL: it was not loaded

  TABLE_BIG(uint8_t, name_bytes); // interned strings, a NUL behind each
#define MODEL_TABLE(type, name) TABLE(type, name);
#include "model/model_tables.def"
  struct model_memory *memory; // what questions found (inside/model_memory.h)
  uint32_t empty;              // id of ""
  uint32_t n_extra_values;     // entries in value_slots
  // Rows looked at so far by what must stay linear; for tests.
  struct {
    uint64_t kill_rows, io_moved, inputs_seen, infos_seen, lists_seen;
  } work;
  uint32_t input_removed; // position in its list of the input that was removed last

  uint32_t n_model_opsets;
  uint32_t model_items, model_n_items; // the ModelProto's parts in source order
  int64_t ir_version;
  uint32_t main_graph; // NO_ID if the model has none
  uint32_t loaded_nodes, loaded_values, loaded_tensors,
      loaded_infos;        // how many load made; later ids are new
  uint32_t dirty;          // MODEL_DIRTY_*: which model-level parts an edit changed
  uint8_t meta_sha256[32]; // see load.h
};
enum { MODEL_DIRTY_OPSETS = 1, MODEL_DIRTY_METADATA = 2, MODEL_DIRTY_IR_VERSION = 4 };

void model_init(struct model *m);
void model_free(struct model *m);
// Gives back the tables' spare room: for the end of load.
void model_trim(struct model *m);
// Questions remember what they found, so two threads may not ask one model at a time. A view has the rows of m and its own
// memory, for another thread: nobody changes m until model_view_free.
void model_view(struct model *view, const struct model *m);
void model_view_free(struct model *view);

// Names. model_intern copies s on first sight. model_find_name: NO_ID if s was never seen.
uint32_t model_intern(struct model *m, struct span s);
uint32_t model_find_name(const struct model *m, struct span s);
struct span model_name(const struct model *m, uint32_t name);
const char *model_name_str(const struct model *m, uint32_t name); // NUL-terminated

// Values. model_value_in: the value of that name in exactly this graph, or NO_ID.
// model_lookup: the same, walking out through the graphs around it (not out of functions).
// model_add_value makes a row (kind UNDEFINED, no uses); (graph, name) must be new.
uint32_t model_value_in(const struct model *m, uint32_t graph, uint32_t name);
uint32_t model_lookup(const struct model *m, uint32_t graph, uint32_t name);
uint32_t model_add_value(struct model *m, uint32_t graph, uint32_t name);
// Renames the row and its hash entry; the new (graph, name) must be free.
void model_rename_value(struct model *m, uint32_t value, uint32_t name);
// Marks the row VALUE_DEAD and frees its name. It has no uses left. For `edit`, as is its undoing:
// the value comes back as VALUE_UNDEFINED; its (graph, name) must still be free.
void model_kill_value(struct model *m, uint32_t value);
void model_revive_value(struct model *m, uint32_t value);
// Threads input slot `ref` on the use list of its value, or takes it off.
void model_link_use(struct model *m, uint32_t ref);
void model_unlink_use(struct model *m, uint32_t ref);

// Access.
static inline uint32_t model_input(const struct model *m, const struct model_node *n, uint32_t i) {
  return i < n->n_in ? m->refs[n->refs + i].value : NO_ID;
}
static inline uint32_t model_output(const struct model *m, const struct model_node *n, uint32_t i) {
  return i < n->n_out ? m->refs[n->refs + n->n_in + i].value : NO_ID;
}
static inline const int64_t *model_dims(const struct model *m, const struct model_tensor *t) {
  static const int64_t none[1]; // a list, also where no tensor has dims
  return t->rank ? m->dims + t->dims : none;
}
// Have two tensors, of two models or one, the same dims?
static inline bool model_same_dims(const struct model *m, const struct model_tensor *a,
                                   const struct model *other, const struct model_tensor *b) {
  return a->rank == b->rank && (a->rank == 0 || memcmp(model_dims(m, a), model_dims(other, b),
                                                       a->rank * sizeof(int64_t)) == 0);
}
struct span model_value_name(const struct model *m, uint32_t value); // "" for NO_ID
// For messages: node 'a' (MatMul); of one without a name, node that makes 'y' (MatMul).
struct node_words {
  char s[448];
};
struct node_words model_node_words(const struct model *m, uint32_t node);
// The main graph, function or training graph that a graph lies in; itself if it lies in none.
static inline uint32_t model_root_graph(const struct model *m, uint32_t graph) {
  while (m->graphs[graph].kind == GRAPH_SUB && m->graphs[graph].parent != NO_ID)
    graph = m->graphs[graph].parent;
  return graph;
}
// The function that a graph lies in; NO_ID: it lies in none.
static inline uint32_t model_function_around(const struct model *m, uint32_t graph) {
  const struct model_graph *root = &m->graphs[model_root_graph(m, graph)];
  return root->kind == GRAPH_FUNCTION ? root->owner : NO_ID;
}
// The node that a subgraph hangs on; NO_ID: it is none, or hangs nowhere.
static inline uint32_t model_graph_node(const struct model *m, uint32_t graph) {
  const struct model_graph *g = &m->graphs[graph];
  return g->kind == GRAPH_SUB && g->owner != NO_ID ? m->attrs[g->owner].node : NO_ID;
}
// The graph around it, whose values its nodes may use: graphs of training see the main graph. NO_ID: there is none.
static inline uint32_t model_graph_around(const struct model *m, uint32_t graph) {
  const struct model_graph *g = &m->graphs[graph];
  return g->parent == NO_ID && g->kind == GRAPH_TRAINING ? m->main_graph : g->parent;
}
// The info itself if it is alive, else the next one about its value that is, or NO_ID.
static inline uint32_t model_live_info(const struct model *m, uint32_t info) {
  while (info != NO_ID && m->infos[info].flags & INFO_DEAD)
    info = m->infos[info].next;
  return info;
}
// Goes through what is declared of a value: rows of m->infos that are not dead. The body may add
// rows, and may kill the one it is at.
#define MODEL_EACH_INFO(m, value, at)                                                              \
  for (uint32_t at = model_live_info(m, (m)->values[value].info); at != NO_ID;                     \
       at = model_live_info(m, (m)->infos[at].next))
// The one that says it as an input, output or value_info; NO_ID if there is none.
static inline uint32_t model_info_at(const struct model *m, uint32_t value, enum info_home home) {
  MODEL_EACH_INFO (m, value, i)
    if (m->infos[i].home == home) return i;
  return NO_ID;
}
// The pieces of a tensor's source, in order. A tensor that lies inline and was materialized (see
// model_small_value) keeps none: its bytes are at hand.
const struct piece *model_pieces(const struct model *m, uint32_t tensor, uint32_t *count);
// Are the tensor's elements, as loaded, one stretch of a file and stored there in RAW form? Also of
// materialized ones, whose row says how far behind src.off they begin. False for those without
// elements and for what an edit made or replaced.
bool model_plain_place(const struct model *m, uint32_t tensor, struct extent *at);
// The stretch of file 0 that holds a loaded inline tensor: its elements, with encoding RAW, where
// they lie plainly; else all of its TensorProto, or of the AttributeProto that it was made of.
struct extent model_tensor_holder(const struct model *m, uint32_t tensor, enum encoding *encoding);
// True for the attributes of a Constant node (other than `value`) that load turned into a tensor:
// `first` is its id. Those an edit made are not (their values lie in the lists as usual), nor are
// references to an attribute of a function.
bool model_attr_is_constant(const struct model *m, const struct model_attr *a);
// Does an attribute of the node hold a graph?
bool model_has_bodies(const struct model *m, uint32_t node);
// The attribute of that name on a node, or NULL.
const struct model_attr *model_attr_named(const struct model *m, uint32_t node, const char *name);
// Attribute values with the operator's default where absent: false if present with another type.
bool model_attr_int(const struct model *m, uint32_t node, const char *name, int64_t fallback,
                    int64_t *out);
// An INTS attribute: count in *n and the list, or *n = 0 and NULL if absent. False too if it is too
// large to be held, or a Constant's value_ints (look at its tensor).
bool model_attr_ints(const struct model *m, uint32_t node, const char *name, const int64_t **list,
                     uint32_t *n);
// What the absence of its attribute means in a function of the model; NULL: it has no default.
const struct model_attr *model_function_default(const struct model *m, uint32_t function,
                                                struct span name);
// A STRING attribute, `fallback` if absent.
bool model_attr_string(const struct model *m, uint32_t node, const char *name, const char *fallback,
                       struct span *out);
bool model_op_is(const struct model *m, uint32_t node, const char *op_type); // domain "" or ai.onnx
// Is it the domain of ONNX's own operators?
static inline bool model_domain_is_onnx(struct span domain) {
  return domain.n == 0 || span_is(domain, "ai.onnx");
}
// Kept fields of a row: a run in m->kept_fields.
const struct model_kept_field *model_kept_fields(const struct model *m, enum kept_of of,
                                                 uint32_t id, uint32_t *count);

// Version of a domain's opset that holds for nodes of `graph` (function bodies import their own);
// 0 if the domain is not imported. "" and "ai.onnx" are the same domain.
int64_t model_opset_version(const struct model *m, uint32_t graph, struct span domain);

// The elements, in RAW form, of a tensor that load materialized (any dtype up to 1 KiB, integers
// and bool up to 64 KiB, wherever they lay). False if this one was not: large, or strings.
enum { SMALL_ANY_BYTES = 1024, SMALL_INTEGER_BYTES = 65536 };
bool model_small_value(const struct model *m, uint32_t tensor, struct span *out);

// A tensor of so many bytes begins at a multiple of this in a data file, where the user asks for
// nothing else: large ones can be mapped or reflinked, and small ones lie close.
uint64_t model_data_alignment(uint64_t bytes);

// Constant resolution: the one function that every pass uses. Follows `value` to the tensor that is
// its constant value: an initializer (that is not also a graph input, so that callers cannot
// override it), a Constant node's tensor (value; value_float(s), value_int(s), value_string(s)
// appear as tensors made at load), either of them behind Identity nodes, in this or an enclosing
// graph. Below IR version 4 every initializer is listed as an input, and counts as constant. False
// if it is no constant.
struct model_constant {
  uint32_t tensor;
  uint32_t value; // the value the tensor itself defines (after following Identity)
  uint32_t node;  // the Constant node, or NO_ID for an initializer
};
bool model_resolve_constant(const struct model *m, uint32_t value, struct model_constant *out);
// The same for who looks for weights: also a value that nodes make of a constant without arithmetic of their own, if somebody has seen
// it (kit_weight). Its tensor is then what it holds (edit_see), `value` is itself, and `node` makes it.
bool model_resolve_weight(const struct model *m, uint32_t value, struct model_constant *out);
// For kit_weight: the value holds what the tensor row says; NO_ID: it holds nothing that is known.
void model_saw(struct model *m, uint32_t value, uint32_t tensor);
void model_saw_nothing(struct model *m); // of any value: the model has changed since

// For `edit`: before the node's inputs or outputs change (a node that is no Identity may be named
// too); after a list of imports was put at rows first..first+n; after lists were pushed on.
void model_identity_changes(struct model *m, uint32_t node);
void model_opsets_moved(struct model *m, uint32_t first, uint32_t n);
void model_opsets_shifted(struct model *m);

// For `edit`: another value is listed at this place of graph_io (old: the one before, NO_ID if there was none);
// and a list of outputs lies elsewhere.
void model_listing_changes(struct model *m, uint32_t place, uint32_t old, uint32_t value);
void model_listings_moved(struct model *m);

// A position where the value is listed as an output of its graph, the first that became one. NO_ID if there is
// none.
uint32_t model_next_listing(const struct model *m, uint32_t value);
// Is it listed by its own graph alone? A body may list a value that it sees from inside, though no
// runtime takes that.
bool model_listed_at_home(const struct model *m, uint32_t value);

// Number of live uses as node input, plus one per listing as a graph output.
uint32_t model_use_count(const struct model *m, uint32_t value);

#endif
