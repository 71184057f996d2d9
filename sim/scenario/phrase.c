#include "sim/scenario/phrase.h"

#include "base/assert.h"
#include "base/time.h"
#include "sim/cluster/program.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Words ---- */

int lh_sim_words_split(
    struct lh_sim_words *w, const char *line, size_t size, char *text, size_t text_size)
{
    *w = (struct lh_sim_words){0};
    if (size > LH_SIM_LINE_MAX) {
        (void)snprintf(
            text, text_size, "a line of %zu bytes, expected at most %d", size, LH_SIM_LINE_MAX);
        return LH_ERR_INVALID_ARGUMENT;
    }
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)line[i];
        bool space = c == ' ' || c == '\t' || c == '\r';
        bool begins = i == 0 || w->storage[i - 1] == '\0';
        if (c == '#' && begins)
            break;
        if (!space && (c < 0x21 || c > 0x7e)) {
            (void)snprintf(text, text_size,
                "found a byte %02x, expected printable ASCII (outside of comments)", c);
            return LH_ERR_INVALID_ARGUMENT;
        }
        w->storage[i] = space ? '\0' : (char)c;
        if (space || !begins)
            continue;
        if (w->count == LH_SIM_WORDS_MAX) {
            (void)snprintf(
                text, text_size, "found more words, expected at most %d", LH_SIM_WORDS_MAX);
            return LH_ERR_INVALID_ARGUMENT;
        }
        w->word[w->count++] = &w->storage[i];
    }
    return LH_OK;
}

const char *lh_sim_words_peek(const struct lh_sim_words *w)
{
    return w->at < w->count ? w->word[w->at] : NULL;
}

static void expected(struct lh_sim_words *w, const char *what, size_t length, bool literal)
{
    if (w->at < w->furthest)
        return;
    if (w->at > w->furthest) {
        w->furthest = w->at;
        w->expected_count = 0;
    }
    for (size_t i = 0; i < w->expected_count; i++)
        if (w->expected[i].length == length && memcmp(w->expected[i].what, what, length) == 0)
            return;
    if (w->expected_count == LH_SIM_EXPECTED_MAX)
        return;
    w->expected[w->expected_count].what = what;
    w->expected[w->expected_count].length = length;
    w->expected[w->expected_count++].literal = literal;
}

void lh_sim_words_expected(struct lh_sim_words *w, const char *what)
{
    expected(w, what, strlen(what), false);
}

bool lh_sim_words_take(struct lh_sim_words *w, const char *word)
{
    const char *next = lh_sim_words_peek(w);

    if (next == NULL || strcmp(next, word) != 0) {
        expected(w, word, strlen(word), true);
        return false;
    }
    w->at++;
    return true;
}

bool lh_sim_words_end(struct lh_sim_words *w)
{
    if (lh_sim_words_peek(w) == NULL)
        return true;
    lh_sim_words_expected(w, "the end of the line");
    return false;
}

struct lh_sim_text lh_sim_text_at(char *to, size_t size)
{
    LH_ASSERT(size > 0);
    to[0] = '\0';
    return (struct lh_sim_text){.to = to, .size = size};
}

static void add(struct lh_sim_text *t, const char *format, va_list args)
{
    int n = vsnprintf(t->to + t->used, t->size - t->used, format, args);

    LH_ASSERT(n >= 0);
    t->used += (size_t)n < t->size - t->used ? (size_t)n : t->size - t->used - 1;
}

