// What inference knows of a value, in the forms that passes of this family ask for. Nothing here infers: facts are
// those of the nodes that were there when the pass began (kit_infer); of what it makes nothing is known yet.
#ifndef WEIR_KNOWN_H
#define WEIR_KNOWN_H

#include "passes/kit/kit.h"

// A value of one element that is the same whole number in every run.
bool known_number(struct kit *k, uint32_t value, int64_t *out);
// All elements of an integer or bool value of at most `most`, as expressions: false if one is not known.
bool known_list(struct kit *k, uint32_t value, dim_id *list, uint32_t most, uint32_t *n);
// Is the list known, and is every element of it this number?
bool known_all(struct kit *k, uint32_t value, int64_t number);
// A tensor's type of known rank.
bool known_dims(struct kit *k, uint32_t value, struct infer_type *out);
// A dim, or an element of a list, that is a number; that is 1.
bool known_size(struct kit *k, dim_id d, int64_t *n);
bool known_one(struct kit *k, dim_id d);
// Is the attribute axis of a node (`absent`: what it is where the node has none) the last one of so many?
bool known_along_last(struct kit *k, uint32_t node, int64_t absent, uint32_t rank);
// Two dims that are equal in every run.
bool known_same(struct kit *k, dim_id a, dim_id b);
// Have both values equal dims, and equal types of elements?
bool known_alike(struct kit *k, uint32_t a, uint32_t b);
// Of the dim `axis` of a value: an earlier one that has it too, before Transposes and Reshapes, so that asking for the
// length does not keep these.
void known_source(struct kit *k, uint32_t *value, uint32_t *axis);

#endif
