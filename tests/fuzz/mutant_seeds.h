// The models that mutants are made of, from files that tests have: .onnx files, and the models of
// text cases (tests/passes) as the .onnx that they would be.
#ifndef WEIR_MUTANT_SEEDS_H
#define WEIR_MUTANT_SEEDS_H

#include "base/arena.h"
#include "base/span.h"
#include "base/table.h"

enum { SEED_MOST_BYTES = 48 << 10 };

struct seed {
  const char *name; // of its file, as it was found
  struct span model;
  uint64_t key; // of its bytes
  const char *
      *passes; // of a case: as behind --pass, files of ranges by the name `ranges`; else NULL
  uint32_t n_passes;
};

struct seeds {
  TABLE(struct seed, list);
  struct arena arena;
};

// Adds those of a file or of all files of a folder and below, in the order of their names. What is
// larger than SEED_MOST_BYTES, or no model as it stands, is left out. `ranges`: how passes of cases
// call their ranges from now on.
void seeds_add(struct seeds *s, const char *path, const char *ranges);
void seeds_free(struct seeds *s);
// Ends the program where the file cannot be read. In *a.
struct span seeds_read_file(const char *path, struct arena *a);

#endif