static void append(struct lh_sim_text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void append(struct lh_sim_text *t, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add(t, format, args);
    va_end(args);
}

void lh_sim_text_add(struct lh_sim_text *t, const char *format, ...)
{
    va_list args;

    if (t->used > 0)
        append(t, " ");
    va_start(args, format);
    add(t, format, args);
    va_end(args);
}

void lh_sim_words_error(const struct lh_sim_words *w, char *text, size_t text_size)
{
    struct lh_sim_text t = lh_sim_text_at(text, text_size);

    if (w->furthest < w->count)
        append(&t, "found \"%s\"", w->word[w->furthest]);
    else
        append(&t, "found the end of the line");
    for (size_t i = 0; i < w->expected_count; i++) {
        const char *before = i == 0 ? ", expected " : i + 1 < w->expected_count ? ", " : " or ";
        const char *quote = w->expected[i].literal ? "\"" : "";
        append(&t, "%s%s%.*s%s", before, quote, (int)w->expected[i].length, w->expected[i].what,
            quote);
    }
}

/* ---- Patterns ---- */

struct token {
    enum { END, WORD, SLOT, GROUP, GROUP_END } kind;
    const char *text; /* a word's or a slot's, in the pattern */
    size_t length;
};

static struct token next_token(const char **pattern)
{
    const char *p = *pattern + strspn(*pattern, " ");
    struct token token = {.kind = WORD, .text = p};

    if (*p == '\0')
        return (struct token){.kind = END};
    if (*p == '[' || *p == ']') {
        *pattern = p + 1;
        token.kind = *p == '[' ? GROUP : GROUP_END;
        return token;
    }
    if (*p == '<') {
        token = (struct token){.kind = SLOT, .text = p + 1, .length = strcspn(p + 1, ">")};
        LH_ASSERT(token.text[token.length] == '>');
        *pattern = token.text + token.length + 1;
        return token;
    }
    token.length = strcspn(p, " ]");
    *pattern = p + token.length;
    return token;
}

static const char *after_group(const char *pattern)
{
    const char *end = strchr(pattern, ']');

    LH_ASSERT(end != NULL);
    return end + 1;
}

static const struct lh_sim_slot *find_slot(const struct lh_sim_slot *slots, struct token token)
{
    while (slots->name != NULL && (strlen(slots->name) != token.length ||
                                      memcmp(slots->name, token.text, token.length) != 0))
        slots++;
    LH_ASSERT(slots->name != NULL);
    return slots;
}

static bool next_is(struct lh_sim_words *w, struct token token)
{
    const char *next = lh_sim_words_peek(w);

    if (next != NULL && strlen(next) == token.length && memcmp(next, token.text, token.length) == 0)
        return true;
    expected(w, token.text, token.length, true);
    return false;
}

static bool parse_slot(const struct lh_sim_slot_type *type, struct lh_sim_words *w, void *to)
{
    if (type->choices == NULL)
        return type->parse(w, to);
    for (const struct lh_sim_choice *c = type->choices; c->word != NULL; c++) {
        if (!lh_sim_words_take(w, c->word))
            continue;
        LH_ASSERT(type->size == sizeof c->value);
        memcpy(to, &c->value, sizeof c->value);
        return true;
    }
    return false;
}

static void print_slot(const struct lh_sim_slot_type *type, struct lh_sim_text *t, const void *from)
{
    if (type->print != NULL)
        type->print(t, from);
    for (const struct lh_sim_choice *c = type->choices; c != NULL && c->word != NULL; c++)
        if (memcmp(from, &c->value, sizeof c->value) == 0)
            lh_sim_text_add(t, "%s", c->word);
}

static bool parse_sequence(
    const struct lh_sim_slot *slots, const char **pattern, struct lh_sim_words *w, void *to);

#define GROUPS_MAX 16

/* A run of groups, `*pattern` being behind the first one's bracket. */
static bool parse_groups(
    const struct lh_sim_slot *slots, const char **pattern, struct lh_sim_words *w, void *to)
{
    const char *groups[GROUPS_MAX];
    size_t count = 0, i;

    for (const char *ahead = *pattern;; ahead = *pattern) {
        LH_ASSERT(count < GROUPS_MAX);
        groups[count++] = ahead;
        *pattern = ahead = after_group(ahead);
        if (next_token(&ahead).kind != GROUP)
            break;
        *pattern = ahead;
    }
    do {
        for (i = 0; i < count; i++) {
            const char *group = groups[i], *inside = group;
            if (group == NULL || !next_is(w, next_token(&inside)))
                continue;
            groups[i] = NULL;
            if (!parse_sequence(slots, &group, w, to))
                return false;
            break;
        }
    } while (i < count);
    return true;
}

static bool parse_sequence(
    const struct lh_sim_slot *slots, const char **pattern, struct lh_sim_words *w, void *to)
{
    for (;;) {
        struct token token = next_token(pattern);
        const struct lh_sim_slot *slot;
        switch (token.kind) {
        case END:
        case GROUP_END:
            return true;
        case WORD:
            if (!next_is(w, token))
                return false;
            w->at++;
            break;
        case SLOT:
            slot = find_slot(slots, token);
            if (!parse_slot(slot->type, w, (char *)to + slot->offset))
                return false;
            break;
        case GROUP:
            if (!parse_groups(slots, pattern, w, to))
                return false;
            break;
        }
    }
}

bool lh_sim_phrase_parse(
    const struct lh_sim_slot *slots, const char *pattern, struct lh_sim_words *w, void *to)
{
    return parse_sequence(slots, &pattern, w, to);
}

/* Up to the pattern's end, or the end of the group that it is the inside of. */
bool lh_sim_phrase_differs(
    const struct lh_sim_slot *slots, const char *pattern, const void *from, const void *defaults)
{
    for (;;) {
        struct token token = next_token(&pattern);
        if (token.kind == END || token.kind == GROUP_END)
            return false;
        if (token.kind != SLOT)
            continue;
        const struct lh_sim_slot *slot = find_slot(slots, token);
        if (memcmp((const char *)from + slot->offset, (const char *)defaults + slot->offset,
                slot->type->size) != 0)
            return true;
    }
}

void lh_sim_phrase_print(const struct lh_sim_slot *slots, const char *pattern, const void *from,
    const void *defaults, struct lh_sim_text *t)
{
    for (;;) {
        struct token token = next_token(&pattern);
        const struct lh_sim_slot *slot;
        switch (token.kind) {
        case END:
            return;
        case GROUP_END:
            break;
        case WORD:
            lh_sim_text_add(t, "%.*s", (int)token.length, token.text);
            break;
        case SLOT:
            slot = find_slot(slots, token);
            print_slot(slot->type, t, (const char *)from + slot->offset);
            break;
        case GROUP:
            if (!lh_sim_phrase_differs(slots, pattern, from, defaults))
                pattern = after_group(pattern);
            break;
        }
    }
}

/* ---- Plain types ---- */

/* Digits at `*text`, which is moved behind them. False: there are none, or the number is above
 * `max`. */
static bool read_digits(const char **text, uint64_t max, uint64_t *number)
{
    const char *p = *text;

    *number = 0;
    if (*p < '0' || *p > '9')
        return false;
    for (; *p >= '0' && *p <= '9'; p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (*number > (max - digit) / 10)
            return false;
        *number = *number * 10 + digit;
    }
    *text = p;
    return true;
}

static bool parse_flag(struct lh_sim_words *w, void *to)
{
    (void)w;
    *(bool *)to = true;
    return true;
}

/* UINT64_MAX is "unlimited", and only that. */
static bool parse_number(struct lh_sim_words *w, void *to)
{
    const char *p = lh_sim_words_peek(w);
    uint64_t number = UINT64_MAX;

    if (p != NULL && strcmp(p, "unlimited") != 0) {
        if (!read_digits(&p, UINT64_MAX - 1, &number) || *p != '\0')
            p = NULL;
    }
    if (p == NULL) {
        lh_sim_words_expected(w, "a number");
        return false;
    }
    *(uint64_t *)to = number;
    w->at++;
    return true;
}

static void print_number(struct lh_sim_text *t, const void *from)
{
    uint64_t number = *(const uint64_t *)from;

    if (number == UINT64_MAX)
        lh_sim_text_add(t, "unlimited");
    else
        lh_sim_text_add(t, "%" PRIu64, number);
}

/* False: `what` was expected. */
static bool take_digits(struct lh_sim_words *w, uint64_t max, const char *what, uint64_t *number)
{
    const char *p = lh_sim_words_peek(w);

    if (p == NULL || !read_digits(&p, max, number) || *p != '\0') {
        lh_sim_words_expected(w, what);
        return false;
    }
    w->at++;
    return true;
}

static bool parse_seed(struct lh_sim_words *w, void *to)
{
    uint64_t number;

    if (!take_digits(w, UINT64_MAX, "a number below 18446744073709551616", &number))
        return false;
    *(uint64_t *)to = number;
    return true;
}

static void print_seed(struct lh_sim_text *t, const void *from)
{
    lh_sim_text_add(t, "%" PRIu64, *(const uint64_t *)from);
}

static bool parse_small(struct lh_sim_words *w, void *to)
{
    uint64_t number;

    if (!take_digits(w, UINT32_MAX, "a number below 4294967296", &number))
        return false;
    *(uint32_t *)to = (uint32_t)number;
    return true;
}

static void print_small(struct lh_sim_text *t, const void *from)
{
    lh_sim_text_add(t, "%" PRIu32, *(const uint32_t *)from);
}

static const struct unit {
    const char *name;
    uint64_t of;
} size_units[] = {{"GiB", UINT64_C(1) << 30}, {"MiB", 1u << 20}, {"KiB", 1u << 10}, {"B", 1}},
  duration_units[] = {{"h", UINT64_C(3600000000000)}, {"m", UINT64_C(60000000000)},
      {"s", 1000000000}, {"ms", 1000000}, {"us", 1000}, {"ns", 1}};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const struct unit *find_unit(const struct unit *units, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(units[i].name, name) == 0)
            return &units[i];
    return NULL;
}

