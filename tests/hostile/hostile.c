/* A plugin that is worse than misbehaving.c, on which it builds: what it does is chosen by the option `mode`, and when it is
 * loaded by -DLOAD=...; sources do it when they are asked for the second batch, sinks when they are given the first. */
#define ENTRY FINE
#define fairstream_plugin_v1 misbehaving_plugin
#include "../plugins/misbehaving.c"
#undef fairstream_plugin_v1

#include <fcntl.h>
#include <stdio.h>

#ifdef LOAD
__attribute__((constructor)) static void load(void) { LOAD; }
#endif

static void write_pid(const char *name, int pid) {
  FILE *file = fopen(name, "w");
  if (!file) return;
  fprintf(file, "%d", pid);
  fclose(file);
}

static void take_all_memory(void) {
  for (;;) {
    volatile char *some = malloc(1 << 20);
    for (int at = 0; at < 1 << 20; at += 4096) some[at] = 1;
  }
}

static void be_hostile(const State *state) {
  static const char GARBAGE[] = "this is neither a frame nor an Arrow stream, and not a short one either\n";
  if (is(state, "segfault")) *(volatile int *)8 = 1;
  if (is(state, "exit")) exit(0);
  if (is(state, "abort")) abort();
  if (is(state, "loop")) for (volatile int forever = 1; forever;) {}
  if (is(state, "sleep")) for (;;) pause();
  if (is(state, "memory")) take_all_memory();
  if (is(state, "print")) printf("%s", GARBAGE), fflush(stdout);
  if (is(state, "garbage"))
    for (int fd = 3; fd < 64; fd++)
      if (write(fd, GARBAGE, sizeof GARBAGE) < 0) continue;
  if (is(state, "huge"))
    for (int fd = 3; fd < 64; fd++)
      if (write(fd, "fsB\xff\xff\xff\xff", 7) < 0) continue;
  if (is(state, "close")) {
    for (int fd = 3; fd < 64; fd++) close(fd);
    for (;;) pause();
  }
  if (is(state, "fork") && state->batches == 1) {
    int pid = fork();
    if (pid == 0) for (;;) pause();
    write_pid("other.pid", pid);
  }
}

static int hostile_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
  const State *state = stream->private_data;
  if (state->batches > 0) be_hostile(state);
  return get_next(stream, out);
}

static int32_t hostile_source(FairstreamStr options, const struct ArrowSchema *wanted, uint64_t max_rows,
                              uint64_t max_age_ms, FairstreamStr resume, struct ArrowArrayStream *stream,
                              FairstreamSource *source, FairstreamError *error) {
  write_pid("worker.pid", getpid());
  int32_t code = open_source(options, wanted, max_rows, max_age_ms, resume, stream, source, error);
  stream->get_next = hostile_next;
  return code;
}

static int32_t hostile_write(FairstreamSink *sink, struct ArrowArray *batch, FairstreamError *error) {
  be_hostile(sink->private_data);
  return write_batch(sink, batch, error);
}

static int32_t hostile_sink(FairstreamStr options, const struct ArrowSchema *verdicts, FairstreamStr resume,
                            FairstreamSink *sink, FairstreamError *error) {
  write_pid("worker.pid", getpid());
  int32_t code = open_sink(options, verdicts, resume, sink, error);
  sink->write = hostile_write;
  return code;
}

__attribute__((visibility("default"))) int32_t fairstream_plugin_v1(uint32_t host_minor, FairstreamPlugin *plugin,
                                                                    FairstreamError *error) {
  int32_t code = misbehaving_plugin(host_minor, plugin, error);
  plugin->name = TEXT("hostile");
  plugin->open_source = hostile_source;
  plugin->open_sink = hostile_sink;
  return code;
}
