// What threads of pthread.h leave to the system.
#ifndef WEIR_PTHREADS_H
#define WEIR_PTHREADS_H

#include <pthread.h>
#include <stdint.h>

// pthread_create of a thread that no request to stop reaches (stops.h): they go to the one that calls. What a thread does wrong itself, as
// to read of a file that was cut, stays its own.
int pthreads_start(pthread_t *thread, const pthread_attr_t *attr, void *(*work)(void *ctx),
                   void *ctx);

// A condition for pthreads_wait_ms. It cannot fail.
void pthreads_condition(pthread_cond_t *c);
// Waits as pthread_cond_wait does, but so long at most, whoever sets the time meanwhile.
void pthreads_wait_ms(pthread_cond_t *c, pthread_mutex_t *mu, uint32_t ms);

#endif
