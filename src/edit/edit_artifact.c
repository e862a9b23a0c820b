// Artifacts in the edit log: what an earlier stage of the stream found in the weights, and a pass
// then decided by.
//
//   {"edit":"artifact","stage":"measure","of":[{"quantize":{"tensor":"g0/t12:w",…},…},…],"sha256":"…"}
//
// The line names the stage, what it was asked about and the digest of its answer. It changes
// nothing: the decisions are in the edits that follow. But those edits are right for these weights
// only, so who replays the log has the stage run again and compares.
#include "edit_line.h"
#include "edit_make.h"

void edit_artifact_recipe(struct edits *e, struct json_out *j, uint32_t recipe) {
  edit_line_recipe(e, j, recipe);
  arena_reset(&e->scratch);
}

void edit_artifact(struct edits *e, const struct edit_artifact *artifact) {
  char hex[2 * sizeof artifact->sha256 + 1];
  hex_encode(artifact->sha256, sizeof artifact->sha256, hex);
  if (edit_line_begin(e, "artifact")) {
    edit_line_string(e, "stage", span_str(artifact->stage));
    json_put_array(&e->line, "of");
    for (uint32_t i = 0; i < artifact->n; i++)
      edit_line_recipe(e, &e->line, artifact->of[i]);
    json_end_array(&e->line);
    edit_line_string(e, "sha256", span_str(hex));
  }
  edit_line_end(e);
  arena_reset(&e->scratch);
}
