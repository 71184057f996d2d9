/* What a main() does with its options: at its start, and when it reads them again. */
#include "runtime/flags.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/say.h"
#include "runtime/flags_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory that lives as long as the result ---- */

struct block {
    struct block *next;
    _Alignas(max_align_t) char data[];
};

void *lh_flags_keep(struct lh_flags_result *result, size_t size)
{
    struct block *b = lh_alloc(sizeof *b + size);

    b->next = result->memory;
    result->memory = b;
    return b->data;
}

void lh_flags_free(struct lh_flags_result *result)
{
    for (struct block *b = result->memory, *next; b != NULL; b = next) {
        next = b->next;
        free(b);
    }
    free(result->text);
    *result = (struct lh_flags_result){0};
}

/* ---- what holds, and what has changed ---- */

/* A list's items as they would be written. */
static const char *joined(struct lh_flags_result *result, const struct lh_flag_list *list)
{
    size_t size = 1;

    for (size_t i = 0; i < list->count; i++)
        size += strlen(list->items[i]) + 1;
    char *text = lh_flags_keep(result, size);
    *text = '\0';
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0)
            (void)strcat(text, ",");
        (void)strcat(text, list->items[i]);
    }
    return text;
}

/* The value in one form, however it was written; NULL: none. */
static const char *settled(struct lh_flags_result *result, const struct lh_flag *f)
{
    char *text;

    switch (f->type) {
    case LH_FLAG_STRING:
        return *(const char **)f->value;
    case LH_FLAG_BOOL:
        return *(bool *)f->value ? "true" : "false";
    case LH_FLAG_ENUM:
        return f->choices[*(int *)f->value];
    case LH_FLAG_LIST:
        return joined(result, f->value);
    case LH_FLAG_UINT:
    case LH_FLAG_SIZE:
        text = lh_flags_keep(result, 48);
        lh_flag_show(f, *(uint64_t *)f->value, text, 48);
        return text;
    case LH_FLAG_DURATION:
        text = lh_flags_keep(result, 48);
        lh_flag_show(f, ((struct lh_duration *)f->value)->ns, text, 48);
        return text;
    }
    LH_UNREACHABLE();
}

void lh_flags_note(struct lh_flags_result *result, const struct lh_flags *flags)
{
    result->settings = lh_flags_keep(result, (flags->count + 1) * sizeof *result->settings);
    for (size_t i = 0; i < flags->count; i++) {
        const struct lh_flag *f = &flags->flags[i];
        result->settings[result->setting_count++] =
            (struct lh_flag_setting){f->name, settled(result, f), f->live};
    }
}

static bool same(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

void lh_flags_refresh(struct lh_flags_result *now, const struct lh_flags_result *fresh,
    void (*say)(void *arg, const struct lh_flag_setting *was, const char *is), void *arg)
{
    LH_ASSERT(now->setting_count == fresh->setting_count);
    for (size_t i = 0; i < now->setting_count; i++) {
        struct lh_flag_setting *was = &now->settings[i];
        const char *is = fresh->settings[i].text;
        if (same(was->text, is))
            continue;
        say(arg, was, is);
        if (!was->live)
            continue; /* the process goes on with the other */
        was->text = NULL;
        if (is == NULL)
            continue;
        char *copy = lh_flags_keep(now, strlen(is) + 1);
        memcpy(copy, is, strlen(is) + 1);
        was->text = copy;
    }
}

/* ---- a main() ---- */

static void refuse_arguments(
    const struct lh_flags *flags, const struct lh_flags_result *result, size_t args_max)
{
    const char *what = flags->command, *usage = flags->usage;

    if (result->arg_count > args_max)
        lh_say("%s: too many arguments, from '%s' on; usage: %s %s\n", what, result->args[args_max],
            what, usage);
    else
        lh_say("%s: an argument is missing; usage: %s %s\n", what, what, usage);
}

bool lh_flags_accept(const struct lh_flags *flags, const struct lh_flags_binary *binary, int argc,
    char **argv, size_t args_min, size_t args_max, struct lh_flags_result *result, int *exit_code)
{
    extern char **environ;

    *result = lh_flags_parse(flags, argc, argv, environ, binary->version);
    *exit_code = binary->usage_code;
    switch (result->outcome) {
    case LH_FLAGS_OK:
        if (result->arg_count >= args_min && result->arg_count <= args_max)
            return true;
        refuse_arguments(flags, result, args_max);
        break;
    case LH_FLAGS_EXIT:
        (void)fputs(result->text, stdout);
        *exit_code = 0;
        break;
    case LH_FLAGS_USAGE:
        lh_say("%s", result->text);
        break;
    }
    lh_flags_free(result);
    return false;
}
