// What goes, or makes way for another, must not be open: Windows refuses that, and NFS keeps such files under names of its own.
// $WEIR_FAULT_OPEN is a file to which one line is appended for each that was open, or mapped, in this process:
//
//   remove x.onnx.data        a file or folder that was removed
//   replace x.onnx            one whose name another file took
//   move x.onnx.data          one that got another name; of a folder, something in it was open
#ifndef WEIR_FS_OPEN_H
#define WEIR_FS_OPEN_H

// Reads $WEIR_FAULT_OPEN. False: there is none, and the calls below do nothing.
_Bool fs_open_wanted(void);
// Before `name` in the folder (a descriptor) goes. `what` is the first word of the line.
void fs_open_look(const char *what, int folder, const char *name);
// Before a rename. (A lock is held until nobody can find it any more.)
void fs_open_look_rename(int from_folder, const char *from, int to_folder, const char *to);

#endif
