// Runs a fuzz target over files instead of a fuzzer's inventions: every file named on the command
// line and every file of every folder named there, in name order, plus the empty input. What a
// fuzzer once found is tested forever, with any compiler.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned replayed;

static void give_up(const char *what) {
  perror(what);
  exit(1);
}

static void replay_file(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) give_up(path);
  struct stat st;
  if (fstat(fileno(f), &st)) give_up(path);
  const size_t size = (size_t)st.st_size;
  // Exactly as large as the input: reading past its end is then seen by a sanitizer.
  uint8_t *data = malloc(size ? size : 1);
  if (!data || fread(data, 1, size, f) != size) give_up(path);
  fclose(f);
  LLVMFuzzerTestOneInput(data, size);
  free(data);
  replayed++;
}

static int is_visible(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

static void replay_folder(const char *path) {
  struct dirent **list;
  const int n = scandir(path, &list, is_visible, alphasort);
  if (n < 0) give_up(path);
  for (int i = 0; i < n; i++) {
    char file[4096];
    snprintf(file, sizeof file, "%s/%s", path, list[i]->d_name);
    replay_file(file);
    free(list[i]);
  }
  free(list);
}

int main(int argc, char **argv) {
  LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
  for (int i = 1; i < argc; i++) {
    struct stat st;
    if (stat(argv[i], &st)) give_up(argv[i]);
    if (S_ISDIR(st.st_mode))
      replay_folder(argv[i]);
    else
      replay_file(argv[i]);
  }
  printf("%u files replayed\n", replayed);
  return replayed > 0 ? 0 : 1;
}
