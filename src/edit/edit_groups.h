// What each group of edits did, kept in memory for who wants to cut the model there (verify/cut/sites.h).
//
//        ┌────── removed ──────┐                ┌─────── made ────────┐
//   a ──▶│ Conv ──▶ BatchNorm  │──▶ y      a ──▶│ Conv                │──▶ y
//   w ──▶└─────────────────────┘           w2 ─▶└─────────────────────┘
//
// Dead nodes keep their slots, so the part before can be read from the edited model. Nothing is
// kept unless edit_groups_keep was called, and then some bytes an edit.
#ifndef WEIR_EDIT_GROUPS_H
#define WEIR_EDIT_GROUPS_H

#include "edit/edit.h"

// One group: runs of the tables below.
struct edit_group_row {
  const char *pass, *reason;     // valid as long as the edits
  uint32_t site;                 // node, or NO_ID
  uint32_t removed, n_removed;   // nodes that went, those in graphs inside them too
  uint32_t made, n_made;         // nodes that came
  uint32_t changed, n_changed;   // nodes that stayed and got other inputs, outputs or attributes
  uint32_t forwards, n_forwards; // uses that went over: pairs (from, to) of values
  uint32_t replaced, n_replaced; // tensors that stayed and got other elements
};

struct edit_forwarded {
  uint32_t from, to;
};

struct edit_groups {
  uint32_t first; // groups that came before the first row
  size_t self_cap;
  TABLE(struct edit_group_row, rows); // of group number first + 1, first + 2, …
  TABLE(uint32_t, removed);
  TABLE(uint32_t, made);
  TABLE(uint32_t, changed);
  TABLE(struct edit_forwarded, forwards);
  TABLE(uint32_t, replaced);
  struct arena texts;
};

// Keeps groups from the next one on, in e->groups (freed by edits_free).
void edit_groups_keep(struct edits *e);

// Those after group number `group`, which is one of these or the one before the first. Valid as long as *g, and nobody's to free.
struct edit_groups edit_groups_after(const struct edit_groups *g, uint32_t group);

// For the room: what edits tell. Do nothing if groups are not kept.
void edit_groups_begin(struct edits *e, const char *pass, uint32_t site, const char *reason);
void edit_groups_made(struct edits *e, uint32_t node);
void edit_groups_removing(struct edits *e, uint32_t node); // before it dies
void edit_groups_changed(struct edits *e, uint32_t node);
void edit_groups_forwarded(struct edits *e, uint32_t from, uint32_t to);
void edit_groups_replaced(struct edits *e, uint32_t tensor);
void edit_groups_done(struct edits *e);

#endif
