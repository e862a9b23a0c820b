// The files a run reads, as a table of names, identities and, for some, open descriptors.
//
//   id     location        path (normalized)    descriptor     identity
//   0      model.onnx      model.onnx           7 (pinned ×1)  size mtime ctime ino dev
//   1      w/a.bin         w/a.bin              9              …
//   2      ./w/../b.bin    b.bin                – (closed)     …
//
// A model may keep every tensor in a file of its own, tens of thousands of them, so descriptors are
// a cache: at most SOURCES_MAX_OPEN, the one unused for longest goes first (a list keeps their order),
// and never one that somebody is reading through (pinned). A reopened file must be the one we knew: same device,
// inode, size and times.
//
// How a name becomes a descriptor is beneath.c's business. The .onnx itself was named by the user,
// so its folder may be anything, and it may be a link: data files are looked for beside that, not
// beside its target.
//
// One mutex guards the table's mutable part (descriptors, pins, the list). Locations and identities do
// not change once loading is over.
#include "stream/io/sources.h"

#include "base/table.h"
#include "resources/resources.h"
#include "stream/io/beneath.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct fingerprint fingerprint_of(const struct entry_facts *st) {
  return (struct fingerprint){.size = st->size,
                              .mtime_ns = st->modified_ns,
                              .ctime_ns = st->changed_ns,
                              .ino = st->number,
                              .dev = st->volume};
}

bool fingerprint_same(struct fingerprint a, struct fingerprint b) {
  return a.size == b.size && a.mtime_ns == b.mtime_ns && a.ctime_ns == b.ctime_ns &&
         a.ino == b.ino && a.dev == b.dev;
}

struct source {
  const char *name; // location as written
  const char *path; // normalized
  struct fingerprint print;
  uint32_t pins;
  struct file fd;        // none: closed
  uint32_t older, newer; // of those that are open and not pinned; NO_ID ends the list
  bool name_only;        // never opened
  bool companion;        // `path` is as the user gave it
  struct {
    enum err_kind kind; // ERR_NONE: nothing went wrong
    enum err_reason reason;
    const char *msg, *hint;
  } absence; // why
};

struct sources {
  struct arena arena;
  struct source *rows;
  uint32_t n;
  size_t cap;
  TABLE(uint32_t, slots); // hash of locations -> row
  const char *given;      // the .onnx, as the user named it
  const char *folder;     // and where it lies
  struct folder folder_fd;
  struct beneath_how how;
  pthread_mutex_t lock;
  uint32_t oldest, newest; // ends of the list of what may be closed
  uint32_t n_open;
  uint64_t looks;
};

// ---- identity -----------------------------------------------------------------------------------

static struct quoted shown(const struct sources *s, const struct source *f) {
  if (f == s->rows) return quote_path(s->given);
  if (f->companion) return quote_path(f->path);
  char path[2 * BENEATH_MAX + 2];
  const size_t n = strlen(s->given) - strlen(path_base(s->given));
  snprintf(path, sizeof path, "%.*s%s", (int)min_u64(n, BENEATH_MAX), s->given, f->name);
  return quote_path(path);
}

struct quoted sources_shown(const struct sources *s, uint32_t file) {
  return shown(s, &s->rows[file]);
}

static int changed(const struct sources *s, const struct source *f, struct fingerprint now,
                   struct err *err) {
  const struct quoted q = shown(s, f);
  if (now.size != f->print.size)
    err_fill(err, ERR_INPUT, "'%s' changed during the run: it had %s bytes and now has %s", q.s,
             decimal(f->print.size).s, decimal(now.size).s);
  else
    err_fill(err, ERR_INPUT, "'%s' changed during the run: %s", q.s,
             now.ino != f->print.ino || now.dev != f->print.dev ? "it was replaced by another file"
                                                                : "it was written to");
  return err_hint(err, "run again when no program writes to the model");
}

// ---- descriptors --------------------------------------------------------------------------------

// A row that is open, and that nobody reads through any more, goes to the new end of the list; it
// leaves the list when somebody does, or when it is closed.
static void list_newest(struct sources *s, struct source *f) {
  const uint32_t row = (uint32_t)(f - s->rows);
  f->older = s->newest;
  f->newer = NO_ID;
  *(s->newest == NO_ID ? &s->oldest : &s->rows[s->newest].newer) = row;
  s->newest = row;
}

static void unlist(struct sources *s, struct source *f) {
  *(f->older == NO_ID ? &s->oldest : &s->rows[f->older].newer) = f->newer;
  *(f->newer == NO_ID ? &s->newest : &s->rows[f->newer].older) = f->older;
}

