/* A plugin that does what no plugin should. What it does wrong when it is loaded is chosen when it is
 * compiled (-DENTRY=...), the rest by the option `mode`. Otherwise it gives batches of three rows with
 * `id` (UInt64) and `gender` (String), and takes verdicts. */
#include "fairstream_plugin.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FINE, REFUSES, SAYS_NOTHING, SMALL, NOTHING, ABOUT_IS_NOT_JSON, NAME_IS_NOT_TEXT };

typedef struct State {
  char mode[64];
  int batches;
  uint64_t rows;
  volatile bool cancelled;
} State;

static bool is(const State *state, const char *mode) { return strcmp(state->mode, mode) == 0; }

static void release_error(FairstreamError *error) {
  free(error->message);
  error->release = NULL;
}

static int32_t fail_with(FairstreamError *error, int32_t code, const char *message, size_t length) {
  error->message = calloc(length + 1, 1);
  memcpy(error->message, message, length);
  error->release = release_error;
  return code;
}

static int32_t fail(FairstreamError *error, int32_t code, const char *message) {
  return fail_with(error, code, message, strlen(message));
}

static void release_schema(struct ArrowSchema *schema) {
  for (int64_t i = 0; i < schema->n_children; i++) {
    schema->children[i]->release(schema->children[i]);
    free(schema->children[i]);
  }
  free(schema->children);
  schema->release = NULL;
}

static struct ArrowSchema field(const char *format, const char *name) {
  return (struct ArrowSchema){.format = format, .name = name, .flags = ARROW_FLAG_NULLABLE,
                              .release = release_schema};
}

static void add(struct ArrowSchema *schema, const char *format, const char *name) {
  struct ArrowSchema *child = malloc(sizeof *child);
  *child = field(format, name);
  schema->children = realloc(schema->children, (size_t)(schema->n_children + 1) * sizeof child);
  schema->children[schema->n_children++] = child;
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
  State *state = stream->private_data;
  *out = field("+s", "");
  if (!is(state, "no time")) add(out, "l", "_time");
  add(out, "L", "_row");
  add(out, is(state, "other type") ? "i" : "L", "id");
  add(out, "u", "gender");
  if (is(state, "unwanted column")) add(out, "L", "salary");
  if (is(state, "column twice")) add(out, "L", "id");
  if (is(state, "unknown type")) out->children[2]->format = "???";
  return is(state, "no schema") ? EIO : 0;
}

static void release_array(struct ArrowArray *array) {
  for (int64_t i = 0; array->private_data && i < 3; i++) free(((void **)array->private_data)[i]);
  free(array->private_data);
  free(array->buffers);
  for (int64_t i = 0; array->children && i < 4; i++) {
    if (array->children[i] && array->children[i]->release) array->children[i]->release(array->children[i]);
    free(array->children[i]);
  }
  free(array->children);
  array->release = NULL;
}

static struct ArrowArray column(int64_t length, const void *values, size_t bytes, const char *text) {
  struct ArrowArray array = {.length = length, .n_buffers = text ? 3 : 2, .release = release_array};
  void **owned = calloc(3, sizeof *owned);
  owned[1] = malloc(bytes);
  memcpy(owned[1], values, bytes);
  if (text) owned[2] = strdup(text);
  array.private_data = owned;
  array.buffers = calloc(3, sizeof *array.buffers);
  for (int i = 0; i < 3; i++) array.buffers[i] = owned[i];
  return array;
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
  State *state = stream->private_data;
  memset(out, 0, sizeof *out);
  while (is(state, "hangs") && state->batches == 1 && !state->cancelled) usleep(1000);
  if (state->cancelled || state->batches == 3) return 0;
  if (is(state, "fails in the middle") && state->batches == 1) return EIO;
  state->batches++;
  uint64_t first = state->rows + 1;
  state->rows += 3;
  int64_t times[3];
  uint64_t numbers[3], ids[3];
  for (uint64_t i = 0; i < 3; i++) {
    times[i] = (int64_t)(first + i) * 1000000000;
    numbers[i] = ids[i] = first + i;
  }
  if (is(state, "rows go back")) numbers[1] = numbers[0];
  int32_t offsets[4] = {0, 1, 2, 3};
  if (is(state, "offsets go back")) offsets[2] = 0;
  const char *text = is(state, "not text") ? "F\xff" "F" : "FMF";

  out->length = 3;
  out->n_buffers = 1;
  out->buffers = calloc(1, sizeof *out->buffers);
  out->n_children = 4;
  out->children = calloc(4, sizeof *out->children);
  out->release = release_array;
  for (int i = 0; i < 4; i++) out->children[i] = malloc(sizeof **out->children);
  *out->children[0] = column(3, times, sizeof times, NULL);
  *out->children[1] = column(3, numbers, sizeof numbers, NULL);
  *out->children[2] = column(3, ids, sizeof ids, NULL);
  *out->children[3] = column(3, offsets, sizeof offsets, text);
  if (is(state, "negative length")) out->length = -1;
  if (is(state, "length beyond measure")) out->length = INT64_MAX;
  if (is(state, "columns of other lengths")) out->children[2]->length = 1000000;
  if (is(state, "too few columns")) out->n_children = 1;
  if (is(state, "too few buffers")) out->children[3]->n_buffers = 1;
  if (is(state, "no values")) out->children[2]->buffers[1] = NULL;
  if (is(state, "more nulls than rows")) out->children[2]->null_count = 99;
  return 0;
}

