// Room: edits: the only way a model changes, their log and its replay, the effect of a group of
// them. Each call below checks its promises (asserts), applies the edit to the model and writes one
// line of the edit log: applying and recording are one call.
//
// The log is JSON Lines. Line 1 is the head (edit_log.h); every other line is one edit:
//   {"edit":"node.add","node":"g0/n512","op":"MatMul","in":["g0/v17:x","g0/v90:w_t"],
//    "out":["g0/v91:y"],"before":"g0/n12"}
// Nodes are written `g<graph>/n<id>`, values `g<graph>/v<id>:<name>`, tensors
// `g<graph>/t<id>:<name>`; the ids are authoritative, the names make it readable and are checked on
// replay. New ids are numbered by creation, so a log replayed onto the same source makes the same
// ids. No line speaks of a list position other than an input or output slot of a node.
//
// edit kinds: node.add node.remove node.move node.rename node.set_input node.set_output node.set_attr
//   tensor.add tensor.replace tensor.remove value.rename value.retype value.say_range
//   value.replace_uses graph.add_input graph.remove_input graph.set_output subgraph.add function.add function.remove function.opset
//   opset ir_version metadata group artifact look source see (edit_kinds.def)
#ifndef WEIR_EDIT_H
#define WEIR_EDIT_H

#include "base/err.h"
#include "json/json.h"
#include "model/model.h"
#include "recipe/recipe.h"

// What an earlier stage over the weights found, for a pass to decide by: a file named by its
// SHA-256.
struct edit_artifact {
  const char *stage;  // which: "measure"
  const uint32_t *of; // the recipes that it was asked about
  uint32_t n;
  uint8_t sha256[32];
};

// A tensor whose elements a pass looked at, beyond those that are at hand: of so many bytes at most.
enum { EDIT_LOOK_MOST = 2 << 20 };
struct edit_look {
  uint32_t tensor;
  uint8_t sha256[32]; // of its elements in RAW form
};

// A file beside the model that recipes may read (row `file` of the sources).
struct edit_source {
  uint32_t file;
  const char *name; // base name
  uint64_t size;
  uint8_t sha256[32];
};

struct edit_groups; // edit_groups.h

struct edits {
  struct model *m;
  struct recipes *r;
  uint64_t n;           // edits so far (group lines not counted)
  uint32_t group;       // number of the current group, 0 before the first
  struct json_out line; // the line being written, then handed to sink
  // Receives each log line, newline included; NULL: not recorded. Returns -1 on failure, which is
  // remembered in `failed` and reported by edits_finish.
  int (*sink)(void *ctx, struct span line);
  void *sink_ctx;
  bool failed;
  // Rows within each other, of the first recipe that no line holds; 0: none. Reported by
  // edits_finish.
  uint32_t deep;
  // Replay asks, at an artifact's line, to have it made again and compared: -1 with err if it
  // differs or cannot be made. NULL: the line is taken as it is.
  int (*artifact)(void *ctx, const struct edit_artifact *artifact, struct err *err);
  // The same at a look's line.
  int (*look)(void *ctx, const struct edit_look *look, struct err *err);
  // Replay asks, at a source's line, for a file of this name that is what the line says: makes it row `file` of the
  // sources. NULL: nobody looks for it, and no recipe can be read that names it.
  int (*source)(void *ctx, const struct edit_source *source, struct err *err);
  void *replay_ctx;           // of these three
  struct edit_groups *groups; // what each group did; NULL: not kept (edit_groups_keep)
  // Internal. The tensor whose own elements a recipe reads, as id + 1, by recipe id; and the recipe
  // of its elements as loaded, as id + 1, of tensors replaced since, by tensor id.
  TABLE(uint32_t, origin);
  TABLE(uint32_t, source_of);
  uint32_t n_sources;            // companions that have their line
  TABLE(uint32_t, looked);       // by tensor id: 1 + its recipe when it was looked at; 0: was not
  uint32_t spare_of, spare_next; // edit_forward: a name id, and the first number to try behind it
  struct arena scratch;          // of the edit being made
};

void edits_init(struct edits *e, struct model *m, struct recipes *r);
void edits_free(struct edits *e);

// Opens a group: the edits that follow belong to (pass, site, reason) until the next group. `site`
// is the node they are about (may be NO_ID).
void edit_group(struct edits *e, const char *pass, uint32_t site_node, const char *reason);

