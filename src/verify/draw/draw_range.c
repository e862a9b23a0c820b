// Between what numbers the elements of a value lie because of how they are made.
#include "draw_parts.h"

#include <math.h>

void draw_range_of(struct draw *d, uint32_t value, struct draw_range *out) {
  (void)d, (void)value;
  *out = (struct draw_range){.low = -INFINITY, .high = INFINITY};
}
