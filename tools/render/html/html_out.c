// html_text and html_json go through one loop over characters, which decides what a character becomes; only how the
// few special ones are written depends on the form.
#include "render/html/html_out.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void html_flush(struct html_out *o) {
  if (o->n) o->sink.put(o->sink.ctx, span_of(o->buffer, o->n));
  o->n = 0;
}

static void raw_span(struct html_out *o, struct span markup) {
  if (markup.n > sizeof o->buffer - o->n) html_flush(o);
  if (markup.n > sizeof o->buffer) {
    o->sink.put(o->sink.ctx, markup);
    return;
  }
  if (markup.n) memcpy(o->buffer + o->n, markup.at, markup.n);
  o->n += markup.n;
}

void html_raw(struct html_out *o, const char *markup) {
  raw_span(o, span_str(markup));
}

// ---- texts -------------------------------------------------------------------------------------

static const char *entity(uint8_t c) {
  switch (c) {
  case '&': return "&amp;";
  case '<': return "&lt;";
  case '>': return "&gt;";
  case '"': return "&quot;";
  case '\'': return "&#39;";
  default: return NULL;
  }
}

static const char *json_entity(uint8_t c) {
  switch (c) {
  case '&': return "\\u0026";
  case '<': return "\\u003c";
  case '>': return "\\u003e";
  case '"': return "\\\"";
  case '\\': return "\\\\";
  default: return NULL;
  }
}

// What the text at the front of `rest` is shown as; returns the bytes that it takes.
static size_t next_character(struct html_out *o, struct span rest, bool json) {
  char spelled[16];
  uint32_t c = 0;
  const size_t used = utf8_length(rest, &c);
  const char *as = used == 1 ? (json ? json_entity : entity)(rest.at[0]) : NULL;
  if (used && !as && !utf8_steers_terminal(c)) {
    raw_span(o, span_of(rest.at, used));
    return used;
  }
  if (!as) {
    const uint32_t shown = used ? c : rest.at[0];
    const char *slash = json ? "\\\\" : "\\";
    snprintf(spelled, sizeof spelled, shown < 0x100 ? "%sx%02x" : "%su{%x}", slash, shown);
    as = spelled;
  }
  html_raw(o, as);
  return used ? used : 1;
}

// No character is cut in two.
static size_t shown_bytes(struct span text) {
  size_t n = text.n;
  if (n <= HTML_TEXT_MAX) return n;
  n = HTML_TEXT_MAX;
  while (n > HTML_TEXT_MAX - 4 && (text.at[n] & 0xc0) == 0x80)
    n--;
  return n;
}

static void put_text(struct html_out *o, struct span text, size_t from, bool json) {
  const size_t n = shown_bytes(text);
  for (size_t i = from; i < n;)
    i += next_character(o, span_of(text.at + i, n - i), json);
  if (n < text.n) {
    char more[48];
    snprintf(more, sizeof more, "\xe2\x80\xa6 (%zu bytes)", text.n);
    html_raw(o, more);
  }
}

void html_text(struct html_out *o, struct span text) {
  put_text(o, text, 0, false);
}

void html_json(struct html_out *o, struct span text, size_t from) {
  html_raw(o, "\"");
  put_text(o, text, from, true);
  html_raw(o, "\"");
}

size_t html_shared(struct span a, struct span b) {
  size_t n = 0;
  const size_t most = min_u64(shown_bytes(a), shown_bytes(b));
  while (n < most && a.at[n] == b.at[n] && a.at[n] >= 0x20 && a.at[n] < 0x7f)
    n++;
  return n;
}

// Counts are whole, and exact below 2^53.
static const char *digits_of(double x, char room[32]) {
  const bool whole = x == floor(x) && fabs(x) < 9007199254740992.0;
  snprintf(room, 32, whole ? "%.0f" : "%.7g", x);
  return room;
}

double html_number(double x) {
  char room[32];
  return isfinite(x) ? strtod(digits_of(x, room), NULL) : x;
}

void html_json_number(struct html_out *o, double x) {
  char room[32];
  if (isnan(x))
    html_raw(o, "\"nan\"");
  else if (isinf(x))
    html_raw(o, x < 0 ? "\"-inf\"" : "\"inf\"");
  else
    html_raw(o, digits_of(x, room));
}

// ---- markup with texts in it --------------------------------------------------------------------

static void put_number(struct html_out *o, const char *format, size_t n, va_list *ap) {
  char one[16], digits[400];
  assert(n < sizeof one);
  memcpy(one, format, n);
  one[n] = '\0';
  const char kind = one[n - 1];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  if (kind == 'f' || kind == 'g')
    snprintf(digits, sizeof digits, one, va_arg(*ap, double));
  else
    snprintf(digits, sizeof digits, one, va_arg(*ap, unsigned));
#pragma GCC diagnostic pop
  html_raw(o, digits);
}

void html_arrows(struct html_out *o, const char *text) {
  for (const char *at; (at = strstr(text, "->")); text = at + 2) {
    html_text(o, span_of(text, (size_t)(at - text)));
    html_raw(o, "<span class=\"arrow\">-&gt;</span>");
  }
  html_text(o, span_str(text));
}

void html_put(struct html_out *o, const char *markup, ...) {
  va_list ap;
  va_start(ap, markup);
  while (*markup) {
    const size_t plain = strcspn(markup, "%");
    raw_span(o, span_of(markup, plain));
    markup += plain;
    if (!*markup) break;
    const size_t n = strcspn(markup + 1, "sudfg%") + 2;
    if (markup[n - 1] == 's')
      html_text(o, span_str(va_arg(ap, const char *)));
    else if (markup[n - 1] == '%')
      html_raw(o, "%");
    else
      put_number(o, markup, n, &ap);
    markup += n;
  }
  va_end(ap);
}
