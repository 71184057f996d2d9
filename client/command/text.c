/* Values as text on a terminal and back. */
#include "client/command/command.h"

#include "base/plural.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *lh_command_bytes(char text[32], uint64_t bytes)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1000 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1000;
        unit++;
    }
    if (unit == 0)
        (void)snprintf(text, 32, "%" PRIu64 " byte%s", bytes, lh_plural(bytes));
    else
        (void)snprintf(text, 32, "%.1f %s", value, units[unit]);
    return text;
}

const char *lh_command_position(char text[48], struct lh_position position)
{
    (void)snprintf(text, 48, "%" PRIu64 ":%" PRIu32, position.offset, position.index);
    return text;
}

bool lh_command_parse_position(const char *text, struct lh_position *position)
{
    const char *colon = strchr(text, ':');
    char offset[32];
    uint64_t index = 0;
    size_t size = colon != NULL ? (size_t)(colon - text) : strlen(text);
    if (size >= sizeof offset)
        return false;
    memcpy(offset, text, size);
    offset[size] = '\0';
    if (!lh_parse_uint(offset, &position->offset) ||
        (colon != NULL && !lh_parse_uint(colon + 1, &index)) || index > UINT32_MAX)
        return false;
    position->index = (uint32_t)index;
    return true;
}

bool lh_command_parse_delimiter(const char *text, uint8_t *delimiter)
{
    static const struct {
        char letter;
        uint8_t byte;
    } escapes[] = {{'n', '\n'}, {'t', '\t'}, {'r', '\r'}, {'0', '\0'}, {'\\', '\\'}};

    if (text[0] == '\\' && text[1] == 'x') {
        char *end;
        unsigned long byte = strtoul(text + 2, &end, 16);
        *delimiter = (uint8_t)byte;
        return strlen(text) == 4 && *end == '\0' && byte <= UINT8_MAX;
    }
    if (text[0] == '\\' && text[1] != '\0' && text[2] == '\0') {
        for (size_t i = 0; i < sizeof escapes / sizeof escapes[0]; i++) {
            if (escapes[i].letter == text[1]) {
                *delimiter = escapes[i].byte;
                return true;
            }
        }
        return false;
    }
    *delimiter = (uint8_t)text[0];
    return text[0] != '\0' && text[1] == '\0';
}

uint64_t lh_command_token_of(const char *lock)
{
    const char *name = getenv("LEASEHOLD_LOCK"), *text = getenv("LEASEHOLD_TOKEN");
    uint64_t token = 0;

    if (name == NULL || text == NULL || strcmp(name, lock) != 0 || !lh_parse_uint(text, &token))
        return 0;
    return token;
}

const char *lh_command_duration(char text[32], uint64_t ms)
{
    static const struct {
        double ms;
        const char *unit;
    } units[] = {{86400e3, "days"}, {3600e3, "h"}, {60e3, "min"}};

    /* Two of a unit at least: "90 s" says more than "1.5 min". */
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if ((double)ms >= 2 * units[i].ms) {
            (void)snprintf(text, 32, "%.1f %s", (double)ms / units[i].ms, units[i].unit);
            return text;
        }
    }
    (void)snprintf(text, 32, "%.1f s", (double)ms / 1000);
    return text;
}

const char *lh_command_time(char text[32], uint64_t unix_ms)
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm parts;
    if (gmtime_r(&seconds, &parts) == NULL || strftime(text, 32, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        (void)snprintf(text, 32, "%" PRIu64, unix_ms);
    return text;
}

const char *lh_command_shown(const char *text)
{
    static _Thread_local char rooms[8][8192];
    static _Thread_local unsigned last;
    char *room = rooms[++last % 8];

    (void)lh_text_show(room, sizeof rooms[0], text);
    return room;
}

const char *lh_command_or_dash(const char *text)
{
    return text[0] != '\0' ? text : "-";
}

const char *lh_command_server_admin(enum lh_server_admin admin)
{
    switch (admin) {
    case LH_SERVER_ACTIVE:
        return "active";
    case LH_SERVER_DRAINING:
        return "draining";
    case LH_SERVER_DECOMMISSIONING:
        return "decommissioning";
    }
    return "unknown"; /* a newer master's */
}

const char *lh_command_server_state(const struct lh_server_info *s)
{
    if (!s->live)
        return "away";
    if (s->read_only)
        return "disk read-only";
    if (s->failing)
        return "disk failing";
    if (!s->reachable)
        return "unreachable";
    return s->unheard[0] == '\0' ? "live" : "unheard";
}

uint64_t lh_command_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void lh_command_pause(uint64_t ms)
{
    struct timespec left = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000 * 1000000)};

    while (nanosleep(&left, &left) != 0)
        continue;
}
