// Files that are broken, hostile, or no models at all: a clear error, and never more than that.
#include "pb_build.h"
#include "stream/load/inside/wire.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

static struct pb_home home;

static int set_up(void **state) {
  pb_home_open(&home);
  *state = &home;
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  pb_home_close(&home);
  return 0;
}

static void refuse(struct pb_home *h, const struct pb *p, const char *why) {
  if (pb_home_load(h, p) == 0) fail_msg("loads, though: %s", why);
  if (!strstr(h->err.msg, why)) fail_msg("'%s' is not in: %s", why, h->err.msg);
}

static void refuse_bytes(struct pb_home *h, const void *bytes, size_t n, const char *why) {
  struct pb p = {0};
  pb_raw(&p, bytes, n);
  refuse(h, &p, why);
  assert_int_equal(h->err.kind, ERR_MODEL);
  pb_free(&p);
}

// Everything that has rows, in a few hundred bytes.
static struct pb rich_model(void) {
  struct pb g = {0}, t = {0}, node = {0}, attr = {0}, branch = {0}, fn = {0}, sparse = {0};
  pb_identity(&g);
  pb_varint(&t, 1, 2);
  pb_varint(&t, 2, DTYPE_INT64);
  pb_text(&t, 8, "n");
  pb_bytes(&t, 7, "\x05\xac\x02", 3);
  pb_message(&g, 5, &t);
  pb_varint(&t, 1, 2);
  pb_varint(&t, 2, DTYPE_FLOAT);
  pb_text(&t, 8, "f");
  pb_fixed32(&t, 4, 1);
  pb_fixed32(&t, 4, 2);
  pb_message(&g, 5, &t);
  pb_varint(&t, 1, 3);
  pb_varint(&t, 2, DTYPE_UINT8);
  pb_text(&t, 8, "e");
  pb_varint(&t, 14, 1);
  pb_entry(&t, 13, "location", "w.bin");
  pb_message(&g, 5, &t);
  pb_node(&branch, "Identity", "x", NULL, "b");
  pb_io(&branch, 12, "b");
  pb_text(&attr, 1, "then_branch");
  pb_message(&attr, 6, &branch);
  pb_varint(&attr, 20, ATTR_GRAPH);
  pb_text(&node, 1, "x");
  pb_text(&node, 4, "If");
  pb_message(&node, 5, &attr);
  pb_text(&attr, 1, "ints");
  pb_bytes(&attr, 8, "\x01\x02", 2);
  pb_varint(&attr, 20, ATTR_INTS);
  pb_message(&node, 5, &attr);
  pb_entry(&node, 9, "k", "v");
  pb_message(&g, 1, &node);
  pb_varint(&t, 2, DTYPE_FLOAT);
  pb_text(&t, 8, "s");
  pb_varint(&t, 1, 0);
  pb_message(&sparse, 1, &t);
  pb_varint(&t, 2, DTYPE_INT64);
  pb_varint(&t, 1, 0);
  pb_message(&sparse, 2, &t);
  pb_message(&g, 15, &sparse);
  struct pb p = pb_model(&g);
  pb_text(&fn, 1, "F");
  pb_text(&fn, 4, "a");
  pb_text(&fn, 10, "d");
  pb_message(&p, 25, &fn);
  return p;
}

static void test_the_rich_model_loads(void **state) {
  struct pb_home *h = *state;
  pb_home_write(h, "w.bin", "xyz", 3);
  struct pb p = rich_model();
  if (pb_home_load(h, &p)) fail_msg("%s", h->err.msg);
  assert_int_equal(h->m.n_tensors, 5);
  pb_free(&p);
}

// A model cut between two of its fields may be a model; cut anywhere else it is not, and says
// where.
static void test_truncated_at_every_byte(void **state) {
  struct pb_home *h = *state;
  pb_home_write(h, "w.bin", "xyz", 3);
  struct pb p = rich_model();
  uint32_t loaded = 0;
  const size_t n = p.n;
  for (p.n = 0; p.n < n; p.n++) {
    if (pb_home_load(h, &p) == 0)
      loaded++;
    else
      assert_true(h->err.kind == ERR_MODEL && strstr(h->err.msg, "m.onnx"));
  }
  assert_int_equal(loaded, 1); // after the opset; after the graph nothing is imported yet
  pb_free(&p);
}

