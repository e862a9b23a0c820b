// Inputs that are drawn: sizes that fit together, elements that those who read them can take, and the same bits from
// the same seed. That real models run on them is shown by tests/e2e/test_draw.py.
#include "verify/draw/draw.h"
#include "verify/draw/inside/draw_parts.h"

#include "graph_text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>

#include <cmocka.h>

struct bench {
  struct model m;
  struct infer *in;
  struct draw *d;
  struct arena a;
  struct err err;
  struct draw_options o;
  char why[256];
};

static struct bench t;

static void forget(void) {
  draw_close(t.d);
  infer_free(t.in);
  model_free(&t.m);
  arena_free(&t.a);
}

static int setup(void **state) {
  (void)state;
  t = (struct bench){0};
  return 0;
}

static int teardown(void **state) {
  (void)state;
  forget();
  return 0;
}

static int open_text(const char *text) {
  const struct graph_text_kept *kept;
  assert_int_equal(graph_text_read(&t.m, text, &kept, &t.a, &t.err), 0);
  const struct infer_options believing = {INFER_REFINE, 1, INT64_MAX, false}; // as verify has it
  t.in = infer_new(&t.m, &believing);
  infer_all(t.in, NULL);
  return draw_open(&t.d, t.in, &t.m, &t.o, &t.err);
}

static void given(const char *text) {
  const int opened = open_text(text);
  if (opened < 0) print_error("%s\n", t.err.msg);
  assert_int_equal(opened, 0);
}

// Another model, with the same options.
static void instead(const char *text) {
  const struct draw_options o = t.o;
  forget();
  setup(NULL);
  t.o = o;
  given(text);
}

static uint32_t value(const char *name) {
  const uint32_t id = model_find_name(&t.m, span_str(name));
  for (uint32_t v = 0; v < t.m.n_values; v++)
    if (t.m.values[v].name == id && id != NO_ID) return v;
  fail_msg("no value %s", name);
  return NO_ID;
}

static struct array drawn_for(const char *name, const uint32_t *users, uint32_t n_users) {
  struct array x;
  if (draw_value(t.d, value(name), users, n_users, &t.a, &x, t.why) != DRAW_DONE)
    fail_msg("%s: %s", name, t.why);
  return x;
}

static struct array drawn(const char *name) {
  return drawn_for(name, NULL, 0);
}

static const char *cannot(const char *name) {
  struct array x;
  assert_int_equal(draw_value(t.d, value(name), NULL, 0, &t.a, &x, t.why), DRAW_CANNOT);
  return t.why;
}

static const char *sizes(void) {
  return draw_words(t.d, &t.a);
}

static int64_t whole(const struct array *x, uint64_t i) {
  switch (x->dtype) {
  case DTYPE_INT64: {
    int64_t n;
    memcpy(&n, x->at + 8 * i, 8);
    return n;
  }
  case DTYPE_INT32: {
    int32_t n;
    memcpy(&n, x->at + 4 * i, 4);
    return n;
  }
  case DTYPE_BOOL:
  case DTYPE_UINT8: return x->at[i];
  default: fail_msg("no integers of %s", dtype_name(x->dtype)); return 0;
  }
}

static float real(const struct array *x, uint64_t i) {
  float f;
  assert_int_equal(x->dtype, DTYPE_FLOAT);
  memcpy(&f, x->at + 4 * i, 4);
  return f;
}

static void assert_whole_between(const char *name, int64_t low, int64_t high) {
  const struct array x = drawn(name);
  assert_true(x.count > 0);
  for (uint64_t i = 0; i < x.count; i++)
    if (whole(&x, i) < low || whole(&x, i) > high)
      fail_msg("%s has %lld, not in %lld … %lld", name, (long long)whole(&x, i), (long long)low,
               (long long)high);
}

