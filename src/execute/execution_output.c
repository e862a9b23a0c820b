// Where the output goes: its folder and names, and what must not be written over.
//
// Everything is checked before anything is made. Names come from the user, and a slip of the
// shell's completion may name the input: its files are known by inode, so a link or another
// spelling is no way around. What the output would write over beside its own name is asked in
// execution_files.c.
//
// The output's own folder is made if only that is missing, and removed again (execution_close) if nothing
// came to lie in it. The folders around it are the user's business: a slip in a long path makes no
// tree.
//
// A dry run makes no folder: the nearest one that is there stands in for it, and nothing is taken
// in that.
#include "execute/execution.h"

#include "base/shell_words.h"
#include "stream/io/beneath.h"
#include "stream/sys/fs.h"

#include <errno.h>

const char *execution_output_in(const char *out, const char *in, struct arena *a) {
  struct entry_facts st;
  const bool slash = str_ends(out, "/");
  if (!slash && (entry_look(HERE, out, 0, &st) < 0 || st.kind != ENTRY_FOLDER)) return out;
  return arena_printf(a, "%s%s%s", out, slash ? "" : "/", path_base(in));
}

void execution_output_split(struct execution *exec) {
  exec->out.onnx_name = path_base(exec->out.path);
  exec->out.folder = arena_folder(&exec->arena, exec->out.path);
}

int execution_output_check_name(const struct execution *exec, struct err *err) {
  const char *name = exec->out.onnx_name;
  if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
    err_set(err, ERR_USAGE, "the output '%s' is not a file name", quote_str(exec->out.path).s);
    return err_hint(err, "give a file name, such as out/model.onnx");
  }
  if (exec->wanted->manifest && !manifest_can_name(name)) {
    err_set(err, ERR_USAGE, "the output's name '%s' cannot be used in a manifest",
            quote_str(name).s);
    return err_hint(err, "choose a name without ':', or give --no-manifest");
  }
  const bool alone = !exec->wanted->manifest && !exec->wanted->tensor_digests;
  const size_t most =
      STAGING_FILE_MAX - (alone ? 0 : strlen(".manifest.json")); // .tensors.jsonl is as long
  if (strlen(name) <= most) return 0;
  err_set(err, ERR_USAGE, "the output's name '%s' has %zu bytes; the limit is %zu%s",
          quote_str(name).s, strlen(name), most,
          alone ? "" : ", since the names of other files are derived from it");
  return err_hint(err, "choose a shorter name");
}

int execution_output_check_link(const char *folder, struct arena *a, struct err *err) {
  struct entry_facts st;
  char to[256];
  while (entry_look(HERE, folder, FILE_NO_LINK, &st) < 0) {
    if (strcmp(folder, ".") == 0 || strcmp(folder, "/") == 0) return 0;
    folder = arena_folder(a, folder);
  }
  if (st.kind != ENTRY_LINK || entry_look(HERE, folder, 0, &st) == 0 || errno != ENOENT) return 0;
  const int64_t n = entry_target(HERE, folder, to, sizeof to);
  if (n < 0) return 0;
  err_fill(err, ERR_USAGE, "the output's folder '%s' is a link to '%s', which does not exist",
           quote_str(folder).s, quote(span_of(to, (size_t)n)).s);
  return err_hint(err, "create that folder, or remove the link");
}

// With its entry in the folder around it on disk: what is sealed in there must not be lost with it.
static int make_folder(struct execution *exec) {
  struct err ignored = {0}; // using it is what must work
  if (folder_make(HERE, exec->out.folder, 0777)) return errno;
  exec->out.made = true;
  const char *around = arena_folder(&exec->arena, exec->out.folder);
  struct folder at = folder_open(HERE, around, 0);
  if (!folder_is_open(at)) return 0;
  (void)fs_sync_folder(at, around, &ignored);
  folder_close(&at);
  return 0;
}

void execution_output_remove_folder(struct execution *exec) {
  if (exec->out.made) folder_remove(HERE, exec->out.folder);
}

static void cannot_make(struct execution *exec, const char *folder, int errnum, struct err *err) {
  const struct quoted q = quote_str(folder);
  if (errnum != ENOENT) {
    err_fill_errno(err, errnum, ERR_IO, "the output's folder '%s' cannot be created", q.s);
    return;
  }
  err_fill(err, ERR_USAGE, "the output's folder '%s' does not exist, and neither does its parent",
           q.s);
  err_fill_hint(err, "create it first: mkdir -p %s", shell_words_quote(folder, &exec->arena));
}

