// weir inspect MODEL: what is in a model, from its metadata alone.
//
// Facts are gathered once (inspect_gather.c) and then shown: an overview, a list of all tensors, a
// tree of graphs and nodes, or all of it as JSON. Weights are never read, and data files are opened
// only to learn their sizes.
#include "commands.h"
#include "inspect.h"
#include "load.h"
#include "report.h"

#include <stdio.h>

static void print(struct inspect *in, const struct cli_args *args) {
  bool tensors = cli_flag(args, OPT_TENSORS), tree = cli_flag(args, OPT_TREE);
  if (cli_flag(args, OPT_JSON)) {
    inspect_json(in, tensors, tree);
    return;
  }
  if (!tensors && !tree) inspect_print(in);
  if (tensors) inspect_print_tensors(in);
  if (tensors && tree) putchar('\n');
  if (tree) inspect_print_tree(in);
}

int cmd_inspect(const struct cli_args *args, struct err *err) {
  const struct sources_options opening = {.allow_links = cli_flag(args, OPT_ALLOW_LINKS)};
  const struct load_options loading = {0};
  struct sources *sources;
  if (sources_open(&sources, cli_operand(args, "MODEL"), &opening, err) < 0) return -1;
  struct model m;
  model_init(&m);
  int rc = load_model(&m, sources, &loading, err);
  if (rc == 0) {
    struct inspect in;
    inspect_gather(&in, &m, sources);
    print(&in, args);
    inspect_done(&in);
  }
  model_free(&m);
  sources_close(sources);
  return rc;
}
