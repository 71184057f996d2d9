#include "runtime/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MESSAGE_MAX 2048
#define LINE_MAX_   (6 * MESSAGE_MAX + 256) /* every byte may become \u00xx */

static _Atomic int log_fd = STDERR_FILENO;
static _Atomic int log_threshold = LH_INFO;
static _Atomic bool log_json;

void lh_log_setup(enum lh_level threshold, bool json)
{
    atomic_store(&log_threshold, (int)threshold);
    atomic_store(&log_json, json);
}

void lh_log_to(int fd)
{
    atomic_store(&log_fd, fd);
}

const char *lh_level_name(enum lh_level level)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};

    return (unsigned)level < sizeof names / sizeof names[0] ? names[level] : "?";
}

/* "2026-01-31T12:00:00.123Z" */
static void put_time(char *to, size_t size)
{
    struct timespec t;
    struct tm utc;
    char seconds[32];

    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &utc);
    strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(to, size, "%s.%03dZ", seconds, (int)(t.tv_nsec / 1000000));
}

/* `s` as the inside of a JSON string. Bytes from 0x80 on go through: they are UTF-8, or were no
 * text to begin with. Returns the length; `to` has room for six bytes each. */
static size_t put_json(char *to, const char *s)
{
    size_t n = 0;

    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') {
            to[n++] = '\\';
            to[n++] = (char)c;
        } else if (c < 0x20 || c == 0x7f) {
            n += (size_t)sprintf(to + n, "\\u%04x", c);
        } else {
            to[n++] = (char)c;
        }
    }
    return n;
}

/* Control characters would let a peer's text forge lines. */
static size_t put_text(char *to, const char *s)
{
    size_t n = 0;

    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        to[n++] = c < 0x20 || c == 0x7f ? ' ' : (char)c;
    }
    return n;
}

void lh_log(enum lh_level level, const char *component, const char *format, ...)
{
    char message[MESSAGE_MAX];
    char line[LINE_MAX_];
    char now[48];
    va_list args;
    size_t n;

    if ((int)level < atomic_load_explicit(&log_threshold, memory_order_relaxed))
        return;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    put_time(now, sizeof now);

    if (atomic_load_explicit(&log_json, memory_order_relaxed)) {
        n = (size_t)snprintf(line, 256,
            "{\"time\":\"%s\",\"level\":\"%s\",\"component\":\"%.100s\",\"message\":\"", now,
            lh_level_name(level), component);
        n += put_json(line + n, message);
        memcpy(line + n, "\"}\n", 3);
        n += 3;
    } else {
        static const char *const columns[] = {"DEBUG", "INFO ", "WARN ", "ERROR"};
        n = (size_t)snprintf(line, 256, "%s %s %.100s: ", now, columns[level], component);
        n += put_text(line + n, message);
        line[n++] = '\n';
    }
    /* A log that cannot be written is nowhere to be complained about. */
    ssize_t ignored = write(atomic_load_explicit(&log_fd, memory_order_relaxed), line, n);
    (void)ignored;
}
