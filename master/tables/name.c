/* The table of names. */
#include "master/tables/name.h"

#include "base/crc32c.h"
#include "master/tables/path.h"
#include "master/tables/tables.h"

#include <stddef.h>

const struct lh_m_name_more lh_m_name_nothing;

int lh_m_compare_names(const struct lh_m_name *a, const struct lh_m_name *b)
{
    return strcmp(a->text, b->text);
}

RB_GENERATE(lh_m_name_tree, lh_m_name, place, lh_m_compare_names)

static struct lh_m_name_tree *tree(const struct lh_master *m)
{
    return (struct lh_m_name_tree *)(uintptr_t)&m->names.tree;
}

int lh_m_name_check(const char *text, char *why, size_t why_size)
{
    return lh_path_check(text, why, why_size);
}

int lh_m_name_check_kept(const char *what, const char *text, char *why, size_t why_size)
{
    size_t size = strlen(text);

    if (size <= LH_M_KEPT_BYTES_MAX)
        return LH_OK;
    snprintf(
        why, why_size, "%s has at most %u bytes, and not %zu", what, LH_M_KEPT_BYTES_MAX, size);
    return LH_ERR_TOO_LARGE;
}

static struct lh_m_name **recent_of(const struct lh_master *m, const char *text)
{
    uint32_t hash = lh_crc32c(0, text, strlen(text));

    return (struct lh_m_name **)(uintptr_t)&m->names.recent[hash % LH_M_NAMES_RECENT];
}

/* The tree compares texts in place, so what is looked up is looked up without a copy. */
struct lh_m_name *lh_m_name_from(const struct lh_master *m, const char *text)
{
    struct lh_m_name *n = RB_ROOT(tree(m)), *first = NULL;

    while (n != NULL) {
        int order = strcmp(text, n->text);
        if (order == 0)
            return n;
        if (order < 0)
            first = n;
        n = order < 0 ? RB_LEFT(n, place) : RB_RIGHT(n, place);
    }
    return first;
}

struct lh_m_name *lh_m_name_find(const struct lh_master *m, const char *text)
{
    struct lh_m_name **recent = recent_of(m, text);

    if (*recent != NULL && strcmp((*recent)->text, text) == 0)
        return *recent;
    struct lh_m_name *n = lh_m_name_from(m, text);
    if (n == NULL || strcmp(n->text, text) != 0)
        return NULL;
    *recent = n;
    return n;
}

struct lh_m_name *lh_m_name_next(struct lh_m_name *name)
{
    return RB_NEXT(lh_m_name_tree, NULL, name);
}

static struct lh_m_name **place_of(const struct lh_m_names *names, uint32_t number)
{
    return &names->by_number[number / LH_M_NAME_PAGE][number % LH_M_NAME_PAGE];
}

static uint32_t take_number(struct lh_m_names *names)
{
    if (names->free_count > 0)
        return names->free_numbers[--names->free_count];
    if (names->number_count == 0)
        names->number_count = 1; /* 0 is none's */
    LH_ASSERT(names->number_count < UINT32_MAX);
    if (names->number_count / LH_M_NAME_PAGE >= names->page_count) {
        LH_GROW(names->by_number, names->page_capacity, names->page_count + 1);
        names->by_number[names->page_count++] =
            lh_alloc_array(LH_M_NAME_PAGE, sizeof **names->by_number);
    }
    return (uint32_t)names->number_count++;
}

struct lh_m_name *lh_m_name_get(struct lh_master *m, const char *text)
{
    struct lh_m_name **recent = recent_of(m, text), *n = *recent;
    size_t size = strlen(text);

    if (n != NULL && strcmp(n->text, text) == 0)
        return n;
    /* Mostly it is not there: one walk finds that out, and its place. */
    n = lh_alloc(offsetof(struct lh_m_name, text) + size + 1);
    memcpy(n->text, text, size + 1);
    *recent = RB_INSERT(lh_m_name_tree, &m->names.tree, n);
    if (*recent != NULL) {
        free(n);
        return *recent;
    }
    n->more = &lh_m_name_nothing;
    n->number = take_number(&m->names);
    *place_of(&m->names, n->number) = n;
    m->names.count++;
    m->names.lookups += lh_m_is_lookup(text);
    *recent = n;
    return n;
}

struct lh_m_name *lh_m_name_by_number(const struct lh_master *m, uint64_t number)
{
    return number == 0 || number >= m->names.number_count ? NULL
                                                          : *place_of(&m->names, (uint32_t)number);
}

struct lh_m_name_more *lh_m_name_more(struct lh_m_name *name)
{
    if (name->more == &lh_m_name_nothing)
        name->more = lh_alloc(sizeof *name->more);
    return (struct lh_m_name_more *)(uintptr_t)name->more;
}

void lh_m_name_settle(struct lh_master *m, struct lh_m_name *name)
{
    const struct lh_m_name_more *more = name->more;

    if (more != &lh_m_name_nothing && more->value == NULL && more->lock_state == NULL &&
        more->changing == NULL) {
        free((void *)(uintptr_t)more);
        name->more = more = &lh_m_name_nothing;
    }
    if (name->leases > 0 || more != &lh_m_name_nothing)
        return;
    struct lh_m_name **recent = recent_of(m, name->text);
    if (*recent == name)
        *recent = NULL;
    RB_REMOVE(lh_m_name_tree, &m->names.tree, name);
    *place_of(&m->names, name->number) = NULL;
    LH_GROW(m->names.free_numbers, m->names.free_capacity, m->names.free_count + 1);
    m->names.free_numbers[m->names.free_count++] = name->number;
    m->names.count--;
    m->names.lookups -= lh_m_is_lookup(name->text);
    free(name);
}
