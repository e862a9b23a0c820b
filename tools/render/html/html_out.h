// A page on its way to a file, piece by piece: markup of ours as it is, everything else escaped. Nothing is kept but the
// piece in hand, so a page may have any number of rows.
//
// Texts come from files: names of nodes and tensors may hold markup, characters that turn the text around them, bytes
// that are no UTF-8, or 64 KiB of anything. This is the one place that makes them harmless: &<>"' become entities
// (in JSON \u003c and so on, so that no text ends the script it lies in), what steers a terminal or a line of text is
// spelled out (\x1b, \u{202e}), a byte that is no character as \xNN, and what is long is cut.
#ifndef WEIR_HTML_OUT_H
#define WEIR_HTML_OUT_H

#include "base/span.h"

enum { HTML_TEXT_MAX = 512 }; // bytes of a text that are shown

// Zero-initialize but for the sink; html_flush ends it.
struct html_out {
  struct span_sink sink;
  size_t n;
  char buffer[1 << 14];
};

void html_flush(struct html_out *o);

// Markup: as it is.
void html_raw(struct html_out *o, const char *markup);
// A text, between tags or between the quotes of an attribute.
void html_text(struct html_out *o, struct span text);
// The same, between tags, where an arrow "->" stays on one line.
void html_arrows(struct html_out *o, const char *text);
// Markup with texts and numbers in it: %s is a text (escaped), the others (%u %d and %f %g with a precision) are
// numbers. What stands around them is markup.
void html_put(struct html_out *o, const char *markup, ...) __attribute__((format(printf, 2, 3)));

// The same text as a JSON string in a script element. `from`: the first so many bytes are left out; they are plain
// ASCII (html_shared).
void html_json(struct html_out *o, struct span text, size_t from);
// How many bytes two texts begin with alike, of those that look the same in both forms.
size_t html_shared(struct span a, struct span b);
// As JSON has it; "inf", "-inf" and "nan" are strings.
void html_json_number(struct html_out *o, double x);
// What is left of a number in 7 digits, or whole: what pages have.
double html_number(double x);

#endif
