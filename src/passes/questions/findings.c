// Questions of the stages "facts" and "multiples", and their answers as text and as facts. The stages
// themselves are the caller's (pass_env.ask): here is what both sides must agree on.
#include "passes/questions/findings.h"

static const struct answer_field fields[] = {
    ANSWER_FIELD(tensor_stats, elements), ANSWER_FIELD(tensor_stats, zeros),
    ANSWER_FIELD(tensor_stats, nans),     ANSWER_FIELD(tensor_stats, infinities),
    ANSWER_FIELD(tensor_stats, least),    ANSWER_FIELD(tensor_stats, most),
    ANSWER_FIELD(tensor_stats, finest),   ANSWER_FIELD(tensor_stats, alike),
    ANSWER_FIELD(tensor_stats, identity), ANSWER_FIELD(tensor_stats, multiples),
};
enum { FIELDS = sizeof fields / sizeof *fields };
const struct answer_form findings_forms[2] = {
    {.row = {fields, FIELDS - 1, sizeof(struct tensor_stats)}},
    {.row = {fields, FIELDS, sizeof(struct tensor_stats)}}};

int findings_ask(const struct pass_env *env, const uint32_t *of, uint32_t n, bool multiples,
                 struct tensor_stats *out, struct err *err) {
  return answers_ask(&findings_forms[multiples], env,
                     multiples ? FINDINGS_STAGE_MULTIPLES : FINDINGS_STAGE, of, n, out, err);
}