static void assert_real_between(const char *name, float low, float high) {
  const struct array x = drawn(name);
  assert_true(x.count > 0);
  for (uint64_t i = 0; i < x.count; i++)
    if (!(real(&x, i) >= low && real(&x, i) <= high))
      fail_msg("%s has %g, not in %g … %g", name, (double)real(&x, i), (double)low, (double)high);
}

static const char *dims_of(const char *name) {
  const struct array x = drawn(name);
  return arena_printf(&t.a, "%s", quote_dims(x.dims, x.rank).s);
}

static const char *list_of(const char *name) {
  const struct array x = drawn(name);
  const char *all = "";
  for (uint64_t i = 0; i < x.count; i++)
    all = arena_printf(&t.a, "%s%s%lld", all, i ? " " : "", (long long)whole(&x, i));
  return all;
}

// ---- chance ---------------------------------------------------------------------------------------------

// What every machine must give.
static void streams_are_these(void **state) {
  (void)state;
  struct draw_chance c = draw_chance_of(0, span_str("x"));
  assert_true(draw_chance_next(&c) == 0xaf282ee01a02eb31);
  assert_true(draw_chance_normal(&c) == 0x1.031a000000000p-1f);
  assert_true(draw_chance_unit(&c) == 0x1.8e33800000000p-3f);
  assert_int_equal(draw_chance_below(&c, 1000), 998);
}

static void normal_numbers_are_normal(void **state) {
  (void)state;
  enum { N = 100000 };
  struct draw_chance c = draw_chance_of(1, span_str("y"));
  double sum = 0, squares = 0;
  uint32_t within = 0;
  for (uint32_t i = 0; i < N; i++) {
    const double x = (double)draw_chance_normal(&c);
    sum += x;
    squares += x * x;
    within += fabs(x) < 1;
  }
  assert_true(fabs(sum / N) < 0.02);
  assert_true(fabs(squares / N - 1) < 0.02);
  assert_true(within > 0.67 * N && within < 0.70 * N);
}

static void a_seed_and_a_name_make_a_stream(void **state) {
  (void)state;
  const char *two =
      "input x: float[4,8]\ninput y: float[4,8]\nz = Add(x, y)\noutput z: float[4,8]\n";
  given(two);
  const struct array x = drawn("x"), y = drawn("y"), again = drawn("y");
  assert_memory_not_equal(x.at, y.at, x.bytes);
  assert_memory_equal(y.at, again.at, y.bytes);
  uint8_t first[128];
  memcpy(first, y.at, sizeof first);

  instead("input y: float[4,8]\nz = Relu(y)\noutput z: float[4,8]\n");
  assert_memory_equal(drawn("y").at, first, sizeof first);
  t.o.seed = 1;
  instead(two);
  assert_memory_not_equal(drawn("y").at, first, sizeof first);
}

// ---- sizes ------------------------------------------------------------------------------------------------

static void sizes_fit(void **state) {
  (void)state;
  given("input x: float[batch,8,time]\ns = int64[4] {0 0 -1 100}\ny = Reshape(x, s)\noutput y: "
        "float[?,?,?,?]\n");
  assert_string_equal(sizes(), "batch=1, time=100");
  assert_string_equal(dims_of("y"), "[1,8,1,100]");
  instead("input x: float[n,3,h,w]\nc = float[2,3,300,300] fill 1\ny = Conv(x, c)\noutput y: "
          "float[n,2,?,?]\n");
  assert_string_equal(sizes(), "n=1, h=320, w=320");
  instead("input x: float[b,t]\ninput y: float[b,u]\nz = Add(x, y)\noutput z: float[b,t]\n");
  assert_string_equal(sizes(), "b=1, t=64, u=64");
  // A Pad that reflects 200, and an STFT with frames of 400.
  instead("opset 17\ninput x: float[b,samples]\np = int64[4] {0 200 0 200}\nq = "
          "Pad<mode=\"reflect\">(x, "
          "p)\noutput q: float[b,?]\n");
  assert_string_equal(sizes(), "b=1, samples=256");
  instead("opset 17\ninput x: float[b,samples]\nstep = int64[] {160}\nframe = int64[] {400}\nw = "
          "float[400] "
          "fill 1\nq = STFT(x, step, w, frame)\noutput q: float[b,?,?,2]\n");
  assert_string_equal(sizes(), "b=1, samples=512");
}