// The nearest folder that can be opened stands in for the output's own. What the run would not get
// over is noted: it makes one folder, or (--output-dir, before the execution) all that are missing.
static int open_above(struct execution *exec, struct err *err) {
  const char *own = exec->out.folder;
  const bool makes_all = exec->wanted->makes_folders;
  struct err why = {0};
  while (!folder_is_open(exec->out.dest)) {
    if (exec->out.folder_is_above && !makes_all) cannot_make(exec, own, errno, &why);
    if (strcmp(exec->out.folder, ".") == 0 || strcmp(exec->out.folder, "/") == 0)
      return err_errno(err, errno, ERR_IO, "the folder '%s' cannot be opened", exec->out.folder);
    exec->out.folder_is_above = true;
    exec->out.folder = arena_folder(&exec->arena, exec->out.folder);
    exec->out.dest = folder_open(HERE, exec->out.folder, 0);
  }
  if (entry_may(exec->out.dest, ".", MAY_WRITE | MAY_ENTER)) cannot_make(exec, own, errno, &why);
  return why.kind == ERR_NONE ? 0 : execution_refused(exec, &why, err);
}

int execution_output_open(struct execution *exec, struct err *err) {
  struct err why = {0};
  exec->out.dest = folder_open(HERE, exec->out.folder, 0);
  if (!folder_is_open(exec->out.dest) && errno == ENOENT) {
    if (execution_output_check_link(exec->out.folder, &exec->arena, &why))
      return execution_refused(exec, &why, err) ? -1 : open_above(exec, err);
    if (exec->request->dry_run) return open_above(exec, err);
    const int errnum = make_folder(exec);
    if (errnum && errnum != EEXIST) {
      cannot_make(exec, exec->out.folder, errnum, err);
      return -1;
    }
    exec->out.dest = folder_open(HERE, exec->out.folder, 0);
  }
  if (folder_is_open(exec->out.dest)) return 0;
  err_fill_errno(&why, errno, errno == ENOTDIR ? ERR_USAGE : ERR_IO,
                 "the output's folder '%s' cannot be opened", quote_str(exec->out.folder).s);
  return execution_refused(exec, &why, err) ? -1 : open_above(exec, err);
}

bool execution_output_there(const struct execution *exec, struct entry_facts *st) {
  return !exec->out.folder_is_above &&
         entry_look(exec->out.dest, exec->out.onnx_name, FILE_NO_LINK, st) == 0;
}

// In a folder with the sticky bit (as /tmp) nobody renames over what others own, whatever its mode.
static bool sticky_keeps(const struct execution *exec, const struct entry_facts *st) {
  const uint32_t us = process_owner();
  struct entry_facts folder;
  return us != 0 && st->owner != us && folder_look(exec->out.dest, &folder) == 0 &&
         folder.mode & ENTRY_STICKY && folder.owner != us;
}

// A rename would replace what its owner has protected, or what the user may not write.
static int check_writable(const struct execution *exec, const char *name,
                          const struct entry_facts *st, struct err *err) {
  if (!exec->out.replace || st->kind != ENTRY_FILE) return 0;
  if (sticky_keeps(exec, st)) {
    err_set(err, ERR_PERMISSION,
            "'%s' in '%s' belongs to another user, and the folder's sticky bit keeps it",
            quote_str(name).s, quote_str(exec->out.folder).s);
    return err_hint(err, "write to another folder, or under another name");
  }
  if (exec->wanted->replace_readonly) return 0;
  if (st->mode & 0200 && entry_may(exec->out.dest, name, MAY_WRITE) == 0) return 0;
  err_set(err, ERR_PERMISSION, "'%s' in '%s' is write-protected", quote_str(name).s,
          quote_str(exec->out.folder).s);
  return err_hint(err, "--force-readonly replaces it anyway");
}

