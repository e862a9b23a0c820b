// The parts of a log line, read: addresses, recipes, attributes, types. A log is a file that
// anybody may have written: nothing here trusts it, and every failure names what was expected. For
// this room only; edit_line.c is the other direction.
#ifndef WEIR_EDIT_READ_H
#define WEIR_EDIT_READ_H

#include "edit.h"

struct edit_reading {
  struct edits *e;
  const struct json_value *line;
  struct arena *scratch;
  struct err *err;
  uint32_t next_node, next_value, next_tensor; // the ids that new rows of this line must have
};

// An object has no other keys than those in `allowed` (separated by spaces).
int edit_read_keys(struct edit_reading *in, const struct json_value *v, const char *allowed);

// Members of the line. A failure is in in->err, where the first one stays, and the value is then
// NO_ID, 0 or empty: so a line may be read to its end before edit_read_ok is asked. Where
// `required` is false, an absent key gives NO_ID or an empty span.
static inline bool edit_read_ok(const struct edit_reading *in) {
  return in->err->kind == ERR_NONE;
}
struct span edit_read_text(struct edit_reading *in, const char *key, bool required);
int64_t edit_read_int(struct edit_reading *in, const char *key);
uint32_t edit_read_index(struct edit_reading *in, const char *key);
uint32_t edit_read_node(struct edit_reading *in, const char *key, bool required);
uint32_t edit_read_value(struct edit_reading *in, const char *key, bool required);
uint32_t edit_read_graph(struct edit_reading *in, const char *key);
uint32_t edit_read_function(struct edit_reading *in, const char *key);
uint32_t edit_read_tensor(struct edit_reading *in);
// "dtype" and "dims" of a value.
int edit_read_type(struct edit_reading *in, enum dtype *dtype, struct model_dim **dims,
                   uint32_t *rank);

// A new node's address; gives its graph.
int edit_read_new_node(struct edit_reading *in, const char *key, uint32_t *graph);
// A new value's address; gives its graph and name.
int edit_read_new_value(struct edit_reading *in, const struct json_value *v, uint32_t *graph,
                        struct span *name);
// "tensor" (which must be the next new one, of that graph and name), "dtype", "dims", "recipe".
int edit_read_new_tensor(struct edit_reading *in, const struct json_value *v, uint32_t graph,
                         struct span name, uint32_t *recipe);
// "dtype", "dims" and "recipe", which must agree.
int edit_read_recipe(struct edit_reading *in, const struct json_value *v, uint32_t *recipe);
// A list of recipes.
int edit_read_recipes(struct edit_reading *in, const char *key, uint32_t **list, uint32_t *n);
// Lists of inputs; of outputs, new or not.
int edit_read_inputs(struct edit_reading *in, const char *key, uint32_t **list, uint32_t *n);
int edit_read_output(struct edit_reading *in, const struct json_value *v, uint32_t graph,
                     struct edit_output *out);
// {"int":1}, …; null: ATTR_UNDEFINED.
int edit_read_attr(struct edit_reading *in, const struct json_value *v, const char *name,
                   uint32_t graph, struct edit_attr *out);

#endif
