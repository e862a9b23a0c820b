// Arrays of files and their figures, for tests that compare them with NumPy and onnx, one JSON object a line:
//
//   arrays_tool read PATH SCRATCH [MOST]     each array of each case: kind, dtype, dims, bytes as hex
//   arrays_tool compare A B SCRATCH [METRIC…] the arrays of the first case of A and B, in pairs; metrics as bounds
//   arrays_tool write PATH SCRATCH FOLDER K  the first case of PATH as FOLDER/test_data_set_K
//
// A last word "optional" after read and write settles what is either for an optional.
#include "verify/arrays/array_files.h"
#include "verify/compare/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const struct err *err) {
  fprintf(stderr, "%s\n", err->msg);
  if (err->hint[0]) fprintf(stderr, "hint: %s\n", err->hint);
  return (int)err->kind;
}

static void print_hex(const uint8_t *at, size_t n) {
  for (size_t i = 0; i < n; i++)
    printf("%02x", at[i]);
}

static int print_elements(const struct array *x, struct err *err) {
  uint8_t piece[4096];
  for (uint64_t at = 0; at < x->bytes; at += sizeof piece) {
    const size_t n = (size_t)min_u64(sizeof piece, x->bytes - at);
    if (array_read(x, at, piece, n, err) != 0) return -1;
    print_hex(piece, n);
  }
  return 0;
}

static int print_tensor(const struct array *x, struct err *err) {
  printf("\"dtype\": \"%s\", \"dims\": [", dtype_name(x->dtype));
  for (uint32_t i = 0; i < x->rank; i++)
    printf("%s%lld", i ? ", " : "", (long long)x->dims[i]);
  printf("], \"in_file\": %s, ", file_is_open(x->file) ? "true" : "false");
  if (x->dtype != DTYPE_STRING) {
    printf("\"bytes\": \"");
    if (print_elements(x, err) != 0) return -1;
    printf("\"");
    return 0;
  }
  printf("\"strings\": [");
  for (uint64_t i = 0; i < x->count; i++) {
    printf("%s\"", i ? ", " : "");
    print_hex(x->strings[i].at, x->strings[i].n);
    printf("\"");
  }
  printf("]");
  return 0;
}

// Items are printed behind the array that has them, with their depth.
static int print_array(const char *of, const char *list, const struct array *x, unsigned depth,
                       struct err *err) {
  static const char *const kinds[] = {"tensor", "sequence", "nothing"};
  printf("{\"case\": \"%s\", \"list\": \"%s\", \"depth\": %u, \"name\": \"", of, list, depth);
  print_hex((const uint8_t *)x->name, strlen(x->name));
  printf("\", \"kind\": \"%s\", \"items\": %u, ", kinds[x->kind], x->n_items);
  if (x->kind == ARRAY_TENSOR && print_tensor(x, err) != 0) return -1;
  printf("%s\"either\": %s}\n", x->kind == ARRAY_TENSOR ? ", " : "", x->either ? "true" : "false");
  for (uint32_t i = 0; depth < 9 && i < x->n_items; i++)
    if (print_array(of, list, &x->items[i], depth + 1, err) != 0) return -1;
  return 0;
}

static int print_arrays(const char *of, const char *list, struct arrays *x, bool optional,
                        struct err *err) {
  for (uint32_t i = 0; i < x->n; i++) {
    if (optional) array_settle(&x->list[i], true);
    if (print_array(of, list, &x->list[i], 0, err) != 0) return -1;
  }
  return 0;
}