// Every byte replaced by values that lengths, tags and varints trip over.
static void test_every_byte_replaced(void **state) {
  struct pb_home *h = *state;
  static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff, 0x0b, 0x0c};
  pb_home_write(h, "w.bin", "xyz", 3);
  struct pb p = rich_model();
  for (size_t i = 0; i < p.n; i++) {
    const uint8_t was = p.at[i];
    for (size_t k = 0; k < sizeof values; k++) {
      p.at[i] = values[k];
      if (pb_home_load(h, &p)) assert_true(h->err.kind != ERR_NONE && h->err.msg[0]);
      if (k == 3) pb_home_collect(h, &p);
    }
    p.at[i] = was;
  }
  pb_free(&p);
}

// Splices a length that is wrong in place of the one at `at` (one byte long).
static struct pb with_length(const struct pb *p, size_t at, uint64_t length) {
  struct pb q = {0};
  pb_raw(&q, p->at, at);
  pb_number(&q, length);
  pb_raw(&q, p->at + at + 1, p->n - at - 1);
  return q;
}

static void test_wrong_lengths(void **state) {
  struct pb_home *h = *state;
  static const uint64_t lengths[] = {0,          UINT32_MAX, (uint64_t)1 << 31, INT64_MAX,
                                     UINT64_MAX, 127,        (uint64_t)1 << 63};
  pb_home_write(h, "w.bin", "xyz", 3);
  struct pb p = rich_model();
  for (size_t i = 1; i < p.n; i++) {
    if ((p.at[i - 1] & 7) != WIRE_BYTES) continue; // may be a tag: then this is a length
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
      struct pb q = with_length(&p, i, lengths[k]);
      if (pb_home_load(h, &q)) assert_true(h->err.msg[0]);
      pb_free(&q);
    }
  }
  pb_free(&p);
}

// A value_info whose type is a sequence of sequences of …: `depth` (odd) messages in
// all below the model.
static struct pb nested_types(uint32_t depth) {
  struct pb type = {0};
  for (uint32_t i = 3; i + 2 <= depth; i += 2) { // TypeProto.Sequence and TypeProto
    struct pb sequence = {0}, around = {0};
    pb_message(&sequence, 1, &type);
    pb_message(&around, 4, &sequence);
    type = around;
  }
  struct pb info = {0}, g = {0};
  pb_text(&info, 1, "x");
  pb_message(&info, 2, &type);
  pb_identity(&g);
  pb_message(&g, 13, &info);
  return pb_model(&g);
}

static void test_nesting(void **state) {
  struct pb_home *h = *state;
  struct pb p = nested_types(99);
  if (pb_home_load(h, &p)) fail_msg("%s", h->err.msg);
  pb_free(&p);
  p = nested_types(101);
  refuse(h, &p, "nested deeper than 100");
  const struct load_options wide = {.limits.nesting = 101};
  assert_int_equal(pb_home_load_with(h, &p, wide), 0);
  pb_free(&p);
  p = nested_types(10001);
  refuse(h, &p, "nested deeper than 100");
  pb_free(&p);
}

static void test_limits(void **state) {
  struct pb_home *h = *state;
  struct pb g = {0};
  pb_identity(&g);
  for (int i = 0; i < 20; i++)
    pb_node(&g, "Identity", "x", NULL, NULL);
  struct pb p = pb_model(&g);
  const struct load_options few = {.limits.rows = 10}, small = {.limits.metadata_bytes = 100};
  assert_int_equal(pb_home_load_with(h, &p, few), -1);
  assert_non_null(strstr(h->err.msg, "more than 10 "));
  assert_int_equal(pb_home_load_with(h, &p, small), -1);
  assert_non_null(strstr(h->err.msg, "the metadata is more than 100 bytes"));
  assert_int_equal(pb_home_load(h, &p), 0);
  pb_free(&p);
}

