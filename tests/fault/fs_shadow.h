// What a power cut would leave: a copy of each file as it was at its last sync, and of each
// folder's names at its own. Kept in the folder $WEIR_FAULT_SHADOW, for a test to put together
// again (tests/e2e/test_power_cut.py) after a kill.
//
//   KEY.bytes   content of a file          KEY   inode and time of birth
//   KEY.names   first line: the folder's path; then "KEY f name" or "KEY d name" a line
#ifndef WEIR_FS_SHADOW_H
#define WEIR_FS_SHADOW_H

// Takes $WEIR_FAULT_ROOT and all below it as durable. Nothing is shadowed if there is no
// $WEIR_FAULT_SHADOW.
void fs_shadow_open(void);
// The descriptor, of a file or a folder, was synced.
void fs_shadow_synced(int fd);

#endif
