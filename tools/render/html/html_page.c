// A page, from top to bottom:
//
//   head: policy, style │ what came of it │ warnings │ outputs │ verification │ what changed │ sizes │ errors │ kept │
//   nodes │ what figures mean │ how to make it again │ script
//
// Sections are functions that write nothing where there is nothing to say (html_parts.h). The policy forbids every
// load: what the page needs is in it.
#include "render/html/html_page.h"

#include "cli/hints.h"
#include "render/html/html_chart.h"
#include "render/html/html_files.h"
#include "render/html/html_parts.h"
#include "render/html/html_table.h"
#include "report/verified.h"

static void put_lines(struct html_out *o, const char *const *lines) {
  for (; *lines; lines++)
    html_raw(o, *lines);
}

static void put_head(struct html_out *o, const struct run_report *r) {
  html_raw(o,
           "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
           "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src ");
  html_raw(o, html_page_css_hash);
  html_raw(o, "; script-src ");
  html_raw(o, html_page_js_hash);
  html_raw(o, "; base-uri 'none'; form-action 'none'\">\n"
              "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
              "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" "
              "content=\"no-referrer\">\n"
              "<meta name=\"robots\" content=\"noindex\">\n");
  html_put(o, "<meta name=\"generator\" content=\"weir %s\">\n<title>%s: weir %s</title>\n<style>",
           r->version, r->model, r->asked.command);
  put_lines(o, html_page_css);
  html_raw(o, "</style>\n</head>\n<body>\n");
}

// ---- what came of it ---------------------------------------------------------------------------

static void put_card(struct html_out *o, const char *title, const char *value, const char *more) {
  html_put(o, "<div class=\"card\"><dt>%s</dt><dd>%s<small>%s</small></dd></div>\n", title, value,
           more);
}

static void put_nodes(struct html_out *o, const uint64_t nodes[2], struct arena *a) {
  if (nodes[0] == nodes[1])
    put_card(o, "Nodes", html_whole(nodes[0]).s, "as before; subgraphs and functions included");
  else
    put_card(o, "Nodes",
             arena_printf(a, "%s \xe2\x86\x92 %s", html_whole(nodes[0]).s, html_whole(nodes[1]).s),
             "subgraphs and functions included");
}

static void put_verification(struct html_out *o, const struct verified *v) {
  html_put(o, "<div class=\"card double\"><dt>Verification</dt><dd>%s of %s passed<small>",
           decimal(v->n_passed).s, decimal(verified_all(v)).s);
  html_put(o, "%s failed, %s not verified", decimal(v->n_failed).s, decimal(v->n_not).s);
  if (v->n_unjudged) html_put(o, ", %s not judged", decimal(v->n_unjudged).s);
  html_raw(o, "</small></dd></div>\n");
}

static void put_size(struct html_out *o, const struct run_report *r, struct arena *a) {
  if (r->cost.bytes_before == 0 && r->cost.bytes_after == 0) return;
  const double share =
      r->cost.bytes_before ? (double)r->cost.bytes_after / (double)r->cost.bytes_before : 1;
  html_put(o, "<div class=\"card double\"><dt>Size</dt><dd>%s \xe2\x86\x92 ",
           quote_bytes(r->cost.bytes_before).s);
  html_put(o, "<b>%s</b><small>%s</small>", quote_bytes(r->cost.bytes_after).s,
           arena_printf(a, "%.1f %% of the input%s", 100 * share,
                        r->cost.packed ? arena_printf(a, "; \xe2\x89\x88 %s compressed (gzip -9)",
                                                      quote_bytes(r->cost.packed).s)
                                       : ""));
  const double longest = share > 1 ? share : 1;
  html_before_after(o, 1 / longest, share / longest);
  html_raw(o, "</dd></div>\n");
}

static struct html_verdict status_of(const struct run_report *r) {
  if (r->refusal)
    return (struct html_verdict){r->asked.dry ? "would be refused" : "refused", "bad"};
  if (r->verified) return html_verdict(r->verified);
  if (r->asked.dry) return (struct html_verdict){"dry run: nothing was written", "plain"};
  if (r->out.unchanged)
    return (struct html_verdict){"unchanged: the file existed already", "plain"};
  return (struct html_verdict){"written", "good"};
}