static void print_number(const char *name, double x) {
  if (isfinite(x))
    printf(", \"%s\": %.17g", name, x);
  else
    printf(", \"%s\": \"%s\"", name, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
}

static void print_count(const char *name, uint64_t x) {
  printf(", \"%s\": %llu", name, (unsigned long long)x);
}

static int compare(const struct array *a, const struct array *b,
                   const struct compare_bounds *bounds, struct err *err) {
  static const char *const ends[] = {"passed", "failed", "different"};
  struct compare_result r;
  if (compare_arrays(a, b, bounds, NULL, &r, err) != 0) return -1;
  const struct compare_figures *f = &r.figures;
  printf("{\"end\": \"%s\", \"why\": \"%s\", \"has_top1\": %s", ends[r.end], r.why,
         f->has_top1 ? "true" : "false");
  print_number("max_abs", f->max_abs);
  print_number("mean_abs", f->mean_abs);
  print_number("p99", f->p99_abs);
  print_number("p999", f->p999_abs);
  print_number("relative", f->relative);
  print_number("cosine", f->cosine);
  print_number("sqnr", f->sqnr_db);
  print_number("top1", f->top1);
  print_number("largest", f->largest);
  print_count("count", f->count);
  print_count("beyond", f->beyond);
  print_count("unequal", f->unequal);
  print_count("unequal_zeros", f->unequal_zeros);
  print_count("nonfinite", f->nonfinite[0]);
  print_count("nonfinite_result", f->nonfinite[1]);
  print_count("first_nonfinite", f->first_nonfinite[0]);
  print_count("apart", f->nonfinite_apart);
  print_count("first_apart", f->first_apart);
  print_count("first_worst", f->first_worst);
  printf("}\n");
  return 0;
}

static int run_read(char **words, int n, struct arena *a, struct err *err) {
  struct array_files *files;
  struct array_cases cases;
  const bool optional = strcmp(words[n - 1], "optional") == 0;
  const uint64_t most = n > 2 && !optional ? strtoull(words[2], NULL, 10) : UINT64_C(1) << 40;
  if (array_files_read(&files, words[0], words[1], most, a, &cases, err) != 0) return -1;
  int bad = 0;
  for (uint32_t i = 0; !bad && i < cases.n; i++)
    bad = print_arrays(cases.list[i].name, "inputs", &cases.list[i].inputs, optional, err) != 0 ||
          print_arrays(cases.list[i].name, "outputs", &cases.list[i].outputs, optional, err) != 0;
  array_files_close(files);
  return bad ? -1 : 0;
}

static int take_bounds(char **words, int n, struct compare_bounds *b, struct err *err) {
  *b = compare_nothing();
  b->rtol = b->atol = 1e-5;
  for (int i = 0; i < n; i++) {
    if (strcmp(words[i], "equal") == 0) {
      b->equal = true;
    } else if (strcmp(words[i], "zeros") == 0) {
      b->zeros_equal = true;
    } else if (strcmp(words[i], "retyped") == 0) {
      b->retyped = true;
    } else if (strcmp(words[i], "finite") == 0) {
      b->nonfinite = false;
    } else if (strcmp(words[i], "free") == 0) {
      b->rtol = b->atol = -1;
    } else if (compare_take_metric(b, words[i], err) != 0) {
      return -1;
    }
  }
  return 0;
}

static int run_compare(char **words, int n, struct arena *a, struct err *err) {
  struct array_files *files[2] = {NULL, NULL};
  struct array_cases cases[2];
  struct compare_bounds b;
  int bad = take_bounds(words + 3, n - 3, &b, err);
  for (int s = 0; !bad && s < 2; s++)
    bad = array_files_read(&files[s], words[s], words[2], UINT64_C(1) << 40, a, &cases[s], err);
  for (uint32_t i = 0; !bad && i < cases[0].list[0].inputs.n; i++)
    bad = compare(&cases[0].list[0].inputs.list[i], &cases[1].list[0].inputs.list[i], &b, err);
  array_files_close(files[0]);
  array_files_close(files[1]);
  return bad;
}

static int run_write(char **words, bool optional, struct arena *a, struct err *err) {
  struct array_files *files;
  struct array_cases cases;
  if (array_files_read(&files, words[0], words[1], UINT64_C(1) << 40, a, &cases, err) != 0)
    return -1;
  for (uint32_t i = 0; optional && i < cases.list[0].inputs.n; i++)
    array_settle(&cases.list[0].inputs.list[i], true);
  const int bad = array_files_write_case(words[2], (uint32_t)strtoul(words[3], NULL, 10),
                                         &cases.list[0].inputs, &cases.list[0].outputs, err);
  array_files_close(files);
  return bad;
}

int main(int argc, char **argv) {
  struct arena a = {0};
  struct err err = {0};
  int bad = 2;
  if (argc >= 4 && strcmp(argv[1], "read") == 0)
    bad = run_read(argv + 2, argc - 2, &a, &err);
  else if (argc >= 5 && strcmp(argv[1], "compare") == 0)
    bad = run_compare(argv + 2, argc - 2, &a, &err);
  else if (argc >= 6 && strcmp(argv[1], "write") == 0)
    bad = run_write(argv + 2, argc > 6, &a, &err);
  arena_free(&a);
  return bad < 0 ? fail(&err) : bad;
}
