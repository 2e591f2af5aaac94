/* Preloaded into a run: while the file that FAULT names exists, changes of what has FAULT_AT in its path fail as on a disk that
 * is full, read-only or broken, by the error that the file says: 28 is "no space left", 30 "read-only", 5 "input/output error".
 * If the error is 5, only syncs fail. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

/* The error that is due, or 0. */
static int fault(void) {
  const char *file = getenv("FAULT");
  static int (*real_open)(const char *, int, ...);
  static ssize_t (*real_read)(int, void *, size_t);
  if (!real_open) real_open = dlsym(RTLD_NEXT, "open");
  if (!real_read) real_read = dlsym(RTLD_NEXT, "read");
  int fd = file ? real_open(file, O_RDONLY) : -1;
  if (fd < 0) return 0;
  char text[8] = {0};
  real_read(fd, text, sizeof text - 1);
  close(fd);
  return atoi(text);
}

static int concerns(const char *path) {
  const char *at = getenv("FAULT_AT");
  return at && path && strstr(path, at);
}

static int concerns_fd(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return concerns(path);
}

static int fails(int concerned, int is_sync) {
  if (!concerned) return 0;
  int error = fault();
  if (!error || (error == EIO && !is_sync)) return 0;
  errno = error;
  return 1;
}

ssize_t write(int fd, const void *bytes, size_t size) {
  static ssize_t (*real)(int, const void *, size_t);
  if (!real) real = dlsym(RTLD_NEXT, "write");
  if (fd > 2 && fails(concerns_fd(fd), 0)) return -1;
  return real(fd, bytes, size);
}

int fsync(int fd) {
  static int (*real)(int);
  if (!real) real = dlsym(RTLD_NEXT, "fsync");
  return fails(concerns_fd(fd), 1) ? -1 : real(fd);
}

int fdatasync(int fd) {
  static int (*real)(int);
  if (!real) real = dlsym(RTLD_NEXT, "fdatasync");
  return fails(concerns_fd(fd), 1) ? -1 : real(fd);
}

int rename(const char *from, const char *to) {
  static int (*real)(const char *, const char *);
  if (!real) real = dlsym(RTLD_NEXT, "rename");
  return fails(concerns(to), 0) ? -1 : real(from, to);
}

int mkdir(const char *path, mode_t mode) {
  static int (*real)(const char *, mode_t);
  if (!real) real = dlsym(RTLD_NEXT, "mkdir");
  return fails(concerns(path), 0) ? -1 : real(path, mode);
}
