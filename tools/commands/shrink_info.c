// weir shrink --info: the weights that the pass would look at, a line each, and totals over all of
// them, in the words of onnx_shrink_ray.
//
// "Other data" is what the model's files hold beside weights. Nothing is edited or written, and no
// weight is read: shapes and names are metadata. Each model is opened, loaded and
// left before the next.
#include "cli/report.h"
#include "commands/shrink_inputs.h"
#include "passes/kit/weights.h"
#include "passes/shrink/shrink.h"
#include "stream/load/load.h"
#include "stream/staging/unfinished.h"

struct info {
  const struct model *m;
  struct json_out *json;               // NULL: lines
  uint64_t nodes, initializers, bytes; // large enough
  uint64_t all_nodes, all_initializers;
  uint64_t least; // elements of what is large enough
};

static void look_at(struct info *in, const struct weight *w) {
  const struct model *m = in->m;
  const struct model_tensor *t = &m->tensors[w->tensor];
  const int64_t *dims = model_dims(m, t);
  const bool node = w->node != NO_ID;
  uint64_t elements = 0;
  dims_product(dims, t->rank, &elements);
  in->bytes += t->bytes;
  *(node ? &in->all_nodes : &in->all_initializers) += 1;
  if (elements < in->least) return;
  *(node ? &in->nodes : &in->initializers) += 1;
  struct span name = node ? model_name(m, m->nodes[w->node].name) : model_value_name(m, w->value);
  if (!in->json) {
    printf("%s: %s: %s - %s elements, %s, %s bytes\n", node ? "Node" : "Initializer", quote(name).s,
           quote_dims(dims, t->rank).s, decimal(elements).s, dtype_name(t->dtype),
           decimal(t->bytes).s);
    return;
  }
  json_object(in->json);
  json_put_uint(in->json, "bytes", t->bytes);
  json_put_ints(in->json, "dims", dims, t->rank);
  json_put_text(in->json, "dtype", dtype_name(t->dtype));
  json_put_uint(in->json, "elements", elements);
  json_put_text(in->json, "kind", node ? "node" : "initializer");
  json_put_string(in->json, "name", name);
  json_end_object(in->json);
}

int shrink_info(const struct cli_args *args, const char *path, struct err *err) {
  const struct sources_options opening = {.allow_links = cli_flag(args, OPT_ALLOW_LINKS)};
  const struct load_options loading = {0};
  struct sources *sources;
  struct model m;
  struct json_out j = {.indent = 0};
  struct info in = {
      .m = &m, .json = cli_flag(args, OPT_JSON) ? &j : NULL, .least = SHRINK_MIN_ELEMENTS};
  const enum cli_option least = cli_pass_option(CLI_shrink, "min-elements");
  if (cli_given(args, least)) in.least = args->value[least].number;
  uint64_t total = 0;
  if (sources_open(&sources, path, &opening, err)) return -1;
  model_init(&m);
  const int rc = load_model(&m, sources, &loading, err);
  if (rc) (void)unfinished_explains(path, err);
  for (uint32_t i = 0; i < sources_count(sources); i++)
    total += sources_size(sources, i);
  if (rc == 0 && in.json) {
    report_json_begin(&j);
    json_put_array(&j, "weights");
  } else if (rc == 0) {
    printf("Model: %s\n", quote_str(path).s);
  }
  struct weight w;
  for (uint32_t t = 0; rc == 0 && t < m.n_tensors && report_stdout_alive(); t++)
    if (weights_at(&m, t, &w)) look_at(&in, &w);
  if (rc == 0 && in.json) {
    json_end_array(&j);
    json_put_uint(&j, "total_bytes_from_weights", in.bytes);
    json_put_uint(&j, "total_bytes_of_files", total);
    report_json_end(&j);
  } else if (rc == 0) {
    printf("Constant nodes: %s of %s\nInitializers: %s of %s\n", decimal(in.nodes).s,
           decimal(in.all_nodes).s, decimal(in.initializers).s, decimal(in.all_initializers).s);
    printf("Total bytes from weights: %s bytes, %s bytes from other data\n", decimal(in.bytes).s,
           decimal(total > in.bytes ? total - in.bytes : 0).s);
  }
  model_free(&m);
  sources_close(sources);
  return rc;
}
