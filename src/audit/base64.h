// Base64 as RFC 4648 has it (the alphabet with + and /, padded), which is how bytes stand in JSON.
#ifndef WEIR_BASE64_H
#define WEIR_BASE64_H

#include "base/arena.h"
#include "base/span.h"

// NUL-terminated, in the arena.
const char *base64_encode(struct span bytes, struct arena *a);
// False for text that base64_encode would not write: other characters, white space, a length or
// bits that do not come out.
bool base64_decode(struct span text, struct span *out, struct arena *a);

#endif
