// Help on things that several commands share.
//
// Texts come from topics.def; exit codes, the environment and the options that all writers have are printed
// from the tables that the rest of help reads.
#include "cli/help/topics.h"

#include "base/guess.h"
#include "cli/cli_unknown.h"
#include "cli/help/help.h"

#include <assert.h>
#include <string.h>

#define COMPLETION                                                                                 \
  "These commands print a script that completes weir's command lines. A shell reads it, for "      \
  "example from its configuration file:\n"                                                         \
  "$ source <(weir completion bash)\n"                                                             \
  "$ source <(weir completion zsh)\n"                                                              \
  "$ weir completion fish | source"

static const struct topic {
  const char *name, *others, *summary, *text;
  void (*print)(FILE *to); // where there is no text
} topics[] = {
#define TOPIC(name, others, summary, text) {name, others, summary, text, NULL},
#include "cli/help/topics.def"
#undef TOPIC
    {"options", "option shared", "options of all commands that write a model", NULL,
     help_shared_options},
    {"exit-codes", "exit codes exitcodes status errors", "meaning of each exit code", NULL,
     help_exit_code_list},
    {"completion", "completions", "completion scripts of bash, zsh and fish", COMPLETION, NULL},
    {"environment", "env variables", "variables of the environment that weir reads", NULL,
     help_environment},
};

enum { TOPICS = sizeof topics / sizeof *topics };

static bool means(const struct topic *topic, const char *word) {
  return strcmp(topic->name, word) == 0 || cli_has_word(topic->others, span_str(word));
}

uint32_t topics_find(const char *const *words, uint32_t n_words) {
  for (uint32_t k = 0; n_words > 0 && k < TOPICS; k++) {
    uint32_t i = 0;
    while (i < n_words && means(&topics[k], words[i]))
      i++;
    if (i == n_words) return k;
  }
  return TOPICS_NONE;
}

const char *topics_name(uint32_t k, const char **summary) {
  if (k >= TOPICS) return NULL;
  *summary = topics[k].summary;
  return topics[k].name;
}

// Commands are indented and not wrapped; a blank line is before and after them, and between paragraphs.
static void print_text(FILE *to, const char *text) {
  bool first = true, command = false; // the paragraph before
  for (const char *at = text; *at;) {
    const size_t n = strcspn(at, "\n");
    const bool is_command = strncmp(at, "$ ", 2) == 0;
    if (!first && !(command && is_command)) fputc('\n', to);
    if (is_command) {
      fprintf(to, "  %.*s\n", (int)n, at);
    } else {
      char paragraph[1024];
      const int written = snprintf(paragraph, sizeof paragraph, "%.*s", (int)n, at);
      assert(written >= 0 && (size_t)written < sizeof paragraph);
      help_wrap(to, paragraph, 0, 0);
    }
    first = false;
    command = is_command;
    at += n + (at[n] == '\n');
  }
}

void topics_print(FILE *to, uint32_t topic) {
  if (topics[topic].text)
    print_text(to, topics[topic].text);
  else
    topics[topic].print(to);
}

int topics_unknown(const char *name, struct err *err) {
  struct guess g = guess_start(name);
  for (uint32_t k = 0; k < TOPICS; k++)
    guess_try(&g, topics[k].name);
  if (!g.best) return cli_unknown_command(name, err);
  err_fill(err, ERR_USAGE, "there is no command or topic '%s'", quote_str(name).s);
  return err_hint(err, "did you mean 'weir help %s'?", g.best);
}
