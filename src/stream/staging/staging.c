// Opening a staging folder: where a run begins, or goes on.
//
//   look at free space ─▶ make or find the folder, lock it ─▶ what is in it?
//
//       seal.json of ours          SEALED: outputs are complete, only the seal is left
//       header of ours             RESUMED: same sources? then take the records over
//       anything else, or --fresh  FRESH: emptied; plan.json, plan.bin, then header.json (last)
//
//       another version's, or something that is not ours in it: refused
//
//   ─▶ preallocate outputs ─▶ fsync folder ─▶ exclusive lock becomes a shared one
//
// Everything up to there happens under the exclusive lock; writers then hold a shared one. A flock
// does not change atomically from one kind to the other: a third process may slip in between and
// empty or remove the folder. So after each change the folder is looked at again (same folder under
// the name, same first output in it, whose descriptor we hold, so that its inode number cannot have
// been given to another file).
//
// A failure before the first unit was made leaves nothing; once records exist the folder is kept.
#include "stream/staging/staging.h"

#include "plan/plan_file.h"
#include "platform/machine.h"
#include "stream/staging/inside/records.h"
#include "stream/staging/inside/staging_header.h"
#include "stream/staging/staging_folder.h"
#include "stream/sys/fs.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

// One call of staging_open: what its steps share.
struct opening {
  struct staging *st;
  const struct plan *p;
  struct sources *s;
  const struct staging_options *options;
  char *note;
  size_t note_bytes;
  bool dry; // only asked: nothing is made, and nothing removed
  struct err *err;
};

static void say(const struct opening *o, const char *fmt, ...) ERR_PRINTF(2, 3);
static void say(const struct opening *o, const char *fmt, ...) {
  if (!o->note || o->note_bytes == 0) return;
  size_t n = strlen(o->note);
  if (n > 0 && n + 2 < o->note_bytes) o->note[n++] = '\n';
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(o->note + n, o->note_bytes - n, fmt, ap);
  va_end(ap);
}

void staging_reset(struct staging *st, const struct plan *p, const char *dest_folder) {
  memset(st, 0, sizeof *st);
  snprintf(st->dest_path, sizeof st->dest_path, "%s", dest_folder ? dest_folder : "");
  st->record_step = 1;
  if (!p) return;
  st->n_units = plan_unit_count(p);
  st->digests = arena_zalloc(&st->arena, (size_t)st->n_units * DIGEST_BYTES + 1);
  st->done = arena_zalloc(&st->arena, (size_t)st->n_units + 1);
  st->n_outputs = p->n_outputs;
  st->outputs = arena_zalloc(&st->arena, (size_t)p->n_outputs * sizeof *st->outputs + 1);
}

int staging_open_null(struct staging *st, const struct plan *p, const char *dest_folder,
                      struct err *err) {
  (void)err;
  staging_reset(st, p, dest_folder);
  st->null = true;
  if (dest_folder) st->unnamed_in = folder_open(HERE, dest_folder, 0);
  return 0;
}

// The staging folder is weir's own: what a kill leaves there goes with it. Without one, no file of weir's is named in the user's folder.
struct file staging_unnamed_file(void *staging) {
  const struct staging *st = staging;
  const struct folder in = folder_is_open(st->folder) ? st->folder : st->unnamed_in;
  return folder_is_open(in)
             ? file_make_nameless(in, ".", folder_is_open(st->folder) ? 0 : FILE_NEVER_NAMED)
             : NO_FILE;
}

// ---- free space ----

// What the outputs already occupy in a folder of this name: that much need not be free.
static uint64_t allocated_bytes(const struct opening *o) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < o->p->n_outputs; i++) {
    char path[STAGING_NAME_MAX + 300];
    struct entry_facts at;
    snprintf(path, sizeof path, "%s/%s", o->st->name, o->p->outputs[i].name);
    if (entry_look(o->st->dest, path, FILE_NO_LINK, &at) == 0)
      sum += min_u64(at.allocated, o->p->outputs[i].size);
  }
  return sum;
}

static void look_at_space(const struct opening *o, struct staging_space *space) {
  const uint64_t outputs = o->options->null ? 0 : plan_total_bytes(o->p) + o->options->beside_bytes,
                 need = outputs + o->p->n_literals, have = allocated_bytes(o);
  *space = (struct staging_space){.needed_bytes = need > have ? need - have : 0};
  space->known = folder_room(o->st->dest, &space->free_bytes) == 0;
}

