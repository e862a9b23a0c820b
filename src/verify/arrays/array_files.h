// Files of arrays: what people keep inputs and expected outputs in.
//
//   .npy                        one array, of NumPy's format 1.0 to 3.0
//   .npz                        a ZIP of them, stored or deflated; the name of a member without ".npy" is the array's
//   test_data_set_<k>/          of ONNX's own tests: input_<i>.pb and output_<i>.pb, a TensorProto (or SequenceProto,
//                               OptionalProto) each, whose name may be empty: then the i-th input's counts
//
// Nothing is trusted: every size is checked against what is there and against `most` bytes of elements in all. Messages
// name the file and the array. Refused, with the reason: objects (pickles), types without a name (ml_dtypes in a .npy),
// more than 64 MiB that lie in Fortran order or the other byte order, and that many strings.
//
// A .pb does not say which message it is. What can be nothing but a tensor is one; a sequence of one item or none may as
// well be an optional: array_settle, which wants to know the model's type, decides.
#ifndef WEIR_ARRAY_FILES_H
#define WEIR_ARRAY_FILES_H

#include "verify/arrays/array.h"

// One case: what a model is given at once, and perhaps what it should give.
struct array_case {
  const char *name;      // of the file or folder, for reports
  struct arrays inputs;  // names may be "": by position
  struct arrays outputs; // expected ones; none: n is 0
};
struct array_cases {
  struct array_case *list;
  uint32_t n;
};

// Reads `path`: a .npz, .npy or .pb (one case; arrays of a .npz that are not inputs are refused by who knows the model), or
// a folder with test_data_set_* folders, or such a folder itself, or one of *.npz (a case each, in order of names).
// Arrays larger than 1 MiB that lie stored in their file stay there, in descriptors that array_files_close closes;
// what is deflated is inflated into a file without a name in `scratch_folder` if it is larger than that.
struct array_files; // holds descriptors
int array_files_read(struct array_files **out, const char *path, const char *scratch_folder,
                     uint64_t most, struct arena *a, struct array_cases *cases, struct err *err);
// The same of files that are listed: one case, of the arrays of all files in order (a .npy's has no name).
struct array_paths {
  const char *const *list;
  uint32_t n;
};
int array_files_read_lists(struct array_files **out, const struct array_paths *inputs,
                           const struct array_paths *outputs, const char *scratch_folder,
                           uint64_t most, struct arena *a, struct array_cases *cases,
                           struct err *err);
// The files that array_files_read would open of `path`, in order of names, in *a; none of them is opened. What cannot be
// listed has none. false: more than `most`.
bool array_files_names(const char *path, uint32_t most, struct arena *a, struct array_paths *out);
void array_files_close(struct array_files *f);

// Writes a case as folder/test_data_set_<k>/input_<i>.pb, output_<i>.pb. The folder may be there; a data set of
// that number must not. Whole or not at all.
int array_files_write_case(const char *folder, uint32_t k, const struct arrays *inputs,
                           const struct arrays *outputs, struct err *err);

#endif