// ---- attributes as given to node.add and node.set_attr ----
struct edit_attr {
  const char *name;
  enum attr_type type; // ATTR_UNDEFINED in set_attr: remove it, also where the node has it twice
  int64_t i;
  float f;
  struct span s;
  const int64_t *ints;
  const float *floats;
  const struct span *strings;
  uint32_t n;      // of ints, floats or strings
  uint32_t recipe; // TENSOR: its elements
  uint32_t graph;  // GRAPH: made by edit_add_subgraph
  // In a function: the attribute of it whose value this one has, of that type. NULL: it says its own.
  const char *ref;
};

// An output of a node: an existing value of its graph without a producer (VALUE_UNDEFINED, as a
// removed node leaves behind; one that died with its last use comes back), or NO_ID and the name of
// a new value (unused in the graph and those around it), or NO_ID and no name: left out.
struct edit_output {
  uint32_t value;
  struct span name;
};

struct edit_node {
  uint32_t graph;
  uint32_t before; // node id of the same graph, NO_ID: at the end
  struct span name, op_type, domain;
  const uint32_t *in; // value ids, NO_ID for an input left out
  uint32_t n_in;
  const struct edit_output *out;
  uint32_t n_out;
  const struct edit_attr *attrs;
  uint32_t n_attrs;
  struct span overload; // of the function of the model that it calls
};

// Names and lists may point into the model: they are copied before anything moves.
uint32_t edit_add_node(struct edits *e, const struct edit_node *spec); // node id
// The node goes, with the graphs in its attributes; its outputs stay as VALUE_UNDEFINED values if
// still used, else they die.
void edit_remove_node(struct edits *e, uint32_t node);
void edit_move_node(struct edits *e, uint32_t node, uint32_t before);
void edit_rename_node(struct edits *e, uint32_t node, struct span name); // empty: it has none
// Slot n_in (n_out) appends. What loses its last use and has no producer dies.
void edit_set_input(struct edits *e, uint32_t node, uint32_t slot, uint32_t value);
void edit_set_output(struct edits *e, uint32_t node, uint32_t slot, struct edit_output to);
void edit_set_attr(struct edits *e, uint32_t node, const struct edit_attr *attr);

// A new initializer of `graph` with the recipe's dtype, and dims of its own (same count). In a
// function body, which has no initializers, it becomes a Constant node at the body's start.
// Returns the value id. Elements given as `bytes` within the limits of model_small_value are at
// hand there afterwards.
uint32_t edit_add_tensor(struct edits *e, uint32_t graph, struct span name, uint32_t recipe);
void edit_replace_tensor(struct edits *e, uint32_t tensor, uint32_t recipe);
// A tensor holds in another form what tensor `weight` held: what is said of it later names that weight,
// by `called` (a name id; m->empty: nothing is said), or what the weight itself stood for. No edit: the
// log does not say it, and a replay does not know it.
void edit_stands_for(struct edits *e, uint32_t tensor, uint32_t weight, uint32_t called);
// edit_add_tensor of such a tensor.
uint32_t edit_add_tensor_for(struct edits *e, uint32_t graph, struct span name, uint32_t recipe,
                             uint32_t weight, uint32_t called);
// An initializer without uses goes, with its value (which stays if it is a graph input).
void edit_remove_tensor(struct edits *e, uint32_t tensor);

void edit_rename_value(struct edits *e, uint32_t value, struct span name);
// rank NO_ID: unknown shape; dtype UNDEFINED: drop its value_info (declarations of graph inputs and
// outputs stay).
void edit_retype_value(struct edits *e, uint32_t value, enum dtype dtype,
                       const struct model_dim *dims, uint32_t rank);
// What its declarations (one is made if there is none) say of between what numbers it lies, as metadata; empty: nothing.
void edit_say_range(struct edits *e, uint32_t value, struct span range);
void edit_replace_uses(struct edits *e, uint32_t from, uint32_t to); // node inputs only
// Everything that was `from` becomes `to`: inputs of nodes, in its graph and those inside, and
// outputs of its graph, whose names and declared types stay: `to` then takes over the name, and
// `from`, whose producer the caller removes next, gets another. The edits of which it is made are
// recorded one by one. False, and nothing changed, where names forbid it: `to` is hidden from a
// user of `from`; or `from` is an output and `to` is not a node's output in the same graph, is an
// output itself, or has users that would not see it by the new name. `to` stands before all users
// of `from`: the caller's promise.
bool edit_forward(struct edits *e, uint32_t from, uint32_t to);
bool edit_can_forward(const struct edits *e, uint32_t from, uint32_t to);
uint32_t edit_add_graph_input(struct edits *e, uint32_t graph, struct span name, enum dtype dtype,
                              const struct model_dim *dims, uint32_t rank);
