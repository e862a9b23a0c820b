// A YAML text as a flat list: what libyaml's parser says, with aliases written out.
//
//   passes: [a, &b {c: d}, *b]     MAPPING WORD LIST WORD MAPPING WORD WORD END_MAPPING MAPPING … END_LIST END_MAPPING END
//
// The list ends with END or with FAULT: what is wrong there, for a reader that comes so far, since what stands before
// it may be wrong too. yaml.h is included in config_events.c and nowhere else.
#ifndef WEIR_CONFIG_EVENTS_H
#define WEIR_CONFIG_EVENTS_H

#include "base/span.h"
#include "base/table.h"

enum config_kind {
  CONFIG_WORD,
  CONFIG_LIST,
  CONFIG_MAPPING,
  CONFIG_END_LIST,
  CONFIG_END_MAPPING,
  CONFIG_END, // of the document, behind which there is none
  CONFIG_FAULT,
};

enum {
  CONFIG_EVENTS = 1 << 18, // what aliases may make of a file
  CONFIG_DEPTH = 32,       // lists and mappings inside one another
};

struct config_event {
  enum config_kind kind;
  bool plain;               // WORD: without quotes
  struct span word;         // WORD
  uint32_t line, column;    // from 1; line 0: a fault without a place
  const char *fault, *hint; // FAULT: in one sentence; what to do, or NULL
};

// Of a text; words and faults lie in *a.
struct config_events {
  TABLE(struct config_event, list);
};
void config_events_read(struct config_events *e, struct span text, struct arena *a);
void config_events_free(struct config_events *e);
// Behind the value (a word, or all of a list or mapping) that begins at *at.
const struct config_event *config_events_behind(const struct config_event *at);

#endif
