# The same of a build for POSIX alone, which does not know its memory.
s/ in [0-9.]* s, an unknown amount of memory/ in T, M of memory/
