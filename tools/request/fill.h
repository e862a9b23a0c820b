// Values of options go into members of what a command is asked for, as the rows of options.def say.
#ifndef WEIR_FILL_H
#define WEIR_FILL_H

#include "cli/cli.h"

// Fills the members of `into`, a struct s, whose rows name that struct and belong to the command, in the order of the
// rows. A member whose option has no value, nor a preset, stays as it is. The strings are those of the command line; what
// readers make is in *arena, which may be NULL where no reader of the struct needs it. ERR_USAGE by a reader.
#define FILL_IN(args, s, into, arena, err) fill_from(args, #s, (struct s *){into}, arena, err)
// The same of a struct whose rows have no reader that can fail.
#define FILL(args, s, into) ((void)FILL_IN(args, s, into, NULL, NULL))
int fill_from(const struct cli_args *args, const char *name, void *into, struct arena *arena,
              struct err *err);

#endif
