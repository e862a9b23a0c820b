// Which models `weir shrink` takes, what their outputs are called, and what --info says of them.
#ifndef WEIR_SHRINK_INPUTS_H
#define WEIR_SHRINK_INPUTS_H

#include "cli/cli.h"

struct shrink_input {
  const char *in;
  const char *out; // NULL: --inplace, or a dry run into a folder that is not there yet
};

// Zero-initialize; shrink_inputs_free frees.
struct shrink_inputs {
  TABLE(struct shrink_input, rows);
  struct arena arena;
  uint32_t skipped; // models that are not among the rows
  char *folder;     // --output-dir, if shrink_inputs_list made folders for it; else NULL
  uint32_t made;    // how many
};

// Removes the folders that were made, as far as nothing lies in them.
void shrink_inputs_free(struct shrink_inputs *s);
// The models that the command line names: files as they are, of a folder its *.onnx in order of
// their names. Skipped, with a notice: a file whose name ends with the suffix, and one whose output
// would be itself. --output-dir is made if it is missing (not for a dry run). ERR_INPUT for a
// folder that cannot be read or holds no model, and for a second of two words that does not exist:
// it may be meant as the output. ERR_USAGE if two models would get one output.
int shrink_inputs_list(struct shrink_inputs *s, const struct cli_args *args, struct err *err);

// shrink_info.c: prints the weights that shrink looks at, and totals (--json: as an object). Reads
// no weights.
int shrink_info(const struct cli_args *args, const char *path, struct err *err);

#endif
