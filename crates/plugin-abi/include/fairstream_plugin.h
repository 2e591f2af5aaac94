/* fairstream plugins: sources of events and sinks of verdicts in any language.
 *
 * A plugin is a shared library that exports one function, fairstream_plugin_v1, declared at the end.
 * The host calls it once, and opens sources and sinks through the functions that it returns. This
 * file is the whole contract. It is C11 and C++17, and includes only standard headers.
 *
 * Rules that hold everywhere
 *
 *  - Text is UTF-8. A FairstreamStr is not NUL-terminated, and is borrowed: it is valid until the call
 *    that it was given to returns, unless it says otherwise.
 *  - A function that can fail returns FAIRSTREAM_OK or another code, and then fills the FairstreamError.
 *  - An object is used by one thread at a time, though not always the same. Only `cancel` may be called
 *    at any time, from any thread, also while another call on the same object is under way.
 *  - No C++ exception and no panic may leave a function of a plugin.
 *  - A library that was loaded stays loaded until the process ends.
 */
#ifndef FAIRSTREAM_PLUGIN_H
#define FAIRSTREAM_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The Arrow C data interface and C stream interface, as Apache Arrow defines them, unless another
 * header has done so already. Any Arrow library can fill and read them; plain C can, too (see
 * examples/plugin-c). */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
  const char *format;
  const char *name;
  const char *metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema **children;
  struct ArrowSchema *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void **buffers;
  struct ArrowArray **children;
  struct ArrowArray *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};

#endif /* ARROW_C_DATA_INTERFACE */

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
  int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
  const char *(*get_last_error)(struct ArrowArrayStream *);
  void (*release)(struct ArrowArrayStream *);
  void *private_data;
};

#endif /* ARROW_C_STREAM_INTERFACE */

/* Return codes of functions. */
#define FAIRSTREAM_OK 0
#define FAIRSTREAM_BAD_OPTION 1  /* the user's options are wrong */
#define FAIRSTREAM_BAD_DATA 2    /* what is read is wrong */
#define FAIRSTREAM_IO 3          /* reading or writing failed */
#define FAIRSTREAM_CANCELLED 4   /* the host asked to stop */
#define FAIRSTREAM_UNSUPPORTED 5 /* a version, or something else that the plugin cannot do */
#define FAIRSTREAM_INTERNAL 6    /* a bug in the plugin */
#define FAIRSTREAM_HUNG_UP 7     /* sinks only: its reader has closed; the run continues without it */

typedef struct FairstreamStr {
  const char *ptr; /* may be NULL if len is 0 */
  size_t len;
} FairstreamStr;

/* The host zeroes it before a call. A function that fails sets `message`, which is NUL-terminated, and
 * `release`, which the host calls once it has read the message. */
typedef struct FairstreamError {
  char *message;
  void (*release)(struct FairstreamError *);
} FairstreamError;

/* Progress of a source or a sink. */
typedef struct FairstreamProgress {
  uint64_t rows;        /* rows returned since the beginning, rejected ones included */
  uint64_t dropped;     /* rows that a live source lost since the last call because it was read too slowly */
  uint32_t is_relative; /* 1 if times count from the start of the trace, not from 1970 */
  FairstreamStr resume; /* position from which open_source of a later run resumes; any bytes. Valid
                           until the next call on the source */
} FairstreamProgress;

/* An open source. Its rows are read from the ArrowArrayStream that open_source also fills.
 *
 * The stream's schema is a struct ("+s") with these children, in any order:
 *
 *   _time    "l"  int64    when the row happened: nanoseconds since 1970-01-01 UTC. Not null.
 *   _row     "L"  uint64   its number in the source, as a user would count, increasing. Not null.
 *   _error   "u"  utf8     null, or why the row cannot be read; then it is a bad row, to which the
 *                          host's policy applies, and `_time` is ignored. May be left out.
 *   _column  "u"  utf8     null, or the column at fault. May be left out.
 *   ...                    the requested columns that the source has, by name, in exactly the
 *                          requested type. A null is "no value at this instant".
 *
 * get_next returns a batch of at most `max_rows` rows, and at the end of the stream an array whose
 * `release` is NULL, as Arrow defines. It returns once the first row is `max_age_ms` old, and returns
 * an empty batch about once a second while there are no rows. When it fails, get_last_error has the
 * reason. Rows that were read before a failure are returned in a batch before it.
 */
