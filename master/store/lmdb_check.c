/* LMDB's format as its 0.9 has it (MDB_DATA_VERSION 1), on machines whose numbers have their lowest
 * byte first and 8 bytes. */
#include "master/store/lmdb_check.h"

#include "base/alloc.h"
#include "master/store/disk_error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC       0xbeefc0deu
#define VERSION     1u
#define METAS       2u
#define NO_PAGE     UINT64_MAX
#define DEPTH_MAX   32u
#define KEY_MAX     511u
#define HEADER      16u /* of a page */
#define NODE_HEADER 8u
#define PAGE_MAX    32768u

/* Of a page: what it is. Of a node: its value is in pages of its own. Of the free pages' tree: its
 * keys are numbers. */
enum { IS_BRANCH = 1, IS_LEAF = 2, IS_OVERFLOW = 4, IS_META = 8 };
#define NODE_IS_LARGE 1u
#define KEYS_ARE_TXNS 8u
#define FREE          0
#define MAIN          1

/* Pages behind the file's end that may be free: a transaction took them and did not write them. */
#define UNWRITTEN_MAX 65536u

struct page_header {
    uint64_t number;
    uint16_t pad, flags;
    union {
        struct {
            uint16_t lower, upper;
        };
        uint32_t pages; /* IS_OVERFLOW */
    };
};

struct node_header {
    uint16_t low, high, flags, key_size;
};

struct tree {
    uint32_t pad;
    uint16_t flags, depth;
    uint64_t branches, leaves, overflows, entries, root;
};

struct meta {
    uint32_t magic, version;
    uint64_t address, map_bytes;
    struct tree trees[2];
    uint64_t last_page, txn;
};

struct check {
    int file;
    uint64_t file_bytes;
    uint32_t page_bytes;
    struct meta meta;      /* the newer one */
    uint8_t *seen;         /* a bit for each page: it is used, or free */
    bool in_free;          /* which tree is walked */
    uint8_t last[KEY_MAX]; /* the key before the next one */
    size_t last_size;
    enum { LAST_NONE, LAST_PAIR, LAST_LEADS } last_is; /* LEADS: the next one may be the same */
    int unread; /* errno, if it could not be read: that is no damage */
    char *why;
    size_t why_size;
};

static bool __attribute__((format(printf, 2, 3))) wrong(struct check *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(c->why, c->why_size, format, args);
    va_end(args);
    return false;
}

