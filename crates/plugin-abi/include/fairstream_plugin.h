/* fairstream plugins: sources of events and sinks of verdicts in any language.
 *
 * A plugin is a shared library that exports one function, fairstream_plugin_v1, declared at the end.
 * The host calls it once, and through the functions that it hands out opens sources and sinks. This
 * file is the whole contract. It is C11 and C++17, and needs nothing but itself.
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

/* What a function returns. */
#define FAIRSTREAM_OK 0
#define FAIRSTREAM_BAD_OPTION 1  /* the user's options are wrong */
#define FAIRSTREAM_BAD_DATA 2    /* what is read is wrong */
#define FAIRSTREAM_IO 3          /* reading or writing failed */
#define FAIRSTREAM_CANCELLED 4   /* the host asked to stop */
#define FAIRSTREAM_UNSUPPORTED 5 /* a version, or something else that the plugin cannot do */
#define FAIRSTREAM_INTERNAL 6    /* a bug in the plugin */
#define FAIRSTREAM_HUNG_UP 7     /* sinks only: nobody reads any more; the run goes on without it */

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

/* How far a source has come, or a sink. */
typedef struct FairstreamProgress {
  uint64_t rows;        /* rows given since the beginning, rejected ones included */
  uint64_t dropped;     /* rows that a live source lost since the last call because it was read too slowly */
  uint32_t is_relative; /* 1 if times count from the start of the trace, not from 1970 */
  FairstreamStr resume; /* where to go on, for open_source of a later run; any bytes. Valid until the
                           next call on the source */
} FairstreamProgress;

/* An open source. Its rows come through the ArrowArrayStream that open_source fills beside it.
 *
 * The stream's schema is a struct ("+s") with these children, in any order:
 *
 *   _time    "l"  int64    when the row happened: nanoseconds since 1970-01-01 UTC. Not null.
 *   _row     "L"  uint64   where it stands in the source, as its user would count, increasing. Not null.
 *   _error   "u"  utf8     null, or why the row cannot be read; then it is a bad row, and the host's
 *                          policy for those decides. `_time` is not looked at then. May be left out.
 *   _column  "u"  utf8     null, or the column at fault. May be left out.
 *   ...                    those of the wanted columns that the source has, by name, in exactly the
 *                          wanted type. A null is "no value at this instant".
 *
 * get_next gives a batch of rows, at most `max_rows` of them, and the end of the stream as Arrow says
 * (an array whose `release` is NULL). It returns once the first row is `max_age_ms` old, and with an
 * empty batch about once a second while there is nothing to give. When it fails, get_last_error says
 * why. Rows that were read before a failure are given in a batch before it.
 */
typedef struct FairstreamSource {
  size_t size; /* in: bytes that the host knows; out: bytes that the plugin filled */
  /* Called after each batch. */
  int32_t (*progress)(struct FairstreamSource *, FairstreamProgress *out, FairstreamError *);
  /* The rows up to there have reached every sink durably: the source may forget them. May be NULL. */
  int32_t (*acknowledge)(struct FairstreamSource *, uint64_t rows, FairstreamStr resume, FairstreamError *);
  /* Makes get_next return within a second, with what it has or with the end. NULL if it always does. */
  void (*cancel)(struct FairstreamSource *);
  /* Called once, after the release of the stream. */
  void (*release)(struct FairstreamSource *);
  void *private_data;
} FairstreamSource;

/* How a run ended, for a sink. */
#define FAIRSTREAM_RUN_COMPLETE 0
#define FAIRSTREAM_RUN_STOPPED 1 /* somebody asked to stop; what was read was judged */
#define FAIRSTREAM_RUN_FAILED 2

/* An open sink. Verdicts come as struct arrays of the schema that open_sink was given:
 *
 *   time      timestamp[ns, UTC]   kind, stream   dictionary of utf8
 *   instance  utf8 (JSON array)    message        utf8
 *   and one column for each type that a value can have; exactly one of them is not null in a row of
 *   kind "value".
 */
typedef struct FairstreamSink {
  size_t size; /* in: bytes that the host knows; out: bytes that the plugin filled */
  /* Takes a batch. It belongs to the plugin from then on, whatever the call returns: the plugin calls
   * its release. */
  int32_t (*write)(struct FairstreamSink *, struct ArrowArray *batch, FairstreamError *);
  /* Makes what was written survive a crash, and says where that is: `rows` verdicts written, and in
   * `resume` what open_sink needs to go on exactly there, valid until the next call on the sink. An empty
   * `resume`: it cannot be taken up again. */
  int32_t (*flush)(struct FairstreamSink *, FairstreamProgress *out, FairstreamError *);
  /* Called once, last, whether the run went well or not. `reason` is empty unless it failed. */
  int32_t (*finish)(struct FairstreamSink *, int32_t run_end, FairstreamStr reason, FairstreamError *);
  /* Called once, after finish. */
  void (*release)(struct FairstreamSink *);
  void *private_data;
} FairstreamSink;

/* What a plugin offers. Versions of this struct differ only in what stands at the end. */
typedef struct FairstreamPlugin {
  size_t size; /* in: bytes that the host knows; out: bytes that the plugin filled */
  uint32_t minor; /* out: FAIRSTREAM_PLUGIN_MINOR of the header that the plugin was built with */

  /* All of these live as long as the library. `about` is a JSON object, every key optional:
   *   {"source": {"about": "one line", "options": [{"name": "n", "default": "10", "help": "one line"}]},
   *    "sink":   {"about": ..., "options": [...]}}
   * With options listed, the host refuses others, and names the nearest. */
  FairstreamStr name;
  FairstreamStr version;
  FairstreamStr about;

  /* Opens a source; NULL if the plugin has none. `options` is a JSON object: what the user wrote behind
   * the question mark, all strings, as in {"n": "3"}. `wanted` is a struct schema with the columns that
   * are read, borrowed. `resume` is empty, or what FairstreamProgress said in an earlier run. Fills
   * both `stream` and `source`, or neither. */
  int32_t (*open_source)(FairstreamStr options, const struct ArrowSchema *wanted, uint64_t max_rows,
                         uint64_t max_age_ms, FairstreamStr resume, struct ArrowArrayStream *stream,
                         FairstreamSource *source, FairstreamError *);
  /* Opens a sink; NULL if the plugin has none. `verdicts` is the schema of the batches, borrowed.
   * `resume` is empty, or what flush said in an earlier run: what was written after it is discarded. */
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