typedef struct FairstreamSource {
  size_t size; /* in: bytes that the host knows; out: bytes that the plugin filled */
  /* Called after each batch. */
  int32_t (*progress)(struct FairstreamSource *, FairstreamProgress *out, FairstreamError *);
  /* The rows up to there are durable in every sink: the source may discard them. May be NULL. */
  int32_t (*acknowledge)(struct FairstreamSource *, uint64_t rows, FairstreamStr resume, FairstreamError *);
  /* Makes get_next return within a second, with what it has or with the end. NULL if it always does. */
  void (*cancel)(struct FairstreamSource *);
  /* Called once, after the release of the stream. */
  void (*release)(struct FairstreamSource *);
  void *private_data;
} FairstreamSource;

/* How a run ended, for a sink. */
#define FAIRSTREAM_RUN_COMPLETE 0
#define FAIRSTREAM_RUN_STOPPED 1 /* a stop was requested; all rows that were read were evaluated */
#define FAIRSTREAM_RUN_FAILED 2

/* An open sink. Verdicts are struct arrays of the schema that was passed to open_sink:
 *
 *   time      timestamp[ns, UTC]   kind, stream   dictionary of utf8
 *   instance  utf8 (JSON array)    message        utf8
 *   and one column for each type that a value can have; exactly one of them is not null in a row of
 *   kind "value".
 */
typedef struct FairstreamSink {
  size_t size; /* in: bytes that the host knows; out: bytes that the plugin filled */
  /* Writes a batch. The plugin owns it from then on, whatever the call returns, and calls its release. */
  int32_t (*write)(struct FairstreamSink *, struct ArrowArray *batch, FairstreamError *);
  /* Makes the written verdicts durable, and reports the position: `rows` verdicts written, and in
   * `resume` the bytes that open_sink needs to resume exactly there, valid until the next call on the
   * sink. An empty `resume` means that the sink cannot be resumed. */
  int32_t (*flush)(struct FairstreamSink *, FairstreamProgress *out, FairstreamError *);
  /* Called once, after all writes, whether the run failed or not. `reason` is empty unless it failed. */
  int32_t (*finish)(struct FairstreamSink *, int32_t run_end, FairstreamStr reason, FairstreamError *);
  /* Called once, after finish. */
  void (*release)(struct FairstreamSink *);
  void *private_data;
} FairstreamSink;

/* Description of a plugin. Later versions of this struct only append members. */
typedef struct FairstreamPlugin {
  size_t size; /* in: bytes that the host knows; out: bytes that the plugin filled */
  uint32_t minor; /* out: FAIRSTREAM_PLUGIN_MINOR of the header that the plugin was built with */

  /* All of these live as long as the library. `about` is a JSON object, every key optional:
   *   {"source": {"about": "one line", "options": [{"name": "n", "default": "10", "help": "one line"}]},
   *    "sink":   {"about": ..., "options": [...]}}
   * If options are listed, the host refuses others, and suggests the nearest. */
  FairstreamStr name;
  FairstreamStr version;
  FairstreamStr about;

  /* Opens a source; NULL if the plugin has none. `options` is a JSON object with the options after the
   * question mark, all strings, as in {"n": "3"}. `wanted` is a struct schema with the requested
   * columns, borrowed. `resume` is empty, or that of the FairstreamProgress of an earlier run. Fills
   * both `stream` and `source`, or neither. */
  int32_t (*open_source)(FairstreamStr options, const struct ArrowSchema *wanted, uint64_t max_rows,
                         uint64_t max_age_ms, FairstreamStr resume, struct ArrowArrayStream *stream,
                         FairstreamSource *source, FairstreamError *);
  /* Opens a sink; NULL if the plugin has none. `verdicts` is the schema of the batches, borrowed.
   * `resume` is empty, or that of a flush of an earlier run: verdicts written after it are discarded. */
  int32_t (*open_sink)(FairstreamStr options, const struct ArrowSchema *verdicts, FairstreamStr resume,
                       FairstreamSink *sink, FairstreamError *);
} FairstreamPlugin;

#define FAIRSTREAM_PLUGIN_MINOR 0

/* The one exported function. A version that is not compatible has another name. `host_minor` is the
 * FAIRSTREAM_PLUGIN_MINOR of the host; a plugin that needs a higher one returns FAIRSTREAM_UNSUPPORTED. */
#if defined(_WIN32)
__declspec(dllexport)
#elif defined(__GNUC__)
__attribute__((visibility("default")))
#endif
int32_t fairstream_plugin_v1(uint32_t host_minor, FairstreamPlugin *plugin, FairstreamError *error);

#ifdef __cplusplus
}
#endif
#endif /* FAIRSTREAM_PLUGIN_H */
