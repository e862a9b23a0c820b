// The verdict of a rebuild.
#include "render/results/render_rebuild.h"

#include "cli/report.h"
#include "render/results/render_audit.h"

#include <stdio.h>

static void print_beside(const struct rebuild *r, bool quiet) {
  if (rebuild_is_damaged(r)) {
    printf("%s: DAMAGED: %s of %s unit%s of the files next to the manifest %s not match it\n",
           quote_str(r->target.model).s, decimal(r->audited.damaged).s,
           decimal(r->audited.shards).s, plural(r->audited.shards),
           r->audited.damaged == 1 ? "does" : "do");
    report_hint(r->write_to ? "'weir audit' lists the damage"
                            : "--write DIR makes them again; 'weir audit' lists the damage");
  } else if (!quiet) {
    printf(r->beside ? "    the files next to the manifest have the same bytes\n"
                     : "    the files are not next to the manifest and were not checked\n");
  }
}

void render_rebuild(const struct rebuild *r, bool quiet) {
  const struct audit_target *t = &r->target;
  if (r->key && !quiet)
    printf("%s: signed with the %s key %.16s...\n", quote_str(t->signature).s,
           sign_key_curve(r->key), sign_key_id(r->key));
  for (size_t i = 0; i < r->n_found; i++)
    render_audit_found(&r->found[i]);
  for (size_t i = 0; i < r->n_reasons; i++)
    printf("    note: %s\n", r->reasons[i]);
  if (r->n_found > 0 && r->different > 0)
    printf("%s: DIFFERENT: %s of %s unit%s\n", quote_str(t->model).s, decimal(r->different).s,
           decimal(r->units).s, plural(r->units));
  else if (r->n_found > 0)
    printf("%s: DIFFERENT: the run would write other files; nothing was written\n",
           quote_str(t->model).s);
  else
    printf("%s: SAME: %u file%s (%s) made again from %s, every byte as in the manifest\n",
           quote_str(t->model).s, r->m.n_files, plural(r->m.n_files), quote_bytes(r->bytes).s,
           quote_path(r->source).s);
  if (r->n_found == 0) print_beside(r, quiet);
  if (r->artifacts && !quiet)
    printf("    %u of %u artifact%s taken from %s%s\n", r->taken, r->answers, plural(r->answers),
           quote_path(r->artifacts).s, r->taken < r->answers ? ", the others were made again" : "");
  if (r->again.n_files > 0 && !quiet)
    printf("    %u file%s of ranges measured again, with the recorded result\n", r->again.n_files,
           plural(r->again.n_files));
  if (r->write_to && r->n_found == 0 && !quiet) printf("wrote %s\n", quote_path(r->write_to).s);
}
