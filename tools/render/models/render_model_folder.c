// Folders of models, for people and in JSON.
#include "render/models/render_model_folder.h"

#include "cli/report.h"

#include <stdio.h>

enum { PARTS_SHOWN = 3, OTHERS_SHOWN = 20 };

// ---- printing -----------------------------------------------------------------------------------

static void print_part(const struct folder_model *m, const struct folder_part *p) {
  const size_t folder = (size_t)(path_base(m->path) - m->path);
  printf(" + %s (%s%s)", quote_str(p->path + folder).s,
         p->missing      ? "missing"
         : p->unreadable ? "unreadable"
                         : quote_bytes(p->bytes).s,
         p->shared ? ", shared" : "");
}

static void print_model(const struct model_folder *b, const struct folder_model *m) {
  printf("%-10s %s", quote_bytes(m->bytes).s, quote_str(m->path).s);
  if (m->n > 1) printf(" (%s)", quote_bytes(b->parts[m->first].bytes).s);
  for (uint32_t i = 1; i < m->n && i <= PARTS_SHOWN; i++)
    print_part(m, &b->parts[m->first + i]);
  if (m->n > PARTS_SHOWN + 1) printf(" + %u more data files", m->n - PARTS_SHOWN - 1);
  if (b->checked)
    printf(": %s error%s, %s warning%s, %s note%s", decimal(m->errors).s, plural(m->errors),
           decimal(m->warnings).s, plural(m->warnings), decimal(m->notes).s, plural(m->notes));
  putchar('\n');
}

static void print_sum(const struct model_folder *b) {
  printf("%-10s in all: %s model%s in %u file%s", quote_bytes(b->bytes).s, decimal(b->n_read).s,
         plural(b->n_read), b->n_distinct, plural(b->n_distinct));
  if (b->n_shared)
    printf("; %u file%s of several models, counted once", b->n_shared, plural(b->n_shared));
  putchar('\n');
}

static void print_skipped(const struct model_folder *b) {
  bool any = false;
  for (uint32_t i = 0; i < b->n_models && report_stdout_alive(); i++) {
    const struct folder_model *m = &b->models[i];
    if (!m->why || b->checked) continue;
    if (!any) printf("\nSkipped: not readable as a model\n");
    any = true;
    printf("  %s: %s\n", quote_str(m->path).s, m->why);
  }
}

// Of weir, or of nobody known.
static void print_others(const struct model_folder *b, bool own, const char *title) {
  uint32_t n = 0;
  uint64_t rest = 0;
  for (uint32_t i = 0; i < b->n_files; i++) {
    const struct folder_file *f = &b->files[i];
    if (f->used || (f->kind != NULL) != own) continue;
    if (n == 0) printf("\n%s\n", title);
    if (n++ >= OTHERS_SHOWN)
      rest += f->bytes;
    else if (own)
      printf("%-10s %s (%s)\n", quote_bytes(f->bytes).s, quote_str(f->path).s, f->kind);
    else
      printf("%-10s %s\n", quote_bytes(f->bytes).s, quote_str(f->path).s);
  }
  if (n > OTHERS_SHOWN) printf("%-10s in %u more\n", quote_bytes(rest).s, n - OTHERS_SHOWN);
}

void render_model_folder(const struct model_folder *b) {
  for (uint32_t i = 0; i < b->n_models && report_stdout_alive(); i++)
    if (!b->models[i].why || b->checked) print_model(b, &b->models[i]);
  print_sum(b);
  print_skipped(b);
  print_others(b, true, "Files of weir next to them");
  print_others(b, false, "Files that no model refers to");
}

// ---- JSON ---------------------------------------------------------------------------------------

static void write_part(const struct folder_part *p, struct json_out *j) {
  json_object(j);
  json_put_text(j, "path", p->path);
  json_put_uint(j, "bytes", p->bytes);
  if (p->missing) json_put_bool(j, "missing", true);
  if (p->unreadable) json_put_text(j, "unreadable", p->unreadable);
  json_put_bool(j, "shared", p->shared);
  json_end_object(j);
  json_flush(j);
}

static void write_model(const struct model_folder *b, const struct folder_model *m,
                        struct json_out *j) {
  json_object(j);
  json_put_text(j, "path", m->path);
  json_put_uint(j, "bytes", m->bytes);
  json_put_array(j, "files");
  for (uint32_t i = 0; i < m->n; i++)
    write_part(&b->parts[m->first + i], j);
  json_end_array(j);
  if (b->checked) {
    json_put_uint(j, "errors", m->errors);
    json_put_uint(j, "warnings", m->warnings);
    json_put_uint(j, "notes", m->notes);
  }
  json_end_object(j);
}

static void write_others(const struct model_folder *b, bool own, const char *key,
                         struct json_out *j) {
  json_put_array(j, key);
  for (uint32_t i = 0; i < b->n_files; i++) {
    const struct folder_file *f = &b->files[i];
    if (f->used || (f->kind != NULL) != own) continue;
    json_object(j);
    json_put_text(j, "path", f->path);
    json_put_uint(j, "bytes", f->bytes);
    if (own) json_put_text(j, "kind", f->kind);
    json_end_object(j);
    json_flush(j);
  }
  json_end_array(j);
}

void render_model_folder_json(const struct model_folder *b, struct json_out *j) {
  json_put_object(j, "folder");
  json_put_array(j, "models");
  for (uint32_t i = 0; i < b->n_models; i++)
    if (!b->models[i].why) write_model(b, &b->models[i], j);
  json_end_array(j);
  json_put_array(j, "skipped");
  for (uint32_t i = 0; i < b->n_models; i++) {
    if (!b->models[i].why) continue;
    json_object(j);
    json_put_text(j, "path", b->models[i].path);
    json_put_text(j, "why", b->models[i].why);
    json_end_object(j);
    json_flush(j);
  }
  json_end_array(j);
  write_others(b, true, "records", j);
  write_others(b, false, "unreferenced", j);
  json_put_uint(j, "files", b->n_distinct);
  json_put_uint(j, "bytes", b->bytes);
  json_end_object(j);
}