static void put_told(struct html_out *o, const char *title, const char *text) {
  if (text) html_put(o, "<dt>%s</dt><dd>%s</dd>\n", title, text);
}

static void put_memory(struct html_out *o, const struct run_report *r) {
  const struct verified *v = r->verified;
  const uint64_t bytes = max_u64(r->cost.peak_memory, v ? v->peak_memory[0] : 0);
  if (bytes) put_card(o, "Peak memory", quote_bytes(bytes).s, "of weir itself");
}

static void put_headline(struct html_out *o, const struct run_report *r) {
  struct arena a = {0};
  const struct html_verdict status = status_of(r);
  html_put(o, "<header>\n<p class=\"made\">weir %s</p>\n<h1><bdi>%s</bdi></h1>\n", r->asked.command,
           r->model);
  html_put(o, "<p><span class=\"badge %s\">%s</span></p>\n", status.style, status.word);
  if (r->told.did) {
    html_raw(o, "<p class=\"did\">");
    html_arrows(o, r->told.did);
    for (uint32_t i = 0; i < r->told.n_more; i++)
      html_put(o, "<br>%s", r->told.more[i]);
    html_raw(o, "</p>\n");
  }
  // With a verification there are more than fit in a row.
  html_raw(o, r->verified ? "</header>\n<dl class=\"cards many\">\n"
                          : "</header>\n<dl class=\"cards\">\n");
  put_size(o, r, &a);
  if (r->census.n_ops) put_nodes(o, r->census.nodes, &a);
  if (r->stored.n_rows)
    put_card(o, "Tensors converted", html_whole(r->stored.n_rows).s, "each with its error below");
  if (r->verified) put_verification(o, r->verified);
  if (r->cost.seconds > 0)
    put_card(o, "Time", quote_seconds(r->cost.seconds).s,
             r->work.resumed ? "a part was written by an interrupted run" : "");
  put_memory(o, r);
  html_raw(o, "</dl>\n");
  if (r->told.worst || r->told.kept || r->told.held_back || r->told.larger || r->told.shapeless ||
      r->needs.words) {
    html_raw(o, "<dl class=\"told\">\n");
    put_told(o, "Worst", r->told.worst);
    put_told(o, "Kept", r->told.kept);
    put_told(o, "Held back", r->told.held_back);
    put_told(o, "Larger", r->told.larger);
    put_told(o, "No shape", r->told.shapeless);
    put_told(o, "Runtime", r->needs.words);
    html_raw(o, "</dl>\n");
  }
  arena_free(&a);
}

static void put_notice(struct html_out *o, const char *style, const char *title, const char *text,
                       const char *hint) {
  html_put(o, "<p class=\"notice %s\"><strong>%s</strong> %s", style, title, text);
  if (hint && *hint) html_put(o, "<br><small>Hint: %s</small>", hint);
  html_raw(o, "</p>\n");
}

static void put_warnings(struct html_out *o, const struct run_report *r) {
  if (r->refusal) put_notice(o, "bad", "Error:", r->refusal->msg, hints_of(r->refusal).s);
  for (uint32_t i = 0; i < r->n_warnings; i++)
    put_notice(o, "warn", "Warning:", r->warnings[i], NULL);
  for (uint32_t i = 0; r->passes && i < r->passes->n_warnings; i++)
    put_notice(o, "warn", "Warning:", r->passes->warnings[i].sentence, r->passes->warnings[i].hint);
}

// ---- what figures mean --------------------------------------------------------------------------

static const struct {
  const char *figure, *means;
} meanings[] = {
    {"SQNR",
     "The energy of the tensor divided by the energy of the error, in dB. At 20 dB the error is "
     "10 %, at 40 dB 1 %. One bit is worth 6 dB. \xe2\x88\x9e: nothing differs."},
    {"Cosine",
     "The cosine of the angle between the tensors before and after. 1: the same direction; 0.995 "
     "corresponds to 20 dB. Where a few elements are large, it hides the errors of the others."},
    {"Max abs, RMSE", "The largest error of an element, and the typical error: the root of the "
                      "mean square. Both are in the unit of the tensor."},
    {"Relative", "The largest error divided by the largest magnitude: 0.01 is 1 %."},
    {"Top-1", "The share of rows whose largest element stays at the same index. For a "
              "classifier, this is the share of unchanged answers."},
    {"Weights, outputs", "The error of a weight shows how well it is stored, not how well the "
                         "model works. Compare outputs on real inputs for that."},
};