static void expressions_follow_their_symbols(void **state) {
  (void)state;
  given("input ids: int64[b,s]\ninput attention_mask: int64[b,past+s]\ninput past_key: "
        "float[b,2,past,8]\n"
        "y = Cast<to=1>(attention_mask)\noutput y: float[?,?]\n");
  assert_string_equal(sizes(), "b=1, s=16, past=8");
  assert_string_equal(dims_of("attention_mask"), "[1,24]");
  // Nothing says what the total is, but that it meets what is cached and what is new.
  instead(
      "input new: float[b,2,s,8]\ninput attention_mask: int64[b,attention_mask_dim_1]\n"
      "input past_key: float[b,2,past,8]\nk = Concat<axis=2>(past_key, new)\nm = "
      "Cast<to=1>(attention_mask)\n"
      "axes = int64[2] {1 3}\nm4 = Unsqueeze(m, axes)\ny = Mul(k, m4)\noutput y: float[?,?,?,?]\n");
  assert_string_equal(sizes(), "b=1, s=64, attention_mask_dim_1=72, past=8");
}

static void tables_bound_positions(void **state) {
  (void)state;
  given("input x: int64[b,s]\ntable = float[12,4] fill 1\nshape = Shape<start=1>(x)\nzero = "
        "int64[] {0}\none = int64[] {1}\n"
        "n = Squeeze(shape)\npos = Range(zero, n, one)\ny = Gather(table, pos)\noutput y: "
        "float[?,4]\n");
  assert_string_equal(sizes(), "b=1, s=8");
}

static void states_have_the_batch(void **state) {
  (void)state;
  given("input x: float[5,1,4]\ninput z: float[1,k,3]\nw = float[1,12,4] fill 1\nr = float[1,12,3] "
        "fill 1\n"
        "y, h, c = LSTM<hidden_size=3>(x, w, r, -, -, z, z)\noutput y: float[?,?,?,?]\n");
  assert_string_equal(sizes(), "k=1");
}

static void users_bind(void **state) {
  (void)state;
  static const int64_t dims[] = {2, 8, 37}, mask[] = {2, 74};
  static const struct draw_shape shapes[] = {{"m", mask, 2}, {"x", dims, 3}};
  const char *text = "input x: float[b,8,t]\ninput m: float[b,t*2]\ninput u: float[b,t]\noutput y: "
                     "float[?,?,?]\ny = Relu(x)\n";
  t.o.shapes = shapes + 1;
  t.o.n_shapes = 1;
  given(text);
  assert_string_equal(sizes(), "b=2, t=37");
  assert_string_equal(dims_of("m"), "[2,74]");
  // An expression is solved for its symbol.
  t.o.shapes = shapes;
  instead(text);
  assert_string_equal(sizes(), "b=2, t=37");
}

static const char *refused(const char *text, const struct draw_shape *shapes, uint32_t n) {
  const struct draw_options o = {.shapes = shapes, .n_shapes = n};
  forget();
  setup(NULL);
  t.o = o;
  t.d = NULL;
  assert_int_equal(open_text(text), -1);
  assert_int_equal(t.err.kind, ERR_USAGE);
  return t.err.msg;
}