static int open_output(const struct opening *o, uint32_t i) {
  const struct plan_output *out = &o->p->outputs[i];
  struct file fd = fs_open_own(o->st->folder, out->name, FILE_READ, o->st->name, o->err);
  if (!file_is_open(fd) && o->err->kind == ERR_NONE)
    fd = fs_make_own(o->st->folder, out->name, FILE_READ, o->err);
  if (!file_is_open(fd)) return -1;
  o->st->outputs[i] = fd;
  struct entry_facts at;
  if (file_look(fd, &at))
    return err_errno(o->err, errno, ERR_IO, "cannot examine '%s'", quote_str(out->name).s);
  int bad = 0;
  if (at.size > out->size) bad = file_set_size(fd, out->size);
  if (bad)
    return err_errno(o->err, errno, ERR_IO, "cannot set the size of '%s' to %s bytes",
                     quote_str(out->name).s, decimal(out->size).s);
  if (at.size >= out->size) return 0;
  do
    bad = file_reserve(fd, 0, out->size);
  while (bad && errno == EINTR);
  if (!bad) return 0;
  if (errno != EOPNOTSUPP && errno != ENOSYS)
    return err_errno(o->err, errno, ERR_IO, "cannot reserve %s bytes for '%s' in '%s'",
                     decimal(out->size).s, quote_str(out->name).s, quote_str(o->st->dest_path).s);
  const bool told = errno == EOPNOTSUPP; // elsewhere it could be had
  if (file_set_size(fd, out->size))
    return err_errno(o->err, errno, ERR_IO, "cannot set the size of '%s' to %s bytes",
                     quote_str(out->name).s, decimal(out->size).s);
  if (!told) return 0;
  say(o, "the file system of '%s' cannot reserve space for '%s': it may become full during the run",
      quote_str(o->st->dest_path).s, quote_str(out->name).s);
  return 0;
}

// ---- what is in the folder ----

// The plan's text comes in crumbs; the file gets it in blocks.
struct plan_text {
  struct file fd;
  struct err *err;
  size_t n;
  uint8_t block[64 << 10];
};

static int flush_plan_text(struct plan_text *to) {
  const size_t n = to->n;
  to->n = 0;
  return fs_write_all(to->fd, to->block, n, "plan.json", to->err);
}

static int put_plan_text(void *ctx, struct span text) {
  struct plan_text *to = ctx;
  while (text.n > 0) {
    const size_t n = (size_t)min_u64(text.n, sizeof to->block - to->n);
    memcpy(to->block + to->n, text.at, n);
    to->n += n;
    text = span_of(text.at + n, text.n - n);
    if (to->n == sizeof to->block && flush_plan_text(to)) return -1;
  }
  return 0;
}

// The folder without header.json holds nothing that counts, so the plan needs no name beside it.
static int write_plan_json(const struct opening *o) {
  struct file fd = fs_make_own(o->st->folder, "plan.json", 0, o->err);
  if (!file_is_open(fd)) return -1;
  struct plan shown = *o->p; // writing sets the id of its copy
  struct arena scratch = {0};
  struct plan_text *to = arena_alloc(&scratch, sizeof *to);
  *to = (struct plan_text){.fd = fd, .err = o->err};
  int bad = plan_file_write(&shown, put_plan_text, to, o->err);
  if (!bad) bad = flush_plan_text(to);
  if (!bad && file_sync(fd)) bad = err_errno(o->err, errno, ERR_IO, "cannot sync 'plan.json'");
  arena_free(&scratch);
  file_close(&fd);
  assert(bad || memcmp(shown.id, o->p->id, DIGEST_BYTES) == 0);
  return bad;
}

void staging_others_free(struct staging_others *o) {
  for (uint32_t i = 0; i < o->n_rows; i++)
    figure_sums_free(&o->rows[i].errors);
  TABLE_FREE(o, rows);
}

