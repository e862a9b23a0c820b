// What interrupted runs left in a folder.
//
//   staging_scan ──▶ all that there is, listed ──▶ removed, one by one
//
// Everything is listed first and removed afterwards, so that the list is whole even if a removal
// fails, and so that the folder is not changed while it is read. What a running weir holds, and
// what is between two renames of a seal, is listed and stays. Data files that such a run has put in place under the
// names of its model, where no model uses them, are named with it: weir cannot tell for certain whose they are, so they
// stay too. What is left of folders whose output is all in place can always go: nothing can be continued there.
//
// The folder of a plan was not interrupted: its units wait for their members. The list names it as a plan; it is removed like the others.
#ifndef WEIR_LEFTOVERS_H
#define WEIR_LEFTOVERS_H

#include "base/arena.h"
#include "base/err.h"
#include "base/table.h"

// A data file that a run has put in place, and that no model uses.
struct leftover_file {
  const char *name;
  uint64_t bytes;
  struct leftover_file *next;
};

struct leftover {
  const char *name, *resume, *orphan_of; // the last two may be NULL
  uint64_t bytes;
  bool locked, half_sealed, finished, planned, begun, removed;
  const struct err *failed;    // why it could not be removed, or NULL
  struct leftover_file *files; // they stay; whoever completes the run makes them part of its model
};

struct leftovers_sum {
  uint64_t bytes;
  uint32_t runs, plans, data_files;
};

struct leftovers {
  struct arena arena;
  TABLE(struct leftover, rows);            // by name
  struct leftovers_sum removable, removed; // but for what can always go
  uint32_t active, unfinished;             // what stays: held by a running weir; half in place
};

// leftovers_done in any case.
int leftovers_list(struct leftovers *c, const char *dir, struct err *err);
void leftovers_done(struct leftovers *c);
// Removes what can always go, and with `all` what else may. Goes on after one that cannot be removed; gives the first
// such, or NULL.
const struct err *leftovers_remove(struct leftovers *c, const char *dir, bool all);

#endif