static void test_names(void **state) {
  struct pb_home *h = *state;
  static char name[(64 << 10) + 2];
  memset(name, 'n', sizeof name - 1);
  struct pb g = {0};
  pb_node(&g, "Op", "x", NULL, name);
  pb_identity(&g);
  struct pb p = pb_model(&g);
  refuse(h, &p, "NodeProto.output is 65537 bytes long; the limit for names is 65536");
  pb_free(&p);
  name[64 << 10] = '\0';
  pb_node(&g, "Op", "x", NULL, name);
  pb_identity(&g);
  p = pb_model(&g);
  assert_int_equal(pb_home_load(h, &p), 0);
  pb_free(&p);
  struct pb node = {0};
  pb_bytes(&node, 4, "a\0b", 3);
  pb_message(&g, 1, &node);
  p = pb_model(&g);
  refuse(h, &p, "NodeProto.op_type contains a NUL byte");
  pb_free(&p);
}

static void refuse_node(struct pb_home *h, const void *bytes, size_t n, const char *why) {
  struct pb g = {0};
  pb_identity(&g);
  pb_bytes(&g, 1, bytes, n);
  struct pb p = pb_model(&g);
  refuse(h, &p, why);
  assert_non_null(strstr(h->err.msg, "byte "));
  pb_free(&p);
}

static void test_fields_of_the_wrong_kind(void **state) {
  struct pb_home *h = *state;
  refuse_node(h, "\x08\x01", 2, "NodeProto.input (field 1) is encoded as a varint");
  refuse_node(h, "\x2d\x01\x02\x03\x04", 5, "NodeProto.attribute (field 5) is encoded as 4 bytes");
  refuse_node(h, "\x0b\x0c", 2, "NodeProto.input (field 1) is encoded as a group");
  refuse_node(h, "\x0c", 1, "NodeProto.input (field 1) is encoded as the end of a group");
  refuse_node(h, "\xa3\x06\xac\x06", 4, "group 101 ends where group 100 is open");
  refuse_node(h, "\x2a\x02\xa0\x01", 4, "a varint runs past the end");
}

static void refuse_attr(struct pb_home *h, struct pb *attr, const char *why) {
  struct pb node = {0}, g = {0};
  pb_text(&node, 4, "Op");
  pb_message(&node, 5, attr);
  pb_identity(&g);
  pb_message(&g, 1, &node);
  struct pb p = pb_model(&g);
  refuse(h, &p, why);
  pb_home_collect(h, &p);
  pb_free(&p);
}

static void test_attributes_that_contradict_themselves(void **state) {
  struct pb_home *h = *state;
  struct pb a = {0}, t = {0};
  pb_text(&a, 1, "a");
  pb_varint(&a, 20, 77);
  refuse_attr(h, &a, "attribute 'a': type 77 does not exist");
  pb_text(&a, 1, "a");
  pb_varint(&a, 8, 1);
  pb_fixed32(&a, 7, 1);
  pb_varint(&a, 20, ATTR_INTS);
  refuse_attr(h, &a, "holds both ints and floats");
  pb_varint(&a, 8, 1);
  pb_varint(&a, 20, ATTR_FLOATS);
  refuse_attr(h, &a, "declares type 6, but contains ints");
  pb_varint(&a, 20, ATTR_TENSOR);
  refuse_attr(h, &a, "contains nothing");
  pb_varint(&t, 1, 0);
  pb_varint(&t, 2, 1);
  pb_bytes(&a, 5, t.at, t.n);
  pb_bytes(&a, 5, t.at, t.n);
  refuse_attr(h, &a, "AttributeProto.t is given twice");
  pb_bytes(&a, 5, t.at, t.n);
  pb_bytes(&a, 6, "", 0);
  refuse_attr(h, &a, "contains both t and g");
  pb_free(&t);
}

static void test_given_twice(void **state) {
  struct pb_home *h = *state;
  struct pb g = {0};
  pb_identity(&g);
  struct pb p = pb_model(&g);
  pb_bytes(&p, 7, "", 0);
  refuse(h, &p, "ModelProto.graph is given twice");
  pb_free(&p);
}