int staging_take_records(struct staging *st, const struct plan *p, uint32_t *unusable,
                         struct err *err) {
  struct records r = {.header_sha256 = st->header_sha256, .n_units = st->n_units};
  r.digests = st->digests;
  r.done = st->done;
  r.errors = &st->errors;
  r.others = &st->others;
  if (records_load(st->folder, &r, err)) return -1;
  *unusable = r.unusable;
  // A unit counts only while the output that holds it is there in full.
  for (uint32_t unit = 0; unit < st->n_units && staging_writes(st); unit++) {
    const struct plan_output *out = &p->outputs[plan_unit_at(p, unit).output];
    struct entry_facts at;
    if (entry_look(st->folder, out->name, FILE_NO_LINK, &at) || at.size != out->size)
      st->done[unit] = 0;
  }
  return 0;
}

static int take_over(const struct opening *o, const struct staging_header *h) {
  uint32_t unusable;
  memcpy(o->st->header_sha256, h->sha256, DIGEST_BYTES);
  return staging_take_records(o->st, o->p, &unusable, o->err);
}

// Why what was left is of no use, for the note.
enum useless { NOT_USABLE, NOT_WANTED, OTHER_SOURCES };

static void say_discarded(const struct opening *o, enum useless why) {
  const uint64_t bytes = staging_folder_bytes(o->st->folder);
  const struct quoted size = quote_bytes(bytes);
  if (bytes == 0) return;
  if (why == OTHER_SOURCES)
    say(o,
        "the input changed since the interrupted run: discarded %s of that, starting from the "
        "beginning",
        size.s);
  else if (why == NOT_WANTED)
    say(o, "discarded %s of an interrupted run", size.s);
  else
    say(o, "discarded %s of an interrupted run: none of it could be used", size.s);
}

// A folder of another run of this output that nobody works in (this run's stages have theirs).
static int note_other(void *ctx, const char *name) {
  const struct opening *o = ctx;
  if (!staging_name_is(name, o->options->onnx_name) || strcmp(name, o->st->name) == 0 ||
      staging_seal_in(o->st->dest, name) == STAGING_SEAL_FINISHED)
    return 0;
  struct folder folder = folder_open(o->st->dest, name, FILE_NO_LINK);
  const bool dead = folder_is_open(folder) && !staging_is_locked(folder);
  folder_close(&folder);
  return dead;
}

static void say_nothing_there(const struct opening *o) {
  struct err ignored = {0};
  struct opening copy = *o;
  const bool other = fs_list(o->st->dest, note_other, &copy, "", &ignored) > 0;
  say(o, "no interrupted run with these options in '%s'%s: starting from the beginning",
      quote_str(o->st->dest_path).s, other ? " (there is one with other options)" : "");
}

static int start_afresh(const struct opening *o, bool made, enum useless why) {
  struct staging *st = o->st;
  if (!made) {
    say_discarded(o, why);
    if (staging_empty(st->folder, st->name, o->err) ||
        staging_remove_file(st->folder, STAGING_FINISHED, st->name, o->err))
      return -1;
  } else if (o->options->resume && !o->options->took_over) {
    say_nothing_there(o);
  }
  if (write_plan_json(o)) return -1;
  if (fs_put_file(st->folder, "plan.bin", span_of(o->p->literals, (size_t)o->p->n_literals),
                  o->err))
    return -1;
  if (staging_header_write(st->folder, o->p->id, o->s, o->options, st->header_sha256, o->err))
    return -1;
  return fs_sync_folder(st->dest, st->dest_path, o->err);
}

static int refuse_version(const struct staging *st, const struct staging_header *h,
                          const char *version, struct err *err) {
  if (!h->made_by[0]) return 0;
  err_set(err, ERR_USAGE, "'%s' in '%s' was left by %s; this is weir %s, which cannot continue it",
          quote_str(st->name).s, quote_str(st->dest_path).s, h->made_by, version);
  return err_because(err, REASON_OTHER_VERSION);
}

int staging_check_version(const struct staging *st, const char *version, struct err *err) {
  struct staging_header h;
  if (staging_header_read(st->folder, version, &h, err)) return err->kind == ERR_NONE ? 0 : -1;
  const int bad = refuse_version(st, &h, version, err);
  staging_header_free(&h);
  return bad;
}

bool staging_is_of_job(const struct staging *st, const struct staging_job *job) {
  struct staging_header h;
  struct err ignored = {0};
  if (staging_header_read(st->folder, job->version, &h, &ignored)) return false;
  const bool same = staging_header_is_same_job(&h, job);
  staging_header_free(&h);
  return same;
}

