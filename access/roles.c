/* The table of roles: a line for each identity, in any order.
 *
 *     # identity                     role     prefixes
 *     leasehold://writer/ingest      writer   /logs/ /queue/
 *     "CN=build host,O=Example"      reader   /
 *     "CN=store 1"                   chunkserver cs1
 *     leasehold://admin/somebody     none
 */
#include "access/roles.h"

#include "base/alloc.h"
#include "base/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MAX    10000u
#define PREFIXES_MAX 1000u

struct lh_access {
    struct lh_access_line *lines; /* by identity */
    size_t count;
};

static const char *const roles[] = {
    [LH_ROLE_NONE] = "none",
    [LH_ROLE_READER] = "reader",
    [LH_ROLE_WRITER] = "writer",
    [LH_ROLE_ADMIN] = "admin",
    [LH_ROLE_CHUNKSERVER] = "chunkserver",
    [LH_ROLE_MASTER] = "master",
    [LH_ROLE_ETCD] = "etcd",
};

const char *lh_role_name(enum lh_role role)
{
    return roles[role];
}

enum lh_role lh_role_named(const char *name, size_t size)
{
    for (enum lh_role role = LH_ROLE_NONE; role < LH_ROLES; role++) {
        if (strlen(roles[role]) == size && memcmp(roles[role], name, size) == 0)
            return role;
    }
    return LH_ROLES;
}

/* ---- Words of a line. */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The next word, malloc'd; NULL: the line is over, or `*wrong` says what is wrong. */
static char *next_word(const char **at, const char *end, const char **wrong)
{
    while (*at < end && is_space(**at))
        (*at)++;
    if (*at == end || **at == '#')
        return NULL;
    bool quoted = **at == '"';
    const char *from = *at + quoted, *to = from;

    while (to < end && (quoted ? *to != '"' : !is_space(*to)))
        to++;
    if (quoted && to == end) {
        *wrong = "a quotation mark has no other one";
        return NULL;
    }
    *at = to + quoted;
    if (to == from || memchr(from, 0, (size_t)(to - from)) != NULL) {
        *wrong = "a word is empty, or has a zero byte";
        return NULL;
    }
    char *word = lh_alloc((size_t)(to - from) + 1);
    memcpy(word, from, (size_t)(to - from));
    word[to - from] = 0;
    return word;
}

static void line_deinit(struct lh_access_line *line)
{
    free(line->identity);
    for (size_t i = 0; i < line->scope_count; i++)
        free(line->scope[i]);
    free(line->scope);
}

/* What is wrong with a word behind the role, or NULL. */
static const char *check_scope(const struct lh_access_line *line, const char *word)
{
    switch (line->role) {
    case LH_ROLE_READER:
    case LH_ROLE_WRITER:
        return word[0] != '/'                     ? "a prefix does not begin with \"/\""
               : line->scope_count > PREFIXES_MAX ? "there are too many prefixes"
                                                  : NULL;
    case LH_ROLE_CHUNKSERVER:
        return line->scope_count > 1 ? "a chunkserver has one --server-id" : NULL;
    case LH_ROLE_NONE:
    case LH_ROLE_ADMIN:
    case LH_ROLE_MASTER:
    case LH_ROLE_ETCD:
    case LH_ROLES:
        break;
    }
    return "only readers and writers have prefixes";
}

/* What is wrong with the line, or NULL. A line without a word leaves `identity` NULL. */
static const char *read_line(const char *at, const char *end, struct lh_access_line *line)
{
    const char *wrong = NULL;
    char *word;

    line->identity = next_word(&at, end, &wrong);
    if (line->identity == NULL)
        return wrong;
    if (strlen(line->identity) > LH_LINK_IDENTITY_MAX)
        return "the identity is too long";
    word = next_word(&at, end, &wrong);
    if (word == NULL)
        return wrong != NULL ? wrong : "the role is missing";
    line->role = lh_role_named(word, strlen(word));
    free(word);
    if (line->role == LH_ROLES)
        return "the role is none of reader, writer, admin, chunkserver, master, etcd, none";
    while ((word = next_word(&at, end, &wrong)) != NULL) {
        line->scope = lh_realloc_array(line->scope, line->scope_count + 1, sizeof *line->scope);
        line->scope[line->scope_count++] = word;
        wrong = check_scope(line, word);
        if (wrong != NULL)
            return wrong;
    }
    return wrong;
}

/* ---- The table. */

static int compare_lines(const void *a, const void *b)
{
    return strcmp(
        ((const struct lh_access_line *)a)->identity, ((const struct lh_access_line *)b)->identity);
}

static const char *add_line(struct lh_access *access, const char *at, const char *end)
{
    struct lh_access_line line = {0};
    const char *wrong = read_line(at, end, &line);

    if (wrong == NULL && line.identity != NULL && access->count == LINES_MAX)
        wrong = "there are too many lines";
    if (wrong != NULL || line.identity == NULL) {
        line_deinit(&line);
        return wrong;
    }
    access->lines = lh_realloc_array(access->lines, access->count + 1, sizeof *access->lines);
    access->lines[access->count++] = line;
    return NULL;
}

int lh_access_parse(
    const char *text, size_t size, struct lh_access **access, char *why, size_t why_size)
{
    struct lh_access *read = lh_alloc(sizeof *read);
    const char *end = text + size;
    unsigned number = 1;

    for (const char *at = text; at < end; number++) {
        const char *eol = memchr(at, '\n', (size_t)(end - at));
        const char *to = eol != NULL ? eol : end;
        const char *wrong = add_line(read, at, to);
        if (wrong != NULL) {
            snprintf(why, why_size, "line %u: %s", number, wrong);
            lh_access_free(read);
            return LH_ERR_MALFORMED;
        }
        at = to + 1;
    }
    if (read->count > 0)
        qsort(read->lines, read->count, sizeof *read->lines, compare_lines);
    for (size_t i = 1; i < read->count; i++) {
        if (compare_lines(&read->lines[i - 1], &read->lines[i]) == 0) {
            snprintf(why, why_size, "%.256s has two lines", read->lines[i].identity);
            lh_access_free(read);
            return LH_ERR_MALFORMED;
        }
    }
    *access = read;
    return LH_OK;
}

void lh_access_free(struct lh_access *access)
{
    if (access == NULL)
        return;
    for (size_t i = 0; i < access->count; i++)
        line_deinit(&access->lines[i]);
    free(access->lines);
    free(access);
}

const struct lh_access_line *lh_access_find(const struct lh_access *access, const char *identity)
{
    struct lh_access_line key = {.identity = (char *)(uintptr_t)identity};

    if (access == NULL || access->count == 0)
        return NULL;
    return bsearch(&key, access->lines, access->count, sizeof key, compare_lines);
}

void lh_access_swap(struct lh_access *a, struct lh_access *b)
{
    struct lh_access kept = *a;

    if (LH_PLANTED("table-read-in-vain"))
        return;
    *a = *b;
    *b = kept;
}

static bool same_line(const struct lh_access_line *a, const struct lh_access_line *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    if (a->role != b->role || a->scope_count != b->scope_count)
        return false;
    for (size_t i = 0; i < a->scope_count; i++)
        if (strcmp(a->scope[i], b->scope[i]) != 0)
            return false;
    return true;
}

bool lh_access_same(const struct lh_access *a, const struct lh_access *b, const char *identity)
{
    return same_line(lh_access_find(a, identity), lh_access_find(b, identity));
}