static void test_files_that_are_no_models(void **state) {
  struct pb_home *h = *state;
  refuse_bytes(h, "", 0, "is not an ONNX model: it is empty");
  refuse_bytes(h, "\x08", 1, "byte 1: a varint runs past the end");
  refuse_bytes(h, "z", 1, "m.onnx");
  refuse_bytes(h, "<ir_version: 8>\nagraph (float x)", 32, "it is text");
  refuse_bytes(h, "{\"a\": 1}", 8, "it is text");
  refuse_bytes(h, "\x1f\x8b\x08\x00\x00\x00\x00", 7, "is gzip-compressed");
  refuse_bytes(h, "PK\x03\x04rest", 8, "is a zip archive");
  refuse_bytes(h, "version https://git-lfs.github.com/spec/v1\n", 43, "Git LFS pointer");
  uint8_t zeros[4096] = {0};
  refuse_bytes(h, zeros, sizeof zeros, "is filled with zeros");
  float weights[1000];
  for (int i = 0; i < 1000; i++)
    weights[i] = 0.5F + (float)i * 0.001F;
  refuse_bytes(h, weights, sizeof weights, "does not begin like one");
  refuse_bytes(h, "\x08\x09", 2, "contains no graph");
  assert_int_equal(h->err.kind, ERR_MODEL);
}

// 2 GiB of hole between a tensor's head and the end of the model: nothing of it is read.
static void test_a_file_larger_than_2_gib(void **state) {
  struct pb_home *h = *state;
  const uint64_t payload = ((uint64_t)1 << 31) + 12345;
  struct pb head = {0}, tail = {0}, tensor_head = {0}, p = {0};
  pb_varint(&tensor_head, 1, payload);
  pb_varint(&tensor_head, 2, DTYPE_UINT8);
  pb_text(&tensor_head, 8, "huge");
  pb_number(&tensor_head, 9 << 3 | 2);
  pb_number(&tensor_head, payload);
  pb_number(&head, 5 << 3 | 2);
  pb_number(&head, tensor_head.n + payload);
  pb_raw(&head, tensor_head.at, tensor_head.n);
  pb_identity(&tail);
  pb_varint(&p, 1, 9);
  pb_bytes(&p, 8, "\x10\x12", 2); // opset 18
  pb_number(&p, 7 << 3 | 2);
  pb_number(&p, head.n + payload + tail.n);
  pb_raw(&p, head.at, head.n);
  pb_home_write(h, "m.onnx", p.at, p.n);
  const int fd = open(h->onnx, O_WRONLY);
  const off_t at = (off_t)(p.n + payload);
  const bool room = fd >= 0 && pwrite(fd, tail.at, tail.n, at) == (ssize_t)tail.n;
  if (fd >= 0) close(fd);
  if (room) {
    assert_int_equal(sources_open(&h->sources, h->onnx, NULL, &h->err), 0);
    model_init(&h->m);
    h->loaded = true;
    if (load_model(&h->m, h->sources, NULL, &h->err)) fail_msg("%s", h->err.msg);
    uint32_t n;
    const struct piece *piece = model_pieces(&h->m, 0, &n);
    assert_true(n == 1 && piece->at.len == payload && piece->at.off == p.n);
    assert_true(h->m.nodes[0].src.off == p.n + payload);
  }
  pb_free(&head);
  pb_free(&tail);
  pb_free(&tensor_head);
  pb_free(&p);
  if (!room) skip();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int test_load_broken(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_the_rich_model_loads),
      TEST(test_truncated_at_every_byte),
      TEST(test_every_byte_replaced),
      TEST(test_wrong_lengths),
      TEST(test_nesting),
      TEST(test_limits),
      TEST(test_names),
      TEST(test_fields_of_the_wrong_kind),
      TEST(test_attributes_that_contradict_themselves),
      TEST(test_given_twice),
      TEST(test_files_that_are_no_models),
      TEST(test_a_file_larger_than_2_gib),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
