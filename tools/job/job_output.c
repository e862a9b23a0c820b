// Where the output goes: its folder and names, and what must not be written over.
//
// Everything is checked before anything is made. Names come from the user, and a slip of the
// shell's completion may name the input: its files are known by inode, so a link or another
// spelling is no way around. What the output would write over beside its own name is asked in
// job_files.c.
//
// A dry run makes no folder. Where the run would make it (--output-dir), the nearest folder that is
// there stands in for it, and nothing is taken in it.
#include "job.h"

#include "beneath.h"

#include <errno.h>
#include <fcntl.h>

void job_output_split(struct job *job) {
  job->out.onnx_name = path_base(job->out.path);
  job->out.folder = arena_folder(&job->arena, job->out.path);
}

int job_output_check_name(const struct job *job, struct err *err) {
  const char *name = job->out.onnx_name;
  if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
    err_set(err, ERR_USAGE, "the output '%s' names no file", quote_str(job->out.path).s);
    return err_hint(err, "name one, such as out/model.onnx");
  }
  if (!cli_flag(job->args, OPT_NO_MANIFEST) && !manifest_can_name(name)) {
    err_set(err, ERR_USAGE, "the output's name '%s' cannot stand in a manifest", quote_str(name).s);
    return err_hint(err, "choose a name without ':', or give --no-manifest");
  }
  const bool alone =
      cli_flag(job->args, OPT_NO_MANIFEST) && !cli_flag(job->args, OPT_TENSOR_DIGESTS);
  const size_t most =
      STAGING_FILE_MAX - (alone ? 0 : strlen(".manifest.json")); // .tensors.jsonl is as long
  if (strlen(name) <= most) return 0;
  err_set(err, ERR_USAGE, "the output's name '%s' has %zu bytes; %zu are the most%s",
          quote_str(name).s, strlen(name), most,
          alone ? "" : ", since the files beside it have longer ones");
  return err_hint(err, "choose a shorter name");
}

// A dry run makes no folder: the nearest one that is there stands in for one that the run would
// make.
static bool takes_folder_above(struct job *job) {
  if (!job->nothing_to_write || !cli_given(job->args, OPT_OUTPUT_DIR)) return false;
  if (strcmp(job->out.folder, ".") == 0) return false;
  job->out.folder_is_above = true;
  job->out.folder = arena_folder(&job->arena, job->out.folder);
  return true;
}

int job_output_open(struct job *job, struct err *err) {
  do
    job->out.dest = open(job->out.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  while (job->out.dest < 0 && errno == ENOENT && takes_folder_above(job));
  if (job->out.dest >= 0) return 0;
  if (errno == ENOENT) {
    err_set(err, ERR_USAGE, "the output's folder '%s' does not exist",
            quote_str(job->out.folder).s);
    return err_hint(err, "make it first: mkdir -p %s", quote_str(job->out.folder).s);
  }
  return err_errno(err, errno, ERR_IO, "the output's folder '%s' cannot be opened",
                   quote_str(job->out.folder).s);
}

bool job_output_there(const struct job *job, struct stat *st) {
  return !job->out.folder_is_above &&
         fstatat(job->out.dest, job->out.onnx_name, st, AT_SYMLINK_NOFOLLOW) == 0;
}

// Refuses to write over what must not be written over.
int job_output_check(const struct job *job, struct err *err) {
  struct stat st;
  bool inplace = cli_flag(job->args, OPT_INPLACE);
  if (!job_output_there(job, &st)) return 0;
  if (inplace && S_ISLNK(st.st_mode)) {
    err_set(err, ERR_USAGE, "'%s' is a link, which --inplace would replace by a file",
            quote_str(job->out.path).s);
    return err_hint(err, "name another output");
  }
  if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode)) {
    err_set(err, ERR_USAGE, "the output '%s' exists and is not a file", quote_str(job->out.path).s);
    return err_hint(err, "name a file that weir may make, such as a new one in that folder");
  }
  if (inplace) return 0;
  struct stat behind = st;
  if (S_ISLNK(st.st_mode)) (void)fstatat(job->out.dest, job->out.onnx_name, &behind, 0);
  if (sources_find_inode(job->sources, behind.st_dev, behind.st_ino) != NO_ID) {
    err_set(err, ERR_USAGE, "the output '%s' is one of the input's own files",
            quote_str(job->out.path).s);
    return err_hint(err, "name another output, or use --inplace to replace the input");
  }
  if (job_reads(job, &behind)) {
    err_set(err, ERR_USAGE, "the output '%s' is a file that this command reads",
            quote_str(job->out.path).s);
    return err_hint(err, "name another output");
  }
  if (job->out.replace) return 0;
  err_set(err, ERR_USAGE, "the output '%s' exists already", quote_str(job->out.path).s);
  return err_hint(err, "add --force to replace it; 'weir audit' says whether it is whole");
}

// Is this base name taken in the output's folder?
bool job_output_taken(void *ctx, const char *name) {
  struct job *job = ctx;
  struct stat st;
  if (job->out.folder_is_above || fstatat(job->out.dest, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
    return false;
  if (sources_find_inode(job->sources, st.st_dev, st.st_ino) != NO_ID)
    job->out.taken_by_source = arena_string(&job->arena, span_str(name));
  return true;
}

// With --inplace and --force a data file of the usual name is expected, and the new one gets
// another.
int job_output_check_data(const struct job *job, struct err *err) {
  if (!job->out.taken_by_source || job->out.replace) return 0;
  err_set(err, ERR_USAGE, "the output's data file '%s' is one of the input's own files",
          quote_str(job->out.taken_by_source).s);
  return err_hint(err, "name another output, or add --force: a free name is chosen then");
}

// What no reader takes as a location must not be found when all the bytes are written.
int job_output_check_locations(const struct job *job, struct err *err) {
  char path[BENEATH_MAX + 1];
  for (uint32_t i = 0; i < job->plan.n_outputs; i++) {
    const char *name = job->plan.outputs[i].name;
    struct err why = {0};
    if (strcmp(name, job->out.onnx_name) == 0) continue;
    if (strlen(name) > STAGING_FILE_MAX)
      err_fill(&why, ERR_USAGE, "the data file's name '%s' has %zu bytes; %d are the most",
               quote_str(name).s, strlen(name), STAGING_FILE_MAX);
    else if (beneath_normalize(span_str(name), path, &why) == 0)
      continue;
    err_fill(err, ERR_USAGE, "%s", why.msg);
    return err_hint(err, "choose another name for the output");
  }
  return 0;
}
