// Manual pages, one a command and one of the whole, as man(7) source printed from the tables.
//
// Text from the tables passes through `put`, which escapes what roff would read: backslashes, a dot
// or quote at the start of a line, and '-', which would print as a hyphen that cannot be copied
// into a shell. The date is that of the version: the same version gives the same bytes.
#include "cli/help/help.h"

#include "base/version_number.h"
#include "platform/files.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static void put(FILE *to, const char *text) {
  for (const char *at = text; *at; at++) {
    const bool starts = (at == text || at[-1] == '\n') && (*at == '.' || *at == '\'');
    if (starts) fputs("\\&", to);
    if (*at == '\n')
      fputs("\n.br\n", to);
    else if (*at == '\\')
      fputs("\\e", to);
    else if (*at == '-')
      fputs("\\-", to);
    else if (*at == '\'')
      fputs("\\(aq", to);
    else
      fputc(*at, to);
  }
}

static void put_between(FILE *to, const char *before, const char *text, const char *after) {
  fputs(before, to);
  put(to, text);
  fputs(after, to);
}

// Sentences each start a line, which is how roff knows where they end; a line break of the text begins a paragraph.
static void put_sentences(FILE *to, const char *text) {
  char one[1024];
  while (*text) {
    const size_t line = strcspn(text, "\n");
    const char *stop = strstr(text, ". ");
    const size_t n = stop && (size_t)(stop - text) < line ? (size_t)(stop - text) + 1 : line;
    assert(n < sizeof one);
    snprintf(one, sizeof one, "%.*s", (int)n, text);
    put(to, one);
    fputc('\n', to);
    text += n;
    if (*text == '\n') fputs(".PP\n", to);
    text += strspn(text, " \n");
  }
}

static void put_head(FILE *to, const char *name, const char *summary) {
  fputs(".TH \"", to);
  for (const char *at = name; *at; at++)
    fputc(toupper((unsigned char)*at), to);
  fprintf(to, "\" \"1\" \"%s\" \"weir %s\" \"weir manual\"\n.SH NAME\n", version_date,
          version_number);
  put(to, name);
  put_between(to, " \\- ", summary, "\n");
}

static void put_option(FILE *to, const struct cli_option_row *row, const char *variable) {
  struct help_metavar m = help_metavar(row, false);
  fputs(".TP\n", to);
  if (row->letter) fprintf(to, "\\fB\\-%c\\fR, ", row->letter);
  put_between(to, "\\fB\\-\\-", row->name, "\\fR");
  if (m.s[0]) put_between(to, row->kind == CLI_MAYBE ? "\\fI" : " \\fI", m.s, "\\fR");
  put_between(to, "\n", help_option_text(row, variable, true).s, "\n");
}

static void put_entry(FILE *to, const char *head, const char *text) {
  put_between(to, ".TP\n.B ", head, "\n");
  put_between(to, "", text, "\n");
}

static void put_command_page(FILE *to, enum cli_command c) {
  const struct cli_command_row *row = cli_command_row(c);
  char name[64];
  snprintf(name, sizeof name, "weir-%s", row->name);
  put_head(to, name, row->summary);
  fprintf(to, ".SH SYNOPSIS\n.B weir %s\n", row->name);
  put_between(to, "", row->operands, " [options]\n.SH DESCRIPTION\n");
  put_sentences(to, row->about);
  fputs(".SH OPTIONS\n", to);
  for (uint32_t g = 0; g < CLI_GROUPS; g++) {
    if (!help_group_used(g, c)) continue;
    if (g != CLI_OWN) fprintf(to, ".SS %s\n", help_group_titles[g]);
    for (enum cli_option o = CLI_NONE; (o = cli_option_after(c, o)) != CLI_NONE;) {
      const struct cli_option_row option = cli_row(c, o);
      if (option.group == g) put_option(to, &option, cli_variable(o));
    }
  }
  fputs(".SH EXAMPLES\n", to);
  for (size_t i = 0; i < CLI_EXAMPLES; i++) {
    put_between(to, ".TP\n", row->example[i].line, "\n");
    put_between(to, "", row->example[i].why, "\n");
  }
  fputs(".SH EXIT STATUS\nSee\n.BR weir (1).\n.SH SEE ALSO\n.BR weir (1)\n", to);
}

