// A command line as a request (request.h), filled as the rows of its options say (fill.h).
#ifndef WEIR_CLI_REQUEST_H
#define WEIR_CLI_REQUEST_H

#include "cli/cli.h"
#include "execute/request.h"
#include "pipeline/pipeline.h"

// Of a command that reads a model: source, limits, allow_links, observer. Nothing is allocated.
struct request cli_request_reading(const struct cli_args *args, const struct request_source *source,
                                   struct observer *o);
// Of a command that writes one. pipeline: of a command that has one, which may say how it is verified; or NULL. What it
// needs is in *a. Options of verification that do not fit are an error of the run.
void cli_request(struct request *r, const struct cli_args *args, const struct pipeline *pipeline,
                 struct observer *o, struct arena *a);
// The options of all commands that read many bytes.
struct request_limits cli_request_limits(const struct cli_args *args);
// Spaces of the indentation of a report on standard output: a command that may have many models prints lines.
int cli_request_indent(const struct cli_args *args);

#endif