// Closes the descriptor unused for longest. False if all are in use.
static bool close_oldest(struct sources *s) {
  if (s->oldest == NO_ID) return false;
  struct source *oldest = &s->rows[s->oldest];
  s->looks++;
  unlist(s, oldest);
  file_close(&oldest->fd);
  s->n_open--;
  return true;
}

// A file that the user named, below a folder or HERE.
static int open_named(struct folder folder, const char *name, struct quoted q,
                      struct entry_facts *st, struct file *fd, struct err *err) {
  *fd = file_open(folder, name, FILE_NO_WAIT);
  if (!file_is_open(*fd)) {
    if (errno == EMFILE || errno == ENFILE) return -2;
    if (errno == ENOENT) return err_set(err, ERR_INPUT, "'%s' does not exist", q.s);
    return err_errno(err, errno, ERR_INPUT, "'%s' cannot be opened", q.s);
  }
  if (file_look(*fd, st)) {
    const int why = errno;
    file_close(fd);
    return err_errno(err, why, ERR_IO, "'%s' cannot be examined", q.s);
  }
  if (st->kind != ENTRY_FILE) {
    const bool is_folder = st->kind == ENTRY_FOLDER;
    file_close(fd);
    return err_set(err, ERR_INPUT, "'%s' is %s", q.s,
                   is_folder ? "a folder" : "not a regular file");
  }
  return 0;
}

// Where its path begins.
static struct folder folder_of(const struct sources *s, const struct source *f) {
  return f->companion ? HERE : s->folder_fd;
}

// Opens a row's file, making room among the descriptors. The caller holds the lock.
static int open_row(struct sources *s, const struct source *f, struct entry_facts *st,
                    struct file *fd, struct err *err) {
  while (s->n_open >= SOURCES_MAX_OPEN && close_oldest(s))
    ;
  for (;;) {
    const bool named = f == s->rows || f->companion;
    const int rc = named ? open_named(folder_of(s, f), f->path, shown(s, f), st, fd, err)
                         : beneath_open(s->folder_fd, f->path, s->how, shown(s, f).s, st, fd, err);
    if (rc != -2) return rc;
    if (!close_oldest(s)) {
      err_set(err, ERR_RETRY, "'%s' cannot be opened: too many open files", shown(s, f).s);
      return err_hint(err, "raise the limit: ulimit -n 4096");
    }
  }
}

static int reopen(struct sources *s, struct source *f, struct err *err) {
  struct entry_facts st;
  struct file fd = NO_FILE;
  if (open_row(s, f, &st, &fd, err)) return -1;
  if (!fingerprint_same(fingerprint_of(&st), f->print)) {
    file_close(&fd);
    return changed(s, f, fingerprint_of(&st), err);
  }
  f->fd = fd;
  s->n_open++;
  return 0;
}

int sources_fd(struct sources *s, uint32_t file, struct file *fd, struct err *err) {
  assert(file < s->n && !s->rows[file].name_only);
  resources_lock(&s->lock);
  struct source *f = &s->rows[file];
  const bool was_open = file_is_open(f->fd);
  const int rc = was_open ? 0 : reopen(s, f, err);
  if (rc == 0) {
    if (was_open && f->pins == 0) unlist(s, f);
    f->pins++;
    *fd = f->fd;
  }
  resources_unlock(&s->lock);
  return rc;
}

void sources_release_fd(struct sources *s, uint32_t file) {
  resources_lock(&s->lock);
  assert(s->rows[file].pins > 0);
  if (--s->rows[file].pins == 0) list_newest(s, &s->rows[file]);
  while (s->n_open > SOURCES_MAX_OPEN && close_oldest(s))
    ;
  resources_unlock(&s->lock);
}

void sources_let_go(struct sources *s) {
  if (!s) return;
  resources_lock(&s->lock);
  while (close_oldest(s))
    ;
  resources_unlock(&s->lock);
}

// ---- the table ----------------------------------------------------------------------------------

static uint32_t find_slot(const struct sources *s, struct span location) {
  uint32_t at = (uint32_t)span_hash(location) & (s->n_slots - 1);
  while (s->slots[at] != NO_ID && !span_is(location, s->rows[s->slots[at]].name))
    at = (at + 1) & (s->n_slots - 1);
  return at;
}