static bool parse_size(struct lh_sim_words *w, void *to)
{
    const char *p = lh_sim_words_peek(w);
    uint64_t number = 0;
    const struct unit *unit;

    if (p != NULL && strcmp(p, "unlimited") == 0) {
        *(uint64_t *)to = UINT64_MAX;
        w->at++;
        return true;
    }
    if (p == NULL || !read_digits(&p, UINT64_MAX - 1, &number) ||
        (unit = find_unit(size_units, COUNT(size_units), p)) == NULL ||
        number > (UINT64_MAX - 1) / unit->of) {
        lh_sim_words_expected(w, "a size such as 100B or 64KiB");
        return false;
    }
    *(uint64_t *)to = number * unit->of;
    w->at++;
    return true;
}

static void print_size(struct lh_sim_text *t, const void *from)
{
    uint64_t size = *(const uint64_t *)from;
    size_t i = 0;

    if (size == UINT64_MAX) {
        lh_sim_text_add(t, "unlimited");
        return;
    }
    while (size % size_units[i].of != 0 || (size == 0 && size_units[i].of > 1))
        i++;
    lh_sim_text_add(t, "%" PRIu64 "%s", size / size_units[i].of, size_units[i].name);
}

static bool parse_rate(struct lh_sim_words *w, void *to)
{
    const char *p = lh_sim_words_peek(w);
    uint64_t number;
    bool minus = p != NULL && *p == '-';

    if (p != NULL && (*p == '-' || *p == '+'))
        p++;
    if (p == NULL || !read_digits(&p, INT32_MAX, &number) || *p != '\0') {
        lh_sim_words_expected(w, "a number with its sign such as +9000");
        return false;
    }
    *(int32_t *)to = minus ? -(int32_t)number : (int32_t)number;
    w->at++;
    return true;
}

