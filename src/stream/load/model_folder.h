// A folder of models, as they are shipped: each with its data files, their sizes together, the records that weir wrote, and
// the files that no model refers to. For `weir inspect DIR` and `weir check DIR`, which look at the models themselves.
//
//   model_folder_list ──▶ for each model: sources_open, model_folder_take or model_folder_skip ──▶ model_folder_sum
#ifndef WEIR_MODEL_FOLDER_H
#define WEIR_MODEL_FOLDER_H

#include "base/table.h"
#include "stream/io/sources.h"

enum { MODEL_FOLDER_FILES = 100000 }; // more files and folders below a folder are refused

// A file below the folder. Links to files are followed, as data files may be such links.
struct folder_file {
  const char *path; // below the folder
  uint64_t bytes, dev, ino;
  bool used;        // by a model, or is one
  const char *kind; // the kind of record that weir wrote next to models; NULL: it is another file
};

// A file of a model.
struct folder_part {
  const char *path; // below the folder
  uint64_t bytes, dev, ino;
  uint32_t model; // its row
  bool missing, shared;
  const char *unreadable; // why it may not be read, or NULL
};

struct folder_model {
  const char *path, *given; // below the folder; as this process opens it
  uint64_t bytes;           // of its files; until they are taken, of the .onnx
  uint32_t first, n;        // its rows of parts, the .onnx first
  const char *why;          // why it is no model that can be read, or NULL
  uint64_t errors, warnings, notes;
};

struct model_folder {
  const char *folder;
  bool checked; // faults were counted
  struct arena arena;
  uint32_t n_entries; // names below the folder
  TABLE(struct folder_file, files);
  TABLE(struct folder_model, models); // files named *.onnx, by path
  TABLE(struct folder_part, parts);
  uint64_t bytes, n_read; // of the files of all models, each once; of models that can be read
  uint32_t n_distinct, n_shared;
};

// Lists the folder and all folders in it, but those whose names begin with a dot, and links to folders.
// ERR_INPUT, ERR_PERMISSION: one of them cannot be read; ERR_INPUT, too: there are more files than MODEL_FOLDER_FILES, or
// none named *.onnx.
int model_folder_list(struct model_folder *b, const char *folder, struct err *err);
void model_folder_done(struct model_folder *b);

// The files of a model that was loaded; and of one that could not be.
void model_folder_take(struct model_folder *b, struct folder_model *model,
                       const struct sources *sources);
void model_folder_skip(struct model_folder *b, struct folder_model *model, const struct err *why);
// When all are taken: what is shared, what is used, and sums.
void model_folder_sum(struct model_folder *b);

#endif
