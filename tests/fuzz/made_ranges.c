// What a value's range is follows from its place among the values, so that every kind of range
// meets every kind of node sooner or later. Numbers are exact in every type that a range may have.
#include "made_ranges.h"

enum { CHANNELS = 64 };

static const struct {
  double least, most;
} kinds[] = {{-1, 1},      {0, 1},          {-4, 6},    {0, 0},
             {-0.5, 0.25}, {-128, 127},     {0.5, 0.5}, {-0x1p-14, 0x1p-14},
             {0, 0x1p-24}, {-49152, 49152}, {-2, -0.5}, {-0x1p-10, 4096},
             {-1, 1},      {0, 8}};

// Bytes that JSON can say.
static bool is_plain(struct span name) {
  for (size_t i = 0; i < name.n; i++)
    if (name.at[i] < ' ' || name.at[i] > '~') return false;
  return name.n > 0;
}

// The last dim of a declared tensor, or 0.
static uint32_t last_dim(const struct model *m, uint32_t info) {
  const uint8_t wanted = INFO_TENSOR | INFO_SHAPED;
  const struct model_info *row = info == NO_ID ? NULL : &m->infos[info];
  if (!row || (row->flags & wanted) != wanted || row->rank == 0) return 0;
  const int64_t last = m->info_dims[row->dims + row->rank - 1].value;
  return last > 0 && last <= CHANNELS ? (uint32_t)last : 0;
}

static void by_channel(struct ranges *r, struct ranges_value *v, uint32_t n) {
  float *least = arena_alloc(&r->arena, n * sizeof *least),
        *most = arena_alloc(&r->arena, n * sizeof *most);
  float *mean = arena_alloc(&r->arena, n * sizeof *mean);
  for (uint32_t i = 0; i < n; i++) {
    least[i] = (float)v->least / (float)(1 << i % 4);
    most[i] = (float)v->most / (float)(1 << i % 3);
    mean[i] = i % 7 == 6 ? 0 : (most[i] - least[i]) / 4;
  }
  v->axis = -1;
  v->n_channels = n;
  v->channel_least = least;
  v->channel_most = most;
  v->channel_mean = mean;
}

void made_ranges(struct ranges *r, const struct model *m) {
  ranges_init(r);
  r->path = "made";
  r->weir = r->source = "made";
  r->passes = "[]";
  r->runtime = "1.31.1";
  r->samples = 1;
  r->has_model = true;
  memcpy(r->meta_sha256, m->meta_sha256, DIGEST_BYTES);
  for (uint32_t value = 0; value < m->n_values; value++) {
    const struct span name = model_name(m, m->values[value].name);
    if (value % 23 == 22 || !is_plain(name)) continue;
    struct ranges_value *v = ranges_add(r, name);
    if (!v) continue;
    const uint32_t kind = value * 5 % (sizeof kinds / sizeof *kinds),
                   n = last_dim(m, m->values[value].info);
    v->type = DTYPE_FLOAT;
    v->least = kinds[kind].least;
    v->most = kinds[kind].most;
    v->elements = 64;
    if (n || value % 3 == 0) by_channel(r, v, n ? n : 1 + value % 9);
  }
}
