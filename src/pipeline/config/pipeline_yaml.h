// Room: pipeline files: YAML texts that list passes and their options, weir's own and the configurations of
// onnx-passes.
#ifndef WEIR_PIPELINE_YAML_H
#define WEIR_PIPELINE_YAML_H

#include "pipeline/pipeline.h"

// Appends the steps of a text (docs/pipelines.md says what it may hold); `name` stands before the line and column of
// messages. Every pass has its values checked, and a refusal has the place of its name. ERR_USAGE for what does not fit.
int pipeline_parse(struct pipeline *p, struct span text, const char *name, struct err *err);
// The same for a file, or for standard input (path "-"). ERR_INPUT if it cannot be read.
int pipeline_read(struct pipeline *p, const char *path, struct err *err);

#endif