static const char *get_last_error(struct ArrowArrayStream *stream) {
  State *state = stream->private_data;
  return is(state, "fails in the middle") ? "the wire was cut" : NULL;
}

static void release_stream(struct ArrowArrayStream *stream) { stream->release = NULL; }

static int32_t progress(FairstreamSource *source, FairstreamProgress *out, FairstreamError *error) {
  State *state = source->private_data;
  if (is(state, "no progress")) return fail(error, FAIRSTREAM_INTERNAL, "it has lost count");
  *out = (FairstreamProgress){.rows = state->rows, .is_relative = 1};
  return FAIRSTREAM_OK;
}

static void cancel(FairstreamSource *source) { ((State *)source->private_data)->cancelled = true; }

static void release_source(FairstreamSource *source) { free(source->private_data); }

static State *new_state(FairstreamStr options) {
  static const char KEY[] = "\"mode\":\"";
  State *state = calloc(1, sizeof *state);
  for (size_t at = 0; at + sizeof KEY <= options.len; at++) {
    if (memcmp(options.ptr + at, KEY, sizeof KEY - 1) != 0) continue;
    const char *value = options.ptr + at + sizeof KEY - 1;
    const char *end = memchr(value, '"', options.len - (size_t)(value - options.ptr));
    if (end && end - value < 64) memcpy(state->mode, value, (size_t)(end - value));
  }
  return state;
}

static int32_t open_source(FairstreamStr options, const struct ArrowSchema *wanted, uint64_t max_rows,
                           uint64_t max_age_ms, FairstreamStr resume, struct ArrowArrayStream *stream,
                           FairstreamSource *source, FairstreamError *error) {
  (void)wanted, (void)max_rows, (void)max_age_ms, (void)resume;
  State *state = new_state(options);
  if (is(state, "does not open")) return free(state), fail(error, FAIRSTREAM_IO, "it is closed");
  if (is(state, "does not open and is silent")) return free(state), FAIRSTREAM_IO;
  if (is(state, "error with a zero")) return free(state), fail_with(error, FAIRSTREAM_IO, "before\0after", 12);
  *stream = (struct ArrowArrayStream){get_schema, get_next, get_last_error, release_stream, state};
  *source = (FairstreamSource){sizeof *source, progress, NULL, cancel, release_source, state};
  if (is(state, "small source")) source->size = 8;
  if (is(state, "functions are missing")) source->progress = NULL;
  return FAIRSTREAM_OK;
}

static int32_t write_batch(FairstreamSink *sink, struct ArrowArray *batch, FairstreamError *error) {
  State *state = sink->private_data;
  batch->release(batch);
  if (is(state, "sink fails")) return fail(error, FAIRSTREAM_IO, "the disk is full");
  if (is(state, "sink hangs up")) {
    return state->batches++ ? fail(error, FAIRSTREAM_INTERNAL, "written to after it hung up") : FAIRSTREAM_HUNG_UP;
  }
  return FAIRSTREAM_OK;
}

static int32_t flush(FairstreamSink *sink, FairstreamProgress *out, FairstreamError *error) {
  (void)sink, (void)out, (void)error;
  return FAIRSTREAM_OK;
}

static int32_t finish(FairstreamSink *sink, int32_t run_end, FairstreamStr reason, FairstreamError *error) {
  (void)run_end, (void)reason;
  State *state = sink->private_data;
  if (is(state, "sink does not finish")) return fail(error, FAIRSTREAM_IO, "it is not done yet");
  return FAIRSTREAM_OK;
}

static void release_sink(FairstreamSink *sink) { free(sink->private_data); }

static int32_t open_sink(FairstreamStr options, const struct ArrowSchema *verdicts, FairstreamStr resume,
                         FairstreamSink *sink, FairstreamError *error) {
  (void)verdicts, (void)resume, (void)error;
  *sink = (FairstreamSink){sizeof *sink, write_batch, flush, finish, release_sink, new_state(options)};
  if (is(sink->private_data, "small sink")) sink->size = 8;
  return FAIRSTREAM_OK;
}

#define TEXT(literal) ((FairstreamStr){literal, sizeof literal - 1})

int32_t fairstream_plugin_v1(uint32_t host_minor, FairstreamPlugin *plugin, FairstreamError *error) {
  (void)host_minor;
  if (ENTRY == REFUSES) return fail(error, FAIRSTREAM_UNSUPPORTED, "it wants a newer host");
  if (ENTRY == SAYS_NOTHING) return FAIRSTREAM_INTERNAL;
  *plugin = (FairstreamPlugin){.size = ENTRY == SMALL ? 16 : sizeof *plugin, .name = TEXT("misbehaving"),
                               .version = TEXT("0"), .open_source = open_source, .open_sink = open_sink};
  if (ENTRY == NOTHING) plugin->open_source = NULL, plugin->open_sink = NULL;
  if (ENTRY == ABOUT_IS_NOT_JSON) plugin->about = TEXT("a plugin");
  if (ENTRY == NAME_IS_NOT_TEXT) plugin->name = TEXT("\xff");
  return FAIRSTREAM_OK;
}