static void put_meaning(struct html_out *o, const struct run_report *r) {
  if (r->stored.n_rows == 0 && !r->verified) return;
  html_raw(o, "<section id=\"meaning\"><h2>What the figures mean</h2>\n<dl class=\"told\">\n");
  for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
    put_told(o, meanings[i].figure, meanings[i].means);
  html_raw(o, "</dl>\n</section>\n");
}

// ---- how to make it again ----------------------------------------------------------------------

static void put_files(struct html_out *o, const char *caption, const struct run_file *files,
                      uint32_t n, bool digests) {
  if (n == 0) return;
  html_put(
      o,
      "<div class=\"scroll\"><table>\n<caption>%s</caption>\n<thead><tr><th scope=\"col\">File</th>"
      "<th scope=\"col\" class=\"number\">Bytes</th>",
      caption);
  if (digests) html_raw(o, "<th scope=\"col\">SHA-256</th>");
  html_raw(o, "</tr></thead>\n<tbody>\n");
  for (uint32_t i = 0; i < n; i++) {
    html_put(o, "<tr><th scope=\"row\"><bdi>%s</bdi></th><td class=\"number\">%s</td>",
             files[i].name, html_whole(files[i].size).s);
    if (digests && files[i].sha256)
      html_put(o, "<td><code class=\"digest\">%s</code></td>", files[i].sha256);
    else if (digests && files[i].shards)
      html_put(o, "<td>of %u parts: see the manifest</td>", files[i].shards);
    else if (digests)
      html_raw(o, "<td>\xe2\x80\x93</td>");
    html_raw(o, "</tr>\n");
  }
  html_raw(o, "</tbody></table></div>\n");
}

static void put_digest(struct html_out *o, const char *title, const char *hex) {
  if (hex && *hex)
    html_put(o, "<dt>%s</dt><dd><code class=\"digest\">%s</code></dd>\n", title, hex);
}

static void put_reproduce(struct html_out *o, const struct run_report *r) {
  html_raw(o, "<section id=\"reproduce\"><h2>How to reproduce it</h2>\n");
  if (r->asked.command_line)
    html_put(o, "<p>The command:</p>\n<pre tabindex=\"0\"><code>%s</code></pre>\n",
             r->asked.command_line);
  html_raw(o, "<dl class=\"told\">\n");
  if (r->version) html_put(o, "<dt>Version</dt><dd>weir %s</dd>\n", r->version);
  put_digest(o, "Plan", r->digests.plan);
  put_digest(o, "Edits", r->digests.edits);
  put_digest(o, "Input's metadata", r->digests.meta);
  put_digest(o, "Output", r->digests.output);
  if (r->files.manifest.name && !r->asked.dry && !r->refusal)
    html_put(o,
             "<dt>Manifest</dt><dd><bdi>%s</bdi> (<code>weir audit</code> checks the files against "
             "it)</dd>\n",
             r->files.manifest.name);
  html_raw(o, "</dl>\n");
  put_files(o, "Input", r->files.inputs, r->files.n_inputs, false);
  put_files(o, r->asked.dry ? "Output, as planned" : "Output", r->files.outputs, r->files.n_outputs,
            !r->asked.dry && !r->refusal);
  html_raw(o, "</section>\n");
}

// ---- all of it ---------------------------------------------------------------------------------

void html_page(const struct run_report *r, struct span_sink sink) {
  struct html_out o = {.sink = sink};
  put_head(&o, r);
  html_raw(&o, "<main>\n");
  put_headline(&o, r);
  put_warnings(&o, r);
  html_outputs(&o, r->verified);
  html_verified(&o, r->verified);
  html_changes(&o, r);
  html_types(&o, r);
  html_tensors(&o, r);
  html_rank(&o, r);
  html_ranges(&o, r);
  html_kept(&o, r);
  html_sites(&o, r);
  put_meaning(&o, r);
  put_reproduce(&o, r);
  html_raw(&o,
           "</main>\n<footer><p>Made by weir; <i>report.md</i> of its documentation explains the "
           "figures. This page loads nothing from the network.</p></footer>\n<script>");
  put_lines(&o, html_page_js);
  html_raw(&o, "</script>\n</body>\n</html>\n");
  html_flush(&o);
}
