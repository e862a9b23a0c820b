// What the passes did to the graph, and what they left alone and why.
//
// Nodes that were kept are grouped by step, reason and operator; a group shows its first names, and the table at the end
// has every node that a pass looked at. Sites are pointed at, never copied: there may be a million.
#include "base/table.h"
#include "render/html/html_chart.h"
#include "render/html/html_parts.h"
#include "render/html/html_table.h"
#include "render/runs/render_passes.h"
#include "report/verified.h"

#include <stdlib.h>

enum { OPS_SHOWN = 40, NAMES_SHOWN = 50, GROUPS_SHOWN = 200 };

// ---- steps and operators -----------------------------------------------------------------------

static void put_count(struct html_out *o, uint64_t n) {
  html_put(o, "<td class=\"number\">%s</td>", html_whole(n).s);
}

static void put_step(struct html_out *o, const struct run_step *s) {
  html_put(o, "<tr><td><code>%s</code><small>", s->pass->name);
  html_arrows(o, s->pass->summary);
  html_raw(o, "</small></td>");
  put_count(o, s->converted);
  put_count(o, s->skipped);
  put_count(o, s->held_back);
  html_put(o, "<td><details><summary>options</summary><code>%s</code></details></td></tr>\n",
           s->options);
}

static void put_steps(struct html_out *o, const struct run_passes *p) {
  uint32_t idle = 0;
  html_raw(o, "<h3>Steps</h3>\n<div class=\"scroll\"><table>\n<caption>Passes that changed "
              "something, in the order in which they ran</caption>\n<thead><tr><th "
              "scope=\"col\">Pass</th><th scope=\"col\" class=\"number\">Changed</th><th "
              "scope=\"col\" class=\"number\">Left unchanged</th><th scope=\"col\" "
              "class=\"number\">Held back</th><th scope=\"col\">How</th></tr></thead>\n<tbody>\n");
  for (uint32_t i = 0; i < p->n_steps; i++) {
    if (p->n_steps > 1 && p->steps[i].converted == 0)
      idle++;
    else
      put_step(o, &p->steps[i]);
  }
  html_raw(o, "</tbody></table></div>\n");
  if (idle)
    html_put(o, "<p class=\"note\">%u further pass%s changed nothing.</p>\n", idle,
             idle == 1 ? "" : "es");
}

static void put_op(struct html_out *o, const struct census_op *op, uint64_t most) {
  html_put(o, "<tr><th scope=\"row\"><bdi>%s</bdi></th>", op->name);
  put_count(o, op->before);
  put_count(o, op->after);
  html_put(o, "<td class=\"number\">%s%s</td><td class=\"wide\">",
           op->after > op->before   ? "+"
           : op->after < op->before ? "\xe2\x88\x92"
                                    : "",
           html_whole(max_u64(op->before, op->after) - min_u64(op->before, op->after)).s);
  html_before_after(o, (double)op->before / (double)most, (double)op->after / (double)most);
  html_raw(o, "</td></tr>\n");
}

static void put_ops_head(struct html_out *o, const char *caption) {
  html_put(o,
           "<div class=\"scroll\"><table class=\"ops\">\n<caption>%s</caption>\n<thead><tr><th "
           "scope=\"col\">Operator</th><th scope=\"col\" class=\"number\">Before</th><th "
           "scope=\"col\" class=\"number\">After</th><th scope=\"col\" "
           "class=\"number\">Change</th><th scope=\"col\"><span class=\"key before\">before</span> "
           "<span class=\"key after\">after</span></th></tr></thead>\n<tbody>\n",
           caption);
}

