// The second read. A group of values has one buffer, which is stored as a whole after every sample:
//
//   done │ counts of bins │ channels: sums of |x| (twice, see below), how many │ … the next value
//
// Bins have their edges by the first read, so that counts add up in any order. A sum is two doubles, the second of which has
// what the first lost to rounding: the mean, as a float, is that of the exact sum.
#include "calibrate/calibrate.h"

#include "calibrate/calibrate_look.h"
#include "calibrate/sample_journal.h"
#include "stream/sys/fs.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- groups -------------------------------------------------------------------------------------

static bool counts(const struct calibrate *c, uint32_t i) {
  return range_method_counts(&c->options.how) && c->values.list[i].same == NO_ID &&
         !c->seen[i].infinite;
}

static bool has_channels(const struct calibrate *c, uint32_t i) {
  const struct calibrate_seen *s = &c->seen[i];
  return c->values.list[i].by_channel && s->channel_least && !s->ragged && !s->infinite;
}

static uint64_t gram_bytes(const struct calibrate *c, uint32_t i) {
  if (!c->values.list[i].gram || !has_channels(c, i)) return 0;
  return calibrate_gram_bytes(c->seen[i].n_channels);
}

// What is added up of it, in memory.
static uint64_t sum_bytes(const struct calibrate *c, uint32_t i) {
  uint64_t bytes = 0;
  if (counts(c, i)) bytes += c->options.how.bins * sizeof(uint64_t);
  if (has_channels(c, i)) bytes += c->seen[i].n_channels * (2 * sizeof(double) + sizeof(uint64_t));
  return bytes;
}

void calibrate_second_plan(struct calibrate *c) {
  uint32_t n = 0;
  uint64_t fetched = 0, sums = 0, runs = 0;
  struct calibrate_group *g = NULL;
  c->order = arena_alloc(&c->arena, (c->values.n_list + (size_t)1) * sizeof *c->order);
  for (uint32_t i = 0; i < c->values.n_list; i++) {
    const struct calibrate_value *x = &c->values.list[i];
    const uint64_t more = x->input ? 0 : c->seen[i].largest * dtype_bits(x->type) / 8,
                   sum = sum_bytes(c, i) + (counts(c, i) ? c->options.how.bins * sizeof(float) : 0);
    if (sum == 0) continue;
    const bool full = g && g->n > 0 &&
                      ((more > 0 && fetched > 0 && fetched + more > c->options.group_bytes) ||
                       sums + sum > c->options.memory);
    if (!g || full) {
      g = TABLE_PUSH(c, groups);
      *g = (struct calibrate_group){.first = n};
      fetched = sums = 0;
    }
    c->order[n++] = i;
    g->n++;
    runs += !x->input && !g->runs;
    g->runs = g->runs || !x->input;
    fetched += more;
    sums += sum;
  }
  c->planned_runs = runs * c->n_samples;
  if (runs > 0)
    observer_notice(c->observer, "%s run%s, of %s group%s of values in %s sample%s",
                    decimal(c->planned_runs).s, c->planned_runs == 1 ? " follows" : "s follow",
                    decimal(runs).s, plural(runs), decimal(c->n_samples).s, plural(c->n_samples));
}

// ---- one group ----------------------------------------------------------------------------------

struct part { // of a group: one value
  uint32_t i; // of the list
  struct range_bins bins;
  uint64_t *counts;       // NULL: none
  double *sums;           // of channels, then what they lost; NULL: none
  uint64_t *numbers;      // of channels
  uint64_t gram, gram_at; // bytes of tiles, and where they begin
};

struct second {
  struct calibrate *c;
  struct ranges_value *found; // by value of the list
  struct part *parts;
  uint32_t n;
  bool runs, grams;
  uint8_t *kept; // SAMPLE_JOURNAL_HEAD of room, then the number of samples, then the sums
  size_t kept_bytes;
  uint64_t done; // samples
  char name[32];
  struct file tiles[2]; // of tiles: after sample s, tiles[s % 2] is complete
  const char **wanted;
  uint32_t n_wanted;
  bool loaded;
  struct arena arena, sample; // of the group, of the sample
  // Of all groups.
  struct file data;
  uint64_t data_end;
  struct digest *data_digest;
};