static void shapes_that_do_not_fit(void **state) {
  (void)state;
  const char *text =
      "input x: float[b,8,t*2]\ninput u: float[t]\noutput y: float[?,?,?]\ny = Relu(x)\n";
  static const int64_t wide[] = {1, 9, 4}, odd[] = {1, 8, 5}, none[] = {1, 8, -1};
  assert_string_equal(refused(text, &(struct draw_shape){"x", wide, 3}, 1),
                      "input 'x': axis 1 is 8 in the model and cannot be 9");
  assert_string_equal(refused(text, &(struct draw_shape){"x", odd, 3}, 1),
                      "input 'x': axis 2 is 2*t in the model and cannot be 5");
  assert_string_equal(refused(text, &(struct draw_shape){"x", wide, 2}, 1),
                      "input 'x' has 3 dims in the model, but 2 in the given shape");
  assert_string_equal(refused(text, &(struct draw_shape){"x", none, 3}, 1),
                      "input 'x': -1 is not a size");
  assert_string_equal(refused(text, &(struct draw_shape){"z", wide, 3}, 1),
                      "a shape is given for 'z', but the model has no such input");
  static const int64_t even[] = {1, 8, 6}, other[] = {4};
  const struct draw_shape both[] = {{"x", even, 3}, {"u", other, 1}};
  assert_string_equal(
      refused(text, both, 2),
      "input 'u': axis 0 is t in the model, which another size makes 3, and cannot be 4");
}

static void the_length_is_as_asked_for(void **state) {
  (void)state;
  t.o.length = 97;
  given("input audio_signal: float[a_dynamic_axes_1,80,a_dynamic_axes_2]\ninput length: "
        "int64[l_dynamic_axes_1]\n"
        "y = Relu(audio_signal)\nz = Cast<to=1>(length)\noutput y: float[?,80,?]\noutput z: "
        "float[?]\n");
  assert_string_equal(sizes(), "a_dynamic_axes_1=1, a_dynamic_axes_2=97, l_dynamic_axes_1=1");
  assert_string_equal(list_of("length"), "97");
  t.o.length = 12;
  instead("input ids: int64[b,s]\ny = Cast<to=1>(ids)\noutput y: float[b,s]\n");
  assert_string_equal(sizes(), "b=1, s=12");
}

static void a_rank_that_is_given(void **state) {
  (void)state;
  static const int64_t dims[] = {2, 5};
  static const struct draw_shape shape = {"x", dims, 2};
  const char *text = "input x: float\ny = Relu(x)\noutput y: float\n";
  given(text);
  assert_string_equal(cannot("x"), "its rank is not known");
  t.o.shapes = &shape;
  t.o.n_shapes = 1;
  instead(text);
  assert_string_equal(dims_of("x"), "[2,5]");
  assert_string_equal(dims_of("y"), "[2,5]");
}

// ---- integers --------------------------------------------------------------------------------------------------

static void indices_stay_in_their_tables(void **state) {
  (void)state;
  given("input ids: int32[b,200]\nlarge = float[50,4] fill 1\nsmall = float[20,4] fill 1\naxes = "
        "int64[1] {1}\n"
        "minus = int64[] {-3}\nw = Cast<to=7>(ids)\nu = Unsqueeze(w, axes)\na = Gather(large, u)\n"
        "v = Add(w, minus)\nc = Gather(small, v)\noutput a: float[?,?,?,?]\noutput c: "
        "float[?,?,?]\n");
  assert_whole_between("ids", 3, 22);
  // For one of the readers alone.
  const uint32_t users[] = {t.m.values[value("w")].def, t.m.values[value("u")].def,
                            t.m.values[value("a")].def};
  const struct array x = drawn_for("ids", users, 3);
  int64_t most = 0;
  for (uint64_t i = 0; i < x.count; i++)
    most = whole(&x, i) > most ? whole(&x, i) : most;
  assert_true(most > 22 && most < 50);
}

static void indices_through_bodies_and_functions(void **state) {
  (void)state;
  given(
      "opset 18\nopset local 1\ninput ids: int64[40]\ninput c: bool[]\ntable = float[7,4] fill 1\n"
      "y = local::f(ids)\nz = If<then_branch=graph, else_branch=graph>(c)\n  graph then_branch\n   "
      " output r: float[40,4]\n"
      "    r = Gather(table, ids)\n  graph else_branch\n    output q: float[40,4]\n    q = "
      "Gather(table, ids)\n"
      "output y: float[?,?]\noutput z: float[?,?]\n"
      "function local::f(a) -> r\n  opset 18\n  k = Constant<value=float[5,2] {1 2 3 4 5 6 7 8 9 "
      "0}>()\n  r = Gather(k, a)\n");
  assert_whole_between("ids", 0, 4);
}

