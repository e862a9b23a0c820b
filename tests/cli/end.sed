# The end of a run without what differs from machine to machine: time and memory.
s/ in [0-9.]* s, [0-9.]* [kMG]B of memory/ in T, M of memory/