static bool read_at(struct check *c, void *to, size_t size, uint64_t at)
{
    uint8_t *bytes = to;

    while (size > 0) {
        ssize_t n = pread(c->file, bytes, size, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            c->unread = errno;
            return false;
        }
        if (n == 0)
            return wrong(c, "it ends at byte %" PRIu64 ", where more should be", at);
        bytes += n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
    return true;
}

/* The page is named once: as used, or as free. */
static bool take(struct check *c, uint64_t number)
{
    if (number < METAS || number > c->meta.last_page)
        return wrong(c, "there is no page %" PRIu64, number);
    uint8_t *byte = &c->seen[number / 8], bit = (uint8_t)(1u << number % 8);
    if (*byte & bit)
        return wrong(c, "page %" PRIu64 " is used twice", number);
    *byte |= bit;
    return true;
}

static bool read_page(struct check *c, uint64_t number, void *to, size_t size)
{
    if (number >= c->file_bytes / c->page_bytes)
        return wrong(c, "it was cut short: page %" PRIu64 " is not in it", number);
    struct page_header *header = to;
    if (!read_at(c, to, size, number * c->page_bytes))
        return false;
    return header->number == number || wrong(c, "page %" PRIu64 " has another number", number);
}

/* ---- Meta pages. */

static bool read_meta(struct check *c, uint64_t number, uint64_t at, struct meta *meta)
{
    struct page_header header;

    if (!read_at(c, &header, sizeof header, at) ||
        !read_at(c, meta, sizeof *meta, at + sizeof header))
        return false;
    const struct tree *free_pages = &meta->trees[FREE], *pairs = &meta->trees[MAIN];
    uint32_t page = free_pages->pad; /* LMDB's place for it */
    if (header.number != number || header.flags != IS_META || meta->magic != MAGIC ||
        meta->version != VERSION || page < 512 || page > PAGE_MAX || (page & (page - 1)) != 0 ||
        free_pages->flags != KEYS_ARE_TXNS || pairs->flags != 0 || pairs->pad != 0 ||
        meta->txn % METAS != (meta->txn == 0 ? 0 : number))
        return wrong(c, "its meta page %" PRIu64 " makes no sense", number);
    return true;
}

/* Each transaction writes the meta page that the one before has not. */
static bool read_metas(struct check *c)
{
    struct meta metas[METAS];

    if (!read_meta(c, 0, 0, &metas[0]))
        return false;
    c->page_bytes = metas[0].trees[FREE].pad;
    if (!read_meta(c, 1, c->page_bytes, &metas[1]))
        return false;
    uint64_t a = metas[0].txn, b = metas[1].txn;
    if (metas[1].trees[FREE].pad != c->page_bytes || !(a + 1 == b || b + 1 == a || a + b == 0))
        return wrong(c, "its two meta pages do not belong together");
    c->meta = metas[b > a];
    if (c->meta.last_page < METAS - 1 ||
        c->meta.last_page > c->file_bytes / c->page_bytes + UNWRITTEN_MAX)
        return wrong(c, "the number of its pages makes no sense");
    return true;
}

/* ---- Nodes. */

static uint64_t number_at(const void *at)
{
    uint64_t number;

    memcpy(&number, at, sizeof number);
    return number;
}

static int compare(
    const struct check *c, const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
    if (c->in_free) {
        uint64_t left = number_at(a), right = number_at(b);
        return (left > right) - (left < right);
    }
    int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order != 0 ? order : (a_size > b_size) - (a_size < b_size);
}

/* Each key is above those before; the one that leads to a leaf is not above its first one. */
static bool rises(struct check *c, const uint8_t *key, size_t size, bool leads)
{
    if (size == 0 || size > KEY_MAX || (c->in_free && size != sizeof(uint64_t)))
        return wrong(c, "a key has %zu bytes", size);
    int order = c->last_is == LAST_NONE ? 1 : compare(c, key, size, c->last, c->last_size);
    if (order < 0 || (order == 0 && (leads || c->last_is == LAST_PAIR)))
        return wrong(c, "keys are not in order");
    memcpy(c->last, key, size);
    c->last_size = size;
    c->last_is = leads ? LAST_LEADS : LAST_PAIR;
    return true;
}

/* Nodes lie one behind the other, from `upper` to the page's end, and nothing between them. */
static bool nodes_fit(struct check *c, const uint8_t *page, size_t count, size_t *sizes)
{
    const struct page_header *header = (const void *)page;
    const uint16_t *places = (const void *)(page + HEADER);
    uint16_t *size_at = lh_alloc_array(c->page_bytes / 2, sizeof *size_at);
    size_t at = header->upper, found = 0;
    bool sound = true;

    for (size_t i = 0; i < count && sound; i++) {
        sound = places[i] % 2 == 0 && places[i] >= header->upper &&
                places[i] + sizes[i] <= c->page_bytes && size_at[places[i] / 2] == 0;
        if (sound)
            size_at[places[i] / 2] = (uint16_t)(sizes[i] / 2);
    }
    for (; sound && at < c->page_bytes && size_at[at / 2] != 0; found++)
        at += size_at[at / 2] * 2u;
    free(size_at);
    return (sound && at == c->page_bytes && found == count) ||
           wrong(c, "page %" PRIu64 " is not made of whole nodes", header->number);
}

static struct node_header node_at(const uint8_t *page, size_t i)
{
    const uint16_t *places = (const void *)(page + HEADER);
    struct node_header node;

    memcpy(&node, page + places[i], sizeof node);
    return node;
}

static bool layout(struct check *c, const uint8_t *page, bool leaf, size_t *count)
{
    const struct page_header *header = (const void *)page;
    const uint16_t *places = (const void *)(page + HEADER);

    if (header->lower < HEADER || header->lower % 2 != 0 || header->upper % 2 != 0 ||
        header->lower > header->upper || header->upper > c->page_bytes)
        return wrong(c, "page %" PRIu64 " makes no sense", header->number);
    *count = (header->lower - HEADER) / 2u;
    if (*count < (leaf ? 1u : 2u))
        return wrong(c, "page %" PRIu64 " has too few keys", header->number);
    size_t *sizes = lh_alloc_array(*count, sizeof *sizes);
    bool sound = true;
    for (size_t i = 0; i < *count && sound; i++) {
        sound = places[i] + NODE_HEADER <= c->page_bytes;
        struct node_header node = {0};
        if (sound)
            node = node_at(page, i);
        uint64_t value = (uint64_t)node.low | (uint64_t)node.high << 16;
        sizes[i] = NODE_HEADER + node.key_size;
        if (leaf && node.flags == NODE_IS_LARGE)
            sizes[i] += sizeof(uint64_t);
        else if (leaf)
            sizes[i] += value;
        sizes[i] += sizes[i] % 2;
        sound = sound && (!leaf || node.flags <= NODE_IS_LARGE) && sizes[i] <= c->page_bytes;
    }
    sound = (sound && nodes_fit(c, page, *count, sizes)) ||
            wrong(c, "page %" PRIu64 " makes no sense", header->number);
    free(sizes);
    return sound;
}

/* ---- Values. */

/* Of the free pages' tree: how many, and their numbers, which fall. */
static bool free_list(struct check *c, const uint8_t *key, const uint8_t *value, uint64_t size)
{
    uint64_t count = size < sizeof count ? UINT64_MAX : number_at(value), before = NO_PAGE;

    if (number_at(key) > c->meta.txn || count > size / sizeof count - 1)
        return wrong(c, "a list of free pages makes no sense");
    for (uint64_t i = 1; i <= count; i++) {
        uint64_t number = number_at(value + i * sizeof number);
        if (number >= before)
            return wrong(c, "a list of free pages is not in order");
        if (!take(c, number))
            return false;
        before = number;
    }
    return true;
}

static bool large_value(struct check *c, const uint8_t *key, uint64_t number, uint64_t size)
{
    struct page_header header;
    bool sound;

    if (!read_page(c, number, &header, sizeof header))
        return false;
    if (header.flags != IS_OVERFLOW || header.pages == 0 ||
        (uint64_t)header.pages * c->page_bytes < HEADER + size)
        return wrong(c, "page %" PRIu64 " makes no sense", number);
    for (uint32_t i = 0; i < header.pages; i++)
        if (!take(c, number + i))
            return false;
    if (number + (HEADER + size - 1) / c->page_bytes >= c->file_bytes / c->page_bytes)
        return wrong(c, "it was cut short: page %" PRIu64 " is not whole", number);
    if (!c->in_free)
        return true;
    uint8_t *value = lh_alloc(size + 1);
    sound =
        read_at(c, value, size, number * c->page_bytes + HEADER) && free_list(c, key, value, size);
    free(value);
    return sound;
}

static bool leaf(struct check *c, const uint8_t *page, size_t count)
{
    const uint16_t *places = (const void *)(page + HEADER);

    for (size_t i = 0; i < count; i++) {
        struct node_header node = node_at(page, i);
        const uint8_t *key = page + places[i] + NODE_HEADER, *value = key + node.key_size;
        uint64_t size = (uint64_t)node.low | (uint64_t)node.high << 16;
        if (!rises(c, key, node.key_size, false))
            return false;
        if (node.flags == NODE_IS_LARGE ? !large_value(c, key, number_at(value), size)
                                        : c->in_free && !free_list(c, key, value, size))
            return false;
    }
    return true;
}

/* ---- Trees. */

static bool walk(struct check *c, uint64_t number, unsigned levels);

static bool branch(struct check *c, const uint8_t *page, size_t count, unsigned levels)
{
    const uint16_t *places = (const void *)(page + HEADER);

    for (size_t i = 0; i < count; i++) {
        struct node_header node = node_at(page, i);
        const uint8_t *key = page + places[i] + NODE_HEADER;
        uint64_t child =
            (uint64_t)node.low | (uint64_t)node.high << 16 | (uint64_t)node.flags << 32;
        /* The first one leads to whatever is below the second; its own key is not looked at. */
        if ((i > 0 && !rises(c, key, node.key_size, true)) || !walk(c, child, levels - 1))
            return false;
    }
    return true;
}

/* `levels`: from this page down to the leaves. */
static bool walk(struct check *c, uint64_t number, unsigned levels)
{
    uint8_t *page;
    size_t count = 0;
    bool is_leaf = levels == 1;

    if (!take(c, number))
        return false;
    page = lh_alloc(c->page_bytes);
    const struct page_header *header = (const void *)page;
    bool sound = read_page(c, number, page, c->page_bytes) &&
                 (header->flags == (is_leaf ? IS_LEAF : IS_BRANCH) ||
                     wrong(c, "page %" PRIu64 " makes no sense", number)) &&
                 layout(c, page, is_leaf, &count) &&
                 (is_leaf ? leaf(c, page, count) : branch(c, page, count, levels));
    free(page);
    return sound;
}

static bool tree(struct check *c, int which)
{
    const struct tree *t = &c->meta.trees[which];

    c->in_free = which == FREE;
    c->last_is = LAST_NONE;
    if (t->root == NO_PAGE)
        return t->depth == 0 || wrong(c, "a tree has no root");
    if (t->depth == 0 || t->depth > DEPTH_MAX)
        return wrong(c, "a tree has %u levels", (unsigned)t->depth);
    return walk(c, t->root, t->depth);
}

/* `unread`: errno, if that could not be found out. */
static bool is_sound(int file, int *unread, char *what, size_t what_size)
{
    struct check c = {.file = file, .why = what, .why_size = what_size};
    struct stat found;
    bool sound = fstat(file, &found) == 0;

    if (!sound)
        c.unread = errno;
    if (sound && found.st_size == 0)
        return true;
    c.file_bytes = sound ? (uint64_t)found.st_size : 0;
    sound = sound && read_metas(&c);
    if (sound) {
        c.seen = lh_alloc(c.meta.last_page / 8 + 1);
        sound = tree(&c, FREE) && tree(&c, MAIN);
    }
    free(c.seen);
    *unread = c.unread;
    return sound;
}

int lh_lmdb_check(int directory, const char *path, char *why, size_t why_size)
{
    char what[256];
    int unread = 0;
    int file = openat(directory, "data.mdb", O_RDONLY | O_CLOEXEC);

    if (file < 0)
        return errno == ENOENT ? LH_OK
                               : lh_disk_refuse(path, "open the file data.mdb", why, why_size);
    bool sound = is_sound(file, &unread, what, sizeof what);
    close(file);
    if (sound)
        return LH_OK;
    errno = unread;
    if (unread != 0)
        return lh_disk_refuse(path, "read the metadata store data.mdb", why, why_size);
    (void)snprintf(why, why_size,
        "%s: the metadata store data.mdb was damaged: %s; restore it from a backup "
        "(docs/operations.md, \"Backup\")",
        path, what);
    return LH_ERR_CORRUPT;
}
