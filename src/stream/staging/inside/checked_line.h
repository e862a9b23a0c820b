// A line of JSON that knows whether it is whole: its last member is the start of the SHA-256 of all before it.
//
//   {"unit":12,…,"check":"<16 hex>"}
//
// So a line that was torn by a crash or a full disk, zeros where a line was to be, and a flipped bit are told from one
// that was written.
#ifndef WEIR_CHECKED_LINE_H
#define WEIR_CHECKED_LINE_H

#include "json/json.h"

// Ends the object that is open, with its check, and the line.
void checked_line_end(struct json_out *j);
// Is it such a line, and whole? Without its line break.
bool checked_line_is(struct span line);

#endif