static void refill_slots(struct sources *s, uint32_t n) {
  TABLE_FREE(s, slots);
  s->slots_cap = 0;
  s->slots = table_grow(NULL, &s->slots_cap, n, sizeof *s->slots);
  s->n_slots = n;
  memset(s->slots, 0xff, n * sizeof *s->slots);
  // Row 0 is the .onnx: named by the user, as companions are, never found by a location.
  for (uint32_t i = 1; i < s->n; i++)
    if (!s->rows[i].companion) s->slots[find_slot(s, span_str(s->rows[i].name))] = i;
}

static struct source *add_row(struct sources *s, struct span name, const char *path) {
  s->rows = table_grow(s->rows, &s->cap, (size_t)s->n + 1, sizeof *s->rows);
  struct source *f = &s->rows[s->n++];
  *f = (struct source){.name = arena_string(&s->arena, name),
                       .path = arena_string(&s->arena, span_str(path))};
  return f;
}

// Opens the newest row for the first time; takes the row back if that fails.
static int open_first(struct sources *s, struct source *f, struct err *err) {
  struct entry_facts st;
  if (open_row(s, f, &st, &f->fd, err)) {
    s->n--;
    return -1;
  }
  f->print = fingerprint_of(&st);
  list_newest(s, f);
  s->n_open++;
  return 0;
}

static int add(struct sources *s, struct span location, bool name_only, uint32_t *file,
               struct err *err) {
  if (s->n_slots == 0 || s->n >= s->n_slots / 2) refill_slots(s, s->n_slots ? s->n_slots * 2 : 64);
  const uint32_t slot = find_slot(s, location);
  *file = s->slots[slot];
  if (*file != NO_ID) return 0;
  char path[BENEATH_MAX + 1];
  if (beneath_normalize(location, path, err)) return -1;
  struct source *f = add_row(s, location, path);
  f->name_only = name_only;
  if (!name_only && open_first(s, f, err)) return -1;
  *file = s->slots[slot] = s->n - 1;
  return 0;
}

int sources_add(struct sources *s, struct span location, uint32_t *file, struct err *err) {
  return add(s, location, false, file, err);
}

int sources_add_name(struct sources *s, struct span location, uint32_t *file, struct err *err) {
  return add(s, location, true, file, err);
}

int sources_add_companion(struct sources *s, const char *path, uint32_t *file, struct err *err) {
  for (*file = 1; *file < s->n; ++*file)
    if (s->rows[*file].companion && strcmp(s->rows[*file].path, path) == 0) return 0;
  struct source *f = add_row(s, span_str(path_base(path)), path);
  f->companion = true;
  return open_first(s, f, err);
}

// ---- opening and closing ------------------------------------------------------------------------

static int open_all(struct sources *s, const char *onnx_path, struct err *err) {
  // "a/b/m.onnx" -> folder "a/b", base "m.onnx"; "m.onnx" -> "."; "/m.onnx" -> "/".
  const char *slash = strrchr(onnx_path, '/'), *base = slash ? slash + 1 : onnx_path;
  const size_t n = slash == onnx_path ? 1 : (size_t)(base - onnx_path) - 1;
  s->folder = slash ? arena_string(&s->arena, span_of(onnx_path, n)) : ".";
  s->given = arena_string(&s->arena, span_str(onnx_path));
  if (!*onnx_path) return err_set(err, ERR_INPUT, "the name of the model is empty");
  s->folder_fd = folder_open(HERE, s->folder, FILE_PLACE);
  const int why = folder_is_open(s->folder_fd) ? 0 : errno;
  if (why == ENOENT)
    return err_set(err, ERR_INPUT, "'%s' does not exist: there is no folder '%s'",
                   quote_path(onnx_path).s, quote_path(s->folder).s);
  if (why)
    return err_errno(err, why, ERR_INPUT, "the model's folder '%s' cannot be opened",
                     quote_path(s->folder).s);
  if (!*base) return err_set(err, ERR_INPUT, "'%s' is a folder", quote_str(onnx_path).s);
  struct source *f = add_row(s, span_str(base), base);
  struct entry_facts st;
  if (open_first(s, f, err)) return -1;
  s->how.linked = entry_look(s->folder_fd, base, FILE_NO_LINK, &st) == 0 && st.kind == ENTRY_LINK;
  if (s->how.linked && file_look(f->fd, &st) == 0)
    s->how.blobs = beneath_blobs(s->folder_fd, base, &st);
  return 0;
}

int sources_open(struct sources **out, const char *onnx_path, const struct sources_options *options,
                 struct err *err) {
  struct sources *s = arena_must(resources_zalloc(1, sizeof *s), sizeof *s);
  s->oldest = s->newest = NO_ID;
  pthread_mutex_init(&s->lock, NULL);
  if (options) s->how.allow_links = options->allow_links;
  if (options) s->how.walk = options->walk;
  *out = s;
  if (open_all(s, onnx_path, err) == 0) return 0;
  sources_close(s);
  *out = NULL;
  return -1;
}