// Refuses to write over what must not be written over.
int execution_output_check(const struct execution *exec, struct err *err) {
  struct entry_facts st;
  bool inplace = exec->wanted->inplace;
  if (!execution_output_there(exec, &st)) return 0;
  if (inplace && st.kind == ENTRY_LINK) {
    err_set(err, ERR_USAGE, "'%s' is a link, which --inplace would replace with a file",
            quote_str(exec->out.path).s);
    return err_hint(err, "choose another output");
  }
  if (st.kind != ENTRY_FILE && st.kind != ENTRY_LINK) {
    err_set(err, ERR_USAGE, "the output '%s' exists and is not a file",
            quote_str(exec->out.path).s);
    return err_hint(err, "give the name of a file, such as a new one in that folder");
  }
  if (check_writable(exec, exec->out.onnx_name, &st, err)) return -1;
  if (inplace) return 0;
  struct entry_facts behind = st;
  if (st.kind == ENTRY_LINK) (void)entry_look(exec->out.dest, exec->out.onnx_name, 0, &behind);
  if (sources_find_inode(exec->sources, behind.volume, behind.number) != NO_ID) {
    err_set(err, ERR_USAGE, "the output '%s' is one of the input's own files",
            quote_str(exec->out.path).s);
    return err_hint(err, "choose another output, or use --inplace to replace the input");
  }
  if (execution_reads(exec, &behind)) {
    err_set(err, ERR_USAGE, "the output '%s' is a file this command reads from",
            quote_str(exec->out.path).s);
    return err_hint(err, "choose another output");
  }
  if (exec->out.replace) return 0;
  err_set(err, ERR_USAGE, "the output '%s' exists already", quote_str(exec->out.path).s);
  return err_hint(err, "add --force to replace it ('weir audit' verifies it)");
}

bool execution_output_is_closed(const struct execution *exec) {
  struct entry_facts st;
  return exec->out.replace && execution_output_there(exec, &st) && st.kind == ENTRY_FILE &&
         (st.mode & 0044) != 0044;
}

// A dry run that is refused for want of --force has the names of the run that is not.
static bool is_to_replace(const struct execution *exec) {
  return exec->out.replace || exec->request->dry_run;
}

void execution_output_ask_old(struct execution *exec) {
  if (is_to_replace(exec))
    seal_refers_ask(&exec->out.refers, exec->out.folder, exec->out.onnx_name);
}

// Names that nobody chose: those of tensors may be names of what lies beside the model, or in the staging folder.
static bool is_reserved(const struct execution *exec, const char *name) {
  const struct manifest_names beside = manifest_names(exec->out.onnx_name);
  return staging_name_reserved(name) || strcmp(name, beside.manifest) == 0 ||
         strcmp(name, beside.tensors) == 0;
}

// Is this base name taken in the output's folder? Not by a file of the model that is replaced.
bool execution_output_taken(void *ctx, const char *name) {
  struct execution *exec = ctx;
  struct entry_facts st;
  if (exec->layout.each && is_reserved(exec, name)) return true;
  if (exec->out.folder_is_above || entry_look(exec->out.dest, name, FILE_NO_LINK, &st) < 0)
    return false;
  if (is_to_replace(exec) && seal_may_replace(&exec->out.refers, exec->out.dest, exec->out.folder,
                                              exec->out.onnx_name, name))
    return false;
  if (!exec->out.taken) exec->out.taken = arena_string(&exec->arena, span_str(name));
  if (sources_find_inode(exec->sources, st.volume, st.number) != NO_ID)
    exec->out.taken_by_source = arena_string(&exec->arena, span_str(name));
  return true;
}

// The data files that are there under the output's names may be written, and none is the input's.
int execution_output_check_data(const struct execution *exec, struct err *err) {
  for (uint32_t i = 0; i + 1 < exec->plan.n_outputs && !exec->out.folder_is_above; i++) {
    const char *name = exec->plan.outputs[i].name;
    struct entry_facts st;
    if (entry_look(exec->out.dest, name, FILE_NO_LINK, &st) == 0 &&
        check_writable(exec, name, &st, err))
      return -1;
  }
  if (!exec->out.taken_by_source || exec->out.replace) return 0;
  err_set(err, ERR_USAGE, "the output's data file '%s' is one of the input's own files",
          quote_str(exec->out.taken_by_source).s);
  return err_hint(err, "choose another output, or add --force to use a free name");
}

// What no reader takes as a location must not be found when all the bytes are written.
int execution_output_check_locations(const struct execution *exec, struct err *err) {
  char path[BENEATH_MAX + 1];
  for (uint32_t i = 0; i < exec->plan.n_outputs; i++) {
    const char *name = exec->plan.outputs[i].name;
    struct err why = {0};
    if (strcmp(name, exec->out.onnx_name) == 0) continue;
    if (strlen(name) > STAGING_FILE_MAX)
      err_fill(&why, ERR_USAGE, "the data file's name '%s' has %zu bytes; the limit is %d",
               quote_str(name).s, strlen(name), STAGING_FILE_MAX);
    else if (beneath_normalize(span_str(name), path, &why) == 0)
      continue;
    err_fill(err, ERR_USAGE, "%s", why.msg);
    return err_hint(err, "choose another name for the output");
  }
  return 0;
}
