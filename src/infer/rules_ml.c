// Rules of inference for operators of ai.onnx.ml, and those of ai.onnx that look at texts: rows of features, labels and scores.
#include "infer/inside/infer_rules.h"

// As many as the attribute has; 0: absent.
static uint32_t count_of(struct infer_site *s, const char *name) {
  const struct model_attr *a = infer_attr(s, name);
  return a ? a->count : 0;
}

// Rows: the first dim of a matrix; a vector is one row.
static dim_id rows_of(struct infer_site *s) {
  struct infer_type x;
  infer_in(s, 0, &x);
  if (!x.ranked) return NO_ID;
  return x.rank == 1 ? infer_one(s) : infer_dim(&x, 0);
}

static void matrix(struct infer_site *s, uint32_t slot, enum dtype dtype, dim_id columns) {
  infer_out_dims(s, slot, dtype, (const dim_id[2]){rows_of(s), columns}, 2);
}

void infer_ml_float(struct infer_site *s) {
  struct infer_type x;
  infer_in(s, 0, &x);
  x.dtype = DTYPE_FLOAT;
  infer_out(s, 0, &x);
}

// ---- labels --------------------------------------------------------------------------------------------

static enum dtype dtype_of_tensor(struct infer_site *s, const char *name) {
  const struct model_attr *a = infer_attr(s, name);
  const bool known = a && a->type == ATTR_TENSOR && a->first != NO_ID;
  return known ? (enum dtype)s->m->tensors[a->first].dtype : DTYPE_UNDEFINED;
}

static enum dtype other_of(const struct infer_type *x) {
  return x->dtype == DTYPE_STRING  ? DTYPE_INT64
         : x->dtype == DTYPE_INT64 ? DTYPE_STRING
                                   : DTYPE_UNDEFINED;
}

void infer_label_encoder(struct infer_site *s) {
  struct infer_type x;
  infer_in(s, 0, &x);
  if (infer_attr(s, "values_tensor"))
    x.dtype = dtype_of_tensor(s, "values_tensor");
  else if (infer_attr(s, "values_floats"))
    x.dtype = DTYPE_FLOAT;
  else if (infer_attr(s, "values_int64s"))
    x.dtype = DTYPE_INT64;
  else if (infer_attr(s, "values_strings"))
    x.dtype = DTYPE_STRING;
  else
    x.dtype = infer_attr(s, "classes_strings") ? other_of(&x) : DTYPE_UNDEFINED;
  infer_out(s, 0, &x);
}

void infer_category_mapper(struct infer_site *s) {
  struct infer_type x;
  infer_in(s, 0, &x);
  x.dtype = other_of(&x);
  infer_out(s, 0, &x);
}

// ---- scores --------------------------------------------------------------------------------------------

// How many scores a row has. Machines of support vectors without probabilities have one for each pair.
static dim_id classes_of(struct infer_site *s, uint32_t labels) {
  if (strcmp(s->op->name, "LinearClassifier") == 0) {
    const uint32_t lines = count_of(s, "intercepts");
    if (lines == 0) return NO_ID;
    return infer_size_of(s, lines == 1 && labels == 2 ? 2 : lines);
  }
  if (strcmp(s->op->name, "SVMClassifier") == 0 && count_of(s, "prob_a") == 0) return NO_ID;
  return labels ? infer_size_of(s, labels) : NO_ID;
}

void infer_ml_classifier(struct infer_site *s) {
  const uint32_t texts = count_of(s, "classlabels_strings");
  uint32_t labels = count_of(s, "classlabels_ints");
  if (labels == 0) labels = count_of(s, "classlabels_int64s");
  const enum dtype dtype = texts ? DTYPE_STRING : DTYPE_INT64;
  const dim_id rows = rows_of(s);
  infer_out_dims(s, 0, dtype, &rows, 1);
  const dim_id classes = classes_of(s, texts ? texts : labels);
  if (classes == NO_ID) s->why = INFER_WHY_ATTRIBUTE;
  matrix(s, 1, DTYPE_FLOAT, classes);
}

void infer_ml_regressor(struct infer_site *s) {
  int64_t targets = 1;
  const bool trees = strcmp(s->op->name, "TreeEnsembleRegressor") == 0;
  if (trees && !infer_attr(s, "n_targets")) {
    s->why = INFER_WHY_ATTRIBUTE;
    matrix(s, 0, DTYPE_FLOAT, NO_ID);
    return;
  }
  if (!infer_attr_int(s, trees ? "n_targets" : "targets", 1, &targets)) return;
  matrix(s, 0, DTYPE_FLOAT, infer_size_of(s, targets));
}

void infer_tree_ensemble(struct infer_site *s) {
  struct infer_type x;
  int64_t targets;
  infer_in(s, 0, &x);
  if (!infer_attr_int(s, "n_targets", -1, &targets)) return;
  if (targets < 0) s->why = INFER_WHY_ATTRIBUTE;
  matrix(s, 0, x.dtype, targets < 0 ? NO_ID : infer_size_of(s, targets));
}

// ---- features ------------------------------------------------------------------------------------------