static int open_tiles(struct second *s, uint32_t number, uint32_t k, struct err *err) {
  char name[32];
  struct err missing = {0};
  snprintf(name, sizeof name, "tiles.%u.%u", number, k);
  s->tiles[k] = fs_open_own(s->c->kept, name, FILE_READ, "the staging folder", &missing);
  if (file_is_open(s->tiles[k])) return 0;
  if (missing.kind == ERR_NONE)
    s->tiles[k] = fs_make_own(s->c->kept, name, FILE_READ, err);
  else
    *err = missing;
  return file_is_open(s->tiles[k]) ? 0 : -1;
}

static void take_kept(struct second *s) {
  struct span file, record;
  if (!sample_journal_get(s->c->kept, s->name, &file, &record)) return;
  if (record.n == s->kept_bytes) {
    memcpy(s->kept + SAMPLE_JOURNAL_HEAD, record.at, record.n);
    memcpy(&s->done, record.at, sizeof s->done);
  }
  fs_free(file);
}

static int open_group(struct second *s, uint32_t number, struct err *err) {
  struct calibrate *c = s->c;
  const struct calibrate_group *g = &c->groups[number];
  size_t bytes = sizeof s->done;
  uint64_t tiles = 0;
  arena_reset(&s->arena);
  s->n = g->n;
  s->runs = g->runs;
  s->loaded = s->grams = false;
  s->done = 0;
  s->parts = arena_zalloc(&s->arena, (g->n + (size_t)1) * sizeof *s->parts);
  for (uint32_t k = 0; k < g->n; k++)
    bytes += (size_t)sum_bytes(c, c->order[g->first + k]);
  s->kept_bytes = bytes;
  s->kept = arena_zalloc(&s->arena, SAMPLE_JOURNAL_HEAD + bytes);
  uint8_t *at = s->kept + SAMPLE_JOURNAL_HEAD + sizeof s->done;
  for (uint32_t k = 0; k < g->n; k++) {
    struct part *p = &s->parts[k];
    const uint32_t i = p->i = c->order[g->first + k];
    if (counts(c, i)) {
      range_method_bins(&p->bins, &c->options.how, &c->seen[i].of, c->values.list[i].type,
                        &s->arena);
      p->counts = (uint64_t *)(void *)at;
      at += p->bins.bins.n * sizeof *p->counts;
    }
    if (has_channels(c, i)) {
      p->sums = (double *)(void *)at;
      at += 2 * c->seen[i].n_channels * sizeof *p->sums;
      p->numbers = (uint64_t *)(void *)at;
      at += c->seen[i].n_channels * sizeof *p->numbers;
    }
    p->gram = gram_bytes(c, i);
    p->gram_at = tiles;
    tiles += p->gram;
  }
  s->grams = tiles > 0;
  snprintf(s->name, sizeof s->name, "second.%u", number);
  take_kept(s);
  for (uint32_t k = 0; k < 2 && s->grams; k++)
    if (open_tiles(s, number, k, err)) return -1;
  return 0;
}

static void close_group(struct second *s) {
  for (uint32_t k = 0; k < 2; k++)
    file_close(&s->tiles[k]);
}

// ---- a sample -----------------------------------------------------------------------------------

struct adding {
  struct part *part;
  struct calibrate_along along;
};

static void add_exactly(double *sum, double *lost, double x) {
  const double before = *sum, after = before + x;
  *lost += fabs(before) >= x ? before - after + x : x - after + before;
  *sum = after;
}

static int add_piece(void *ctx, const struct calibrate_piece *p, struct err *err) {
  const struct adding *a = ctx;
  struct part *part = a->part;
  const uint32_t n = a->along.channels;
  (void)err;
  if (part->counts) kernels_tally_bins(part->counts, &part->bins.bins, DTYPE_FLOAT, p->at, p->n);
  for (size_t i = 0; part->sums && i < p->n; i++) {
    const uint64_t channel = (p->first + i) / a->along.inner % n;
    if (isnan(p->at[i])) continue;
    add_exactly(&part->sums[channel], &part->sums[n + channel], (double)fabsf(p->at[i]));
    part->numbers[channel]++;
  }
  return 0;
}

