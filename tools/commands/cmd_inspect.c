// weir inspect MODEL: what is in a model, from its metadata alone.
//
// Facts are gathered once (inspect.h) and then shown: an overview, a list of all tensors, a
// tree of graphs and nodes, what is known of every value before the model runs, or all of it as JSON. Of weights no more
// is read than samples for the compressed size, and data files are opened to learn their sizes: one that is missing, may not be read (a
// link, too) or is too short is marked, and no error.
//
// weir inspect DIR: the models in a folder, a line each (model_folder.h).
#include "cli/commands.h"
#include "cli/report.h"
#include "inspect/inspect_json.h"
#include "platform/files.h"
#include "render/models/render_inspect.h"
#include "render/models/render_model_folder.h"
#include "request/fill.h"
#include "stream/load/load.h"

#include <stdio.h>

// One after the other, with an empty line between them; the overview where none is asked for.
static void print_lists(struct inspect *in, const struct inspect_lists *lists) {
  if (!lists->tensors && !lists->tree && !lists->shapes) render_inspect(in);
  if (lists->tensors) render_inspect_tensors(in);
  if (lists->tensors && (lists->tree || lists->shapes)) putchar('\n');
  if (lists->tree) render_inspect_tree(in->m);
  if (lists->tree && lists->shapes) putchar('\n');
  if (lists->shapes) render_inspect_shapes(in->m, lists->elements);
}

// ---- a folder -----------------------------------------------------------------------------------

static int refuse_lists(const struct cli_args *args, struct err *err) {
  static const enum cli_option lists[] = {OPT_TENSORS, OPT_TREE, OPT_SHAPES, OPT_VALUES};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    if (cli_flag(args, lists[i]))
      return err_set(err, ERR_USAGE, "--%s needs one model, but '%s' is a folder",
                     cli_option_row(lists[i])->name, quote_path(cli_operand(args, "MODEL|DIR")).s);
  return 0;
}

static int look_at(struct model_folder *b, struct folder_model *model,
                   const struct sources_options *opening, struct err *err) {
  const struct load_options loading = {.no_matter_the_data = true};
  struct sources *sources;
  if (sources_open(&sources, model->given, opening, err) < 0) return -1;
  struct model m;
  model_init(&m);
  const int rc = load_model(&m, sources, &loading, err);
  if (rc == 0) model_folder_take(b, model, sources);
  model_free(&m);
  sources_close(sources);
  return rc;
}

// The first failure is that of the folder, if none of its files is a model.
static int look_at_all(struct model_folder *b, const struct sources_options *opening,
                       struct err *err) {
  struct err first = {0};
  bool any = false;
  for (uint32_t i = 0; i < b->n_models; i++) {
    struct err why = {0};
    if (look_at(b, &b->models[i], opening, &why) == 0) {
      any = true;
      continue;
    }
    if (first.kind == ERR_NONE) first = why;
    model_folder_skip(b, &b->models[i], &why);
  }
  if (any) return 0;
  *err = first;
  return -1;
}

static int inspect_folder(const struct cli_args *args, const struct sources_options *opening,
                          struct err *err) {
  struct model_folder b = {0};
  int rc = refuse_lists(args, err);
  if (rc == 0) rc = model_folder_list(&b, cli_operand(args, "MODEL|DIR"), err);
  if (rc == 0) rc = look_at_all(&b, opening, err);
  if (rc == 0) model_folder_sum(&b);
  if (rc == 0 && cli_flag(args, OPT_JSON))
    report_json(render_model_folder_json, &b);
  else if (rc == 0)
    render_model_folder(&b);
  model_folder_done(&b);
  return rc;
}

// ---- a model ------------------------------------------------------------------------------------

int cmd_inspect(const struct cli_args *args, struct err *err) {
  const char *path = cli_operand(args, "MODEL|DIR");
  const struct sources_options opening = {.allow_links = cli_flag(args, OPT_ALLOW_LINKS)};
  const struct load_options loading = {.no_matter_the_data = true};
  if (path_is_folder(path)) return inspect_folder(args, &opening, err);
  struct sources *sources;
  if (sources_open(&sources, path, &opening, err) < 0) return -1;
  struct model m;
  model_init(&m);
  int rc = load_model(&m, sources, &loading, err);
  if (rc == 0) {
    struct inspect_lists lists = {.tensors = false};
    const bool json = cli_flag(args, OPT_JSON);
    struct inspect in;
    FILL(args, inspect_lists, &lists);
    inspect_gather(&in, &m, sources, path, opening.allow_links);
    if (json || !(lists.tensors || lists.tree || lists.shapes)) inspect_look_ahead(&in, &m);
    if (json)
      report_json(inspect_json, &in, &lists);
    else
      print_lists(&in, &lists);
    inspect_done(&in);
  }
  model_free(&m);
  sources_close(sources);
  return rc;
}