static void indices_out_of_branches(void **state) {
  (void)state;
  given("input ids: int64[40]\ninput c: bool[]\ntable = float[7,4] fill 1\nlow = int64[] {-2}\n"
        "z = If<then_branch=graph, else_branch=graph>(c)\n  graph then_branch\n    output r: "
        "int64[40]\n    r = Add(ids, low)\n"
        "  graph else_branch\n    output q: int64[40]\n    q = Identity(ids)\ny = Gather(table, "
        "z)\noutput y: float[?,?]\n");
  assert_whole_between("ids", 2, 6);
  assert_whole_between("r", 0, 6);
}

static void masks_keep_something_in_each_row(void **state) {
  (void)state;
  given("input attention_mask: int64[50,8]\none = float[] {1}\nf = Cast<to=1>(attention_mask)\ni = "
        "Sub(one, f)\n"
        "output i: float[?,?]\n");
  const struct array x = drawn("attention_mask");
  uint32_t zeros = 0;
  for (uint64_t row = 0; row < 50; row++)
    for (uint64_t k = 0; k < 8; k++) {
      const int64_t is = whole(&x, row * 8 + k);
      assert_true(is == 0 || is == 1);
      if (k > 0) assert_true(is <= whole(&x, row * 8 + k - 1));
      if (k < 6) assert_int_equal(is, 1);
      zeros += is == 0;
    }
  assert_true(zeros > 10);
  // Of a mask that says what is taken out.
  instead("input m: bool[20,8]\ninput s: float[20,8]\nlow = float[] {-inf}\nx = Where(m, low, "
          "s)\ny = Softmax(x)\noutput y: float[?,?]\n");
  const struct array m = drawn("m");
  for (uint64_t row = 0; row < 20; row++)
    assert_int_equal(whole(&m, row * 8), 0);
  instead("input m: bool[20,8]\ninput s: float[20,8]\nlow = float[] {-inf}\nn = Not(m)\nx = "
          "Where(n, low, s)\ny = Softmax(x)\noutput y: float[?,?]\n");
  const struct array n = drawn("m");
  for (uint64_t row = 0; row < 20; row++)
    assert_int_equal(whole(&n, row * 8), 1);
}

static void keys_are_as_many_as_there_are(void **state) {
  (void)state;
  const char *of = "opset 18\nopset com.microsoft 1\ninput q: float[b,s,16]\ninput k: "
                   "float[b,s,8]\ninput past: float[b,1,past,8]\n%s"
                   "y, pk, pv = com.microsoft::GroupQueryAttention<num_heads=2, kv_num_heads=1>(q, "
                   "k, k, past, past, seqlens_k, total)\n"
                   "output y: float[?,?,?]\n";
  char text[1024];
  snprintf(text, sizeof text, of, "input seqlens_k: int32[b]\ninput total: int32[]\n");
  given(text);
  assert_string_equal(sizes(), "b=1, s=64, past=8");
  assert_string_equal(list_of("seqlens_k"), "71");
  assert_string_equal(list_of("total"), "72");
  // A mask whose ones are counted has no zeros.
  snprintf(text, sizeof text, of,
           "input attention_mask: int64[b,past+s]\ninput total: int32[]\none = int64[] {1}\naxis = "
           "int64[1] {1}\n"
           "sum = ReduceSum<keepdims=0>(attention_mask, axis)\nless = Sub(sum, one)\nseqlens_k = "
           "Cast<to=6>(less)\n");
  instead(text);
  assert_whole_between("attention_mask", 1, 1);
}