static int add_value(struct second *s, struct part *p, const struct array *x, const char *sample,
                     struct err *err) {
  const struct calibrate_value *v = &s->c->values.list[p->i];
  struct adding a = {.part = p};
  if (x->kind != ARRAY_TENSOR || x->dtype != v->type)
    return err_set(err, ERR_FAIL, "'%s' has another type in sample '%s' than in earlier samples",
                   quote_str(v->name).s, quote_str(sample).s);
  if (p->sums && x->count > 0 &&
      (!calibrate_along(x, v->axis, &a.along) || a.along.channels != s->c->seen[p->i].n_channels))
    return err_set(err, ERR_FAIL, "'%s' has other dims in sample '%s' than in earlier samples",
                   quote_str(v->name).s, quote_str(sample).s);
  if (calibrate_look(x, add_piece, &a, err)) return -1;
  if (p->gram == 0) return 0;
  const struct calibrate_gram gram = {.from = s->done == 0 ? NO_FILE : s->tiles[s->done % 2],
                                      .to = s->tiles[(s->done + 1) % 2],
                                      .at = p->gram_at,
                                      .memory = s->c->options.memory / 2};
  return calibrate_gram_add(&gram, x, err);
}

static enum runtime_end load(struct second *s, struct err *err) {
  const struct calibrate_values *v = &s->c->values;
  struct runtime_model got;
  if (s->loaded) return RUNTIME_DONE;
  s->wanted = arena_alloc(&s->arena, (s->n + (size_t)1) * sizeof *s->wanted);
  s->n_wanted = 0;
  calibrate_model_begin(s->c->model);
  for (uint32_t k = 0; k < s->n; k++) {
    const struct calibrate_value *x = &v->list[s->parts[k].i];
    if (x->input) continue;
    if (!x->output) calibrate_model_output(s->c->model, x->name);
    s->wanted[s->n_wanted++] = x->name;
  }
  const enum runtime_end end = calibrate_model_load(s->c->model, &got, err);
  s->loaded = end == RUNTIME_DONE;
  return end;
}

static int keep(struct second *s, struct err *err) {
  const uint64_t done = s->done + 1;
  if (s->grams && file_sync_data(s->tiles[done % 2]))
    return err_errno(err, errno, ERR_IO, "the second moments found so far cannot be saved");
  memcpy(s->kept + SAMPLE_JOURNAL_HEAD, &done, sizeof done);
  if (sample_journal_put(s->c->kept, s->name, s->kept, s->kept_bytes, err)) return -1;
  s->done = done;
  return 0;
}

static int run_sample(void *ctx, const struct arrays *inputs, const char *sample, struct err *err) {
  struct second *s = ctx;
  struct calibrate *c = s->c;
  struct arrays results = {NULL, 0};
  uint32_t at = 0;
  arena_reset(&s->sample);
  if (s->runs) {
    if (load(s, err) != RUNTIME_DONE) return -1;
    const enum runtime_end end =
        runtime_run(c->runtime, inputs, s->wanted, s->n_wanted, &s->sample, &results, err);
    if (end != RUNTIME_DONE) return calibrate_failed(end, sample, err);
    c->runs++;
  }
  for (uint32_t k = 0; k < s->n; k++) {
    const struct calibrate_value *v = &c->values.list[s->parts[k].i];
    const struct array *x = v->input ? array_named(inputs, v->name) : &results.list[at++];
    if (x && add_value(s, &s->parts[k], x, sample, err)) return -1;
  }
  runtime_release(c->runtime);
  return keep(s, err);
}

static int run_samples(struct second *s, struct err *err) {
  struct calibrate *c = s->c;
  const uint64_t kept = s->done;
  for (uint64_t k = 0; k < kept && kept == c->n_samples && s->runs; k++)
    calibrate_tick(c);
  if (kept == c->n_samples) return 0;
  return calibrate_each_sample(c, kept, s->runs, run_sample, s, err);
}

// ---- results --------------------------------------------------------------------------------------

