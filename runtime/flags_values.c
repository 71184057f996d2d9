/* Values of flags: texts to numbers and back. */
#include "runtime/flags.h"

#include "runtime/flags_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit sizes[] = {
    {"B", 1},
    {"kB", 1000},
    {"KB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", 1000000000000},
    {"KiB", UINT64_C(1) << 10},
    {"MiB", UINT64_C(1) << 20},
    {"GiB", UINT64_C(1) << 30},
    {"TiB", UINT64_C(1) << 40},
    {NULL, 0},
};

static const struct unit durations[] = {
    {"ns", 1},
    {"us", 1000},
    {"ms", 1000000},
    {"s", 1000000000},
    {"m", UINT64_C(60) * 1000000000},
    {"min", UINT64_C(60) * 1000000000},
    {"h", UINT64_C(3600) * 1000000000},
    {"d", UINT64_C(86400) * 1000000000},
    {NULL, 0},
};

bool lh_parse_uint(const char *text, uint64_t *value)
{
    uint64_t v = 0;

    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        unsigned digit = (unsigned char)*text - (unsigned)'0';
        if (digit > 9 || v > (UINT64_MAX - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    *value = v;
    return true;
}

/* "1.5s": decimal digits, maybe a fraction, and a unit; exact, without floating point. What lies
 * below the smallest unit is cut off. */
static bool parse_quantity(
    const char *text, const struct unit *units, const char *no_unit, uint64_t *value)
{
    char digits[24];
    size_t n = strspn(text, "0123456789");
    const char *fraction = text + n;
    size_t fraction_digits = 0;
    uint64_t whole;

    if (n == 0 || n >= sizeof digits)
        return false;
    memcpy(digits, text, n);
    digits[n] = '\0';
    if (!lh_parse_uint(digits, &whole))
        return false;
    const char *name = fraction;
    if (*fraction == '.') {
        fraction++;
        fraction_digits = strspn(fraction, "0123456789");
        if (fraction_digits == 0)
            return false;
        name = fraction + fraction_digits;
    }
    if (*name == '\0' && no_unit != NULL)
        name = no_unit;
    for (; units->name != NULL; units++)
        if (strcmp(units->name, name) == 0)
            break;
    if (units->name == NULL || whole > UINT64_MAX / units->factor)
        return false;

    uint64_t numerator = 0, denominator = 1;
    for (size_t i = 0; i < fraction_digits && i < 18; i++) {
        numerator = numerator * 10 + (uint64_t)(fraction[i] - '0');
        denominator *= 10;
    }
    uint64_t v = whole * units->factor;
    uint64_t more = (uint64_t)((unsigned __int128)units->factor * numerator / denominator);
    if (v > UINT64_MAX - more)
        return false;
    *value = v + more;
    return true;
}

bool lh_parse_size(const char *text, uint64_t *bytes)
{
    return parse_quantity(text, sizes, "B", bytes);
}

bool lh_parse_duration(const char *text, struct lh_duration *duration)
{
    /* Without a unit only zero is unmistakable. */
    return parse_quantity(text, durations, strcmp(text, "0") == 0 ? "s" : NULL, &duration->ns);
}

bool lh_flag_parse_bool(const char *text, bool *value)
{
    static const char *const yes[] = {"true", "yes", "on", "1"};
    static const char *const no[] = {"false", "no", "off", "0"};

    for (size_t i = 0; i < 4; i++) {
        if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0) {
            *value = strcasecmp(text, yes[i]) == 0;
            return true;
        }
    }
    return false;
}

static void show_duration(uint64_t ns, char *to, size_t size)
{
    const struct unit *best = &durations[0];

    for (const struct unit *u = durations; u->name != NULL; u++)
        if (ns % u->factor == 0 && u->factor > best->factor && u->factor <= UINT64_C(1000000000))
            best = u;
    snprintf(to, size, "%" PRIu64 "%s", ns / best->factor, best->name);
}

static void show_size(uint64_t bytes, char *to, size_t size)
{
    const struct unit *best = &sizes[0];

    for (const struct unit *u = sizes; u->name != NULL; u++)
        if (strchr(u->name, 'i') != NULL && bytes != 0 && bytes % u->factor == 0)
            best = u;
    snprintf(to, size, "%" PRIu64 "%s", bytes / best->factor, best->factor == 1 ? "" : best->name);
}

void lh_flag_show(const struct lh_flag *f, uint64_t v, char *to, size_t size)
{
    if (f->type == LH_FLAG_DURATION)
        show_duration(v, to, size);
    else if (f->type == LH_FLAG_SIZE)
        show_size(v, to, size);
    else
        snprintf(to, size, "%" PRIu64, v);
}
