// Parts on disk: a plan of a few nodes (plan_parts.h), carried out at once.
//
//   plan ──▶ segments in order ──▶ 1 MiB of buffer ──▶ folder/<name>.onnx.data, folder/<name>.onnx
//                │ zero, literal: copied; extent: read from its source; recipe: evaluated
//
// What a run does beside that (units, records, syncs, staging) is for outputs that somebody keeps. A
// part is made, run and removed; if it is half there, nobody looks at it.
#include "verify/cut/part.h"

#include "plan/plan_parts.h"
#include "stream/eval/eval.h"
#include "stream/sys/fs.h"

#include <errno.h>
#include <stdio.h>

enum { BUFFER_BYTES = 1 << 20, BUDGET_LEAST = 1 << 20 };

struct part_cutter {
  struct arena arena;
  struct plan_parts *parts;
  struct sources *sources;
  struct io *io;
  struct eval *eval;
  uint8_t *buffer;
  struct arena names;
};

int part_cutter_open(struct part_cutter **out, const struct model *m, struct recipes *r,
                     struct sources *sources, uint64_t memory, struct err *err) {
  const struct io_options options = {.mode = IO_SYNC, .tiles = 1, .tile_bytes = IO_CLONE_BLOCK};
  struct arena arena = {0};
  struct part_cutter *c = arena_zalloc(&arena, sizeof *c);
  c->sources = sources;
  c->buffer = arena_alloc(&arena, BUFFER_BYTES);
  c->arena = arena;
  c->parts = plan_parts_new(m, r);
  int rc = io_open(&c->io, &options, sources, err);
  if (rc == 0) rc = eval_open(&c->eval, r, c->io, (size_t)max_u64(memory, BUDGET_LEAST), err);
  if (rc)
    part_cutter_close(c);
  else
    *out = c;
  return rc;
}

void part_cutter_close(struct part_cutter *c) {
  if (!c) return;
  if (c->eval) eval_close(c->eval);
  if (c->io) io_close(c->io);
  plan_parts_free(c->parts);
  arena_free(&c->names);
  struct arena arena = c->arena; // *c lies in it
  arena_free(&arena);
}

// ---- bytes -------------------------------------------------------------------------------------

// Bytes of a segment, through the buffer.
static int write_segment(struct part_cutter *c, const struct plan *plan, const struct segment *s,
                         struct file to, const char *what, struct err *err) {
  struct eval_task *task = NULL;
  if (s->kind == SEGMENT_LITERAL)
    return fs_write_all(to, plan->literals + s->at, (size_t)s->len, what, err);
  if (s->kind == SEGMENT_RECIPE)
    task = eval_begin(c->eval, s->ref, s->at, s->len, (struct eval_watcher){0});
  if (s->kind == SEGMENT_ZERO) memset(c->buffer, 0, BUFFER_BYTES);
  for (uint64_t done = 0; done < s->len;) {
    const size_t n = (size_t)min_u64(BUFFER_BYTES, s->len - done);
    int rc = 0;
    if (task)
      rc = eval_read(task, s->at + done, c->buffer, n, err);
    else if (s->kind == SEGMENT_EXTENT)
      rc = sources_read(c->sources, s->ref, s->at + done, c->buffer, n, err);
    if (rc || fs_write_all(to, c->buffer, n, what, err)) return -1;
    done += n;
  }
  return 0;
}

static int write_output(struct part_cutter *c, const struct plan *plan, const struct plan_output *o,
                        struct folder in, struct err *err) {
  struct file to = file_open_to_write(in, o->name, FILE_MAKE | FILE_EMPTY | FILE_NO_LINK, 0600);
  if (!file_is_open(to))
    return err_errno(err, errno, ERR_IO, "cannot make '%s'", quote(span_str(o->name)).s);
  int rc = 0;
  for (uint32_t i = 0; i < o->n_segments && rc == 0; i++)
    rc = write_segment(c, plan, &plan->segments[o->first_segment + i], to, o->name, err);
  if (file_close_written(&to) && rc == 0)
    rc = err_errno(err, errno, ERR_IO, "cannot write '%s'", quote(span_str(o->name)).s);
  return rc;
}

// ---- parts -------------------------------------------------------------------------------------

// Is the value of output i there before that output is: is it given, or one of the outputs before?
int part_write_plan(struct part_cutter *c, const struct plan *plan, struct folder in,
                    struct err *err) {
  for (uint32_t i = 0; i < plan->n_outputs; i++)
    if (write_output(c, plan, &plan->outputs[i], in, err)) return -1;
  return 0;
}

static bool is_taken(const struct part *part, uint32_t i) {
  const uint32_t value = part->outputs[i];
  for (uint32_t k = 0; k < part->n_constants; k++)
    if (part->constants[k].value == value) return true;
  for (uint32_t k = 0; k < part->n_inputs; k++)
    if (part->inputs[k].value == value) return true;
  for (uint32_t k = 0; k < i; k++)
    if (part->outputs[k] == value) return true;
  return false;
}

const char *part_output_name(const struct part *part, uint32_t i, struct arena *a) {
  const char *own = model_name_str(part->m, part->m->values[part->outputs[i]].name);
  if (!is_taken(part, i)) return own;
  const char *name = arena_printf(a, "%s_out%u", own, i);
  while (model_find_name(part->m, span_str(name)) != NO_ID)
    name = arena_printf(a, "%s_", name);
  return name;
}

static void list_part(struct part_cutter *c, const struct part *part) {
  plan_parts_begin(c->parts, part->graph);
  for (uint32_t i = 0; i < part->n_inputs; i++) {
    const struct part_input *in = &part->inputs[i];
    plan_parts_input(c->parts, in->value, in->dtype, in->dims, in->rank);
  }
  for (uint32_t i = 0; i < part->n_constants; i++)
    plan_parts_constant(c->parts, part->constants[i].value, &part->constants[i]);
  for (uint32_t i = 0; i < part->n_nodes; i++)
    plan_parts_node(c->parts, part->nodes[i]);
  arena_reset(&c->names);
  for (uint32_t i = 0; i < part->n_outputs; i++) {
    const struct part_input none = {.dtype = DTYPE_UNDEFINED};
    const struct part_input *type = part->output_types ? &part->output_types[i] : &none;
    const char *name =
        part->output_names ? part->output_names[i] : part_output_name(part, i, &c->names);
    plan_parts_output(c->parts, part->outputs[i], name, type->dtype, type->dims, type->rank);
  }
}

int part_write(struct part_cutter *c, const struct part *part, struct folder in, const char *name,
               uint64_t *bytes, struct err *err) {
  const struct plan *plan;
  list_part(c, part);
  if (plan_parts_end(c->parts, arena_printf(&c->names, "%s.onnx", name), &plan, err)) return -1;
  *bytes = plan_total_bytes(plan);
  return part_write_plan(c, plan, in, err);
}
