// weir inspect MODEL: what is in a model, from its metadata alone.
//
// Facts are gathered once (inspect_gather.c) and then shown: an overview, a list of all tensors, a
// tree of graphs and nodes, what is known of every value before the model runs, or all of it as JSON. Weights are never read, and data files are opened
// only to learn their sizes: one that is missing, may not be read (a
// link, too) or is too short is marked, and no error.
#include "commands.h"
#include "inspect.h"
#include "load.h"

#include <stdio.h>

// One after the other, with an empty line between them; the overview where none is asked for.
static void print_lists(struct inspect *in, const struct inspect_lists *lists) {
  if (!lists->tensors && !lists->tree && !lists->shapes) inspect_print(in);
  if (lists->tensors) inspect_print_tensors(in);
  if (lists->tensors && (lists->tree || lists->shapes)) putchar('\n');
  if (lists->tree) inspect_print_tree(in);
  if (lists->tree && lists->shapes) putchar('\n');
  if (lists->shapes) inspect_shapes(in, lists->elements, NULL);
}

int cmd_inspect(const struct cli_args *args, struct err *err) {
  const struct sources_options opening = {.allow_links = cli_flag(args, OPT_ALLOW_LINKS)};
  const struct load_options loading = {.no_matter_the_data = true};
  struct sources *sources;
  if (sources_open(&sources, cli_operand(args, "MODEL"), &opening, err) < 0) return -1;
  struct model m;
  model_init(&m);
  int rc = load_model(&m, sources, &loading, err);
  if (rc == 0) {
    const struct inspect_lists lists = {
        .tensors = cli_flag(args, OPT_TENSORS),
        .tree = cli_flag(args, OPT_TREE),
        .shapes = cli_flag(args, OPT_SHAPES) || cli_flag(args, OPT_VALUES),
        .elements = cli_flag(args, OPT_VALUES),
    };
    const bool json = cli_flag(args, OPT_JSON);
    struct inspect in;
    inspect_gather(&in, &m, sources, cli_operand(args, "MODEL"), opening.allow_links);
    if (json)
      inspect_json(&in, &lists);
    else
      print_lists(&in, &lists);
    inspect_done(&in);
  }
  model_free(&m);
  sources_close(sources);
  return rc;
}
