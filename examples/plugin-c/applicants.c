/* A fairstream plugin in plain C: a source of generated applications and decisions.
 *
 * It offers the columns `id` and `accepted` (UInt64) and `gender` (String), as specs/rtlola/hiring.lola
 * reads them. Men are accepted with probability 1/2, women with 1/5. Options: `n` applicants, `seed`.
 */
#include "fairstream_plugin.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors ---------------------------------------------------------------------------------- */

static void release_error(FairstreamError *error) {
  free(error->message);
  error->message = NULL;
  error->release = NULL;
}

static int32_t fail(FairstreamError *error, int32_t code, const char *message) {
  size_t length = strlen(message) + 1;
  error->message = malloc(length);
  if (error->message) memcpy(error->message, message, length);
  error->release = release_error;
  return code;
}

/* ---- the events ------------------------------------------------------------------------------ */

enum { TIME, ROW, ID, GENDER, ACCEPTED, COLUMNS };

static const char *const NAMES[COLUMNS] = {"_time", "_row", "id", "gender", "accepted"};
static const char *const FORMATS[COLUMNS] = {"l", "L", "L", "u", "L"};

/* What the stream and the source share; the source frees it. */
typedef struct Applicants {
  uint64_t n, random, next_id, rows, max_rows;
  uint64_t accepted; /* the applicant of the previous row, if the next row is their acceptance; else 0 */
  bool wanted[COLUMNS];
  volatile bool cancelled; /* any thread may set it */
  unsigned char resume[32];
} Applicants;

static uint64_t next_random(Applicants *a) {
  a->random ^= a->random << 13;
  a->random ^= a->random >> 7;
  a->random ^= a->random << 17;
  return a->random >> 11;
}

/* One event; false at the end. `gender` is NULL for a decision. */
static bool next_event(Applicants *a, uint64_t *id, const char **gender) {
  if (a->accepted) {
    *id = a->accepted;
    *gender = NULL;
    a->accepted = 0;
    return true;
  }
  if (a->next_id > a->n) return false;
  bool is_woman = next_random(a) % 2;
  uint64_t chance = is_woman ? 20 : 50;
  *id = a->next_id++;
  *gender = is_woman ? "F" : "M";
  if (next_random(a) % 100 < chance) a->accepted = *id;
  return true;
}

/* ---- Arrow ----------------------------------------------------------------------------------- */

static void release_schema(struct ArrowSchema *schema) {
  for (int64_t i = 0; i < schema->n_children; i++) {
    if (schema->children[i]->release) schema->children[i]->release(schema->children[i]);
    free(schema->children[i]);
  }
  free(schema->children);
  schema->release = NULL;
}

static void fill_schema(struct ArrowSchema *schema, const char *format, const char *name) {
  memset(schema, 0, sizeof *schema);
  schema->format = format;
  schema->name = name;
  schema->flags = ARROW_FLAG_NULLABLE;
  schema->release = release_schema;
}

static void release_array(struct ArrowArray *array) {
  for (int64_t i = 0; i < array->n_buffers; i++) free((void *)array->buffers[i]);
  for (int64_t i = 0; i < array->n_children; i++) {
    if (array->children[i]->release) array->children[i]->release(array->children[i]);
    free(array->children[i]);
  }
  free(array->buffers);
  free(array->children);
  array->release = NULL;
}

static void fill_array(struct ArrowArray *array, int64_t length, int64_t n_buffers, int64_t n_children) {
  memset(array, 0, sizeof *array);
  array->length = length;
  array->n_buffers = n_buffers;
  array->n_children = n_children;
  array->buffers = calloc((size_t)n_buffers, sizeof *array->buffers);
  array->children = n_children ? calloc((size_t)n_children, sizeof *array->children) : NULL;
  array->release = release_array;
}

/* ---- the stream ------------------------------------------------------------------------------ */

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
  Applicants *a = stream->private_data;
  fill_schema(out, "+s", "");
  out->children = calloc(COLUMNS, sizeof *out->children);
  for (int i = 0; i < COLUMNS; i++) {
    if (!a->wanted[i]) continue;
    struct ArrowSchema *child = malloc(sizeof *child);
    fill_schema(child, FORMATS[i], NAMES[i]);
    out->children[out->n_children++] = child;
  }
  return 0;
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
  Applicants *a = stream->private_data;
  memset(out, 0, sizeof *out); /* the end, unless there is an event */
  size_t max = (size_t)a->max_rows, bitmap = (max + 7) / 8, length = 0, texts = 0;
  uint64_t *numbers[COLUMNS] = {0};
  uint8_t *present[COLUMNS] = {0};
  for (int i = 0; i < COLUMNS; i++) {
    present[i] = calloc(bitmap, 1);
    if (i != GENDER) numbers[i] = calloc(max, sizeof **numbers);
  }
  int32_t *offsets = calloc(max + 1, sizeof *offsets);
  char *characters = malloc(max);

  while (length < max && !a->cancelled) {
    uint64_t id;
    const char *gender;
    if (!next_event(a, &id, &gender)) break;
    a->rows++;
    numbers[TIME][length] = a->rows * 10 * 1000000000ULL; /* every ten seconds */
    numbers[ROW][length] = a->rows;
    numbers[gender ? ID : ACCEPTED][length] = id;
    if (gender) characters[texts++] = *gender;
    offsets[length + 1] = (int32_t)texts;
    for (int i = 0; i < COLUMNS; i++) {
      bool is_null = gender ? i == ACCEPTED : i == ID || i == GENDER;
      if (!is_null) present[i][length / 8] |= (uint8_t)(1 << length % 8);
    }
    length++;
  }

  if (length > 0) fill_array(out, (int64_t)length, 1, COLUMNS);
  int64_t children = 0;
  for (int i = 0; i < COLUMNS; i++) {
    if (length == 0 || !a->wanted[i]) {
      free(present[i]);
      free(numbers[i]);
      if (i == GENDER) free(offsets), free(characters);
      continue;
    }
    struct ArrowArray *child = malloc(sizeof *child);
    fill_array(child, (int64_t)length, i == GENDER ? 3 : 2, 0);
    child->null_count = -1; /* not counted */
    child->buffers[0] = present[i];
    child->buffers[1] = i == GENDER ? (void *)offsets : (void *)numbers[i];
    if (i == GENDER) child->buffers[2] = characters;
    out->children[children++] = child;
  }
  if (length > 0) out->n_children = children;
  return 0;
}