static void what_else_integers_are(void **state) {
  (void)state;
  given("input x: float[1,5,16]\ninput signal_len: int64[1]\ninput sr: int64[]\ninput d: "
        "int64[30]\ninput position_ids: int64[1,6]\n"
        "rate = int64[] {8000}\ne = Equal(sr, rate)\nten = int64[30] fill 10\nq = Div(ten, d)\nz = "
        "Cast<to=1>(signal_len)\n"
        "p = Cast<to=1>(position_ids)\noutput e: bool[]\noutput q: int64[30]\noutput z: "
        "float[1]\noutput p: float[1,6]\n");
  assert_string_equal(list_of("signal_len"), "16");
  assert_string_equal(list_of("sr"), "8000");
  assert_whole_between("d", 1, 10);
  assert_string_equal(list_of("position_ids"), "0 1 2 3 4 5");
}

static void shapes_follow_from_what_comes_out(void **state) {
  (void)state;
  given("input x: float[2,3,4]\ninput s: int64[2]\ninput e: int64[3]\ninput r: int64[3]\ninput a: "
        "int64[1]\n"
        "input p: int64[6]\nb = int64[3] {0 1 0}\ny = Reshape(x, s)\nz = Slice(x, b, e)\nw = "
        "Tile(x, r)\nm = ReduceSum(x, a)\nq = Pad(x, p)\n"
        "output y: float[6,4]\noutput z: float[2,1,3]\noutput w: float[2,6,4]\noutput m: "
        "float[2,3,1]\noutput q: float[2,6,4]\n");
  assert_string_equal(list_of("s"), "6 4");
  assert_string_equal(list_of("e"), "2 2 3");
  assert_string_equal(list_of("r"), "1 2 1");
  assert_string_equal(list_of("a"), "2");
  assert_string_equal(list_of("p"), "0 1 0 0 2 0");
}

static void what_inference_knows_is_what_it_is(void **state) {
  (void)state;
  given("input x: float[b,12]\nshape = Shape(x)\nk = int64[1] {-1}\nboth = Concat<axis=0>(shape, "
        "k)\ny = Cast<to=1>(both)\noutput y: float[3]\n");
  assert_string_equal(list_of("both"), "1 12 -1");
}

// ---- floats ----------------------------------------------------------------------------------------------------

static void floats_lie_where_their_makers_put_them(void **state) {
  (void)state;
  given("input x: float[4,50]\neps = float[] {0.5}\ntwo = float[] {2}\np = Softmax(x)\nl = "
        "Log(p)\nsq = Pow(x, two)\nadd = Add(sq, eps)\n"
        "root = Sqrt(add)\ndiv = Div(x, root)\nt = Tanh(x)\nneg = Neg(add)\noutput l: "
        "float[4,50]\noutput div: float[4,50]\n"
        "output t: float[4,50]\noutput neg: float[4,50]\n");
  assert_real_between("p", 0.001f, 1);
  assert_real_between("sq", 0, 50);
  assert_real_between("add", 0.5f, 50);
  assert_real_between("root", 0.125f, 50);
  assert_real_between("t", -1, 1);
  assert_real_between("neg", -50, -0.5f);
  // And not all of one sign where nothing is said.
  const struct array x = drawn("x");
  uint32_t negative = 0;
  for (uint64_t i = 0; i < x.count; i++)
    negative += real(&x, i) < 0;
  assert_true(negative > 60 && negative < 140);
}

static void readers_want_floats_too(void **state) {
  (void)state;
  given("input s: float[100]\ninput d: float[100]\ninput a: float[100]\nx = Sqrt(s)\ny = Div(x, "
        "d)\nz = Acos(a)\noutput y: float[100]\noutput z: float[100]\n");
  assert_real_between("s", 0, 10);
  assert_real_between("a", -1, 1);
  const struct array d = drawn("d");
  for (uint64_t i = 0; i < d.count; i++)
    assert_true(fabsf(real(&d, i)) >= 0.125f);
}