// Rows come with the largest changes first, and those without any behind them.
static void put_ops(struct html_out *o, const struct census *c) {
  uint64_t most = 1;
  uint32_t changed = 0;
  for (uint32_t i = 0; i < c->n_ops; i++) {
    most = max_u64(most, max_u64(c->ops[i].before, c->ops[i].after));
    changed += c->ops[i].before != c->ops[i].after;
  }
  html_raw(o, "<h3>Operators</h3>\n");
  if (changed == 0)
    html_raw(o, "<p>The number of nodes of each operator is the same as before.</p>\n");
  const uint32_t shown = changed < OPS_SHOWN ? changed : OPS_SHOWN;
  if (shown) put_ops_head(o, "Operators whose number of nodes changed");
  for (uint32_t i = 0; i < shown; i++)
    put_op(o, &c->ops[i], most);
  if (shown) html_raw(o, "</tbody></table></div>\n");
  if (shown < changed) html_put(o, "<p class=\"note\">And %u more.</p>\n", changed - shown);
  const uint32_t same = c->n_ops - changed, all = same < OPS_SHOWN ? same : OPS_SHOWN;
  if (same == 0) return;
  html_put(o, "<details><summary>%u operator%s the same number of nodes</summary>\n", same,
           same == 1 ? " has" : "s have");
  put_ops_head(o, "Operators whose number of nodes did not change");
  for (uint32_t i = 0; i < all; i++)
    put_op(o, &c->ops[changed + i], most);
  html_raw(o, "</tbody></table></div>\n");
  if (all < same) html_put(o, "<p class=\"note\">And %u more.</p>\n", same - all);
  html_raw(o, "</details>\n");
}

void html_changes(struct html_out *o, const struct run_report *r) {
  if (!r->passes && r->census.n_ops == 0) return;
  html_raw(o, "<section id=\"changes\"><h2>What changed</h2>\n");
  if (r->passes && r->passes->n_steps) put_steps(o, r->passes);
  if (r->census.n_ops) put_ops(o, &r->census);
  html_raw(o, "</section>\n");
}

// ---- dtypes ------------------------------------------------------------------------------------

enum { COLOURS = 8 };

static int by_bytes(const void *a, const void *b) {
  const struct census_type *x = *(const struct census_type *const *)a,
                           *y = *(const struct census_type *const *)b;
  const uint64_t p = max_u64(x->bytes[0], x->bytes[1]), q = max_u64(y->bytes[0], y->bytes[1]);
  return p > q ? -1 : p < q ? 1 : x < y ? -1 : x > y;
}

static void put_stack(struct html_out *o, const struct census *c, const struct census_type **rows,
                      uint32_t n, enum census_when when, uint64_t most) {
  struct html_share shares[CENSUS_TYPES];
  uint64_t all = 0;
  for (uint32_t i = 0; i < n; i++) {
    all += rows[i]->bytes[when];
    shares[i] = (struct html_share){.colour = i < COLOURS ? i : COLOURS - 1,
                                    .share = (double)rows[i]->bytes[when] / (double)most,
                                    .name = dtype_name((enum dtype)(rows[i] - c->types))};
  }
  const char *word = when == CENSUS_BEFORE ? "Before" : "After";
  html_put(o, "<p class=\"stacked\"><span>%s, %s</span></p>", word, quote_bytes(all).s);
  html_stack(o, word, shares, n);
}

void html_types(struct html_out *o, const struct run_report *r) {
  const struct census *c = &r->census;
  const struct census_type *rows[CENSUS_TYPES];
  uint64_t sums[2] = {0};
  uint32_t n = 0;
  for (uint32_t i = 0; i < CENSUS_TYPES; i++) {
    if (c->types[i].tensors[0] + c->types[i].tensors[1] == 0) continue;
    rows[n++] = &c->types[i];
    sums[0] += c->types[i].bytes[0];
    sums[1] += c->types[i].bytes[1];
  }
  const uint64_t most = max_u64(sums[0], sums[1]);
  if (most == 0) return;
  qsort(rows, n, sizeof *rows, by_bytes);
  html_raw(
      o, "<section id=\"types\"><h2>Size by dtype</h2>\n<p>Bytes of all constants in the model, "
         "inline or in data files. 4-bit codes are often stored as uint8, two in each byte.</p>\n");
  put_stack(o, c, rows, n, CENSUS_BEFORE, most);
  put_stack(o, c, rows, n, CENSUS_AFTER, most);
  html_raw(o,
           "<div class=\"scroll\"><table>\n<caption>Constants by dtype</caption>\n<thead><tr><th "
           "scope=\"col\">Dtype</th><th scope=\"col\" class=\"number\">Before</th><th "
           "scope=\"col\" class=\"number\">After</th><th scope=\"col\" class=\"number\">Tensors "
           "before</th><th scope=\"col\" class=\"number\">after</th></tr></thead>\n<tbody>\n");
  for (uint32_t i = 0; i < n; i++) {
    html_put(o,
             "<tr><th scope=\"row\"><svg class=\"swatch\" viewBox=\"0 0 10 10\" "
             "aria-hidden=\"true\"><rect class=\"c%u\" width=\"10\" height=\"10\" rx=\"2\"/></svg> "
             "%s</th>",
             i < COLOURS ? i : COLOURS - 1, dtype_name((enum dtype)(rows[i] - c->types)));
    html_put(o, "<td class=\"number\">%s</td>", quote_bytes(rows[i]->bytes[0]).s);
    html_put(o, "<td class=\"number\">%s</td>", quote_bytes(rows[i]->bytes[1]).s);
    put_count(o, rows[i]->tensors[0]);
    put_count(o, rows[i]->tensors[1]);
    html_raw(o, "</tr>\n");
  }
  html_raw(o, "</tbody></table></div></section>\n");
}