static void find_means(struct second *s, const struct part *p, struct ranges_value *v) {
  const uint32_t n = s->c->seen[p->i].n_channels;
  float *means = arena_zalloc(&s->c->ranges->arena, n * sizeof *means + 1);
  for (uint32_t k = 0; k < n; k++)
    if (p->numbers[k] > 0)
      means[k] = (float)((p->sums[k] + p->sums[n + k]) / (double)p->numbers[k]);
  v->channel_mean = means;
}

static int find(struct second *s, struct err *err) {
  struct calibrate *c = s->c;
  for (uint32_t k = 0; k < s->n; k++) {
    const struct part *p = &s->parts[k];
    struct ranges_value *v = &s->found[p->i];
    if (p->counts) {
      uint64_t *kept = arena_copy(&c->ranges->arena, p->counts, p->bins.bins.n * sizeof *kept);
      range_method_find(v, &c->options.how, &c->seen[p->i].of, &p->bins, kept);
    }
    if (p->sums) find_means(s, p, v);
    if (p->gram == 0) continue;
    v->gram_k = c->seen[p->i].n_channels;
    v->gram_rows = c->seen[p->i].of.elements / v->gram_k;
    if (calibrate_gram_move(s->tiles[s->done % 2], p->gram_at, s->data, &s->data_end,
                            s->data_digest, v, err))
      return -1;
  }
  return 0;
}

static void find_first(struct second *s, uint32_t i) {
  struct calibrate *c = s->c;
  const struct calibrate_seen *seen = &c->seen[i];
  struct ranges_value *v = &s->found[i];
  v->type = c->values.list[i].type;
  if (!range_method_counts(&c->options.how))
    range_method_find(v, &c->options.how, &seen->of, NULL, NULL);
  if (!has_channels(c, i)) return;
  v->axis = c->values.list[i].axis;
  v->n_channels = seen->n_channels;
  v->channel_least = seen->channel_least;
  v->channel_most = seen->channel_most;
}

// In the model's order. What has the same elements has the same range.
static void add_all(struct second *s) {
  struct calibrate *c = s->c;
  for (uint32_t i = 0; i < c->values.n_list; i++) {
    const struct calibrate_value *x = &c->values.list[i];
    if (c->seen[i].infinite) continue;
    struct ranges_value *v = ranges_add(c->ranges, span_str(x->name)), own = s->found[i];
    if (!v) continue;
    if (x->same != NO_ID) {
      const struct ranges_value *of = &s->found[x->same];
      own = (struct ranges_value){.type = of->type,
                                  .least = of->least,
                                  .most = of->most,
                                  .elements = of->elements,
                                  .nans = of->nans,
                                  .has_spread = of->has_spread,
                                  .mean = of->mean,
                                  .deviation = of->deviation,
                                  .histogram = of->histogram};
    }
    own.name = v->name;
    *v = own;
  }
}

static int run_groups(struct second *s, struct err *err) {
  struct calibrate *c = s->c;
  if (c->options.statistics == CALIBRATE_GRAM) {
    s->data = fs_make_own(c->kept, "data", FILE_READ, err);
    if (!file_is_open(s->data)) return -1;
  }
  for (uint32_t i = 0; i < c->values.n_list; i++)
    if (!c->seen[i].infinite) find_first(s, i);
  for (uint32_t g = 0; g < c->n_groups; g++) {
    int rc = open_group(s, g, err);
    if (rc == 0 && s->runs) c->resumed_runs += s->done;
    if (rc == 0) rc = run_samples(s, err);
    if (rc == 0) rc = find(s, err);
    close_group(s);
    if (rc) return -1;
  }
  add_all(s);
  c->ranges->data_bytes = s->data_end;
  if (s->data_end > 0) digest_end(s->data_digest, c->ranges->data_sha256);
  return 0;
}

int calibrate_second(struct calibrate *c, struct err *err) {
  struct arena a = {0};
  struct second s = {.c = c,
                     .found = arena_zalloc(&a, (c->values.n_list + (size_t)1) * sizeof *s.found),
                     .data_digest = digest_new()};
  const int rc = run_groups(&s, err);
  file_close(&s.data);
  digest_free(s.data_digest);
  arena_free(&s.arena);
  arena_free(&s.sample);
  arena_free(&a);
  return rc;
}