static void masks_that_are_added(void **state) {
  (void)state;
  given("input c: bool[4,8]\ninput s: float[4,8]\nzero = float[] {0}\nlow = float[] {-inf}\nm = "
        "Where(c, zero, low)\n"
        "a = Add(s, m)\ny = Softmax(a)\noutput y: float[4,8]\n");
  const struct array m = drawn("m");
  for (uint64_t row = 0; row < 4; row++)
    for (uint64_t k = 0; k < 8; k++)
      assert_true(real(&m, row * 8 + k) == 0 || (k > 5 && real(&m, row * 8 + k) < -1e30f));
}

// ---- types -------------------------------------------------------------------------------------------------------

static void every_type_has_elements(void **state) {
  (void)state;
  static const enum dtype types[] = {
      DTYPE_FLOAT16,        DTYPE_BFLOAT16,   DTYPE_DOUBLE,         DTYPE_FLOAT8E4M3FN,
      DTYPE_FLOAT8E4M3FNUZ, DTYPE_FLOAT8E5M2, DTYPE_FLOAT8E5M2FNUZ, DTYPE_FLOAT4E2M1,
      DTYPE_INT4,           DTYPE_UINT4,      DTYPE_INT2,           DTYPE_UINT2,
      DTYPE_INT8,           DTYPE_UINT8,      DTYPE_INT16,          DTYPE_UINT64,
      DTYPE_BOOL,           DTYPE_COMPLEX64,  DTYPE_COMPLEX128,
  };
  for (uint32_t i = 0; i < sizeof types / sizeof *types; i++) {
    const char *name = dtype_name(types[i]);
    char text[160];
    snprintf(text, sizeof text, "input x: %s[5,5001]\ny = Identity(x)\noutput y: %s[5,5001]\n",
             name, name);
    instead(text);
    const struct array x = drawn("x");
    uint32_t seen[256] = {0}, different = 0;
    assert_int_equal(x.dtype, types[i]);
    assert_int_equal(x.bytes, (25005 * (uint64_t)dtype_bits(types[i]) + 7) / 8);
    for (uint64_t k = 0; k < x.bytes; k++)
      different += seen[x.at[k]]++ == 0;
    assert_true(different >= (types[i] == DTYPE_BOOL ? 2 : 9));
  }
}

static void what_nothing_is_drawn_of(void **state) {
  (void)state;
  given("input s\ninput x: float[2,3]\nq = SplitToSequence<axis=0>(x)\ny = Relu(s)\noutput q\n"
        "output y\n");
  assert_string_equal(cannot("q"), "it is a sequence");
  struct arrays all;
  assert_int_equal(draw_inputs(t.d, &t.a, &all, t.why), DRAW_CANNOT);
  assert_non_null(strstr(t.why, "weir cannot draw a sample for input 's': "));
}

static bool is_among(struct span s, const char *const *list) {
  for (; *list; list++)
    if (span_is(s, *list)) return true;
  return false;
}

// Words of the tables that look them up, and others; numbers where they are read as such; the same ones for a seed.
static void strings_are_drawn(void **state) {
  (void)state;
  static const char *const keys[] = {"red", "green", NULL};
  const char *text =
      "opset ai.onnx.ml 2\ninput s: string[n,20]\ninput r: string[40]\n"
      "a = Identity(s)\ny = ai.onnx.ml::LabelEncoder<keys_strings=[\"red\", \"green\"], "
      "values_int64s=[1, 2]>(a)\nz = Cast<to=1>(r)\noutput y: int64[n,20]\n"
      "output z: float[40]\n";
  given(text);
  const struct array s = drawn("s"), r = drawn("r"), again = drawn("s");
  assert_int_equal(s.dtype, DTYPE_STRING);
  assert_int_equal(s.count, 20);
  uint32_t known = 0;
  for (uint32_t i = 0; i < 20; i++) {
    known += is_among(s.strings[i], keys);
    assert_true(span_eq(s.strings[i], again.strings[i]));
  }
  assert_true(known > 8 && known < 20);
  for (uint32_t i = 0; i < r.count; i++) {
    char *end;
    assert_true(r.strings[i].n > 0);
    strtod((const char *)r.strings[i].at, &end);
    assert_ptr_equal(end, r.strings[i].at + r.strings[i].n);
  }
}