static void say_nothing_recorded(const struct opening *o) {
  const uint64_t bytes = staging_folder_bytes(o->st->folder);
  if (bytes == 0) return;
  say(o, "no unit of the earlier run was finished: %s will be written again", quote_bytes(bytes).s);
}

// Goes on with what an interrupted run of this plan left. If it had recorded nothing yet, it may have been
// ended at any point of its beginning: then the header is ours.
static int go_on_with(const struct opening *o, const struct staging_header *h) {
  struct staging *st = o->st;
  if (staging_check_entries(st, o->err) || take_over(o, h)) return -1;
  if (staging_done_count(st) > 0) return 0;
  say_nothing_recorded(o);
  return staging_header_write(st->folder, o->p->id, o->s, o->options, st->header_sha256, o->err);
}

// Decides between the three and makes it so. *made: the folder is ours from this call on.
static int settle(const struct opening *o, bool made, enum staging_resume *how) {
  const struct staging_options *options = o->options;
  struct staging_header h = {0};
  struct err changed = {0};
  if (!options->fresh && staging_header_read(o->st->folder, options->version, &h, o->err))
    return -1;
  const bool of_plan = staging_header_is_of(&h, o->p->id);
  const bool same =
      of_plan && staging_header_same_sources(&h, o->s, STAGING_HEADER_UNITS, &changed) == 0;
  // A seal of a folder without a header counts only for who asks to go on.
  const enum staging_seal seal =
      of_plan || options->resume ? staging_seal_in(o->st->dest, o->st->name) : STAGING_SEAL_NONE;
  const bool sealed = !options->fresh && seal == STAGING_SEAL_UNFINISHED;
  int bad = 0;
  if (refuse_version(o->st, &h, options->version, o->err)) {
    bad = -1;
  } else if (sealed && (options->resume || same)) {
    *how = STAGING_SEALED;
    say(o, "'%s' is complete; its files only need to be moved into place",
        quote_str(o->st->name).s);
  } else if (same && seal != STAGING_SEAL_FINISHED) {
    *how = STAGING_RESUMED;
    bad = go_on_with(o, &h);
  } else if (of_plan && options->resume && seal != STAGING_SEAL_FINISHED) {
    *o->err = changed;
    bad = -1;
  } else {
    *how = STAGING_FRESH;
    bad = start_afresh(o, made, options->fresh ? NOT_WANTED : of_plan ? OTHER_SOURCES : NOT_USABLE);
  }
  staging_header_free(&h);
  return bad;
}

// ---- the lock's two kinds ----

static int taken_away(const struct staging *st, struct err *err) {
  err_set(err, ERR_RETRY, "another process started to use '%s' in '%s' while this one was using it",
          quote_str(st->name).s, quote_str(st->dest_path).s);
  return err_hint(err, "wait until that process ends, then run the same command again");
}

static int change_lock(struct staging *st, unsigned how, struct err *err) {
  if (file_lock(st->lock, how | LOCK_NO_WAIT) && errno == EWOULDBLOCK) return taken_away(st, err);
  return staging_still_there(st) ? 0 : taken_away(st, err);
}

int staging_lock_exclusive(struct staging *st, struct err *err) {
  return change_lock(st, LOCK_ALONE, err);
}

static void sign_lock(const struct staging *st) {
  char host[100], who[160];
  machine_name(host, sizeof host);
  const int n = snprintf(who, sizeof who, "process %s on %s\n", decimal(process_id()).s, host);
  // For people only: a failure changes nothing.
  if (file_set_size(st->lock, 0) == 0 && file_write(st->lock, who, (size_t)n) < 0) return;
}

// ---- opening ----

// Every output is open while it is written: with a file for each tensor these are more than a process may have open as a rule. The limit
// is raised as far as the system lets it be.
static int may_open_outputs(const struct opening *o) {
  enum { BESIDE = 64 }; // records, pipes, what the program began with
  const uint64_t need = (uint64_t)o->p->n_outputs + o->p->n_sources + BESIDE;
  uint64_t most;
  if (o->p->n_outputs <= PLAN_DATA_FILES_MAX + 1 || process_may_open(need, &most)) return 0;
  err_set(o->err, ERR_FAIL, "%u files are too many: this process can have at most %s files open",
          o->p->n_outputs, decimal(most).s);
  return err_hint(o->err,
                  "run 'ulimit -n %s' before it if that is allowed, or use fewer data files",
                  decimal(need).s);
}