void edit_remove_graph_input(struct edits *e, uint32_t value);
// Position n_outputs appends. The declared type becomes that of the value, where it is known.
void edit_set_graph_output(struct edits *e, uint32_t graph, uint32_t position, uint32_t value);
// An empty graph whose parent is `parent`; it hangs nowhere until a GRAPH attribute names it.
uint32_t edit_add_subgraph(struct edits *e, uint32_t parent, struct span name);
// An empty function that imports what the model imports; returns its id. Its inputs and outputs are made as a graph's
// are. Attributes: of type UNDEFINED those that a call must give, the others with what their absence means (no tensors,
// no graphs).
uint32_t edit_add_function(struct edits *e, struct span domain, struct span name,
                           const struct edit_attr *attrs, uint32_t n_attrs);
void edit_remove_function(struct edits *e, uint32_t function);
// Adds or changes the model's import; function bodies have their own. Version 0 of another domain
// than ai.onnx: the import, which is there, goes.
void edit_set_opset(struct edits *e, struct span domain, int64_t version);
void edit_set_function_opset(struct edits *e, uint32_t function, struct span domain,
                             int64_t version);
void edit_set_ir_version(struct edits *e, int64_t version);
void edit_set_metadata(struct edits *e, struct span key, struct span value); // empty value: remove

// Can the next two be asked for it? Not for strings, nor past RECIPE_MAX_RANK dims.
bool edit_tensor_readable(const struct edits *e, uint32_t tensor);
// The recipe that reads a tensor's elements as they are (its own dims); RAW result whatever the
// encoding.
uint32_t edit_tensor_recipe(struct edits *e, uint32_t tensor);
// The same with other dims (same count), for a reshape that moves nothing.
uint32_t edit_tensor_recipe_as(struct edits *e, uint32_t tensor, const int64_t *dims,
                               uint32_t rank);

// The recipe that reads the fields with a loaded tensor's data as they are in the file: of strings, which have no elements of a
// size. NO_ID: there are no such fields.
uint32_t edit_tensor_fields(struct edits *e, uint32_t tensor);

// Records that what follows was decided by this artifact: no change of the model, but part of what
// the edits were made of.
void edit_artifact(struct edits *e, const struct edit_artifact *artifact);
// A recipe as the log writes it: a source tensor's own elements by its address.
void edit_artifact_recipe(struct edits *e, struct json_out *j, uint32_t recipe);

// Records that edits were decided by these elements, once for a tensor as it is:
//   {"edit":"look","tensor":"g0/t5:gamma","sha256":"…"}
void edit_look(struct edits *e, const struct edit_look *look);
bool edit_looked(const struct edits *e, uint32_t tensor); // as it is now

// Records that the value, an output of nodes over constants alone, has these elements: what a pass takes for a weight is one though
// no tensor of the model holds it. Gives a tensor row that says type, dims and recipe, and can be asked for its elements; it belongs
// to no graph (TENSOR_SEEN), and lives as long as the model.
//   {"edit":"see","value":"g0/v7:w","tensor":"g0/t9:w","dtype":"float","dims":[8,8],"recipe":{"cast":…,"to":"float"}}
uint32_t edit_see(struct edits *e, uint32_t value, uint32_t recipe);

// Records that recipes behind this line may have extents in a file that is no data file of the model, once a file:
//   {"edit":"source","file":2,"name":"ranges.jsonl.data","size":4194304,"sha256":"…"}
// It becomes the next row of m->files, if it is none yet: file is the number of rows then, or that of a companion.
void edit_source(struct edits *e, const struct edit_source *source);
bool edit_source_is_known(const struct edits *e, uint32_t file); // it has its line

// Reports a sink failure, if any, or a recipe that is nested too deep (ERR_MODEL).
int edits_finish(struct edits *e, struct err *err);

#endif
