// A job file for a plan, made of a text of job_files.def.
#ifndef WEIR_JOB_FILE_H
#define WEIR_JOB_FILE_H

#include "distribute/planned.h"

struct job_file {
  const char *name, *text; // of the scheduler; with words that are replaced
};

// NULL: there is none for such a scheduler.
const struct job_file *job_file_of(const char *scheduler);
// The text for this plan, which was opened, in its arena. image: of containers, or NULL. ERR_USAGE: the scheduler cannot carry
// out such a plan.
int job_file_make(const struct job_file *f, struct planned *x, const char *image, const char **text,
                  struct err *err);

#endif
