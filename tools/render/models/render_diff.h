// The answer of weir diff (diffing.h): for people and for pull requests. For programs: diff_json.h.
#ifndef WEIR_RENDER_DIFF_H
#define WEIR_RENDER_DIFF_H

#include "compare/diff_words.h"

// Of the text: no line is left out; in colours.
struct render_diff_look {
  bool all, colour;
};
void render_diff_text(struct diffing *x, struct render_diff_look look);
void render_diff_markdown(struct diffing *x);

#endif