// What would keep a run from beginning, asked in the order in which a run meets it. *space is
// filled as far as the folder can be opened. A run also removes what a finished seal left.
static int may_begin(const struct opening *o, struct staging_space *space) {
  struct staging *st = o->st;
  const struct staging_options *options = o->options;
  char sealed[STAGING_NAME_MAX]; // the folder of another seal
  enum staging_seal state;
  *space = (struct staging_space){0};
  if (staging_open_dest(st->dest_path, &st->dest, o->err)) return -1;
  staging_name(st->name, options->onnx_name, o->p->id);
  look_at_space(o, space);
  for (uint32_t i = 0; i < o->p->n_outputs; i++) {
    const char *name = o->p->outputs[i].name;
    if (strlen(name) > STAGING_FILE_MAX || strchr(name, '/') || staging_name_reserved(name))
      return err_set(o->err, ERR_USAGE,
                     "'%s' cannot be the name of an output: it is longer than %d bytes, has a '/', "
                     "or is a name that the staging folder uses itself",
                     quote_str(name).s, STAGING_FILE_MAX);
  }
  if (may_open_outputs(o)) return -1;
  if (staging_find_seal_in(st->dest, st->dest_path, options->onnx_name, sealed, &state, o->err))
    return -1;
  if (state == STAGING_SEAL_UNFINISHED && strcmp(sealed, st->name) != 0) {
    err_set(o->err, ERR_RETRY,
            "an earlier run was interrupted while it moved its '%s' into place: '%s' in '%s'",
            quote_str(options->onnx_name).s, quote_str(sealed).s, quote_str(st->dest_path).s);
    return err_because(o->err, REASON_SEAL_BEGUN);
  }
  while (state == STAGING_SEAL_FINISHED && !o->dry) {
    if (!staging_put_away(options->dest_folder, sealed)) break;
    look_at_space(o, space);
    if (staging_find_seal_in(st->dest, st->dest_path, options->onnx_name, sealed, &state, o->err))
      return -1;
  }
  if (!space->known || space->needed_bytes <= space->free_bytes) return 0;
  const uint64_t need = space->needed_bytes;
  err_set(o->err, ERR_NOSPACE,
          "the outputs need %s (%s bytes) in '%s', but only %s (%s bytes) are free",
          quote_bytes(need).s, decimal(need).s, quote_str(o->st->dest_path).s,
          quote_bytes(space->free_bytes).s, decimal(space->free_bytes).s);
  return err_hint(o->err, "files that the run replaces keep their space until the new ones are in "
                          "place; free some space, or write to another file system");
}

static int open_steps(const struct opening *o, enum staging_resume *how, bool *made) {
  struct staging *st = o->st;
  struct staging_space space;
  if (may_begin(o, &space)) return -1;
  if (staging_enter(st, STAGING_MAKE, made, o->err)) return -1;
  if (staging_check_owner(st, o->err)) return -1;
  sign_lock(st);
  if (settle(o, *made, how)) return -1;
  if (*how == STAGING_FRESH) *made = true;
  if (*how == STAGING_SEALED) return 0; // keeps the exclusive lock
  for (uint32_t i = 0; i < o->p->n_outputs && staging_writes(st); i++)
    if (open_output(o, i)) return -1;
  if (fs_sync_folder(o->st->folder, o->st->name, o->err)) return -1;
  if (change_lock(st, LOCK_SHARED, o->err)) return -1;
  if (!staging_writes(st)) return 0;
  struct entry_facts named, held; // the first output
  const bool ours = entry_look(st->folder, o->p->outputs[0].name, FILE_NO_LINK, &named) == 0 &&
                    file_look(st->outputs[0], &held) == 0 && named.number == held.number;
  return ours ? 0 : taken_away(st, o->err);
}