static void another_type_and_back(void **state) {
  (void)state;
  given("input x: float[3,40]\ny = Relu(x)\noutput y: float[3,40]\n");
  const struct array x = drawn("x");
  struct array half, back, again;
  assert_true(draw_retype(&x, DTYPE_FLOAT16, &t.a, &half));
  assert_true(draw_retype(&half, DTYPE_FLOAT, &t.a, &back));
  assert_true(draw_retype(&back, DTYPE_FLOAT16, &t.a, &again));
  assert_memory_not_equal(x.at, back.at, x.bytes);
  assert_memory_equal(half.at, again.at, half.bytes);
  assert_int_equal(half.bytes, 240);
  assert_string_equal(half.name, "x");
  assert_false(draw_retype(&x, DTYPE_STRING, &t.a, &half));
}

static void inputs_without_initializers(void **state) {
  (void)state;
  given("ir 8\ninput x: float[2]\ninput w: float[2]\nw = float[2] {1 2}\ny = Add(x, w)\noutput y: "
        "float[2]\n");
  struct arrays all;
  assert_int_equal(draw_inputs(t.d, &t.a, &all, t.why), DRAW_DONE);
  assert_int_equal(all.n, 1);
  assert_string_equal(all.list[0].name, "x");
}

// Sizes that depend on elements are small, and the same wherever they are met.
static void sizes_that_nothing_says(void **state) {
  (void)state;
  given("input x: float[6,7]\nn = NonZero(x)\nf = Cast<to=1>(n)\ng = Relu(f)\ntwice = "
        "Concat<axis=1>(n, n)\noutput g: float[2,?]\noutput twice: int64[2,?]\n");
  assert_string_equal(dims_of("n"), "[2,4]");
  assert_string_equal(dims_of("g"), "[2,4]");
  assert_string_equal(dims_of("twice"), "[2,8]");
}

static void values_of_bodies(void **state) {
  (void)state;
  given("input x: float[3,4]\ninput c: bool[]\ntable = float[7,4] fill 1\nk = int64[3] {1 2 3}\n"
        "z = If<then_branch=graph, else_branch=graph>(c)\n  graph then_branch\n    output r: "
        "float[3,4]\n    p = Sigmoid(x)\n    r = Log(p)\n"
        "  graph else_branch\n    output q: float[3,4]\n    q = Relu(x)\noutput z: float[?,?]\n");
  assert_string_equal(dims_of("p"), "[3,4]");
  assert_real_between("p", 0, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int test_draw(void) {
  const struct CMUnitTest tests[] = {
      TEST(streams_are_these),
      TEST(normal_numbers_are_normal),
      TEST(a_seed_and_a_name_make_a_stream),
      TEST(sizes_fit),
      TEST(expressions_follow_their_symbols),
      TEST(tables_bound_positions),
      TEST(states_have_the_batch),
      TEST(users_bind),
      TEST(shapes_that_do_not_fit),
      TEST(the_length_is_as_asked_for),
      TEST(a_rank_that_is_given),
      TEST(indices_stay_in_their_tables),
      TEST(indices_through_bodies_and_functions),
      TEST(indices_out_of_branches),
      TEST(masks_keep_something_in_each_row),
      TEST(keys_are_as_many_as_there_are),
      TEST(what_else_integers_are),
      TEST(shapes_follow_from_what_comes_out),
      TEST(what_inference_knows_is_what_it_is),
      TEST(floats_lie_where_their_makers_put_them),
      TEST(readers_want_floats_too),
      TEST(masks_that_are_added),
      TEST(every_type_has_elements),
      TEST(what_nothing_is_drawn_of),
      TEST(strings_are_drawn),
      TEST(another_type_and_back),
      TEST(inputs_without_initializers),
      TEST(sizes_that_nothing_says),
      TEST(values_of_bodies),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