void sources_close(struct sources *s) {
  if (!s) return;
  for (uint32_t i = 0; i < s->n; i++)
    file_close(&s->rows[i].fd);
  folder_close(&s->folder_fd);
  folder_close(&s->how.blobs);
  table_free(s->rows, s->cap, sizeof *s->rows);
  TABLE_FREE(s, slots);
  arena_free(&s->arena);
  pthread_mutex_destroy(&s->lock);
  resources_free(s);
}

// ---- questions ----------------------------------------------------------------------------------

uint32_t sources_count(const struct sources *s) {
  return s->n;
}

const char *sources_name(const struct sources *s, uint32_t file) {
  return s->rows[file].name;
}

const char *sources_given(const struct sources *s) {
  return s->given;
}

bool sources_is_companion(const struct sources *s, uint32_t file) {
  return s->rows[file].companion;
}

const char *sources_companion_path(const struct sources *s, uint32_t file) {
  assert(sources_is_companion(s, file));
  return s->rows[file].path;
}

bool sources_is_absent(const struct sources *s, uint32_t file) {
  return s->rows[file].name_only;
}

void sources_absent_because(struct sources *s, uint32_t file, const struct err *why) {
  struct source *f = &s->rows[file];
  assert(f->name_only);
  f->absence.kind = why->kind;
  f->absence.reason = why->reason;
  f->absence.msg = arena_string(&s->arena, span_str(why->msg));
  f->absence.hint = arena_string(&s->arena, span_str(why->hint));
}

bool sources_why_absent(const struct sources *s, uint32_t file, struct err *why) {
  const struct source *f = &s->rows[file];
  if (f->absence.kind == ERR_NONE) return false;
  *why = (struct err){.kind = f->absence.kind, .reason = f->absence.reason};
  snprintf(why->msg, sizeof why->msg, "%s", f->absence.msg);
  snprintf(why->hint, sizeof why->hint, "%s", f->absence.hint);
  return true;
}

const char *sources_folder(const struct sources *s) {
  return s->folder;
}

uint64_t sources_looks(const struct sources *s) {
  return s->looks;
}

uint64_t sources_size(const struct sources *s, uint32_t file) {
  return s->rows[file].print.size;
}

struct fingerprint sources_fingerprint(const struct sources *s, uint32_t file) {
  return s->rows[file].print;
}

uint32_t sources_find_inode(const struct sources *s, uint64_t dev, uint64_t ino) {
  for (uint32_t i = 0; i < s->n; i++) {
    const struct source *f = &s->rows[i];
    if (!f->name_only && f->print.dev == dev && f->print.ino == ino) return i;
  }
  return NO_ID;
}

int sources_read(struct sources *s, uint32_t file, uint64_t off, void *buf, size_t len,
                 struct err *err) {
  struct file fd;
  if (sources_fd(s, file, &fd, err)) return -1;
  uint8_t *at = buf;
  int rc = 0;
  while (len > 0) {
    const int64_t n = file_read_at(fd, at, len, off);
    if (n <= 0) {
      const struct quoted q = sources_shown(s, file);
      rc = n < 0 ? err_errno(err, errno, ERR_IO, "'%s': reading at byte %s", q.s, decimal(off).s)
                 : err_set(err, ERR_INPUT,
                           "'%s' changed while it was being read: it ends at byte %s of %s", q.s,
                           decimal(off).s, decimal(s->rows[file].print.size).s);
      break;
    }
    at += n;
    len -= (size_t)n;
    off += (uint64_t)n;
  }
  sources_release_fd(s, file);
  return rc;
}

// Looks at names, not at descriptors: a file that lost its name to another one still reads well
// through the old descriptor, but a resumed run would not find it.
static int check_unchanged(const struct sources *s, const struct source *f, struct err *err) {
  struct entry_facts st;
  if (entry_look(folder_of(s, f), f->path, 0,
                 &st)) // it is the file that matters, not how it is reached
    return err_errno(err, errno, ERR_INPUT, "'%s' changed during the run", shown(s, f).s);
  const struct fingerprint now = fingerprint_of(&st);
  return fingerprint_same(now, f->print) ? 0 : changed(s, f, now, err);
}

int sources_unchanged(struct sources *s, struct err *err) {
  for (uint32_t i = 0; i < s->n; i++)
    if (!s->rows[i].name_only && check_unchanged(s, &s->rows[i], err)) return -1;
  return 0;
}