int staging_open(struct staging *st, const struct plan *p, struct sources *s,
                 const struct staging_options *options, enum staging_resume *how, char *note,
                 size_t note_bytes, struct err *err) {
  assert(p->n_outputs > 0);
  staging_reset(st, p, options->dest_folder);
  st->null = options->null;
  if (note && note_bytes) note[0] = '\0';
  const struct opening o = {.st = st,
                            .p = p,
                            .s = s,
                            .options = options,
                            .note = note,
                            .note_bytes = note_bytes,
                            .err = err};
  bool made = false;
  if (open_steps(&o, how, &made) == 0) return 0;
  struct err later = {0};
  // Nothing of value is in a folder that was made or emptied just now.
  if (made && err->kind != ERR_RETRY && file_is_open(st->lock))
    staging_remove(st, &later);
  else
    staging_close(st);
  return -1;
}

int staging_foresee(const struct plan *p, const struct staging_options *options,
                    struct staging_space *space, struct err *err) {
  struct staging st;
  bool made;
  const struct opening o = {.st = &st, .p = p, .options = options, .dry = true, .err = err};
  staging_reset(&st, NULL, options->dest_folder);
  bool bad = may_begin(&o, space) || staging_enter(&st, STAGING_LOOK, &made, err);
  if (!bad && folder_is_open(st.folder) && !options->fresh &&
      staging_seal_in(st.dest, st.name) != STAGING_SEAL_FINISHED)
    bad = staging_check_version(&st, options->version, err) || staging_check_entries(&st, err);
  staging_close(&st);
  return bad ? -1 : 0;
}

int staging_open_sealed(struct staging *st, const char *dest_folder, const char *name,
                        struct err *err) {
  staging_reset(st, NULL, dest_folder);
  snprintf(st->name, sizeof st->name, "%s", name);
  if (staging_open_dest(dest_folder, &st->dest, err)) return -1;
  bool made;
  if (staging_enter(st, STAGING_FOUND, &made, err) == 0) return 0;
  err_set(err, ERR_RETRY, "'%s' in '%s' is gone: another process has finished it",
          quote_str(name).s, quote_str(dest_folder).s);
  staging_close(st);
  return -1;
}

int staging_open_bare(struct staging *st, const char *dest_folder, const char *onnx_name,
                      const uint8_t id[DIGEST_BYTES], enum staging_entry how, bool *made,
                      struct err *err) {
  staging_reset(st, NULL, dest_folder);
  staging_name(st->name, onnx_name, id);
  *made = false;
  int bad = staging_open_dest(dest_folder, &st->dest, err);
  if (!bad) bad = staging_enter(st, how, made, err);
  if (!bad && how == STAGING_MAKE) bad = staging_check_owner(st, err);
  if (bad)
    staging_close(st);
  else if (how == STAGING_MAKE)
    sign_lock(st);
  return bad;
}

// ---- while it runs ----

int staging_open_records(struct staging *st, struct err *err) {
  if (file_is_open(st->records) || !folder_is_open(st->folder)) return 0;
  st->records = records_open(st->folder, st->first_record, st->record_step, err);
  return file_is_open(st->records) ? 0 : -1;
}

int staging_record(struct staging *st, uint32_t unit, const uint8_t digest[DIGEST_BYTES],
                   const struct figure_sums *errors, struct err *err) {
  assert(unit < st->n_units);
  if (staging_open_records(st, err)) return -1;
  if (folder_is_open(st->folder) &&
      records_append(st->records, unit, digest, errors, st->header_sha256, err))
    return -1;
  memcpy(st->digests[unit], digest, DIGEST_BYTES);
  st->done[unit] = 1;
  figure_sums_put_unit(&st->errors, unit, errors);
  return 0;
}

int staging_sync_records(const struct staging *st, struct err *err) {
  if (!file_is_open(st->records)) return 0;
  if (file_sync_data(st->records))
    return err_errno(err, errno, ERR_IO, "cannot sync the records in '%s'", quote_str(st->name).s);
  return fs_sync_folder(st->folder, st->name, err);
}

bool staging_writes(const struct staging *st) {
  return !st->null;
}

struct file staging_output_fd(const struct staging *st, uint32_t output) {
  assert(output < st->n_outputs);
  return st->outputs[output];
}

uint32_t staging_done_count(const struct staging *st) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < st->n_units; i++)
    n += st->done[i];
  return n;
}

