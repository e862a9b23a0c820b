// Weights as passes over all of a model's weights meet them: constants of their own, wherever they
// hang, and how something else takes their place.
#ifndef WEIR_WEIGHTS_H
#define WEIR_WEIGHTS_H

#include "passes/pass.h"

struct kit;
struct name_patterns;

// Initializers outside of inputs, and so nodes and tensors that are no inputs, exist from here on.
enum { WEIGHTS_FREE_IR = 4 };

struct weight {
  uint32_t tensor;
  uint32_t value; // that it defines
  uint32_t graph; // that holds it: new tensors and nodes go there
  uint32_t node;  // the Constant node, or NO_ID for an initializer
};

// The weight whose elements are this tensor row. False for what is none: dead rows, sparse tensors,
// attributes of other nodes than Constant, and all that belongs to training.
bool weights_at(const struct model *m, uint32_t tensor, struct weight *out);

// Is it a node that weights come through as they are: Cast, Identity, Transpose, Reshape, Unsqueeze, Squeeze, Flatten? (kit_weight says
// whether it is a weight then.)
bool weights_moved_by(const struct model *m, uint32_t node);
// Is the value a constant, or may it be what such nodes make of one? For who has no kit and edits nothing.
bool weights_lead_to(const struct model *m, uint32_t value);
// The tensor of the model in which a weight is stored, which several may share.
uint32_t weights_stored_in(const struct model *m, const struct model_constant *w);
// For who asks passes about a model without an edit: while `ask` runs, model_resolve_weight knows all of it. The model is then what it was.
void weights_ask(struct model *m, void (*ask)(void *ctx), void *ctx);

// Does the graph lie in a TrainingInfoProto?
bool weights_in_training(const struct model *m, uint32_t graph);

// May new tensors of this graph hold integers? A function's are Constants, which before opset 9 hold
// floats alone.
bool weights_takes_integers(const struct model *m, uint32_t graph);

// Why nothing may take the weight's place, a stable word, or NULL: "graph_input" (callers may
// override it), "unused", "output_of_body" (of one that sees it from inside), "hidden" (an output
// that a body uses before it makes another value of the name), "unreadable" (see edit_tensor_readable).
const char *weights_obstacle(const struct edits *e, const struct weight *w);

// Does the constant, a value whose elements are the tensor's, say sizes, positions or how many (scales of a Resize, bounds of a Range, what shapes are computed
// with)? Then it is no weight for who rounds weights: the reason "size".
bool weights_says_sizes(struct kit *k, uint32_t value, uint32_t tensor);

// Begins what is done about the weight (kit_site). New nodes go into its graph, before the Constant,
// or before the node that was its graph's first when this was first asked: so they stand in the
// order in which they were made.
void weights_site(struct kit *k, const struct weight *w, const char *reason);
// The output that the last node behind the changed weight should have. It is the name `made`,
// unless the weight is listed as an output of its graph (or `keep`): then it takes over the
// weight's own name, and the weight is called `spare` until weights_replace removes it; not if the
// weight hides a value of a graph around its own by that name, or is itself hidden from a user. Both names are free ones.
struct edit_output weights_output(struct kit *k, const struct weight *w, struct span made,
                                  struct span spare, bool keep);
// All that used the weight uses `to` instead: nodes in its graph and those inside, and outputs. The
// weight goes, with its Constant node, or its graph input (before IR version 4 every initializer
// had one).
void weights_replace(struct kit *k, const struct weight *w, uint32_t to);
// Raises the IR version, if it is below. Before 4 every initializer is a graph input too, and a
// constant all the same; from 4 on such an input lets callers override it. So these inputs go where
// the version passes 4, and what was constant stays it.
void weights_raise_ir(struct edits *e, int64_t version);
// To be called once when weights were replaced: raises an IR version below 4, which asks for an
// input for every initializer.
void weights_free_initializers(struct edits *e);

// A site for the report. `recipe` is that of the elements (codes) that take the weight's place, NO_ID
// if it is left alone. To be called before edits: names may move afterwards.
void weights_report(struct kit *k, const struct weight *w, const char *reason, uint32_t recipe);

// Does a pattern of --exclude match the weight's name, its Constant node's, or that of a node that uses
// it?
bool weights_named(struct kit *k, const struct name_patterns *patterns, const struct weight *w);
// Warns of every pattern of the option ("--exclude") that matches no weight and no node, with the nearest name.
void weights_warn_unmatched(struct pass_env *env, const struct name_patterns *patterns,
                            const char *option);

#endif
