// Room: the program weir-ort: it opens ONNX Runtime's library at run time, loads models and runs them.
//
// The service: requests come by one file, answers go out by another (docs/weir-ort.md).
#ifndef WEIR_ORT_SERVE_H
#define WEIR_ORT_SERVE_H

#include "ort/ort_values.h"

// Serves until the requests end. Gives the program's exit code: 0; 70 if what came is no request or no answer can be sent.
int ort_serve(struct file requests, struct file answers, struct ort_files files);

#endif
