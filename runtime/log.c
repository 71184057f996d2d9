#include "runtime/log.h"

#include "base/text.h"
#include "runtime/sink.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MESSAGE_MAX 2048
#define PREFIX_MAX  256
#define LINE_MAX_   (LH_TEXT_SHOWN_MAX * MESSAGE_MAX + PREFIX_MAX)

/* A text that comes more often than this within REPEAT_S is counted, not written; what was counted
 * is said once that time is over. */
#define BURST    4u
#define REPEAT_S 5u

/* How long the end of the process waits for whoever reads its lines. */
#define FLUSH_MS 1000u

/* So many texts are told apart at a time; the one that began first makes room. */
#define TEXTS 32u

struct text {
    enum lh_level level;
    const char *component;
    char message[MESSAGE_MAX];
    uint64_t hash, since_ns; /* `since_ns` 0: free */
    uint64_t written, counted;
};

static pthread_mutex_t texts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct text texts[TEXTS];
static uint64_t first_end_ns = UINT64_MAX; /* no text's time is over before this */

static _Atomic int log_threshold = LH_INFO;
static _Atomic bool log_json;

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

/* `s` as the inside of a JSON string, whatever its bytes are; those that are no UTF-8 become \xHH.
 * Returns the length; `to` has room for LH_TEXT_SHOWN_MAX bytes each. */
static size_t put_json(char *to, const char *s)
{
    size_t size = strlen(s), n = 0;

    for (size_t at = 0; at < size;) {
        uint32_t c;
        size_t bytes = lh_utf8_char(s + at, size - at, &c);
        if (bytes == 0) {
            n += (size_t)sprintf(to + n, "\\\\x%02x", (unsigned)(uint8_t)s[at]);
        } else if (c == '"' || c == '\\') {
            to[n++] = '\\';
            to[n++] = (char)c;
        } else if (!lh_char_is_plain(c)) {
            n += (size_t)sprintf(to + n, "\\u%04x", c & 0xffff);
        } else {
            memcpy(to + n, s + at, bytes);
            n += bytes;
        }
        at += bytes == 0 ? 1 : bytes;
    }
    return n;
}

/* `line` has room for LINE_MAX_ bytes, or for a shorter message. `repeated`: so many times more
 * than was written. Returns the length. */
static size_t form_line(char *line, size_t size, enum lh_level level, const char *component,
    const char *message, uint64_t repeated)
{
    char now[48];
    size_t n;

    put_time(now, sizeof now);
    if (atomic_load_explicit(&log_json, memory_order_relaxed)) {
        n = (size_t)snprintf(line, PREFIX_MAX,
            "{\"time\":\"%s\",\"level\":\"%s\",\"component\":\"%.100s\",\"message\":\"", now,
            lh_level_name(level), component);
        n += put_json(line + n, message);
        line[n++] = '"';
        if (repeated > 0)
            n += (size_t)snprintf(line + n, 64, ",\"repeated\":%" PRIu64, repeated);
        line[n++] = '}';
    } else {
        static const char *const columns[] = {"DEBUG", "INFO ", "WARN ", "ERROR"};
        n = (size_t)snprintf(line, PREFIX_MAX, "%s %s %.100s: ", now, columns[level], component);
        /* Control characters would let a peer's text forge lines. */
        n += lh_text_show(line + n, size - n - 80, message);
        if (repeated > 0)
            n += (size_t)snprintf(line + n, 64, " (repeated %" PRIu64 " times)", repeated);
    }
    line[n++] = '\n';
    return n;
}

static void put_line(
    enum lh_level level, const char *component, const char *message, uint64_t repeated)
{
    char line[LINE_MAX_];

    lh_sink_put(line, form_line(line, sizeof line, level, component, message, repeated));
}

static size_t form_gap(char *to, size_t size, uint64_t lines)
{
    char message[80];

    (void)snprintf(message, sizeof message,
        "%" PRIu64 " lines were dropped: whoever reads them did not", lines);
    return form_line(to, size, LH_WARN, "log", message, 0);
}

void lh_log_setup(enum lh_level threshold, bool json)
{
    static _Atomic bool registered;

    if (!atomic_exchange(&registered, true)) {
        lh_sink_on_gap(form_gap);
        (void)atexit(lh_log_flush);
    }
    atomic_store(&log_threshold, (int)threshold);
    atomic_store(&log_json, json);
}

/* ---- Texts that come again and again. */

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t hash_of(enum lh_level level, const char *component, const char *message)
{
    uint64_t hash = 14695981039346656037u + (uint64_t)level;

    for (const char *s = component; *s != '\0'; s++)
        hash = (hash ^ (unsigned char)*s) * 1099511628211u;
    for (const char *s = message; *s != '\0'; s++)
        hash = (hash ^ (unsigned char)*s) * 1099511628211u;
    return hash;
}

/* The text's time is over. */
static void end_text(struct text *t)
{
    if (t->counted > 0)
        put_line(t->level, t->component, t->message, t->counted);
    t->since_ns = t->counted = 0;
}

/* Ends those whose time is over, all if `now` is UINT64_MAX. */
static void end_texts(uint64_t now)
{
    const uint64_t most = REPEAT_S * UINT64_C(1000000000);

    if (now < first_end_ns)
        return;
    first_end_ns = UINT64_MAX;
    for (size_t i = 0; i < TEXTS; i++) {
        struct text *t = &texts[i];
        if (t->since_ns != 0 && now - t->since_ns >= most)
            end_text(t);
        if (t->since_ns != 0 && t->since_ns + most < first_end_ns)
            first_end_ns = t->since_ns + most;
    }
}

/* Is this one to be written? It is counted otherwise. */
static bool note_text(enum lh_level level, const char *component, const char *message)
{
    uint64_t now = now_ns(), hash = hash_of(level, component, message);
    struct text *place = &texts[0];

    end_texts(now);
    for (size_t i = 0; i < TEXTS; i++) {
        struct text *t = &texts[i];
        if (t->since_ns != 0 && t->hash == hash && strcmp(t->message, message) == 0) {
            bool more = t->written < BURST;
            *(more ? &t->written : &t->counted) += 1;
            return more;
        }
        if (t->since_ns < place->since_ns)
            place = t;
    }
    end_text(place);
    *place = (struct text){.level = level, .component = component, .hash = hash, .since_ns = now};
    strcpy(place->message, message);
    place->written = 1;
    if (now + REPEAT_S * UINT64_C(1000000000) < first_end_ns)
        first_end_ns = now + REPEAT_S * UINT64_C(1000000000);
    return true;
}

void lh_log_flush(void)
{
    pthread_mutex_lock(&texts_lock);
    end_texts(UINT64_MAX);
    pthread_mutex_unlock(&texts_lock);
    lh_sink_flush(lh_milliseconds(FLUSH_MS));
}

void lh_log(enum lh_level level, const char *component, const char *format, ...)
{
    char message[MESSAGE_MAX];
    va_list args;

    if ((int)level < atomic_load_explicit(&log_threshold, memory_order_relaxed))
        return;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    pthread_mutex_lock(&texts_lock);
    if (note_text(level, component, message))
        put_line(level, component, message, 0);
    pthread_mutex_unlock(&texts_lock);
}
