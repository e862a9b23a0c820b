// header.json: what a run knew that is not part of the plan. Not hashed into plan_id; every unit
// record carries its SHA-256.
#ifndef WEIR_STAGING_HEADER_H
#define WEIR_STAGING_HEADER_H

#include "base/digest.h"
#include "stream/io/sources.h"
#include "stream/staging/staging.h"

// Writes header.json into the folder, durably, and gives its SHA-256. id: of the plan, or of what
// else the folder is named for.
int staging_header_write(struct folder folder, const uint8_t id[DIGEST_BYTES], struct sources *s,
                         const struct staging_options *options, uint8_t sha256[DIGEST_BYTES],
                         struct err *err);

// A header as found in a folder. `usable` is false where there is none or it is not one of ours.
struct staging_header {
  struct json_value *doc;
  uint8_t sha256[DIGEST_BYTES];
  bool usable;
  char made_by[64]; // "weir 0.1.0", where it is of another version or form than ours; else empty
};
// version: ours.
int staging_header_read(struct folder folder, const char *version, struct staging_header *h,
                        struct err *err);
void staging_header_free(struct staging_header *h);

bool staging_header_is_of(const struct staging_header *h, const uint8_t id[DIGEST_BYTES]);
// What was left that a changed source makes worthless, for the sentence that says so.
enum staging_header_left { STAGING_HEADER_UNITS, STAGING_HEADER_MEASURED };
// -1 with ERR_INPUT, naming the first source that is not what it was.
int staging_header_same_sources(const struct staging_header *h, const struct sources *s,
                                enum staging_header_left left, struct err *err);
// Is this header of that command, over the sources in that folder, as they are now? (inplace: they
// may have become the output.)
bool staging_header_is_same_job(const struct staging_header *h, const struct staging_job *job);
// Where the sources lay, and what they were, one row each; of a usable header.
struct span staging_header_source_folder(const struct staging_header *h);
struct staging_source;
struct staging_source *staging_header_sources(const struct staging_header *h, struct arena *a,
                                              uint32_t *n);
// The command that resumes, or NULL; belongs to h. Also that of another version.
const char *staging_header_resume(const struct staging_header *h);

#endif
