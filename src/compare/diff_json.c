// For programs: everything, uncut (docs/schema/diff.json).
#include "compare/diff_json.h"

static const char *const by_names[] = {
    [MATCHED_NAME] = "name",     [MATCHED_PLACE] = "place",
    [MATCHED_BYTES] = "bytes",   [MATCHED_TRANSPOSED] = "transposed",
    [MATCHED_RECAST] = "recast", [MATCHED_NOTHING] = "alone"};
static const char *const node_by_names[] = {[DIFF_BY_NOTHING] = "nothing",
                                            [DIFF_BY_STRUCTURE] = "structure",
                                            [DIFF_BY_OUTPUT] = "output",
                                            [DIFF_BY_NAME] = "name",
                                            [DIFF_BY_PLACE] = "place"};
static const char *const verdicts[] = {
    [MATCHED_SAME] = "same", [MATCHED_DIFFERS] = "differs", [MATCHED_UNKNOWN] = "not compared"};

static void put_model(struct diffing *x, struct json_out *j, const char *key, uint32_t side) {
  const struct diffing_model *m = &x->side[side];
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < m->model.n_tensors; i++)
    bytes += m->model.tensors[i].bytes;
  json_put_object(j, key);
  json_put_uint(j, "bytes", m->bytes);
  json_put_uint(j, "files", sources_count(m->sources));
  json_put_bool(j, "missing_data", m->absent);
  json_put_uint(j, "nodes", diff_summary_live_nodes(&m->model));
  json_put_text(j, "path", m->path);
  json_put_uint(j, "tensor_bytes", bytes);
  json_put_uint(j, "tensors", m->model.n_tensors);
  json_end_object(j);
}

static void put_lines(struct diffing *x, struct json_out *j) {
  json_put_array(j, "changes");
  for (uint32_t i = 0; i < x->d.n_lines && json_is_read(j); i++) {
    const struct diff_line *l = &x->d.lines[i];
    json_object(j);
    json_put_text(j, "what", l->what);
    json_put_text(j, "name", l->name);
    json_put_text(j, "was", l->was);
    json_put_text(j, "is", l->is);
    json_end_object(j);
    json_flush(j);
  }
  json_end_array(j);
}

static void put_ops(struct diffing *x, struct json_out *j) {
  uint32_t n;
  const struct diff_summary_op *ops = diff_summary_ops(x, &n);
  json_put_array(j, "operators");
  for (uint32_t i = 0; i < n; i++) {
    if (ops[i].n[0] == ops[i].n[1]) continue;
    json_object(j);
    json_put_text(j, "op", ops[i].name);
    json_put_uint(j, "was", ops[i].n[0]);
    json_put_uint(j, "is", ops[i].n[1]);
    json_end_object(j);
  }
  json_end_array(j);
}

// ---- nodes -------------------------------------------------------------------------------------

static void put_value(struct json_out *j, const char *key, const struct model *m,
                      const struct model_node *n, uint32_t slot, bool out) {
  const uint32_t v = slot == NO_ID ? NO_ID
                     : out         ? model_output(m, n, slot)
                                   : model_input(m, n, slot);
  if (v == NO_ID)
    json_put_null(j, key);
  else
    json_put_string(j, key, model_value_name(m, v));
}

static void put_detail(struct diffing *x, struct json_out *j, const struct diff_change *c,
                       const struct diff_detail *e) {
  static const char *const words[] = {
      [DIFF_OP] = "operator", [DIFF_RENAMED] = "name",  [DIFF_ATTR] = "attribute",
      [DIFF_INPUT] = "input", [DIFF_OUTPUT] = "output", [DIFF_NOTES] = "other fields"};
  const struct model *a = &x->side[0].model, *b = &x->side[1].model;
  const struct model_node *p = &a->nodes[c->node[0]], *q = &b->nodes[c->node[1]];
  json_object(j);
  json_put_text(j, "what", words[e->what]);
  switch ((enum diff_what)e->what) {
  case DIFF_OP:
    json_put_string(j, "was", model_name(a, p->op_type));
    json_put_string(j, "is", model_name(b, q->op_type));
    break;
  case DIFF_RENAMED:
    json_put_string(j, "was", model_name(a, p->name));
    json_put_string(j, "is", model_name(b, q->name));
    break;
  case DIFF_ATTR:
    json_put_string(j, "name",
                    e->a == NO_ID ? model_name(b, b->attrs[e->b].name)
                                  : model_name(a, a->attrs[e->a].name));
    json_put_text(j, "was", e->a == NO_ID ? NULL : diff_words_attr(x, 0, e->a));
    json_put_text(j, "is", e->b == NO_ID ? NULL : diff_words_attr(x, 1, e->b));
    break;
  case DIFF_INPUT:
  case DIFF_OUTPUT:
    json_put_uint(j, "slot", e->a == NO_ID ? e->b : e->a);
    put_value(j, "was", a, p, e->a, e->what == DIFF_OUTPUT);
    put_value(j, "is", b, q, e->b, e->what == DIFF_OUTPUT);
    break;
  case DIFF_NOTES: break;
  }
  json_end_object(j);
}

static void put_node(struct diffing *x, struct json_out *j, uint32_t side, uint32_t node) {
  const struct model *m = &x->side[side].model;
  const struct model_node *n = &m->nodes[node];
  const uint32_t out = model_output(m, n, 0);
  json_put_string(j, "domain", model_name(m, n->domain));
  json_put_text(j, "graph", diff_words_graph(x, side, n->graph));
  json_put_string(j, "name", model_name(m, n->name));
  json_put_string(j, "op", model_name(m, n->op_type));
  json_put_string(j, "output", model_value_name(m, out));
}

