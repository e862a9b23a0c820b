// The version, and what the program was built with and runs on.
//
// Versions of libraries come from the build (pkg-config), because a library's header belongs to the
// one room that uses it, and liburing has no version in its header before 2.4. The system may have
// replaced a shared library since: the words "built with" are meant. The engine is asked for as a
// run would ask, so that a bug report shows what this machine gives.
#include "cli/help/help.h"

#include "base/version_number.h"
#include "cli/help/licenses.h"
#include "stream/run/engine.h"

#include "kernels/kernels.h"
#include "stream/io/io_queue.h"

const char version_date[] = WEIR_DATE;

void version_print(FILE *to) {
  const char *ring = io_has_ring() ? "liburing " WEIR_LIBURING : "no io_uring (POSIX alone)";
  fprintf(to, "weir %s\n", version_number);
  fprintf(to, "built with libcrypto %s, %s, protobuf-c %s, cJSON %s, libyaml %s, zlib %s\n",
          WEIR_LIBCRYPTO, ring, WEIR_PROTOBUF_C, WEIR_CJSON, WEIR_LIBYAML, WEIR_ZLIB);
  fprintf(to, "instruction set: %s\n", kernels_isa_name());
  enum io_mode mode = IO_AUTO;
  struct engine_note note;
  struct err err = {0};
  if (engine_choose(&mode, &note, &err) < 0) {
    fprintf(to, "engine: none (%s)\n", err.msg);
    return;
  }
  fprintf(to, "engine: %s%s%s%s\n", io_mode_name(mode), note.s[0] ? " (" : "", note.s,
          note.s[0] ? ")" : "");
}

void version_print_licenses(FILE *to) {
  fprintf(to, "weir %s", version_number);
  for (const struct license *l = licenses + 1; l->name; l++)
    fprintf(to, "%s%s", l == licenses + 1 ? ", with " : ", ", l->name);
  fprintf(to, "%s\n",
          licenses[1].name ? " in it" : "; its libraries are shared ones of the system");
  for (const struct license *l = licenses; l->name; l++)
    fprintf(to, "\n==== %s ====\n\n%s", l->name, l->text);
}
