// How words become values, for the parser: commands read them by the slots of cli.h.
#ifndef WEIR_CLI_VALUES_H
#define WEIR_CLI_VALUES_H

#include "cli/cli.h"

// An option of the line's command that is about to have a value.
struct cli_taking {
  struct cli_args *args;
  enum cli_option o;
  struct cli_option_row row;
  struct cli_value *value;
};
struct cli_taking cli_taking_of(struct cli_args *args, enum cli_option o);

// Room for the values of the command's options, and the presets of all.
void cli_make_room(struct cli_args *args);
void cli_take_presets(struct cli_args *args);
// Makes a word, of the line or of the environment, the value. ERR_USAGE: it does not fit the row.
int cli_take_value(const struct cli_taking *t, const char *text, struct err *err);

// "-" stands where a model is meant: ERR_USAGE.
int cli_refuse_stream(struct err *err);

#endif