static void print_rate(struct lh_sim_text *t, const void *from)
{
    lh_sim_text_add(t, "%+" PRId32, *(const int32_t *)from);
}

/* A duration at `*text`, which is moved behind it: digits, perhaps a fraction, a unit. */
static bool read_duration(const char **text, struct lh_duration *d)
{
    const char *p = *text, *unit_at;
    uint64_t whole, digit;
    char name[4] = "";
    size_t length = 0;

    if (strcmp(p, "ever") == 0) {
        *d = LH_DURATION_FOREVER;
        *text = p + 4;
        return true;
    }
    if (!read_digits(&p, UINT64_MAX - 1, &whole))
        return false;
    const char *fraction = *p == '.' ? p + 1 : NULL;
    unit_at = fraction == NULL ? p : fraction + strspn(fraction, "0123456789");
    if (fraction == unit_at) /* a point and no digits */
        return false;
    while (unit_at[length] >= 'a' && unit_at[length] <= 'z' && length + 1 < sizeof name) {
        name[length] = unit_at[length];
        length++;
    }
    const struct unit *unit = find_unit(duration_units, COUNT(duration_units), name);
    if (unit == NULL || whole > (UINT64_MAX - 1) / unit->of)
        return false;
    d->ns = whole * unit->of;
    uint64_t scale = unit->of;
    for (; fraction != NULL && fraction < unit_at; fraction++) {
        if (scale % 10 != 0) /* finer than a nanosecond, or sixtieths */
            return false;
        scale /= 10;
        digit = (uint64_t)(*fraction - '0');
        if (d->ns > UINT64_MAX - 1 - digit * scale)
            return false;
        d->ns += digit * scale;
    }
    *text = unit_at + length;
    return true;
}