// ---- what was kept -----------------------------------------------------------------------------

static int by_reason(const void *a, const void *b, const void *ctx) {
  const struct run_passes *p = ctx;
  const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
  const struct run_site *x = &p->sites[i], *y = &p->sites[k];
  if (x->step != y->step) return x->step < y->step ? -1 : 1;
  const int reasons = strcmp(x->reason, y->reason);
  if (reasons) return reasons;
  const int ops = strcmp(x->op_type, y->op_type);
  return ops ? ops : i < k ? -1 : i > k;
}

static bool is_together(const struct run_site *x, const struct run_site *y) {
  return x->step == y->step && strcmp(x->reason, y->reason) == 0 &&
         strcmp(x->op_type, y->op_type) == 0;
}

static void put_group(struct html_out *o, const struct run_passes *p, const uint32_t *at,
                      uint32_t n, struct arena *a) {
  const struct run_site *first = &p->sites[at[0]];
  const bool infers = render_passes_infers(p, first->step);
  html_put(o, "<details><summary><b>%u %s</b> ", n, first->op_type);
  html_put(o, infers ? "without a known shape: %s " : "%s ",
           render_passes_reason(first->reason, a));
  html_put(o, "<small>%s</small></summary>\n<ul class=\"names\">",
           p->steps[first->step].pass->name);
  for (uint32_t i = 0; i < n && i < NAMES_SHOWN; i++) {
    const struct run_site *s = &p->sites[at[i]];
    html_put(o, "<li><bdi>%s</bdi>", s->name);
    if (s->layer != s->name && strcmp(s->layer, s->name) != 0)
      html_put(o, " <small>used by <bdi>%s</bdi></small>", s->layer);
    html_raw(o, "</li>\n");
  }
  html_raw(o, "</ul>\n");
  if (n > NAMES_SHOWN)
    html_put(o, "<p class=\"note\">And %u more: see the table of all nodes below.</p>\n",
             n - NAMES_SHOWN);
  html_raw(o, "</details>\n");
}

void html_kept(struct html_out *o, const struct run_report *r) {
  const struct run_passes *p = r->passes;
  if (!p) return;
  struct arena a = {0};
  uint32_t n = 0, groups = 0, more = 0;
  uint32_t *at = arena_alloc(&a, p->n_sites * sizeof *at + 1);
  for (uint32_t i = 0; i < p->n_sites; i++)
    if (render_passes_keeps(p, &p->sites[i], &a)) at[n++] = i;
  if (n) {
    table_sort(at, n, sizeof *at, by_reason, p);
    html_raw(o, "<section id=\"kept\"><h2>Left unchanged, and why</h2>\n");
  }
  for (uint32_t i = 0, first; i < n;) {
    for (first = i; i < n && is_together(&p->sites[at[first]], &p->sites[at[i]]);)
      i++;
    if (groups++ < GROUPS_SHOWN)
      put_group(o, p, at + first, i - first, &a);
    else
      more++;
  }
  if (more)
    html_put(o, "<p class=\"note\">And %u more group%s: see the table of all nodes below.</p>\n",
             more, plural(more));
  if (n) html_raw(o, "</section>\n");
  arena_free(&a);
}