static const char *get_last_error(struct ArrowArrayStream *stream) {
  (void)stream;
  return NULL; /* it never fails */
}

static void release_stream(struct ArrowArrayStream *stream) { stream->release = NULL; }

/* ---- the source ------------------------------------------------------------------------------ */

/* The position to resume from: the four numbers that change. */
static int32_t progress(FairstreamSource *source, FairstreamProgress *out, FairstreamError *error) {
  (void)error;
  Applicants *a = source->private_data;
  uint64_t state[4] = {a->random, a->next_id, a->rows, a->accepted};
  memcpy(a->resume, state, sizeof state);
  memset(out, 0, sizeof *out);
  out->rows = a->rows;
  out->is_relative = 1;
  out->resume = (FairstreamStr){(const char *)a->resume, sizeof a->resume};
  return FAIRSTREAM_OK;
}

static void cancel(FairstreamSource *source) { ((Applicants *)source->private_data)->cancelled = true; }

static void release_source(FairstreamSource *source) {
  free(source->private_data);
  source->release = NULL;
}

/* The number of an option in {"n": "200", "seed": "1"}; enough of a JSON parser for this. */
static bool option(FairstreamStr options, const char *key, uint64_t *value) {
  char text[512] = {0}, quoted[64];
  if (options.len >= sizeof text) return false;
  memcpy(text, options.ptr, options.len);
  snprintf(quoted, sizeof quoted, "\"%s\":\"", key);
  const char *found = strstr(text, quoted);
  if (!found) return true;
  char *end;
  *value = strtoull(found + strlen(quoted), &end, 10);
  return end > found + strlen(quoted) && *end == '"';
}

static int32_t open_source(FairstreamStr options, const struct ArrowSchema *wanted, uint64_t max_rows,
                           uint64_t max_age_ms, FairstreamStr resume, struct ArrowArrayStream *stream,
                           FairstreamSource *source, FairstreamError *error) {
  (void)max_age_ms; /* it never has to wait */
  uint64_t n = 200, seed = 1;
  if (!option(options, "n", &n)) return fail(error, FAIRSTREAM_BAD_OPTION, "`n` is how many apply: a number");
  if (!option(options, "seed", &seed)) return fail(error, FAIRSTREAM_BAD_OPTION, "`seed` is a number");
  Applicants *a = calloc(1, sizeof *a);
  if (!a) return fail(error, FAIRSTREAM_INTERNAL, "there is no memory left");
  a->n = n;
  a->random = seed * 0x9E3779B97F4A7C15ULL | 1;
  a->next_id = 1;
  a->max_rows = max_rows < 65536 ? max_rows : 65536;
  if (resume.len == sizeof a->resume) {
    uint64_t state[4];
    memcpy(state, resume.ptr, sizeof state);
    a->random = state[0], a->next_id = state[1], a->rows = state[2], a->accepted = state[3];
  }
  a->wanted[TIME] = a->wanted[ROW] = true;
  for (int64_t i = 0; i < wanted->n_children; i++) {
    for (int column = ID; column < COLUMNS; column++) {
      if (strcmp(wanted->children[i]->name, NAMES[column]) != 0) continue;
      if (strcmp(wanted->children[i]->format, FORMATS[column]) != 0) {
        free(a);
        return fail(error, FAIRSTREAM_UNSUPPORTED,
                    "`id` and `accepted` are UInt64, `gender` is a String: declare them so");
      }
      a->wanted[column] = true;
    }
  }
  *stream = (struct ArrowArrayStream){get_schema, get_next, get_last_error, release_stream, a};
  *source = (FairstreamSource){sizeof *source, progress, NULL, cancel, release_source, a};
  return FAIRSTREAM_OK;
}

/* ---- the plugin ------------------------------------------------------------------------------ */

#define TEXT(literal) ((FairstreamStr){literal, sizeof literal - 1})

int32_t fairstream_plugin_v1(uint32_t host_minor, FairstreamPlugin *plugin, FairstreamError *error) {
  (void)host_minor;
  if (plugin->size < sizeof *plugin) return fail(error, FAIRSTREAM_UNSUPPORTED, "the host is too old");
  *plugin = (FairstreamPlugin){
      .size = sizeof *plugin,
      .minor = FAIRSTREAM_PLUGIN_MINOR,
      .name = TEXT("applicants"),
      .version = TEXT("1.0"),
      .about = TEXT("{\"source\": {\"about\": \"invented applicants; women are accepted less often\", "
                    "\"options\": [{\"name\": \"n\", \"default\": \"200\", \"help\": \"how many apply\"}, "
                    "{\"name\": \"seed\", \"default\": \"1\", \"help\": \"another seed, other applicants\"}]}}"),
      .open_source = open_source,
      .open_sink = NULL,
  };
  return FAIRSTREAM_OK;
}
