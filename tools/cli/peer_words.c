// The rows of peer_words.def, looked through from the top: they are few, and only who has typed something that there
// is not waits for it.
#include "cli/peer_words.h"

#include "targets/targets.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

static const struct {
  const char *theirs, *ours;
} commands[] = {
#define PEER_COMMAND(theirs, ours) {theirs, ours},
#define PEER_OPTION(...)
#define PEER_VALUE(...)
#include "cli/peer_words.def"
#undef PEER_COMMAND
#undef PEER_OPTION
};

static const struct {
  const char *commands, *theirs, *ours;
} options[] = {
#define PEER_COMMAND(...)
#define PEER_OPTION(commands, theirs, ours) {commands, theirs, ours},
#include "cli/peer_words.def"
#undef PEER_OPTION
#undef PEER_VALUE
};

static const struct {
  const char *option, *theirs, *ours;
} values[] = {
#define PEER_OPTION(...)
#define PEER_VALUE(option, theirs, ours) {option, theirs, ours},
#include "cli/peer_words.def"
};

static const char *next_letter(const char *at) {
  return at + strspn(at, "-_");
}

// A word of a row, from a to its end, which may be '*': any that begin so.
static bool is_word(const char *a, const char *end, const char *b) {
  for (a = next_letter(a), b = next_letter(b); a < end && *a != '*';
       a = next_letter(a), b = next_letter(b))
    if (tolower((unsigned char)*a++) != tolower((unsigned char)*b++)) return false;
  return a < end || *b == '\0';
}

static bool is_theirs(const char *theirs, const char *name) {
  for (struct span word; (word = cli_next_word(&theirs)).n > 0;)
    if (is_word((const char *)word.at, (const char *)word.at + word.n, name)) return true;
  return false;
}

const char *peer_command(const char *name) {
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (is_theirs(commands[i].theirs, name)) return commands[i].ours;
  return NULL;
}

const char *peer_option(enum cli_command *command, const char *name) {
  const char *other = NULL;
  enum cli_command whose = *command;
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    if (!is_theirs(options[i].theirs, name)) continue;
    if (cli_names(options[i].commands, *command)) return options[i].ours;
    if (other) continue;
    other = options[i].ours;
    for (whose = 0; !cli_names(options[i].commands, whose);)
      whose++;
  }
  *command = whose;
  return other;
}

const char *peer_value(const char *option, const char *value) {
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    if (strcmp(values[i].option, option) == 0 && is_theirs(values[i].theirs, value))
      return values[i].ours;
  return strcmp(option, "target") == 0 ? targets_meant(value) : NULL;
}
