// What an audit found, for people.
#include "render/results/render_audit.h"

#include "base/shell_words.h"
#include "cli/report.h"

#include <stdio.h>

enum { TENSORS_SHOWN = 6 };

void render_audit_found(const struct audit_found *f) {
  printf("%s bytes %s..%s: %s\n", quote_str(f->file).s, decimal(f->off).s,
         decimal(f->off + f->len).s, f->what);
  for (uint32_t i = 0; i < f->n_tensors && i < TENSORS_SHOWN; i++)
    printf("    tensor '%s'\n", quote_str(f->tensors[i]).s);
  if (f->n_tensors > TENSORS_SHOWN)
    printf("    and %u more tensor%s\n", f->n_tensors - TENSORS_SHOWN,
           plural(f->n_tensors - TENSORS_SHOWN));
  if (f->narrowed && f->n_tensors == 0 && f->n_whole > 0)
    printf("    the damage is outside the tensors (%u in this range %s intact)\n", f->n_whole,
           f->n_whole == 1 ? "is" : "are");
  else if (f->narrowed && f->n_whole > 0)
    printf("    (%u other tensor%s in this range: intact)\n", f->n_whole, plural(f->n_whole));
  else if (f->n_tensors == 0 && f->mapped)
    printf("    no tensor is stored in this range\n");
}

// ---- an audit ----------------------------------------------------------------------------------

static void print_left(const struct audit_left *l) {
  if (l->whole == 0 && l->units == 1) printf("    no other unit in this file\n");
  if (l->whole == 0 && l->units > 1)
    printf("    none of the file's %s units is intact\n", decimal(l->units).s);
  if (l->whole == 0) return;
  printf("    %s of the file's %s units %s intact:%s bytes %s..%s", decimal(l->whole).s,
         decimal(l->units).s, l->whole == 1 ? "is" : "are", l->whole == 1 ? "" : " the first at",
         decimal(l->first.off).s, decimal(l->first.off + l->first.len).s);
  if (l->whole > 1)
    printf(", the last at bytes %s..%s", decimal(l->last.off).s,
           decimal(l->last.off + l->last.len).s);
  printf("\n");
}

static void print_verdict(const struct audit *a) {
  const struct audit_target *t = &a->target;
  const struct audit_result *r = &a->result;
  const struct quoted model = quote_str(t->model);
  const uint32_t n = a->files.n_unlisted;
  for (uint32_t i = 0; i < n; i++)
    printf("not checked: %s\n", quote_str(a->files.unlisted[i]).s);
  if (a->lacks_digests)
    printf("%s: file is missing (the digests per tensor, which the manifest lists)\n",
           quote_str(manifest_names(t->name).tensors).s);
  if (a->n_found > 0)
    printf("%s: DAMAGED: %s of %s unit%s in %s file%s\n", model.s, decimal(r->damaged).s,
           decimal(r->shards).s, plural(r->shards), decimal(r->files).s, plural(r->files));
  else if (n > 0)
    printf("%s: NOT CHECKED: %u file%s that the model refers to %s not in the manifest\n", model.s,
           n, plural(n), n == 1 ? "is" : "are");
  else if (a->lacks_digests)
    printf("%s: INCOMPLETE: the model is intact, and a file that belongs to it is missing\n",
           model.s);
  else
    printf("%s: OK (%s file%s, %s match%s the manifest)\n", model.s, decimal(r->files).s,
           plural(r->files), quote_bytes(r->bytes).s, r->files == 1 ? "es" : "");
}

static void print_text(const struct audit *a) {
  const struct audit_target *t = &a->target;
  if (a->key)
    printf("%s: signed with the %s key %.16s...\n", quote_str(t->signature).s,
           sign_key_curve(a->key), sign_key_id(a->key));
  const struct audit_left *left = a->left; // in the same order
  for (size_t i = 0; i < a->n_found; i++) {
    const struct audit_found *f = &a->found[i];
    render_audit_found(f);
    if (i + 1 < a->n_found && strcmp(f->file, f[1].file) == 0) continue;
    if (!f->mapped) print_left(left);
    left++;
  }
  print_verdict(a);
}

// How to have the files again, and how the next audit would say more.
static void hint_repair(struct audit *a, const char *operand) {
  struct span source;
  bool several = false;
  for (size_t i = 0; i < a->n_found; i++)
    several = several || (!a->found[i].narrowed && a->found[i].n_tensors > 1);
  if (a->n_found == 0) return;
  if (json_as_string(json_get(json_get(a->m.x_weir, "source"), "name"), &source))
    report_hint("to make the damaged files again: weir rebuild %s --source %s --write again",
                shell_words_quote(operand, &a->arena),
                shell_words_quote(quote(source).s, &a->arena));
  if (several && !a->m.lists_tensors)
    report_hint(
        "for a model written with --tensor-digests, 'weir audit' names only the damaged tensors");
}

void render_audit(struct audit *a, const char *operand) {
  print_text(a);
  hint_repair(a, operand);
}