/* Below a second in the largest unit that needs no fraction; else in seconds. */
static void write_duration(struct lh_sim_text *t, struct lh_duration d)
{
    char fraction[16];

    if (d.ns == UINT64_MAX) {
        append(t, "ever");
        return;
    }
    if (d.ns >= 1000000000 || d.ns == 0) {
        (void)snprintf(fraction, sizeof fraction, ".%09" PRIu64, d.ns % 1000000000);
        for (size_t n = strlen(fraction); n > 0 && strchr("0.", fraction[n - 1]) != NULL; n--)
            fraction[n - 1] = '\0';
        append(t, "%" PRIu64 "%ss", d.ns / 1000000000, fraction);
        return;
    }
    size_t i = 3;
    while (d.ns % duration_units[i].of != 0)
        i++;
    append(t, "%" PRIu64 "%s", d.ns / duration_units[i].of, duration_units[i].name);
}

static bool parse_duration(struct lh_sim_words *w, void *to)
{
    const char *p = lh_sim_words_peek(w);
    struct lh_duration d;

    if (p == NULL || !read_duration(&p, &d) || *p != '\0') {
        lh_sim_words_expected(w, "a duration such as 250ms or 1.5s");
        return false;
    }
    *(struct lh_duration *)to = d;
    w->at++;
    return true;
}

static void print_duration(struct lh_sim_text *t, const void *from)
{
    lh_sim_text_add(t, "%s", "");
    write_duration(t, *(const struct lh_duration *)from);
}

static bool parse_range(struct lh_sim_words *w, void *to)
{
    const char *p = lh_sim_words_peek(w);
    struct lh_sim_range r;
    bool good = p != NULL && read_duration(&p, &r.min);

    r.max = good ? r.min : (struct lh_duration){0};
    if (good && strncmp(p, "..", 2) == 0) {
        p += 2;
        good = read_duration(&p, &r.max);
    }
    if (!good || *p != '\0' || r.min.ns > r.max.ns) {
        lh_sim_words_expected(w, "a duration or a range such as 1ms..5ms");
        return false;
    }
    *(struct lh_sim_range *)to = r;
    w->at++;
    return true;
}

static void print_range(struct lh_sim_text *t, const void *from)
{
    const struct lh_sim_range *r = from;

    lh_sim_text_add(t, "%s", "");
    write_duration(t, r->min);
    if (r->min.ns == r->max.ns)
        return;
    append(t, "..");
    write_duration(t, r->max);
}

