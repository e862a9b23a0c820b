// The machine and this process: processors, memory, clocks, the environment, names and limits.
#ifndef WEIR_MACHINE_H
#define WEIR_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- the machine, for decisions that change no byte ----

// Processors that this process may use, at least 1.
uint32_t machine_processors(void);
// Bytes of memory that this process and the page cache of the files it uses may fill: the physical memory, or the limit of a group
// of processes that it belongs to (a container, a job) where that is less. Found once for the process. 0 if nobody says.
uint64_t machine_memory(void);
// Bytes of a page of memory: a power of two.
size_t machine_page_bytes(void);
// Has the processor instructions for SHA-256, as far as the system says? Of x86-64 processors it says nothing: they do.
bool machine_has_sha2(void);
// Its name, for people: at most n - 1 bytes, "" if there is none.
void machine_name(char *to, size_t n);

// ---- clocks ----

// A clock that only runs forward, whoever sets the time. When it began says nothing.
uint64_t machine_clock_ns(void);
static inline uint64_t machine_clock_ms(void) {
  return machine_clock_ns() / 1000000;
}
// In seconds.
static inline double machine_clock(void) {
  return (double)machine_clock_ns() / 1e9;
}
// The time, in nanoseconds since 1970 as times of files are (entry_facts). It may be set back.
int64_t machine_time_ns(void);
// Waits so long; less where a request to stop (stops.h) ends the wait.
void machine_sleep_ms(uint32_t ms);

// A moment in UTC, by the calendar of today; months and days begin with 1.
struct machine_date {
  int year, month, day, hour, minute, second;
};
// Of so many seconds since 1970; up to the year 9999.
struct machine_date machine_date(uint64_t seconds);

// ---- the environment ----

// The value of a variable; NULL: it is not set, or empty. Valid until it is set again.
const char *machine_variable(const char *name);
// Sets it, for libraries in this process and for programs that it starts. No other thread may look at the environment meanwhile.
void machine_set_variable(const char *name, const char *value);
// Where large temporary files belong: the user's choice (TMPDIR), or the system's folder for them.
const char *machine_temporary_folder(void);

// ---- this process ----

// Its peak of resident memory, in bytes; 0: the system does not say.
uint64_t machine_peak_memory(void);
// Its number, which no other process of this machine has while it lives.
uint64_t process_id(void);
// The program begins: the first word of its command line.
void process_begin(const char *word);
// The absolute path of its program, links resolved, in `to`, which has PATH_BYTES (files.h); where the system does not say, the path by
// which it was started, or where the first word leads. -1: not known, or longer.
int process_program(char *to);
// May it have n files open at a time? Its limit is raised as far as that takes. False: *most is what it may have.
bool process_may_open(uint64_t n, uint64_t *most);
// Ends it with an exit code, at once: what streams hold is not written, and nothing is tidied up.
_Noreturn void process_end(int code);

#endif