uint64_t staging_done_bytes(const struct staging *st, const struct plan *p) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < st->n_units; i++)
    if (st->done[i]) n += plan_unit_at(p, i).len;
  return n;
}

// ---- the end of it ----

void staging_close_files(struct staging *st) {
  for (uint32_t i = 0; i < st->n_outputs; i++)
    file_close(&st->outputs[i]);
  file_close(&st->records);
}

void staging_close(struct staging *st) {
  staging_close_files(st);
  file_close(&st->lock);
  folder_close(&st->unnamed_in);
  folder_close(&st->folder);
  folder_close(&st->dest);
  arena_free(&st->arena);
  st->n_outputs = st->n_units = 0;
  st->outputs = NULL;
  st->digests = NULL;
  figure_sums_free(&st->errors);
  staging_others_free(&st->others);
  st->done = NULL;
}

// The lock is closed before it is removed, and another process may take it in between. So it gets another name first, while it is held: who
// opens `lock` afterwards makes a new one, which keeps the folder; who had opened this one finds that it has lost its name.
static int remove_lock(struct staging *st, struct err *err) {
  const bool renamed =
      file_is_open(st->lock) && entry_rename(st->folder, "lock", st->folder, "lock.tmp") == 0;
  file_close(&st->lock);
  return staging_remove_file(st->folder, renamed ? "lock.tmp" : "lock", st->name, err);
}

// A finished folder holds sealed.json alone by now, and nothing in it is open: its name says that it is finished before sealed.json goes. Without
// a lock another process may remove it as well, and make one of the same name: that one keeps its name. (As long as this process has its
// folder open, no other one gets its number.) False: this was so.
static bool rename_done(struct staging *st) {
  char done[STAGING_NAME_MAX], name[STAGING_NAME_MAX];
  const int stem = (int)(strlen(st->name) - strlen(".weir"));
  if (str_ends(st->name, ".done.weir")) return true;
  if (!staging_still_there(st)) return false;
  snprintf(done, sizeof done, "%.*s.done.weir", stem, st->name);
  if (entry_rename(st->dest, st->name, st->dest, done))
    return true; // a leftover that has this name is as finished
  memcpy(name, st->name, sizeof name);
  memcpy(st->name, done, sizeof done);
  if (staging_still_there(st)) return true;
  (void)entry_rename(st->dest, done, st->dest, name);
  return false;
}

static int remove_emptied(struct staging *st, bool finished, struct err *err) {
  char path[STAGING_NAME_MAX + 16];
  if (finished && !rename_done(st)) return 0;
  folder_close(&st->folder);
  snprintf(path, sizeof path, "%s/" STAGING_FINISHED, st->name);
  if (finished && staging_remove_file(st->dest, path, st->dest_path, err)) return -1;
  if (folder_remove(st->dest, st->name) == 0 || errno == ENOENT) return 0;
  const int why = errno;
  snprintf(path, sizeof path, "%s/lock", st->name);
  // With a lock in it, another process has begun to use it: it is that one's now.
  if ((why == ENOTEMPTY || why == EEXIST) && staging_has(st->dest, path)) return 0;
  return err_errno(err, why, ERR_IO, "cannot remove the staging folder '%s' in '%s'",
                   quote_str(st->name).s, quote_str(st->dest_path).s);
}

static int remove_folder(struct staging *st, bool finished, struct err *err) {
  staging_close_files(st);
  int bad = staging_empty(st->folder, st->name, err);
  if (!bad) bad = remove_lock(st, err);
  if (!bad) bad = remove_emptied(st, finished, err);
  staging_close(st);
  return bad;
}

int staging_remove(struct staging *st, struct err *err) {
  if (folder_is_open(st->folder) && !staging_has(st->folder, STAGING_INTENT))
    return remove_folder(st, false, err);
  staging_close(st);
  return 0;
}

int staging_retire(struct staging *st, struct err *err) {
  // Where it cannot be marked, it is removed all the same.
  (void)entry_rename(st->folder, STAGING_INTENT, st->folder, STAGING_FINISHED);
  return remove_folder(st, true, err);
}

bool staging_put_away(const char *dest_folder, const char *name) {
  struct staging leftover;
  struct err ignored = {0};
  return staging_open_sealed(&leftover, dest_folder, name, &ignored) == 0 &&
         staging_retire(&leftover, &ignored) == 0;
}
