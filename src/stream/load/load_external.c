// external_data: four keys that say where a tensor's bytes lie in another file.
//
// Known keys are location, offset, length and checksum (kept by others, verified by nobody); the
// last of a key given twice wins; unknown ones are ignored with a warning. Numbers are decimal
// digits and nothing else: leading zeros pass, because every reader takes them; signs, spaces,
// hexadecimal and underscores do not, because readers disagree about them. What a range claims is
// checked against the size of the opened file, and a length against the shape, before anyone else
// sees either.
#include "loader.h"

static bool parse_number(struct span s, uint64_t *out) {
  uint64_t x = 0;
  if (s.n == 0) return false;
  for (size_t i = 0; i < s.n; i++) {
    if (s.at[i] < '0' || s.at[i] > '9') return false;
    if (mul_overflows(x, 10, &x) || add_overflows(x, s.at[i] - (uint64_t)'0', &x)) return false;
  }
  *out = x;
  return x <= INT64_MAX;
}

// -1: the load ends; 0: *good says whether the number is one.
static int number(struct loader *l, const struct row_name *who, const Pb__Location *e,
                  uint64_t *out, bool *good) {
  *good = !e || parse_number(load_text(e->value), out);
  if (*good) return 0;
  return load_fault(l, FAULT_ERROR, row_place(who).s,
                    "external_data %s '%s' is not a decimal number from 0 to 2^63-1",
                    quote(load_text(e->key)).s, quote(load_text(e->value)).s);
}

int load_external_parse(struct loader *l, const Pb__Tensor *t, const struct row_name *who,
                        uint64_t bytes, struct external *out, bool *usable) {
  const Pb__Location *location = NULL, *offset = NULL, *length = NULL;
  *usable = false;
  for (size_t i = 0; i < t->n_external_data; i++) {
    const Pb__Location *e = t->external_data[i];
    const struct span key = load_text(e->key);
    const bool prepacked = key.n >= 9 && memcmp(key.at, "prepacked", 9) == 0;
    if (span_is(key, "location"))
      location = e;
    else if (span_is(key, "offset"))
      offset = e;
    else if (span_is(key, "length"))
      length = e;
    else if (!span_is(key, "checksum") &&
             load_fault(l, FAULT_WARNING, row_place(who).s, "external_data key '%s' is ignored%s",
                        quote(key).s, prepacked ? " (weights prepacked for one runtime)" : ""))
      return -1;
  }
  if (!location)
    return load_fault(l, FAULT_ERROR, row_place(who).s,
                      "data_location is EXTERNAL, but no location is given");
  bool good;
  *out = (struct external){.len = bytes};
  if (number(l, who, offset, &out->off, &good)) return -1;
  if (!good) return 0;
  if (number(l, who, length, &out->len, &good)) return -1;
  if (!good) return 0;
  if (out->len != bytes)
    return load_fault(l, FAULT_ERROR, row_place(who).s,
                      "external_data length is %lu, but its dims and type take %lu bytes", out->len,
                      bytes);
  const bool by_name = l->options.no_external;
  struct err cause = {0};
  if ((by_name ? sources_add_name : sources_add)(l->s, load_text(location->value), &out->file,
                                                 &cause))
    return load_fault_from(l, row_place(who).s, &cause);
  const uint64_t size = sources_size(l->s, out->file);
  *usable = by_name || range_fits(out->off, out->len, size);
  if (*usable) return 0;
  return load_fault(l, FAULT_ERROR, row_place(who).s,
                    "%lu bytes at byte %lu are past the end of '%s' (%lu bytes)", out->len,
                    out->off, quote_str(sources_name(l->s, out->file)).s, size);
}
