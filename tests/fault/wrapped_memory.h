// What weir's own objects ask memory of, in a program that is linked with --wrap for each of these (wrapped_memory in
// tests/CMakeLists.txt): calls go to __wrap_, and __real_ is the function that there would have been.
#ifndef WEIR_WRAPPED_MEMORY_H
#define WEIR_WRAPPED_MEMORY_H

#include <stddef.h>
#include <sys/mman.h>
#include <sys/types.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *at, size_t n);
void *__real_aligned_alloc(size_t to, size_t n);
void *__real_mmap(void *at, size_t n, int protection, int flags, int fd, off_t off);
void __real_free(void *at);
void __wrap_free(void *at);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *at, size_t n);
void *__wrap_aligned_alloc(size_t to, size_t n);
void *__wrap_mmap(void *at, size_t n, int protection, int flags, int fd, off_t off);

#endif