void infer_one_hot_encoder(struct infer_site *s) {
  struct infer_type x;
  infer_in(s, 0, &x);
  uint32_t n = count_of(s, "cats_int64s");
  if (n == 0) n = count_of(s, "cats_strings");
  if (!infer_known(s, x.ranked && x.rank < INFER_RANK_MAX, DTYPE_FLOAT)) return;
  dim_id *dims = infer_dim_room(s, x.rank + 1);
  if (x.rank) memcpy(dims, x.dims, x.rank * sizeof *dims);
  dims[x.rank] = infer_size_of(s, n);
  infer_out_dims(s, 0, DTYPE_FLOAT, dims, x.rank + 1);
}

void infer_feature_vectorizer(struct infer_site *s) {
  const int64_t *sizes;
  uint32_t n;
  if (!infer_attr_ints(s, "inputdimensions", &sizes, &n)) return;
  dim_id all = n ? infer_size_of(s, 0) : NO_ID;
  for (uint32_t i = 0; i < n; i++)
    all = dims_add(s->d, all, infer_size_of(s, sizes[i]));
  matrix(s, 0, DTYPE_FLOAT, all);
}

// The last axis by a list of indices; a vector becomes a row.
void infer_array_feature(struct infer_site *s) {
  struct infer_type x, y;
  infer_in(s, 0, &x);
  infer_in(s, 1, &y);
  if (!infer_known(s, x.ranked, x.dtype)) return;
  if (infer_invalid_if(s, x.rank == 0, "the input is a scalar")) return;
  const uint32_t rank = x.rank == 1 ? 2 : x.rank;
  dim_id *dims = infer_dim_room(s, rank);
  if (x.rank == 1)
    dims[0] = infer_one(s);
  else
    memcpy(dims, x.dims, (rank - 1) * sizeof *dims);
  dims[rank - 1] = y.ranked ? infer_product(s, y.dims, y.rank) : NO_ID;
  infer_out_dims(s, 0, x.dtype, dims, rank);
}

// ---- maps ------------------------------------------------------------------------------------------------

void infer_zip_map(struct infer_site *s) {
  s->why = INFER_WHY_KNOWN;
  infer_out(s, 0, &(struct infer_type){.kind = INFER_OTHER});
}

void infer_dict_vectorizer(struct infer_site *s) {
  uint32_t n = count_of(s, "int64_vocabulary");
  if (n == 0) n = count_of(s, "string_vocabulary");
  infer_out_dims(s, 0, DTYPE_UNDEFINED, (const dim_id[2]){infer_one(s), infer_size_of(s, n)}, 2);
}

void infer_cast_map(struct infer_site *s) {
  struct span to, form;
  int64_t most;
  if (!infer_attr_string(s, "cast_to", "TO_FLOAT", &to) ||
      !infer_attr_string(s, "map_form", "DENSE", &form) || !infer_attr_int(s, "max_map", 1, &most))
    return;
  const enum dtype dtype = span_is(to, "TO_FLOAT")    ? DTYPE_FLOAT
                           : span_is(to, "TO_STRING") ? DTYPE_STRING
                           : span_is(to, "TO_INT64")  ? DTYPE_INT64
                                                      : DTYPE_UNDEFINED;
  if (!span_is(form, "SPARSE")) s->why = INFER_WHY_DATA;
  const dim_id n = span_is(form, "SPARSE") ? infer_size_of(s, most) : NO_ID;
  infer_out_dims(s, 0, dtype, (const dim_id[2]){infer_one(s), n}, 2);
}

// ---- texts -----------------------------------------------------------------------------------------------

// The last dim is one more than the greatest index.
void infer_tf_idf(struct infer_site *s) {
  struct infer_type x;
  const int64_t *at;
  uint32_t n;
  infer_in(s, 0, &x);
  if (!infer_known(s, x.ranked && infer_attr_ints(s, "ngram_indexes", &at, &n), DTYPE_FLOAT))
    return;
  int64_t most = -1;
  for (uint32_t i = 0; i < n; i++)
    if (at[i] > most) most = at[i];
  if (infer_invalid_if(s, x.rank < 1 || x.rank > 2 || most < 0 || most == INT64_MAX,
                       "the input has %u dim%s", x.rank, plural(x.rank)))
    return;
  const dim_id dims[2] = {x.dims[0], infer_size_of(s, most + 1)};
  infer_out_dims(s, 0, DTYPE_FLOAT, x.rank == 1 ? dims + 1 : dims, x.rank);
}

// As many parts as the text with the most has.
void infer_string_split(struct infer_site *s) {
  struct infer_type x;
  infer_in(s, 0, &x);
  if (!x.ranked || x.rank >= INFER_RANK_MAX) return;
  dim_id *dims = infer_dim_room(s, x.rank + 1);
  if (x.rank) memcpy(dims, x.dims, x.rank * sizeof *dims);
  infer_out_dims(s, 1, DTYPE_INT64, dims, x.rank);
  s->why = INFER_WHY_DATA;
  infer_out_dims(s, 0, DTYPE_STRING, dims, x.rank + 1);
}

// Stop words are left out, so that the last dim may be less.
void infer_string_normalizer(struct infer_site *s) {
  struct infer_type x;
  infer_in(s, 0, &x);
  if (!x.ranked || x.rank == 0 || !infer_attr(s, "stopwords")) {
    infer_out(s, 0, &x);
    return;
  }
  dim_id *dims = infer_dim_room(s, x.rank);
  memcpy(dims, x.dims, x.rank * sizeof *dims);
  dims[x.rank - 1] = NO_ID;
  s->why = INFER_WHY_DATA;
  infer_out_dims(s, 0, DTYPE_STRING, dims, x.rank);
}
