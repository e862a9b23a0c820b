// The overview of a model for people.
//
// It is laid out in blocks: files, versions, inputs and outputs, operators, tensors, the largest of
// them, advice. Numbers stand in columns at the left, names (of any length) at the end of a line,
// so that no name can break a column. Names are quoted: they come from a file.
#include "render/models/render_inspect.h"
#include "cli/hints.h"
#include "cli/report.h"
#include "schema/schema.h"
#include "targets/runtime_needs.h"

#include <stdio.h>

enum { FILES_SHOWN = 10, OPS_SHOWN = 40, IO_SHOWN = 30, METADATA_SHOWN = 12, VALUE_SHOWN = 60 };

static const char *domain_of(const struct model *m, uint32_t domain) {
  const char *name = model_name_str(m, domain);
  return *name ? name : "ai.onnx";
}

// "610 M"
static struct quoted quote_count(uint64_t n) {
  static const char *const unit[] = {" k", " M", " B", " T"};
  struct quoted q;
  double x = (double)n / 1000;
  size_t u = 0;
  if (n < 1000) {
    snprintf(q.s, sizeof q.s, "%u", (unsigned)n);
    return q;
  }
  for (; x >= 999.5 && u < 3; u++)
    x /= 1000;
  snprintf(q.s, sizeof q.s, x < 9.995 ? "%.2f%s" : x < 99.95 ? "%.1f%s" : "%.0f%s", x, unit[u]);
  return q;
}

// ---- types --------------------------------------------------------------------------------------

struct quoted render_inspect_type(const struct model *m, uint32_t value) {
  struct quoted q;
  const struct model_value *v = &m->values[value];
  if (v->info == NO_ID) {
    snprintf(q.s, sizeof q.s, "unknown");
    return q;
  }
  const struct model_info *info = &m->infos[v->info];
  if (!(info->flags & INFO_TENSOR)) {
    snprintf(q.s, sizeof q.s, "not a tensor");
    return q;
  }
  size_t n = (size_t)snprintf(q.s, sizeof q.s, "%s", dtype_name(info->dtype));
  if (!(info->flags & INFO_SHAPED)) {
    snprintf(q.s + n, sizeof q.s - n, " of unknown shape");
    return q;
  }
  for (uint32_t d = 0; d < info->rank; d++) {
    q.s[n++] = d ? ',' : '[';
    if (n + 48 > sizeof q.s) {
      n += (size_t)snprintf(q.s + n, sizeof q.s - n, "...");
      break;
    }
    const struct model_dim *dim = &m->info_dims[info->dims + d];
    if (dim->value >= 0)
      n += (size_t)snprintf(q.s + n, sizeof q.s - n, "%s", integer(dim->value).s);
    else if (dim->param == m->empty)
      q.s[n++] = '?';
    else
      n += (size_t)snprintf(q.s + n, sizeof q.s - n, "%.40s",
                            quote_str(model_name_str(m, dim->param)).s);
  }
  snprintf(q.s + n, sizeof q.s - n, info->rank ? "]" : "[]");
  return q;
}

// ---- blocks -------------------------------------------------------------------------------------

// Initializers that are listed as inputs too (before IR version 4 all are) are counted, not shown.
static void print_io(const struct model *m, const char *title, uint32_t first, uint32_t n) {
  uint32_t shown = 0, initializers = 0, left = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t value = m->graph_io[first + i];
    if (value == NO_ID) continue;
    if (m->values[value].kind == VALUE_INITIALIZER && title[0] == 'I')
      initializers++;
    else if (shown == IO_SHOWN)
      left++;
    else {
      if (shown++ == 0) printf("\n%s\n", title);
      printf("  %-28s %s\n", quote(model_value_name(m, value)).s, render_inspect_type(m, value).s);
    }
  }
  if (left) printf("  and %u more\n", left);
  if (initializers)
    printf("  (and %u initializer%s listed as input%s)\n", initializers, plural(initializers),
           plural(initializers));
}

