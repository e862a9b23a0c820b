// {"_type":"https://in-toto.io/Statement/v1",
//  "subject":[{"name":"x.onnx","digest":{"sha256":…}},{"name":"x.onnx.data","digest":{"sha256":…}}],
//  "predicateType":"https://slsa.dev/provenance/v1",
//  "predicate":{"buildDefinition":{"buildType":…,"externalParameters":{…},"internalParameters":{…},
//                                  "resolvedDependencies":[{"name":"in.onnx","digest":{…}},…]},
//               "runDetails":{"builder":{"id":…,"version":{"weir":…}},"metadata":{…},"byproducts":[…]}}}
//
// Like all that weir writes it is a function of plan and bytes: it names no host, user or path. When it was made is said
// where SOURCE_DATE_EPOCH says when that is to have been; SLSA lets times be left out.
#include "execute/commit/provenance.h"

#include "platform/machine.h"

#include <stdio.h>

static const char statement_type[] = "https://in-toto.io/Statement/v1";
static const char predicate_type[] = "https://slsa.dev/provenance/v1";
static const char build_type[] = "pkg:pypi/onnx-weir#provenance/v1";
static const char builder[] = "pkg:pypi/onnx-weir";
#define LAST_SECOND UINT64_C(253402300799) // of the year 9999

// False: it is not set.
static bool source_date(struct span *text) {
  const char *said = machine_variable("SOURCE_DATE_EPOCH");
  if (!said) return false;
  *text = span_str(said);
  return true;
}

int provenance_check_time(struct err *err) {
  struct span text;
  uint64_t seconds;
  if (!source_date(&text) || (span_decimal(text, &seconds) && seconds <= LAST_SECOND)) return 0;
  return err_set(err, ERR_USAGE, "SOURCE_DATE_EPOCH is '%s', which is not a number of seconds",
                 quote(text).s);
}

static void put_metadata(struct json_out *out) {
  struct span text;
  uint64_t seconds;
  char when[64];
  if (!source_date(&text) || !span_decimal(text, &seconds)) return;
  const struct machine_date at = machine_date(seconds);
  snprintf(when, sizeof when, "%04d-%02d-%02dT%02d:%02d:%02dZ", at.year, at.month, at.day, at.hour,
           at.minute, at.second);
  json_put_object(out, "metadata");
  json_put_text(out, "startedOn", when);
  json_put_text(out, "finishedOn", when);
  json_end_object(out);
}

// Of a file, open for more members.
static void begin_resource(struct json_out *out, struct span name, struct span sha256) {
  json_newline(out);
  json_object(out);
  json_put_string(out, "name", name);
  json_put_object(out, "digest");
  json_put_string(out, "sha256", sha256);
  json_end_object(out);
}

static void put_resource(struct json_out *out, const char *name, const char *sha256) {
  begin_resource(out, span_str(name), span_str(sha256));
  json_end_object(out);
}

static void put_subject(struct json_out *out, const struct provenance_input *in) {
  const struct plan *p = in->plan;
  const uint32_t last = p->n_outputs - 1; // the .onnx
  json_put_array(out, "subject");
  put_resource(out, p->outputs[last].name, in->output_sha256[last]);
  for (uint32_t i = 0; i < last; i++)
    put_resource(out, p->outputs[i].name, in->output_sha256[i]);
  json_end_array(out);
}

// What weights were asked, or what a model gave: answers that the passes decided by.
static void put_artifacts(struct json_out *out, const struct plan *p) {
  struct err none = {0};
  struct json_value *list =
      p->artifacts ? json_parse(span_str(p->artifacts), "artifacts", &none) : NULL;
  for (const struct json_value *v = list ? json_first(list) : NULL; v; v = json_next(v)) {
    struct span stage, sha256;
    if (!json_as_string(json_get(v, "stage"), &stage) ||
        !json_as_string(json_get(v, "sha256"), &sha256))
      continue;
    begin_resource(out, stage, sha256);
    json_put_object(out, "annotations");
    json_put_text(out, "role", "artifact");
    json_end_object(out);
    json_end_object(out);
  }
  json_free(list);
}

static void put_dependencies(struct json_out *out, const struct provenance_input *in) {
  const struct plan *p = in->plan;
  json_put_array(out, "resolvedDependencies");
  for (uint32_t i = 0; i < p->n_sources; i++) {
    begin_resource(out, span_str(p->sources[i].name), span_str(in->source_sha256[i]));
    json_put_object(out, "annotations");
    json_put_text(out, "role", "source");
    json_put_uint(out, "size", p->sources[i].size);
    json_end_object(out);
    json_end_object(out);
  }
  put_artifacts(out, p);
  json_end_array(out);
}

static void put_definition(struct json_out *out, const struct provenance_input *in) {
  const struct plan *p = in->plan;
  json_put_object(out, "buildDefinition");
  json_put_text(out, "buildType", build_type);
  json_put_object(out, "externalParameters");
  json_put_text(out, "source", p->n_sources > 0 ? p->sources[0].name : "");
  json_put_text(out, "output", p->outputs[p->n_outputs - 1].name);
  json_put_raw(out, "passes", span_str(p->passes ? p->passes : "[]"));
  json_put_raw(out, "layout", span_str(p->layout ? p->layout : "{}"));
  json_end_object(out);
  json_put_object(out, "internalParameters");
  json_put_hex(out, "plan_id", p->id, DIGEST_BYTES);
  json_put_hex(out, "meta_sha256", p->meta_sha256, DIGEST_BYTES);
  json_put_text(out, "edits_sha256", in->edits_sha256);
  json_end_object(out);
  put_dependencies(out, in);
  json_end_object(out);
}

static void put_details(struct json_out *out, const struct provenance_input *in) {
  json_put_object(out, "runDetails");
  json_put_object(out, "builder");
  json_put_text(out, "id", builder);
  json_put_object(out, "version");
  json_put_text(out, "weir", in->weir_version);
  json_end_object(out);
  json_end_object(out);
  put_metadata(out);
  json_put_array(out, "byproducts");
  if (in->manifest) put_resource(out, in->manifest, in->manifest_sha256);
  if (in->tensors) put_resource(out, in->tensors, in->tensors_sha256);
  json_end_array(out);
  json_end_object(out);
}

void provenance_write(struct json_out *out, const struct provenance_input *in) {
  json_object(out);
  json_put_text(out, "_type", statement_type);
  put_subject(out, in);
  json_put_text(out, "predicateType", predicate_type);
  json_put_object(out, "predicate");
  put_definition(out, in);
  put_details(out, in);
  json_end_object(out);
  json_end_object(out);
  json_newline(out);
}
