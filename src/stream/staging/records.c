// Unit records, one line a unit:
//
//   {"unit":12,"sha256":"<64 hex>","header":"<64 hex>","check":"<16 hex>"}
//   {"unit":13,"sha256":…,"header":…,"errors":[[segment,level,index,elements,nonfinite,overflows,vv,ee,ve,max],…],"check":…}
//
// `errors` (figure_sums.h) is there if the unit stored something in another form. `check` is the
// start of the SHA-256 of the line up to it, so that a line torn by a crash or a full disk, or zeros
// left where a line was to be, is passed over. `header` is the SHA-256 of header.json: a record made
// over other sources never counts. More fields before `check` are allowed.
//
// A line says that the unit is durable, so it is written after fdatasync of the output. The line
// itself need not be durable at once: if a power cut takes it, the unit is made again, to the same
// bytes. Every writer makes a file of its own and never touches another's: two copies of one job
// may run, and a torn last line spoils no later one.
#include "stream/staging/inside/records.h"

#include "json/json.h"
#include "stream/staging/inside/checked_line.h"
#include "stream/staging/staging_folder.h"
#include "stream/sys/fs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { RECORDS_MAX_BYTES = 1 << 30, WRITERS_MAX = 1 << 20 };

struct file records_open(struct folder folder, uint32_t first, uint32_t step, struct err *err) {
  for (unsigned n = first; n < WRITERS_MAX; n += step) {
    char name[32];
    snprintf(name, sizeof name, "records.%u", n);
    struct file fd = file_open_to_write(folder, name, FILE_NO_LINK | FILE_NEW | FILE_APPEND, 0666);
    if (file_is_open(fd)) return fd;
    if (errno != EEXIST) {
      err_fill_errno(err, errno, ERR_IO, "cannot create '%s' in the staging folder", name);
      return NO_FILE;
    }
  }
  err_fill(err, ERR_IO, "the staging folder has %d records files", WRITERS_MAX);
  return NO_FILE;
}

int records_append(struct file fd, uint32_t unit, const uint8_t digest[DIGEST_BYTES],
                   const struct figure_sums *errors, const uint8_t header_sha256[DIGEST_BYTES],
                   struct err *err) {
  struct json_out j = {0};
  json_object(&j);
  json_put_uint(&j, "unit", unit);
  json_put_hex(&j, "sha256", digest, DIGEST_BYTES);
  json_put_hex(&j, "header", header_sha256, DIGEST_BYTES);
  if (errors->n) {
    json_key(&j, "errors");
    figure_sums_write(&j, errors);
  }
  checked_line_end(&j);
  const int bad = fs_write_all(fd, j.text, j.n, "unit records", err);
  json_done(&j);
  return bad;
}

static bool digest_field(const struct json_value *doc, const char *key, uint8_t out[DIGEST_BYTES]) {
  struct span hex;
  return json_as_string(json_get(doc, key), &hex) && hex_decode(hex, out, DIGEST_BYTES);
}

static bool take_record(const struct json_value *doc, struct records *r) {
  uint64_t unit;
  uint8_t digest[DIGEST_BYTES], header[DIGEST_BYTES];
  if (!json_as_uint(json_get(doc, "unit"), &unit) || unit >= r->n_units) return false;
  if (!digest_field(doc, "sha256", digest) || !digest_field(doc, "header", header)) return false;
  if (memcmp(header, r->header_sha256, DIGEST_BYTES) != 0) return false;
  struct figure_sums errors = {0};
  const struct json_value *list = json_get(doc, "errors");
  if (list && !figure_sums_read(list, &errors)) return false;
  if (r->done[unit] && memcmp(r->digests[unit], digest, DIGEST_BYTES) != 0) {
    struct staging_other *other = TABLE_PUSH(r->others, rows);
    *other = (struct staging_other){.unit = (uint32_t)unit, .errors = errors};
    memcpy(other->digest, digest, DIGEST_BYTES);
    return true;
  }
  memcpy(r->digests[unit], digest, DIGEST_BYTES);
  r->done[unit] = 1;
  figure_sums_put_unit(r->errors, (uint32_t)unit, &errors);
  figure_sums_free(&errors);
  return true;
}

static bool take_line(struct span line, struct records *r) {
  struct err malformed = {0};
  struct json_value *doc = checked_line_is(line) ? json_parse(line, "record", &malformed) : NULL;
  const bool taken = doc && take_record(doc, r);
  if (doc) json_free(doc);
  return taken;
}

struct loading {
  struct folder folder;
  struct records *r;
  struct err *err;
};

static int load_file(void *ctx, const char *name) {
  struct loading *l = ctx;
  if (!records_is_name(name)) return 0;
  struct span all;
  if (fs_read_own(l->folder, name, RECORDS_MAX_BYTES, "the staging folder", &all, l->err))
    return l->err->kind == ERR_NONE ? 0 : -1;
  const char *at = (const char *)all.at, *end = at + all.n;
  for (const char *eol; at < end && (eol = memchr(at, '\n', (size_t)(end - at))); at = eol + 1)
    l->r->unusable += !take_line(span_of(at, (size_t)(eol - at)), l->r);
  l->r->unusable += at < end;
  fs_free(all);
  return 0;
}

int records_load(struct folder folder, struct records *r, struct err *err) {
  struct loading l = {.folder = folder, .r = r, .err = err};
  staging_others_free(r->others);
  return fs_list(folder, load_file, &l, "staging folder", err);
}
