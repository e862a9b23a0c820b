// weir conv2matmul: the pass of that name as a command, with the options, report and closing line that
// users of onnx-conv2matmul script against.
#include "commands.h"
#include "job.h"
#include "pass.h"
#include "report.h"

struct site_row {
  struct pass_site site;
  const char *name; // as reported
};

struct conversion {
  bool strict_compat;
  uint64_t converted, skipped;
  struct arena arena;
  struct site_row *sites;
  uint32_t n_sites;
  size_t sites_cap;
};

static void note_site(void *ctx, const struct pass_site *site) {
  struct conversion *c = ctx;
  c->sites = table_grow(c->sites, &c->sites_cap, (size_t)c->n_sites + 1, sizeof *c->sites);
  struct site_row *row = &c->sites[c->n_sites++];
  const bool converted = strcmp(site->status, "converted") == 0;
  c->converted += converted;
  c->skipped += !converted;
  row->site = *site;
  row->name = site->node_name.n ? arena_string(&c->arena, site->node_name)
                                : arena_printf(&c->arena, "%s@%u", site->op_type, site->index);
}

static void write_site(const struct conversion *c, const struct site_row *row, struct json_out *j) {
  json_object(j);
  if (!c->strict_compat) {
    json_key(j, "graph");
    json_uint(j, row->site.graph);
  }
  json_key(j, "node_index");
  json_uint(j, row->site.index);
  json_key(j, "node_name");
  json_text(j, row->name);
  json_key(j, "op_type");
  json_text(j, row->site.op_type);
  json_key(j, "reason");
  json_text(j, row->site.reason);
  json_key(j, "status");
  json_text(j, row->site.status);
  json_key(j, "used_extended_mode");
  json_bool(j, row->site.flag);
  json_end_object(j);
}

static void write_report(struct job *job, struct json_out *j) {
  const struct conversion *c = job->ctx;
  json_key(j, "converted");
  json_uint(j, c->converted);
  json_key(j, "nodes");
  json_array(j);
  for (uint32_t i = 0; i < c->n_sites; i++)
    write_site(c, &c->sites[i], j);
  json_end_array(j);
  json_key(j, "skipped");
  json_uint(j, c->skipped);
}

// Reasons of the Convs left alone, each with how many and the first by name. Reason words are
// constants of the pass, a dozen or so.
static void print_skipped(const struct conversion *c) {
  enum { REASONS = 32 };
  const struct site_row *first[REASONS];
  uint32_t count[REASONS], n = 0;
  for (uint32_t i = 0; i < c->n_sites; i++) {
    const struct site_row *row = &c->sites[i];
    uint32_t k = 0;
    if (strcmp(row->site.status, "skipped") != 0) continue;
    while (k < n && strcmp(first[k]->site.reason, row->site.reason) != 0)
      k++;
    if (k == REASONS) continue;
    if (k == n) {
      first[n] = row;
      count[n++] = 0;
    }
    count[k]++;
  }
  for (uint32_t k = 0; k < n; k++)
    printf("left alone: %u x %s (such as %s)\n", count[k], first[k]->site.reason,
           quote_str(first[k]->name).s);
}

static void print_result(struct job *job) {
  const struct conversion *c = job->ctx;
  if (!cli_flag(job->args, OPT_QUIET)) print_skipped(c);
  printf("converted=%llu skipped=%llu output=%s\n", (unsigned long long)c->converted,
         (unsigned long long)c->skipped, job->out_path);
}

static int run_pass(struct job *job, struct conversion *c, const struct pass_value *values,
                    struct err *err) {
  struct arena scratch = {0};
  struct pass_env env = {.m = &job->model,
                         .edits = &job->edits,
                         .scratch = &scratch,
                         .site = note_site,
                         .site_ctx = c};
  int rc = run_conv2matmul(&env, values, err);
  arena_free(&scratch);
  return rc;
}

int cmd_conv2matmul(const struct cli_args *args, struct err *err) {
  struct conversion c = {.strict_compat = cli_flag(args, OPT_STRICT_COMPAT)};
  struct pass_value values[PASS_OPTIONS];
  struct job job;
  int rc;
  if (job_finish_seal(args, &rc, err)) return rc;
  if (job_open(&job, args, err)) return -1;
  job.report = write_report;
  job.plain_report = c.strict_compat;
  job.print = print_result;
  job.ctx = &c;
  rc = cli_pass_values(args, PASS_conv2matmul, values, &job.arena, err);
  const char *options = rc ? NULL : pass_values_json(PASS_conv2matmul, values, &job.arena);
  if (rc == 0) rc = job_begin_edits(&job, "conv2matmul", options, err);
  if (rc == 0) rc = run_pass(&job, &c, values, err);
  if (rc == 0) rc = job_finish(&job, err);
  job_close(&job);
  table_free(c.sites, c.sites_cap, sizeof *c.sites);
  arena_free(&c.arena);
  return rc;
}