// Values may be whole documents: their beginnings.
static void print_metadata(const struct model *m) {
  if (m->n_metadata > 0) printf("\nMetadata\n");
  for (uint32_t i = 0; i < m->n_metadata && i < METADATA_SHOWN; i++) {
    const struct quoted value = quote_str(model_name_str(m, m->metadata[i].value));
    size_t n = strlen(value.s), cut = n < VALUE_SHOWN ? n : VALUE_SHOWN;
    while (cut > 0 && cut < n && ((unsigned char)value.s[cut] & 0xc0) == 0x80)
      cut--; // not within a character
    printf("  %-28s %.*s%s\n", quote_str(model_name_str(m, m->metadata[i].key)).s, (int)cut,
           value.s, cut < n ? "..." : "");
  }
  if (m->n_metadata > METADATA_SHOWN) printf("  and %u more\n", m->n_metadata - METADATA_SHOWN);
}

static void print_sum(const char *label, struct inspect_sum sum) {
  if (sum.tensors == 0) return;
  printf("  %-24s %8s  %10s\n", label, decimal(sum.tensors).s, quote_bytes(sum.bytes).s);
}

static void print_file(const struct inspect_file *file) {
  const uint64_t unused = file->size - min_u64(file->size, file->use.used);
  const char *instead = file->missing ? "missing" : file->unreadable ? "unreadable" : NULL;
  printf("%-10s %s: %s tensor%s", instead ? instead : quote_bytes(file->size).s,
         quote_str(file->name).s, decimal(file->use.places).s, plural(file->use.places));
  if (instead)
    printf(" (%s)", quote_bytes(file->use.used).s);
  else if (file->needed > file->size)
    printf(", too short: %s needed%s%s", quote_bytes(file->needed).s, file->is ? "; it " : "",
           file->is ? file->is : "");
  else if (unused > 0)
    printf(", %s in no tensor (%s of it padding)", quote_bytes(unused).s,
           quote_bytes(file->use.padding).s);
  putchar('\n');
  if (!file->unreadable) return;
  const struct hints_text remedy = hints_of(file->unreadable);
  printf(*remedy.s ? "%11s%s (%s)\n" : "%11s%s\n", "", file->unreadable->msg, remedy.s);
}

