// Growable tables: the one way in which this program keeps rows whose number it does not know.
//
//   struct thing {
//     TABLE(struct row, rows);                      row *rows; uint32_t n_rows; size_t rows_cap
//   };
//   const uint32_t id = TABLE_ADD(thing, rows, 3);  three zeroed rows; the id of the first
//   *TABLE_PUSH(thing, rows) = row;                 one more, given by its address
//   TABLE_FREE(thing, rows);                      TABLES_FREE(thing, rows, names, seen)
//
// A table belongs to the module that declares it and starts zeroed. Addresses of its rows change when
// it grows; ids (indexes) do not. Memory that cannot be had ends the work (resources.h).
#ifndef WEIR_TABLE_H
#define WEIR_TABLE_H

#include "base/arena.h"

// The members of a table in a struct. TABLE_BIG: where 2^32 rows are not enough (bytes).
#define TABLE(type, name)                                                                          \
  type *name;                                                                                      \
  uint32_t n_##name;                                                                               \
  size_t name##_cap
#define TABLE_BIG(type, name)                                                                      \
  type *name;                                                                                      \
  size_t n_##name, name##_cap

// Appends n zeroed rows and gives the id of the first. `t` and `n` are evaluated more than once.
#define TABLE_ADD(t, name, n)                                                                      \
  (TABLE_ROOM(t, name, n),                                                                         \
   (n) ? memset((t)->name + (t)->n_##name, 0, (size_t)(n) * sizeof *(t)->name) : NULL,             \
   table_take_rows(&(t)->n_##name, (uint32_t)(n)))
// The address of one more row, not zeroed.
#define TABLE_PUSH(t, name) (TABLE_ROOM(t, name, 1), &(t)->name[(t)->n_##name++])
// Room for n more rows.
#define TABLE_ROOM(t, name, n)                                                                     \
  ((size_t)(t)->n_##name + (size_t)(n) <= (t)->name##_cap                                          \
       ? (void)0                                                                                   \
       : (void)((t)->name = table_grow((t)->name, &(t)->name##_cap,                                \
                                       (size_t)(t)->n_##name + (size_t)(n), sizeof *(t)->name)))
// Appends the rows of another struct's table of that name.
#define TABLE_COPY(to, from, name)                                                                 \
  ((from)->n_##name ? (TABLE_ROOM(to, name, (from)->n_##name),                                     \
                       memcpy((to)->name + (to)->n_##name, (from)->name,                           \
                              (size_t)(from)->n_##name * sizeof *(to)->name),                      \
                       (void)((to)->n_##name += (from)->n_##name))                                 \
                    : (void)0)
// Gives back the room beyond its rows, once the table has its final size (it may still grow later).
#define TABLE_TRIM(t, name)                                                                        \
  ((t)->name = table_trim((t)->name, &(t)->name##_cap, (t)->n_##name, sizeof *(t)->name))
// Gives the memory back; the table is as in the beginning.
#define TABLE_FREE(t, name)                                                                        \
  (table_free((t)->name, (t)->name##_cap, sizeof *(t)->name), (t)->name = NULL, (t)->n_##name = 0, \
   (t)->name##_cap = 0)
// The same of at most ten tables of one struct.
#define TABLES_FREE(t, ...)                                                                        \
  TABLES_FREE_COUNT(__VA_ARGS__, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)(t, __VA_ARGS__)
#define TABLES_FREE_COUNT(a, b, c, d, e, f, g, h, i, j, n, ...) TABLES_FREE_##n
#define TABLES_FREE_1(t, a) TABLE_FREE(t, a)
#define TABLES_FREE_2(t, a, ...) (TABLE_FREE(t, a), TABLES_FREE_1(t, __VA_ARGS__))
#define TABLES_FREE_3(t, a, ...) (TABLE_FREE(t, a), TABLES_FREE_2(t, __VA_ARGS__))
#define TABLES_FREE_4(t, a, ...) (TABLE_FREE(t, a), TABLES_FREE_3(t, __VA_ARGS__))
#define TABLES_FREE_5(t, a, ...) (TABLE_FREE(t, a), TABLES_FREE_4(t, __VA_ARGS__))
#define TABLES_FREE_6(t, a, ...) (TABLE_FREE(t, a), TABLES_FREE_5(t, __VA_ARGS__))
#define TABLES_FREE_7(t, a, ...) (TABLE_FREE(t, a), TABLES_FREE_6(t, __VA_ARGS__))
#define TABLES_FREE_8(t, a, ...) (TABLE_FREE(t, a), TABLES_FREE_7(t, __VA_ARGS__))
#define TABLES_FREE_9(t, a, ...) (TABLE_FREE(t, a), TABLES_FREE_8(t, __VA_ARGS__))
#define TABLES_FREE_10(t, a, ...) (TABLE_FREE(t, a), TABLES_FREE_9(t, __VA_ARGS__))

// Binary search among n rows in order: `at` becomes the first of which `before`, an expression of
// `at`, does not hold; n if it holds of all. It must not hold of a row behind one of which it does not.
#define BISECT(at, n, before)                                                                      \
  do {                                                                                             \
    size_t low_ = 0, high_ = (n);                                                                  \
    while ((at) = (__typeof__(at))(low_ + (high_ - low_) / 2), low_ < high_)                       \
      if (before)                                                                                  \
        low_ = (size_t)(at) + 1;                                                                   \
      else                                                                                         \
        high_ = (at);                                                                              \
  } while (0)

static inline uint32_t table_take_rows(uint32_t *rows, uint32_t n) {
  const uint32_t first = *rows;
  *rows += n;
  return first;
}

// ---- what the macros are made of, and arrays that are no member of a struct ---------------------

// Grows an array so that it has room for `need` rows. table_grow(NULL, …) starts one. Rows are not
// zeroed.
void *table_grow(void *at, size_t *cap, size_t need, size_t row_bytes);
// The whole array is in use and looked up all over: it may lie in large pages, which saves faults and
// half of the waiting for memory. Where the system has none, nothing changes.
void table_scatter(void *at, size_t cap, size_t row_bytes);
// Gives back the room beyond n rows, once a table has its final size (it may still grow later).
void *table_trim(void *at, size_t *cap, size_t n, size_t row_bytes);
void table_free(void *at, size_t cap, size_t row_bytes);

// compare(a, b, ctx) is below 0 where row a comes before row b, and above 0 where it comes after. It is never asked about one row
// twice.
typedef int table_compare(const void *a, const void *b, const void *ctx);
// Sorts n rows where they are: in O(n log n) steps, whatever they are, and with no memory of its own, so it cannot fail. Rows that
// are equal end in any order: `compare` tells all rows apart wherever their order shows. Systems have qsort_r with different
// orders of arguments, or not at all.
void table_sort(void *rows, size_t n, size_t row_bytes, table_compare *compare, const void *ctx);

#endif