static bool parse_span(struct lh_sim_words *w, void *to)
{
    const char *p = lh_sim_words_peek(w);
    uint64_t min, max;
    uint32_t *span = to;
    bool good = p != NULL && read_digits(&p, UINT32_MAX, &min);

    max = good ? min : 0;
    if (good && strncmp(p, "..", 2) == 0) {
        p += 2;
        good = read_digits(&p, UINT32_MAX, &max);
    }
    if (!good || *p != '\0' || min > max) {
        lh_sim_words_expected(w, "a number or a range such as 1..5");
        return false;
    }
    span[0] = (uint32_t)min;
    span[1] = (uint32_t)max;
    w->at++;
    return true;
}

static void print_span(struct lh_sim_text *t, const void *from)
{
    const uint32_t *span = from;

    if (span[0] == span[1])
        lh_sim_text_add(t, "%" PRIu32, span[0]);
    else
        lh_sim_text_add(t, "%" PRIu32 "..%" PRIu32, span[0], span[1]);
}

static bool parse_path(struct lh_sim_words *w, void *to)
{
    const char *p = lh_sim_words_peek(w);

    if (p == NULL || *p != '/' || strlen(p) > LH_SIM_PATH_MAX) {
        lh_sim_words_expected(w, "a path of at most 63 bytes such as /log");
        return false;
    }
    memset(to, 0, LH_SIM_PATH_MAX + 1);
    memcpy(to, p, strlen(p));
    w->at++;
    return true;
}

static bool parse_label(struct lh_sim_words *w, void *to)
{
    const char *p = lh_sim_words_peek(w);
    size_t length = p == NULL ? 0 : strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789-_");

    if (length == 0 || p[length] != '\0' || length > LH_SIM_PROGRAM_NAME_MAX) {
        lh_sim_words_expected(w, "a program's name of at most 15 letters and digits such as w1");
        return false;
    }
    memset(to, 0, LH_SIM_PROGRAM_NAME_MAX + 1);
    memcpy(to, p, length);
    w->at++;
    return true;
}

void lh_sim_print_string(struct lh_sim_text *t, const void *from)
{
    lh_sim_text_add(t, "%s", (const char *)from);
}

static bool parse_error(struct lh_sim_words *w, void *to)
{
    static const struct {
        const char *name;
        int error;
    } errors[] = {
#define X(name, number, grpc, advice, text) {#name, LH_ERR_##name},
        LH_ERRORS(X)
#undef X
    };
    const char *p = lh_sim_words_peek(w);

    for (size_t i = 0; p != NULL && i < COUNT(errors); i++) {
        if (strcmp(p, errors[i].name) != 0)
            continue;
        *(int *)to = errors[i].error;
        w->at++;
        return true;
    }
    lh_sim_words_expected(w, "an error's name such as IO or DISK_FULL");
    return false;
}

static void print_error(struct lh_sim_text *t, const void *from)
{
    lh_sim_text_add(t, "%s", lh_error_name(*(const int *)from));
}

const struct lh_sim_slot_type
    lh_sim_slot_flag = {.parse = parse_flag, .size = sizeof(bool)},
    lh_sim_slot_number = {parse_number, print_number, sizeof(uint64_t), NULL},
    lh_sim_slot_seed = {parse_seed, print_seed, sizeof(uint64_t), NULL},
    lh_sim_slot_small = {parse_small, print_small, sizeof(uint32_t), NULL},
    lh_sim_slot_size = {parse_size, print_size, sizeof(uint64_t), NULL},
    lh_sim_slot_rate = {parse_rate, print_rate, sizeof(int32_t), NULL},
    lh_sim_slot_duration = {parse_duration, print_duration, sizeof(struct lh_duration), NULL},
    lh_sim_slot_range = {parse_range, print_range, sizeof(struct lh_sim_range), NULL},
    lh_sim_slot_span = {parse_span, print_span, 2 * sizeof(uint32_t), NULL},
    lh_sim_slot_path = {parse_path, lh_sim_print_string, LH_SIM_PATH_MAX + 1, NULL},
    lh_sim_slot_label = {parse_label, lh_sim_print_string, LH_SIM_PROGRAM_NAME_MAX + 1, NULL},
    lh_sim_slot_error = {parse_error, print_error, sizeof(int), NULL};
