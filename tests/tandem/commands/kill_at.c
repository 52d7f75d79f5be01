/* Preloaded: kills the process at the TANDEM_KILL_AT-th call that changes files, before it is made; 0 counts them into
   TANDEM_KILL_COUNT when the process ends. Writes to the standard streams do not count. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_long calls;

static void point(void) {
  const char* at = getenv("TANDEM_KILL_AT");
  if (at && atomic_fetch_add(&calls, 1) + 1 == atol(at)) kill(getpid(), SIGKILL);
}

__attribute__((destructor)) static void tell(void) {
  const char* path = getenv("TANDEM_KILL_COUNT");
  FILE* file = path ? fopen(path, "w") : NULL;
  if (!file) return;
  fprintf(file, "%ld\n", atomic_load(&calls));
  fclose(file);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void* bytes, size_t n) {
  if (file > 2) point();
  return NEXT(write)(file, bytes, n);
}
int fsync(int file) { point(); return NEXT(fsync)(file); }
int rename(const char* from, const char* to) { point(); return NEXT(rename)(from, to); }
int renameat2(int a, const char* from, int b, const char* to, unsigned how) { point(); return NEXT(renameat2)(a, from, b, to, how); }
int unlink(const char* path) { point(); return NEXT(unlink)(path); }
int unlinkat(int folder, const char* path, int how) { point(); return NEXT(unlinkat)(folder, path, how); }
int mkdir(const char* path, mode_t mode) { point(); return NEXT(mkdir)(path, mode); }
int open(const char* path, int how, ...) {
  va_list more;
  va_start(more, how);
  const mode_t mode = how & O_CREAT ? va_arg(more, mode_t) : 0;
  va_end(more);
  if (how & O_CREAT) point();
  return NEXT(open)(path, how, mode);
}
