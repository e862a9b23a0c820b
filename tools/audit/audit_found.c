// Damaged or different ranges, for people and for scripts.
#include "audit_found.h"

#include "cli.h"

#include <stdio.h>

enum { TENSORS_SHOWN = 6 };

void audit_found_print(const struct audit_found *f) {
  printf("%s bytes %lu..%lu: %s\n", quote_str(f->file).s, f->off, (f->off + f->len), f->what);
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

void audit_found_write(const struct audit_found *f, struct json_out *j) {
  json_object(j);
  json_put_text(j, "file", f->file);
  json_put_uint(j, "offset", f->off);
  json_put_uint(j, "length", f->len);
  json_put_text(j, "what", f->what);
  json_key(j, "tensors");
  if (f->mapped) {
    json_array(j);
    for (uint32_t k = 0; k < f->n_tensors; k++)
      json_text(j, f->tensors[k]);
    json_end_array(j);
  } else {
    json_null(j);
  }
  json_put_bool(j, "narrowed", f->narrowed);
  json_put_uint(j, "whole_tensors", f->n_whole);
  json_end_object(j);
}
