// The outputs themselves, after a run that found every byte as in the manifest: those that it completed for an interrupted
// one, and those beside the manifest.
#include "rebuild/rebuild.h"

// What the run found, where it completed what an interrupted one had left: whose it was, its manifest says.
static int check_completed(struct rebuild *r, struct err *err) {
  struct manifest m;
  if (r->units > 0 || !r->write_to) return 0;
  const char *folder = arena_folder(&r->arena, r->write_to), *model = path_base(r->write_to);
  struct folder dir = folder_open(HERE, folder, 0);
  const struct manifest_names beside = manifest_names(model);
  const char *shown = arena_printf(&r->arena, "%s/%s", folder, beside.manifest);
  if (!folder_is_open(dir) ||
      manifest_read(&m, &(struct manifest_at){dir, beside.manifest, shown, model, NULL}, err)) {
    folder_close(&dir);
    return -1;
  }
  folder_close(&dir);
  bool same = m.n_shards == r->m.n_shards;
  for (uint32_t i = 0; same && i < m.n_shards; i++) {
    const struct manifest_shard *a = &m.shards[i], *b = &r->m.shards[i];
    same = strcmp(m.files[a->file], r->m.files[b->file]) == 0 && a->off == b->off &&
           a->len == b->len && memcmp(a->digest, b->digest, DIGEST_BYTES) == 0;
    r->bytes += a->len;
  }
  manifest_free(&m);
  if (same) return 0;
  err_fill(err, ERR_FAIL,
           "'%s', left by an interrupted run, was completed, but it is another model",
           quote_path(r->write_to).s);
  return err_hint(err, "--write to another folder");
}

static bool any_there(const struct rebuild *r) {
  for (uint32_t i = 0; i < r->m.n_files; i++)
    if (entry_look(r->dir, r->m.files[i], FILE_NO_LINK, &(struct entry_facts){0}) == 0) return true;
  return false;
}

// What the manifest says can be made again, and yet not be what is there.
static int look_beside(struct rebuild *r, uint32_t jobs, struct err *err) {
  struct observer *o = r->pj.observer;
  const struct audit_options options = {.shown = r->target.manifest,
                                        .jobs = jobs,
                                        .stop = observer_stop(o),
                                        .tick = observer_tick_bytes,
                                        .ctx = o};
  if (!any_there(r)) return 0;
  r->beside = true;
  observer_begin(o, "checking");
  const int rc = manifest_audit(&r->m, r->dir, &options, &r->audited, err);
  observer_end(o);
  if (rc == 0 || err->kind != ERR_PERMISSION) return rc;
  // A link out of the folder is none of the files that the manifest is about: the verdict on what it says stands.
  observer_notice(o, "%s", err->msg);
  *err = (struct err){0};
  r->audited.damaged = r->audited.shards = r->m.n_shards;
  return 0;
}

bool rebuild_is_damaged(const struct rebuild *r) {
  return r->beside && r->audited.damaged > 0;
}

int rebuild_look(struct rebuild *r, uint32_t jobs, struct err *err) {
  return check_completed(r, err) || look_beside(r, jobs, err) ? -1 : 0;
}
