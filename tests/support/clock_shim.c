// Loaded into a node with LD_PRELOAD: its wall clock is off by the seconds that stand in the file
// WASMKEEP_TEST_CLOCK, which may change while it runs. Clocks that nobody sets are left alone.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long off_by(void) {
    const char *path = getenv("WASMKEEP_TEST_CLOCK");
    char text[32] = {0};
    if (!path) return 0;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    return atol(text);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        now->tv_sec += off_by();
    }
    return result;
}

int gettimeofday(struct timeval *now, void *zone) {
    int result = (int)syscall(SYS_gettimeofday, now, zone);
    if (result == 0 && now) now->tv_sec += off_by();
    return result;
}

time_t time(time_t *to) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to) *to = now.tv_sec;
    return now.tv_sec;
}
