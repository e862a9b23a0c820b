// What other tools call things that weir has: hints for those who type their words (peer_words.def).
#ifndef WEIR_PEER_WORDS_H
#define WEIR_PEER_WORDS_H

#include "cli/cli.h"

// Ours in words for a hint, or NULL: it is no word of others that we know.
const char *peer_command(const char *name);
// An option of *command, or else of another one, which *command then is.
const char *peer_option(enum cli_command *command, const char *name);
const char *peer_value(const char *option, const char *value);

#endif