static void put_changes(struct diffing *x, struct json_out *j) {
  json_put_array(j, "changed");
  for (uint32_t i = 0; i < x->d.n_changes && json_is_read(j); i++) {
    const struct diff_change *c = &x->d.changes[i];
    json_object(j);
    put_node(x, j, DIFF_A, c->node[0]);
    json_put_text(j, "matched_by", node_by_names[x->d.node_by[c->node[0]]]);
    json_put_array(j, "details");
    for (uint32_t k = 0; k < c->n; k++)
      put_detail(x, j, c, &x->d.details[c->first + k]);
    json_end_array(j);
    json_end_object(j);
    json_flush(j);
  }
  json_end_array(j);
}

static void put_alone(struct diffing *x, struct json_out *j, const char *key, uint32_t side) {
  json_put_array(j, key);
  for (uint32_t i = 0; i < x->side[side].model.n_nodes && json_is_read(j); i++) {
    if (!diff_summary_node_alone(x, side, i)) continue;
    json_object(j);
    put_node(x, j, side, i);
    json_end_object(j);
    json_flush(j);
  }
  json_end_array(j);
}

static void put_nodes(struct diffing *x, struct json_out *j) {
  uint64_t twins = 0;
  for (uint32_t i = 0; i < x->side[0].model.n_nodes; i++)
    twins += x->d.nodes[0][i] != NO_ID;
  json_put_object(j, "nodes");
  json_put_uint(j, "matched", twins);
  put_alone(x, j, "removed", DIFF_A);
  put_alone(x, j, "added", DIFF_B);
  put_changes(x, j);
  json_put_uint(j, "moved", x->d.moved);
  json_put_uint(j, "renamed", x->d.renamed_nodes);
  json_put_uint(j, "renamed_values", x->d.renamed_values);
  json_end_object(j);
}

// ---- tensors -----------------------------------------------------------------------------------

static void put_figures(struct json_out *j, const struct contrast_found *f) {
  json_put_object(j, "figures");
  json_put_double(j, "cosine", figures_cosine(&f->figures));
  json_put_uint(j, "differing", f->differing);
  json_put_uint(j, "elements", f->figures.elements);
  json_put_known(j, "first", f->differs, f->first);
  json_put_double(j, "max_abs_error", f->figures.max_error);
  json_put_double(j, "mean_abs_error",
                  f->figures.elements ? f->sum_abs / (double)f->figures.elements : 0);
  json_put_uint(j, "nonfinite", f->figures.nonfinite);
  json_put_double(j, "rmse", figures_rmse(&f->figures));
  json_put_double(j, "sqnr_db", figures_sqnr_db(&f->figures));
  json_end_object(j);
}

static void put_side(struct diffing *x, struct json_out *j, const char *key,
                     const struct matched_tensor *row, uint32_t side) {
  if (row->tensor[side] == NO_ID) {
    json_put_null(j, key);
    return;
  }
  const struct model *m = &x->side[side].model;
  const struct model_tensor *t = &m->tensors[row->tensor[side]];
  json_put_object(j, key);
  json_put_uint(j, "bytes", t->bytes);
  json_put_ints(j, "dims", model_dims(m, t), t->rank);
  json_put_text(j, "dtype", dtype_name((enum dtype)t->dtype));
  json_put_bool(j, "external", t->flags & TENSOR_EXTERNAL);
  if (row->form[side]) json_put_text(j, "form", row->form[side]);
  json_put_text(j, "name", diff_words_tensor(x, side, row->tensor[side]));
  if (row->by == MATCHED_RECAST) {
    json_put_array(j, "parts");
    for (uint32_t i = 0; i < DEQUANT_EXPR_ROOTS && row->roots[side][i] != NO_ID; i++)
      json_text(j, diff_words_tensor(x, side, row->roots[side][i]));
    json_end_array(j);
  }
  json_end_object(j);
}

static void put_tensors(struct diffing *x, struct json_out *j) {
  uint64_t same = 0;
  for (uint32_t i = 0; i < x->n_rows; i++)
    same += !diff_summary_row_differs(&x->rows[i]) && x->rows[i].verdict == MATCHED_SAME;
  json_put_object(j, "tensors");
  json_put_uint(j, "by_manifests", x->by_manifest);
  json_put_uint(j, "same", same);
  json_put_uint(j, "same_place", x->same_place);
  json_put_array(j, "listed");
  for (uint32_t i = 0; i < x->n_rows && json_is_read(j); i++) {
    const struct matched_tensor *row = &x->rows[i];
    if (!diff_summary_row_differs(row) && row->verdict == MATCHED_SAME && !row->moved) continue;
    json_object(j);
    put_side(x, j, "was", row, DIFF_A);
    put_side(x, j, "is", row, DIFF_B);
    json_put_text(j, "layer", diff_words_layer(x, row));
    json_put_text(j, "matched_by", by_names[row->by]);
    json_put_text(j, "values", verdicts[row->verdict]);
    json_put_bool(j, "by_manifest", row->trusted);
    if (row->figures) put_figures(j, &row->found);
    json_end_object(j);
    json_flush(j);
  }
  json_end_array(j);
  json_end_object(j);
}

void diff_json(struct diffing *x, struct json_out *j) {
  json_put_text(j, "other", x->side[1].path);
  json_put_bool(j, "equal", diff_summary_equal(x));
  json_put_text(j, "weights", x->weights_word);
  put_model(x, j, "first", DIFF_A);
  put_model(x, j, "second", DIFF_B);
  put_lines(x, j);
  put_ops(x, j);
  put_nodes(x, j);
  put_tensors(x, j);
}
