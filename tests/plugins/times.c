/* A sink in C that can be continued: it writes the time of each verdict as a line to the file that the option `file` names. Its
 * position is the length of the file. */
#include "fairstream_plugin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Times {
  FILE *file;
  uint64_t rows;
  uint64_t bytes;
} Times;

static void release_error(FairstreamError *error) {
  free(error->message);
  error->release = NULL;
}

static int32_t fail(FairstreamError *error, const char *message) {
  error->message = strdup(message);
  error->release = release_error;
  return FAIRSTREAM_IO;
}

static int32_t write_batch(FairstreamSink *sink, struct ArrowArray *batch, FairstreamError *error) {
  Times *times = sink->private_data;
  const struct ArrowArray *column = batch->children[0];
  const int64_t *values = column->buffers[1];
  int failed = 0;
  for (int64_t row = 0; row < batch->length; row++) {
    failed |= fprintf(times->file, "%" PRId64 "\n", values[column->offset + batch->offset + row]) < 0;
  }
  times->rows += (uint64_t)batch->length;
  batch->release(batch);
  return failed ? fail(error, "it cannot be written") : FAIRSTREAM_OK;
}

static int32_t flush(FairstreamSink *sink, FairstreamProgress *out, FairstreamError *error) {
  Times *times = sink->private_data;
  if (fflush(times->file) || fsync(fileno(times->file))) return fail(error, "it cannot be made durable");
  times->bytes = (uint64_t)ftell(times->file);
  out->rows = times->rows;
  out->resume = (FairstreamStr){(const char *)&times->rows, 2 * sizeof(uint64_t)};
  return FAIRSTREAM_OK;
}

static int32_t finish(FairstreamSink *sink, int32_t run_end, FairstreamStr reason, FairstreamError *error) {
  (void)run_end, (void)reason;
  Times *times = sink->private_data;
  return fflush(times->file) ? fail(error, "it cannot be written") : FAIRSTREAM_OK;
}

static void release(FairstreamSink *sink) {
  Times *times = sink->private_data;
  fclose(times->file);
  free(times);
}

static int32_t open_sink(FairstreamStr options, const struct ArrowSchema *verdicts, FairstreamStr resume,
                         FairstreamSink *sink, FairstreamError *error) {
  (void)verdicts;
  char text[1024] = {0}, name[512] = {0};
  memcpy(text, options.ptr, options.len < sizeof text ? options.len : sizeof text - 1);
  const char *option = strstr(text, "\"file\":\"");
  if (!option || sscanf(option, "\"file\":\"%511[^\"]\"", name) != 1) return fail(error, "option `file` is missing");
  Times *times = calloc(1, sizeof *times);
  times->file = fopen(name, resume.len ? "r+" : "w");
  if (!times->file) return free(times), fail(error, "the file cannot be opened");
  if (resume.len == 2 * sizeof(uint64_t)) {
    memcpy(&times->rows, resume.ptr, resume.len);
    if (ftruncate(fileno(times->file), (off_t)times->bytes) || fseek(times->file, 0, SEEK_END)) {
      return fclose(times->file), free(times), fail(error, "the file cannot be continued");
    }
  }
  *sink = (FairstreamSink){sizeof *sink, write_batch, flush, finish, release, times};
  return FAIRSTREAM_OK;
}

#define TEXT(literal) ((FairstreamStr){literal, sizeof literal - 1})

int32_t fairstream_plugin_v1(uint32_t host_minor, FairstreamPlugin *plugin, FairstreamError *error) {
  (void)host_minor, (void)error;
  *plugin = (FairstreamPlugin){
      .size = sizeof *plugin, .name = TEXT("times"), .version = TEXT("1"), .open_sink = open_sink};
  return FAIRSTREAM_OK;
}