// ---- every site --------------------------------------------------------------------------------

enum { S_NAME, S_OP, S_PASS, S_STATUS, S_WHY, S_TENSOR, S_COLUMNS };

static const struct html_column site_columns[S_COLUMNS] = {
    [S_NAME] = {"Node", HTML_NAME, NULL}, [S_OP] = {"Operator", HTML_NAME, NULL},
    [S_PASS] = {"Pass", HTML_WORD, NULL}, [S_STATUS] = {"Result", HTML_WORD, NULL},
    [S_WHY] = {"Why", HTML_WORD, NULL},   [S_TENSOR] = {"Tensor", HTML_NAME, NULL},
};

// Passes that were asked for by name come first, then the others, those that looked at fewest nodes first: what a
// clean-up takes by the hundred is what nobody looks for.
struct turn {
  bool of_set; // the pass came with a name for several
  uint32_t looked_at, step, site;
};

static int by_turn(const void *pa, const void *pb) {
  const struct turn *a = pa, *b = pb;
  if (a->of_set != b->of_set) return a->of_set ? 1 : -1;
  if (a->of_set && a->looked_at != b->looked_at) return a->looked_at < b->looked_at ? -1 : 1;
  if (a->step != b->step) return a->step < b->step ? -1 : 1;
  return a->site < b->site ? -1 : a->site > b->site;
}

// Sites that no later round looked at again; *n: how many.
static const uint32_t *in_turn(const struct run_passes *p, uint32_t *n, struct arena *a) {
  uint32_t *looked_at = arena_zalloc(a, p->n_steps * sizeof *looked_at + 1);
  struct turn *turns = arena_alloc(a, p->n_sites * sizeof *turns + 1);
  uint32_t *at = arena_alloc(a, p->n_sites * sizeof *at + 1);
  *n = 0;
  for (uint32_t i = 0; i < p->n_sites; i++)
    looked_at[p->sites[i].step] += !p->sites[i].gone;
  for (uint32_t i = 0; i < p->n_sites; i++) {
    const uint32_t step = p->sites[i].step;
    if (!p->sites[i].gone)
      turns[(*n)++] = (struct turn){p->steps[step].named != 1, looked_at[step], step, i};
  }
  qsort(turns, *n, sizeof *turns, by_turn);
  for (uint32_t i = 0; i < *n; i++)
    at[i] = turns[i].site;
  return at;
}

struct sites {
  const struct run_passes *p;
  const uint32_t *at;
  struct arena *words; // two: of this row and the one before
};

static struct span why_of(const struct run_site *s, struct arena *a) {
  arena_reset(a);
  const char *words = render_passes_reason(s->reason, a);
  return span_str(words ? words : s->reason);
}

static void put_site(const void *ctx, uint32_t i, struct html_cell *cells) {
  const struct sites *sites = ctx;
  const struct run_site *s = &sites->p->sites[sites->at[i]];
  cells[S_NAME].text = span_str(s->name);
  cells[S_OP].text = span_str(s->op_type);
  cells[S_PASS].text = span_str(sites->p->steps[s->step].pass->name);
  cells[S_STATUS].text = span_str(s->status);
  if (!run_site_converted(s)) cells[S_WHY].text = why_of(s, &sites->words[i % 2]);
  cells[S_TENSOR].text = s->tensor;
}

void html_sites(struct html_out *o, const struct run_report *r) {
  const struct run_passes *p = r->passes;
  if (!p || p->n_sites == 0) return;
  struct arena a = {0};
  uint32_t n;
  struct arena words[2] = {{0}};
  const struct sites sites = {p, in_turn(p, &n, &a), words};
  html_raw(o, "<section id=\"nodes\"><h2>All nodes that the passes examined</h2>\n");
  html_table(o, &(struct html_table){.id = "sites",
                                     .caption = "Nodes and weights that the passes examined",
                                     .columns = site_columns,
                                     .n_columns = S_COLUMNS,
                                     .n_rows = n,
                                     .sorted_by = NO_ID,
                                     .row = put_site,
                                     .ctx = &sites});
  html_raw(o, "</section>\n");
  arena_free(&words[0]);
  arena_free(&words[1]);
  arena_free(&a);
}
