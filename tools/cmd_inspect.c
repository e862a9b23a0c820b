// weir inspect MODEL: what is in a model, from its metadata alone.
//
// Facts are gathered once (inspect_gather.c) and then shown: an overview, a list of all tensors, a
// tree of graphs and nodes, or all of it as JSON. Weights are never read, and data files are opened
// only to learn their sizes: one that is missing, may not be read (a
// link, too) or is too short is marked, and no error.
#include "commands.h"
#include "inspect.h"
#include "load.h"

#include <stdio.h>

int cmd_inspect(const struct cli_args *args, struct err *err) {
  const struct sources_options opening = {.allow_links = cli_flag(args, OPT_ALLOW_LINKS)};
  const struct load_options loading = {.no_matter_the_data = true};
  struct sources *sources;
  if (sources_open(&sources, cli_operand(args, "MODEL"), &opening, err) < 0) return -1;
  struct model m;
  model_init(&m);
  int rc = load_model(&m, sources, &loading, err);
  if (rc == 0) {
    const bool tensors = cli_flag(args, OPT_TENSORS), tree = cli_flag(args, OPT_TREE);
    const bool json = cli_flag(args, OPT_JSON);
    struct inspect in;
    inspect_gather(&in, &m, sources, cli_operand(args, "MODEL"), opening.allow_links);
    if (json) inspect_json(&in, tensors, tree);
    if (!json && !tensors && !tree) inspect_print(&in);
    if (!json && tensors) inspect_print_tensors(&in);
    if (!json && tensors && tree) putchar('\n');
    if (!json && tree) inspect_print_tree(&in);
    inspect_done(&in);
  }
  model_free(&m);
  sources_close(sources);
  return rc;
}
