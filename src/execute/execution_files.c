// The files that a run writes next to its outputs: the edit log, the plan, the reports.
//
// How one is written: record_file.c. Their paths are the user's, and a slip of the shell's completion may name a model's own files:
// those are looked for before anything is opened for writing, the input's by inode, the output's by
// name. Neither may two of them have one name, temporary names included.
#include "execute/execution.h"

#include "platform/machine.h"
#include "side_inputs/side_inputs.h"
#include "stream/sys/fs.h"

#include <errno.h>
#include <string.h>

// ---- names -------------------------------------------------------------------------------------

// Is it the name of the .onnx, or of a file next to it whose name is made from that one?
static bool is_beside(const struct execution *exec, const char *base) {
  const struct manifest_names beside = manifest_names(exec->out.onnx_name);
  return strcmp(base, exec->out.onnx_name) == 0 || strcmp(base, beside.manifest) == 0 ||
         strcmp(base, beside.tensors) == 0;
}

static bool is_ours(const struct execution *exec, const char *base) {
  if (is_beside(exec, base)) return true;
  if (exec->layout.data_name && strcmp(base, exec->layout.data_name) == 0) return true;
  for (uint32_t i = 0; exec->planned && i < exec->plan.n_outputs; i++)
    if (strcmp(base, exec->plan.outputs[i].name) == 0) return true;
  return false;
}

static bool stat_folder(const char *path, struct entry_facts *st) {
  struct arena scratch = {0};
  const char *folder = arena_folder(&scratch, path);
  // With a slash after it: a file is no folder then.
  const bool there = entry_look(HERE, arena_printf(&scratch, "%s/", folder), 0, st) == 0;
  arena_free(&scratch);
  return there;
}

static bool is_same(const struct entry_facts *a, const struct entry_facts *b) {
  return entry_is_same(a, b);
}

bool execution_writes(const struct execution *exec, struct folder folder, const char *name) {
  struct entry_facts st, dest;
  return is_ours(exec, name) && folder_look(folder, &st) == 0 &&
         folder_look(exec->out.dest, &dest) == 0 && is_same(&st, &dest);
}

bool execution_reads(const struct execution *exec, const struct entry_facts *st) {
  const char *const beside[] = {exec->request->edits, exec->request->config};
  if (sources_find_inode(exec->sources, st->volume, st->number) != NO_ID) return true;
  for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++)
    if (beside[i] && !path_is_stream(beside[i]) && st->kind == ENTRY_FILE &&
        fs_is_at(st, beside[i]))
      return true;
  return exec->request->given && side_inputs_has(exec->request->given, st);
}

// A path that a record is written under, in the end or on the way.
struct record {
  const char *option, *path;
};

enum { RECORDS_MAX = 12 };

static uint32_t list_records(struct execution *exec, struct record out[RECORDS_MAX]) {
  const struct request_records *r = &exec->request->records;
  const struct {
    const char *option, *path, *tail;
  } rows[] = {
      {"edit-log", r->edit_log, ""},       {"plan-out", r->plan, ""},
      {"plan-out", r->plan, ".bin"},       {"report-json", r->report_json, ""},
      {"report-html", r->report_html, ""}, {"provenance", r->provenance, ""},
  };
  uint32_t n = 0;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (!rows[i].path || path_is_stream(rows[i].path)) continue;
    const char *path = arena_printf(&exec->arena, "%s%s", rows[i].path, rows[i].tail);
    out[n++] = (struct record){rows[i].option, path};
    if (record_file_is_plain(path))
      out[n++] = (struct record){rows[i].option, arena_printf(&exec->arena, "%s.part", path)};
  }
  return n;
}

static int check_record(const struct execution *exec, const struct record *r, struct err *err) {
  struct entry_facts st, dest;
  const char *whose = NULL;
  if (entry_look(HERE, r->path, 0, &st) == 0 && execution_reads(exec, &st))
    whose = "input";
  else if (!exec->out.folder_is_above && is_ours(exec, path_base(r->path)) &&
           stat_folder(r->path, &st) && folder_look(exec->out.dest, &dest) == 0 &&
           is_same(&st, &dest))
    whose = "output";
  if (!whose) return 0;
  return record_file_refuse(r->option, r->path, whose, err);
}

// Would one replace the other? A device or a pipe takes both.
static bool collide(const struct record *a, const struct record *b) {
  struct entry_facts x, y;
  if (a->option == b->option || !record_file_is_plain(a->path)) return false;
  return strcmp(path_base(a->path), path_base(b->path)) == 0 && stat_folder(a->path, &x) &&
         stat_folder(b->path, &y) && is_same(&x, &y);
}

int execution_check_files(struct execution *exec, struct err *err) {
  struct record records[RECORDS_MAX];
  const uint32_t n = list_records(exec, records);
  for (uint32_t i = 0; i < n; i++) {
    if (check_record(exec, &records[i], err)) return -1;
    for (uint32_t k = 0; k < i; k++) {
      if (!collide(&records[k], &records[i])) continue;
      err_set(err, ERR_USAGE, "--%s and --%s would both write '%s'", records[k].option,
              records[i].option, quote_str(records[i].path).s);
      return err_hint(err, "give one of them another name");
    }
  }
  return 0;
}

// A data file with the name of another output would be overwritten by it.
int execution_check_data_file(const struct execution *exec, struct err *err) {
  const char *name = exec->layout.data_name;
  bool bad = name && (!*name || strchr(name, '/') || is_beside(exec, name));
  for (uint32_t i = 0; exec->planned && i + 1 < exec->plan.n_outputs && !bad; i++) {
    name = exec->plan.outputs[i].name;
    bad = is_beside(exec, name);
  }
  if (!bad) return 0;
  err_set(err, ERR_USAGE, "the data file of '%s' cannot be named '%s'",
          quote_str(exec->out.onnx_name).s, quote_str(name).s);
  return err_hint(err, "the model, its manifest or its digests have that name; choose another one");
}

struct file execution_unnamed_file(void *ctx) {
  (void)ctx;
  return file_make_nameless(HERE, machine_temporary_folder(), 0);
}
