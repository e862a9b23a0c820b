// Few rows, looked through from the top; then versions of ONNX Runtime, in whatever form.
#include "base/guess.h"
#include "targets/targets.h"

#include <stdio.h>
#include <string.h>

static const struct {
  const char *theirs, *ours;
} words_of_others[] = {
#define TARGET_WORD(theirs, ours) {theirs, ours},
#include "targets/target_words.def"
};

// As a hint names them.
static const struct {
  const char *same, *nearest;
} names[] = {
#define TARGET(name, ...) {"'" name "'", "'" name "', the nearest"},
#include "targets/targets.def"
};

static const char *after_word(const char *at, const char *word) {
  return str_begins_in_any_case(at, word) ? at + strlen(word) : NULL;
}

// The number after "1.".
static bool runtime_minor(const char *words, uint32_t *minor) {
  const char *at = after_word(words, "ort");
  if (!at) at = after_word(words, "onnxruntime");
  if (!at) at = after_word(words, "onnx-runtime");
  if (!at) return false;
  at += strspn(at, "-_ :=");
  const char *number = after_word(at, "v1.");
  if (!number) number = after_word(at, "1.");
  const size_t n = number ? strspn(number, "0123456789") : 0;
  if (n == 0 || n > 4 || (number[n] != '\0' && number[n] != '.')) return false;
  *minor = 0;
  for (size_t i = 0; i < n; i++)
    *minor = 10 * *minor + (uint32_t)(number[i] - '0');
  return true;
}

// The i of the target that is nearest to a version of ONNX Runtime in other words: "ort-1.99", "onnxruntime-1.22.1",
// "ORT 1.22". *same: it is that version. False: the words name none.
static bool nearest(const char *words, uint32_t *i, bool *same) {
  uint32_t minor;
  char name[16];
  if (!runtime_minor(words, &minor)) return false;
  const uint32_t known = minor < TARGET_OLDEST   ? TARGET_OLDEST
                         : minor > TARGET_NEWEST ? TARGET_NEWEST
                                                 : minor;
  snprintf(name, sizeof name, "ort-1.%u", known);
  *same = minor == known;
  for (*i = 0; targets_at(*i); ++*i)
    if (strcmp(targets_at(*i)->name, name) == 0) return true;
  return false;
}

const char *targets_meant(const char *word) {
  uint32_t target;
  bool same;
  for (size_t i = 0; i < sizeof words_of_others / sizeof *words_of_others; i++)
    if (guess_same_letters(words_of_others[i].theirs, word)) return words_of_others[i].ours;
  if (!nearest(word, &target, &same)) return NULL;
  return same ? names[target].same : names[target].nearest;
}