void render_inspect(struct inspect *in) {
  const struct model *m = in->m;
  const struct runtime_needs needs = runtime_needs_of(m, &in->arena);
  printf("%-10s %s\n", quote_bytes(in->files[0].size).s, quote_str(in->files[0].name).s);
  for (uint32_t f = 1; f < m->n_files && f <= FILES_SHOWN; f++)
    print_file(&in->files[f]);
  if (m->n_files > FILES_SHOWN + 1)
    printf("%-10s and %u more data files\n", "", m->n_files - FILES_SHOWN - 1);
  if (in->packed) printf("≈ %s compressed (gzip -9)\n", quote_bytes(in->packed).s);
  printf("\nIR version %s, opset", integer(m->ir_version).s);
  for (uint32_t i = 0; i < m->n_model_opsets; i++) {
    const struct model_opset *o = &m->opsets[i];
    const char *domain = domain_of(m, o->domain);
    const struct schema_release *r =
        strcmp(domain, "ai.onnx") == 0 ? schema_release_of(o->version) : NULL;
    printf("%s %s %s", i ? "," : "", quote_str(domain).s, integer(o->version).s);
    if (r) printf(" (ONNX %s, %d)", r->release, r->year);
  }
  if (m->n_model_opsets == 0) printf(": none");
  if (*in->producer_name)
    printf("; made by %s%s%s", quote_str(in->producer_name).s, *in->producer_version ? " " : "",
           quote_str(in->producer_version).s);
  printf("\n%s node%s", decimal(in->n_nodes).s, plural(in->n_nodes));
  if (in->n_subgraphs) printf(", %u subgraph%s", in->n_subgraphs, plural(in->n_subgraphs));
  if (in->n_functions) printf(", %u function%s", in->n_functions, plural(in->n_functions));
  if (in->n_training) printf(", %u training graph%s", in->n_training, plural(in->n_training));
  if (in->parameters) printf(", %s parameters", quote_count(in->parameters).s);
  putchar('\n');
  for (uint32_t i = 0; i < in->n_quantized; i++) {
    const struct inspect_quantized *q = &in->quantized[i];
    printf("quantized: %s weight%s (%s parameters), %s bits", decimal(q->weights).s,
           plural(q->weights), quote_count(q->parameters).s, decimal(q->bits).s);
    if (q->block) printf(" in blocks of %s", decimal(q->block).s);
    printf(", %s\n", q->op_type);
  }
  if (needs.words) printf("%s\n", needs.words);
  print_metadata(m);
  if (m->main_graph != NO_ID) {
    const struct model_graph *g = &m->graphs[m->main_graph];
    print_io(m, "Inputs", g->inputs, g->n_inputs);
    print_io(m, "Outputs", g->outputs, g->n_outputs);
  }
  if (in->n_ops > 0) printf("\nOperators\n");
  for (uint32_t i = 0; i < in->n_ops && i < OPS_SHOWN; i++) {
    const struct inspect_op *op = &in->ops[i];
    printf("%8s  %s", decimal(op->count).s, quote_str(model_name_str(m, op->op_type)).s);
    if (op->domain != m->empty) printf("  (%s)", quote_str(domain_of(m, op->domain)).s);
    putchar('\n');
  }
  if (in->n_ops > OPS_SHOWN)
    printf("          and %u more kind%s\n", in->n_ops - OPS_SHOWN, plural(in->n_ops - OPS_SHOWN));
  if (in->sums.all.tensors > 0) printf("\nTensors                       count       bytes\n");
  print_sum("all", in->sums.all);
  for (uint32_t t = 0; t < 256; t++)
    print_sum(dtype_name(t), in->sums.by_dtype[t]);
  print_sum("in data files", in->sums.external);
  print_sum("in the .onnx", in->sums.inlined);
  print_sum("in nodes of the .onnx", in->sums.in_nodes);
  print_sum("used by nothing", in->sums.unused);
  if (in->n_largest > 0) printf("\nLargest tensors\n");
  for (uint32_t i = 0; i < in->n_largest; i++) {
    const struct model_tensor *t = &m->tensors[in->largest[i]];
    char type[224];
    snprintf(type, sizeof type, "%s%s", dtype_name(t->dtype),
             quote_dims(model_dims(m, t), t->rank).s);
    printf("%10s  %-24s %s\n", quote_bytes(t->bytes).s, type,
           quote_str(inspect_tensor_name(in, in->largest[i])).s);
  }
  if (in->n_advice > 0) printf("\nPossible changes\n");
  for (uint32_t i = 0; i < in->n_advice; i++)
    printf("  %-12s %s\n", in->advice[i].command, in->advice[i].text);
  if (in->next.command)
    printf("\nNext, for about %s in all (%.1f %%)\n  %s\n", quote_bytes(in->next.bytes).s,
           100.0 * (double)in->next.bytes / (double)inspect_bytes(in), in->next.command);
  if (in->next.check)
    printf("and to measure its accuracy on samples in DIR\n  %s\n", in->next.check);
}

// ---- tensors ------------------------------------------------------------------------------------

void render_inspect_tensors(struct inspect *in) {
  const struct model *m = in->m;
  printf("name\tdtype\tdims\tbytes\tfile\toffset\tuses\n");
  for (uint32_t i = 0; i < m->n_tensors && report_stdout_alive(); i++) {
    const struct model_tensor *t = &m->tensors[i];
    if (t->flags & TENSOR_DEAD) continue;
    struct extent at = {0};
    bool placed = inspect_place(m, i, &at);
    printf("%s\t%s\t%s\t%s\t%s\t", quote_str(inspect_tensor_name(in, i)).s, dtype_name(t->dtype),
           quote_dims(model_dims(m, t), t->rank).s, decimal(t->bytes).s,
           quote_str(m->files[at.file].name).s);
    // A small inline tensor was read while loading; its place is not kept.
    if (placed)
      printf("%s", decimal(at.off).s);
    else
      putchar('-');
    printf("\t%u\n", inspect_uses(m, i));
  }
}
