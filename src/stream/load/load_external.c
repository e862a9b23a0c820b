// external_data: four keys that say where a tensor's bytes lie in another file.
//
// Known keys are location, offset, length and checksum (kept by others, verified by nobody); the
// last of a key given twice wins; unknown ones are ignored with a warning. Numbers are decimal
// digits and nothing else: leading zeros pass, because every reader takes them; signs, spaces,
// hexadecimal and underscores do not, because readers disagree about them. What a range claims is
// checked against the size of the opened file, and a length against the shape, before anyone else
// sees either.
//
// A data file that is missing meets all the tensors in it at once. Where the load goes on, it is
// kept by its name alone, what it lacks is counted, and at the end each such file is one fault.
#include "stream/load/inside/loader.h"

// -1: the load ends; 0: *good says whether the number is one.
static int number(struct loader *l, const struct row_name *who, const Pb__Location *e,
                  uint64_t *out, bool *good) {
  *good = !e || span_decimal(load_text(e->value), out);
  if (*good) return 0;
  return load_fault(l, FAULT_ERROR, row_place(who).s,
                    "external_data %s '%s' is not a decimal number from 0 to 2^63-1",
                    quote(load_text(e->key)).s, quote(load_text(e->value)).s);
}

// ---- data files that lack something -------------------------------------------------------------

static bool goes_on(const struct loader *l) {
  return l->options.faults || l->options.no_matter_the_data;
}

bool load_external_readable(const struct loader *l, const struct external *x) {
  return !sources_is_absent(l->s, x->file) &&
         range_fits(x->off, x->len, sources_size(l->s, x->file));
}

static const char *keep(struct loader *l, const char *text) {
  return arena_string(&l->lacking, span_str(text));
}

static struct load_lack *lack_of(struct loader *l, uint32_t file) {
  if (file >= l->n_lacks) TABLE_ADD(l, lacks, file + 1 - l->n_lacks);
  return &l->lacks[file];
}

static void count_lack(struct loader *l, const struct row_name *who, const struct external *x) {
  struct load_lack *lack = lack_of(l, x->file);
  if (lack->tensors < LACKS_TOLD) {
    lack->first[lack->tensors].place = keep(l, row_place(who).s);
    lack->first[lack->tensors].off = x->off;
    lack->first[lack->tensors].len = x->len;
  }
  lack->tensors++;
  lack->bytes += x->len;
  lack->end = max_u64(lack->end, x->off + x->len);
}

// What is said of a range past the end, and what the file is instead, if that can be told.
static void past_end(struct loader *l, uint32_t file, uint64_t off, uint64_t len, struct err *err) {
  const struct load_likeness is = load_looks_like(l->s, file);
  err_fill(err, is.what ? ERR_INPUT : ERR_MODEL,
           "%s bytes at byte %s are past the end of '%s' (%s bytes)%s%s", decimal(len).s,
           decimal(off).s, sources_shown(l->s, file).s, decimal(sources_size(l->s, file)).s,
           is.what ? ", which " : "", is.what ? is.what : "");
  if (is.hint) err_fill_hint(err, "%s", is.hint);
}

static void tell_fault(struct loader *l, const char *place, const struct err *cause) {
  l->options.faults->report(l->options.faults->ctx, FAULT_ERROR, place, cause->msg, cause);
}

// A few ranges past the end may be wrong themselves, many mean that the file is.
static void report_short(struct loader *l, uint32_t file, const struct load_lack *lack) {
  for (uint64_t i = 0; lack->tensors <= LACKS_TOLD && i < lack->tensors; i++) {
    struct err cause = {0};
    past_end(l, file, lack->first[i].off, lack->first[i].len, &cause);
    tell_fault(l, lack->first[i].place, &cause);
  }
  if (lack->tensors <= LACKS_TOLD) return;
  const struct load_likeness is = load_looks_like(l->s, file);
  struct err cause = {0};
  err_fill(&cause, is.what ? ERR_INPUT : ERR_MODEL,
           "the data file '%s' is too short (%s of %s bytes): %s tensors reach past its end, the "
           "first is %s%s%s",
           sources_shown(l->s, file).s, decimal(sources_size(l->s, file)).s, decimal(lack->end).s,
           decimal(lack->tensors).s, lack->first[0].place, is.what ? "; it " : "",
           is.what ? is.what : "");
  err_fill_hint(&cause, "%s", is.hint ? is.hint : "was the download complete?");
  tell_fault(l, "", &cause);
}

static void report_absent(struct loader *l, const struct load_lack *lack) {
  struct err cause = {0};
  if (lack->tensors == 1)
    err_fill(&cause, lack->kind, "%s", lack->why);
  else
    err_fill(&cause, lack->kind, "%s: %s tensors (%s) are stored in it", lack->why,
             decimal(lack->tensors).s, quote_bytes(lack->bytes).s);
  cause.reason = lack->reason;
  if (*lack->hint) err_fill_hint(&cause, "%s", lack->hint);
  tell_fault(l, lack->tensors == 1 ? lack->first[0].place : "", &cause);
}

void load_external_report(struct loader *l) {
  for (uint32_t file = 0; l->options.faults && file < l->n_lacks; file++) {
    const struct load_lack *lack = &l->lacks[file];
    if (lack->tensors > 0 && lack->why)
      report_absent(l, lack);
    else if (lack->tensors > 0)
      report_short(l, file, lack);
  }
}

// Finds the file of a location whose numbers are good.
static int find_range(struct loader *l, const struct row_name *who, struct span location,
                      struct external *out, bool *usable) {
  struct err cause = {0};
  if (l->options.no_external) {
    *usable = sources_add_name(l->s, location, &out->file, &cause) == 0;
    return *usable ? 0 : load_fault_from(l, row_place(who).s, &cause);
  }
  if (sources_add(l->s, location, &out->file, &cause)) {
    // ERR_MODEL: the text itself; and without a sink a disk that fails is a matter.
    const bool tolerable =
        l->options.faults || cause.kind == ERR_INPUT || cause.kind == ERR_PERMISSION;
    struct err ignored = {0};
    if (cause.kind == ERR_MODEL || !goes_on(l) || !tolerable ||
        sources_add_name(l->s, location, &out->file, &ignored))
      return load_fault_from(l, row_place(who).s, &cause);
    *lack_of(l, out->file) = (struct load_lack){.why = keep(l, cause.msg),
                                                .hint = keep(l, cause.hint),
                                                .kind = cause.kind,
                                                .reason = cause.reason};
    sources_absent_because(l->s, out->file, &cause);
  }
  if (load_external_readable(l, out)) {
    *usable = true;
    return 0;
  }
  if (!goes_on(l)) {
    past_end(l, out->file, out->off, out->len, &cause);
    return load_fault_from(l, row_place(who).s, &cause);
  }
  count_lack(l, who, out);
  *usable = l->options.no_matter_the_data;
  return 0;
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
                      "external_data length is %s, but its dims and type need %s bytes",
                      decimal(out->len).s, decimal(bytes).s);
  return find_range(l, who, load_text(location->value), out, usable);
}
