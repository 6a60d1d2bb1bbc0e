/* Faults of disk and clock, put between a process and libc by LD_PRELOAD.
 *
 * FAULTS_FOLDER   files below this folder are meant; others are left alone
 * FAULTS_CONTROL  a file of 8 int64, shared with whoever orders the faults:
 *                 0 seconds added to the wall clock
 *                 1 microseconds that every sync takes longer
 *                 2 writes fail with ENOSPC while 1
 *                 3 syncs fail with EIO while 1
 *                 4 the process kills itself at the n-th write or sync from now; 0 is never
 *                 5 how many writes and syncs there were
 *                 6 syncs do nothing and say that all is well while 1
 * FAULTS_SHADOW   a folder that holds, of every file, what was last synced: what a power cut leaves at worst
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *control;
static const char *folder, *shadow;
static size_t length;

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULTS_CONTROL");
    folder = getenv("FAULTS_FOLDER");
    shadow = getenv("FAULTS_SHADOW");
    if (!path || !folder) return;
    length = strlen(folder);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void *map = mmap(NULL, 64, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (map != MAP_FAILED) control = map;
}

static int meant(int file, char *path) {
    if (!control) return 0;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t got = readlink(link, path, PATH_MAX - 1);
    if (got <= 0) return 0;
    path[got] = 0;
    return strncmp(path, folder, length) == 0;
}

/* Whether the process is to die at this call. */
static int last(void) {
    __atomic_add_fetch(&control[5], 1, __ATOMIC_SEQ_CST);
    if (control[4] <= 0) return 0;
    return __atomic_sub_fetch(&control[4], 1, __ATOMIC_SEQ_CST) == 0;
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static void named(char *out, const char *path) {
    snprintf(out, PATH_MAX, "%s/%s", shadow, path + 1);
    for (char *c = out + strlen(shadow) + 1; *c; c++)
        if (*c == '/') *c = '%';
}

static void keep(int file, const char *path) {
    char name[PATH_MAX], fresh[PATH_MAX];
    struct stat facts;
    if (!shadow || fstat(file, &facts) || !S_ISREG(facts.st_mode)) return;
    named(name, path);
    snprintf(fresh, sizeof fresh, "%.4000s.new", name);
    int out = open(fresh, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int in = open(path, O_RDONLY);
    static __thread char block[1 << 16];
    ssize_t got;
    REAL(ssize_t, "write", int, const void *, size_t);
    while (in >= 0 && out >= 0 && (got = read(in, block, sizeof block)) > 0) real(out, block, got);
    if (in >= 0) close(in);
    if (out >= 0) close(out);
    rename(fresh, name);
}

#define WRITER(...) \
    char path[PATH_MAX]; \
    if (meant(file, path)) { \
        if (control[2]) { errno = ENOSPC; return -1; } \
        if (last()) { real(file, data, size / 2 __VA_ARGS__); die(); } \
    } \
    return real(file, data, size __VA_ARGS__)

ssize_t write(int file, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    WRITER();
}

ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
    REAL(ssize_t, "pwrite", int, const void *, size_t, off_t);
    WRITER(, at);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    WRITER(, at);
}

static int synced(int file, int (*real)(int)) {
    char path[PATH_MAX];
    if (!meant(file, path)) return real(file);
    if (control[1] > 0) usleep((useconds_t)control[1]);
    if (control[3]) { errno = EIO; return -1; }
    if (last()) die();
    if (control[6]) return 0;
    int status = real(file);
    if (status == 0) keep(file, path);
    return status;
}

int fsync(int file) {
    REAL(int, "fsync", int);
    return synced(file, real);
}

int fdatasync(int file) {
    REAL(int, "fdatasync", int);
    return synced(file, real);
}

static void follow(const char *from, const char *to) {
    char a[PATH_MAX], b[PATH_MAX], old[PATH_MAX], new[PATH_MAX];
    if (!control || !shadow || !realpath(to, b)) return;
    (void)a;
    char slashed[PATH_MAX];
    snprintf(slashed, sizeof slashed, "%s", from);
    char *end = strrchr(slashed, '/');
    if (!end) return;
    *end = 0;
    if (!realpath(slashed, a) || strncmp(b, folder, length)) return;
    char whole[2 * PATH_MAX];
    snprintf(whole, sizeof whole, "%s/%s", a, end + 1);
    whole[PATH_MAX - 1] = 0;
    named(old, whole);
    named(new, b);
    REAL(int, "rename", const char *, const char *);
    real(old, new);
}

int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *);
    int status = real(from, to);
    if (status == 0) follow(from, to);
    return status;
}

int clock_gettime(clockid_t which, struct timespec *out) {
    REAL(int, "clock_gettime", clockid_t, struct timespec *);
    int status = real(which, out);
    if (status == 0 && control && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE))
        out->tv_sec += control[0];
    return status;
}

int gettimeofday(struct timeval *out, void *zone) {
    REAL(int, "gettimeofday", struct timeval *, void *);
    int status = real(out, zone);
    if (status == 0 && control) out->tv_sec += control[0];
    return status;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
