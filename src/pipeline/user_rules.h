// Rules of a user's own: files named by --rules, or what a log kept of them, become passes beside those of
// the catalogue.
#ifndef WEIR_USER_RULES_H
#define WEIR_USER_RULES_H

#include "json/json.h"
#include "passes/catalogue/passes.h"
#include "passes/rules/rules_own.h"

// Starts zeroed.
struct user_rules {
  TABLE(struct rules_text, texts);
  struct own_passes passes; // its list is NULL: none was read
  struct arena arena;
};

// Reads n files, all of them one book. ERR_INPUT if one cannot be read; ERR_USAGE with file, line and
// column for what is wrong in it. n 0: nothing.
int user_rules_read(struct user_rules *o, const char *const *paths, uint32_t n, struct err *err);
// The same of what user_rules_write wrote into the options of a log. What this version cannot read is
// left out: passes without a row count as the least exact ones.
void user_rules_read_log(struct user_rules *o, const struct json_value *options);
void user_rules_done(struct user_rules *o);

// "rules":[{"name":"my.rules","text":"..."}], so that a log says what its passes were. No paths.
void user_rules_write(const struct user_rules *o, struct json_out *j);

#endif