static void put_main_page(FILE *to) {
  put_head(to, "weir", "transform ONNX models that are larger than memory");
  fputs(".SH SYNOPSIS\n.B weir\n.I command\n[operands] [options]\n.SH DESCRIPTION\n", to);
  put_sentences(to, help_what_weir_is);
  fputs("Each command has a page of its own.\n.SH COMMANDS\n", to);
  for (uint32_t f = 0; f < CLI_FAMILIES; f++) {
    fprintf(to, ".SS %s\n", help_family_titles[f]);
    for (uint32_t c = 0; c < CLI_COMMANDS; c++)
      if (cli_command_row(c)->family == f)
        put_entry(to, cli_command_row(c)->name, cli_command_row(c)->summary);
  }
  fputs(".SH OPTIONS\n", to);
  put_entry(to, "-h", "list the commands (weir COMMAND -h: about a command)");
  put_entry(
      to, "--help",
      "topics, environment and exit codes too (weir COMMAND --help: everything about a command)");
  put_entry(to, "help TOPIC",
            "explain targets, memory, pipelines, options, exit-codes, completion or environment");
  put_entry(to, "completion bash|zsh|fish", "print a completion script");
  put_entry(to, "-V, --version",
            "print the versions of weir and its libraries, the instruction set and the I/O engine");
  put_entry(to, "--version --licenses",
            "print the licences of weir and of the libraries that are linked into it");
  fputs(".SH ENVIRONMENT\n", to);
  struct help_variable v;
  for (uint32_t k = 0; (v = help_variable(k)).name; k++)
    put_entry(to, v.name, v.meaning);
  fputs(".SH EXIT STATUS\n", to);
  for (const struct help_exit_code *e = help_exit_codes; e->meaning; e++) {
    char number[16];
    snprintf(number, sizeof number, "%d", (int)e->code);
    put_entry(to, number, e->meaning);
  }
  fputs(".PP\n", to);
  put_sentences(to, help_signals);
  fputs(".SH SEE ALSO\n", to);
  for (uint32_t c = 0; c < CLI_COMMANDS; c++)
    fprintf(to, ".BR weir\\-%s (1)%s\n", cli_command_row(c)->name, c + 1 < CLI_COMMANDS ? "," : "");
}

int manpage_write_all(const char *folder, struct err *err) {
  (void)folder_make(HERE, folder, 0777); // what is wrong with it is said of the first page
  for (uint32_t c = 0; c <= CLI_COMMANDS; c++) {
    char path[4096];
    const char *dash = c < CLI_COMMANDS ? "-" : "";
    const char *name = c < CLI_COMMANDS ? cli_command_row(c)->name : "";
    int n = snprintf(path, sizeof path, "%s/weir%s%s.1", folder, dash, name);
    if (n < 0 || (size_t)n >= sizeof path)
      return err_set(err, ERR_USAGE, "the path '%s' is too long", quote_str(folder).s);
    FILE *to = file_stream(file_open_to_write(HERE, path, FILE_MAKE | FILE_EMPTY, 0666), "w");
    if (!to) return err_errno(err, errno, ERR_IO, "'%s' cannot be written", quote_str(path).s);
    if (c < CLI_COMMANDS)
      put_command_page(to, c);
    else
      put_main_page(to);
    bool failed = ferror(to) != 0;
    if (stream_close(to) != 0) failed = true;
    if (failed) return err_errno(err, errno, ERR_IO, "'%s' cannot be written", quote_str(path).s);
  }
  return 0;
}
