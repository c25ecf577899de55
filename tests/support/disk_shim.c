// Loaded into a node with LD_PRELOAD: records what it does to files and when it answers, and fails
// what the test asks it to. The folder in WASMKEEP_TEST_DISK holds
//   log        "fsync PATH", "unlink PATH", "send FIRST-LINE", one a line, in the order in which
//              the calls returned (a send: in which it began); a failed call has a "!" behind its name
//   fail       "OPERATION END-OF-PATH" a line: such calls fail, with EIO or, for "write", ENOSPC
//   fail-once  the same, and the file goes with the first call that fails
//   slow       "fsync END-OF-PATH" a line: such calls take 100 ms longer, and say "slow-fsync PATH"
//              when they begin
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int open_in_folder(const char *name, int flags) {
    const char *folder = getenv("WASMKEEP_TEST_DISK");
    char path[4096];
    if (!folder) return -1;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600);
}

static void record(const char *operation, const char *what) {
    int kept = errno;
    char line[4300];
    int length = snprintf(line, sizeof line, "%s %s\n", operation, what);
    int fd = open_in_folder("log", O_WRONLY | O_APPEND | O_CREAT);
    if (fd >= 0) {
        syscall(SYS_write, fd, line, length);
        syscall(SYS_close, fd);
    }
    errno = kept;
}

static int ends_with(const char *text, const char *end) {
    size_t all = strlen(text), part = strlen(end);
    return part <= all && strcmp(text + all - part, end) == 0;
}

static int is_listed(const char *file, const char *operation, const char *path) {
    char text[4096];
    int fd = open_in_folder(file, O_RDONLY);
    if (fd < 0) return 0;
    long length = syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    text[length > 0 ? length : 0] = 0;
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n"))) {
        char *space = strchr(line, ' ');
        if (!space) continue;
        *space = 0;
        if (strcmp(line, operation) == 0 && ends_with(path, space + 1)) return 1;
    }
    return 0;
}

static int must_fail(const char *operation, const char *path) {
    int kept = errno, fails = is_listed("fail", operation, path);
    if (!fails && is_listed("fail-once", operation, path)) {
        char once[4096];
        snprintf(once, sizeof once, "%s/fail-once", getenv("WASMKEEP_TEST_DISK"));
        fails = syscall(SYS_unlinkat, AT_FDCWD, once, 0) == 0;
    }
    errno = kept;
    return fails;
}

static const char *path_of(int fd, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, size - 1);
    path[length > 0 ? length : 0] = 0;
    return path;
}

static int sync_with(long number, int fd) {
    char buffer[4096];
    const char *path = path_of(fd, buffer, sizeof buffer);
    if (must_fail("fsync", path)) {
        record("fsync!", path);
        errno = EIO;
        return -1;
    }
    if (is_listed("slow", "fsync", path)) {
        record("slow-fsync", path);
        usleep(100 * 1000);
    }
    int result = (int)syscall(number, fd);
    record(result == 0 ? "fsync" : "fsync!", path);
    return result;
}

int fsync(int fd) { return sync_with(SYS_fsync, fd); }
int fdatasync(int fd) { return sync_with(SYS_fdatasync, fd); }

int unlink(const char *path) {
    if (must_fail("unlink", path)) {
        record("unlink!", path);
        errno = EIO;
        return -1;
    }
    int result = (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    record(result == 0 ? "unlink" : "unlink!", path);
    return result;
}

static void record_answer(const void *bytes, size_t length) {
    char first[64];
    if (length < 5 || memcmp(bytes, "HTTP/", 5) != 0) return;
    size_t at = 0;
    const char *text = bytes;
    while (at < length && at < sizeof first - 1 && text[at] != '\r') {
        first[at] = text[at];
        at++;
    }
    first[at] = 0;
    record("send", first);
}

ssize_t send(int fd, const void *bytes, size_t length, int flags) {
    record_answer(bytes, length);
    return syscall(SYS_sendto, fd, bytes, length, flags, NULL, 0);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (count > 0) record_answer(parts[0].iov_base, parts[0].iov_len);
    return syscall(SYS_writev, fd, parts, count);
}

ssize_t write(int fd, const void *bytes, size_t length) {
    record_answer(bytes, length);
    return syscall(SYS_write, fd, bytes, length);
}

static ssize_t write_at(int fd, const void *bytes, size_t length, off64_t at) {
    char path[4096];
    if (must_fail("write", path_of(fd, path, sizeof path))) {
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_pwrite64, fd, bytes, length, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) {
    return write_at(fd, bytes, length, at);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
    return write_at(fd, bytes, length, at);
}
