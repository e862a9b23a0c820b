// What came of making outputs again (rebuild.h), on standard output.
#ifndef WEIR_RENDER_REBUILD_H
#define WEIR_RENDER_REBUILD_H

#include "rebuild/rebuild.h"

void render_rebuild(const struct rebuild *r, bool quiet);

#endif
