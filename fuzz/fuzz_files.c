/* libFuzzer target: what reads an operator's files and words, and small files of a process's own:
 * options from a command line, an environment and a config file, the table of roles, where etcd
 * and the masters are, a chunkserver's identity, the file of a guard. The first byte chooses. */
#include "access/access.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "chunkserver/data_dir.h"
#include "client/library/guard_file.h"
#include "finder/finder.h"
#include "master/etcd_options.h"
#include "master/reigns/reigns.h"
#include "runtime/flags.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE      4096u
#define WORDS_MAX 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The library's. */
int lh_fail(int error, const char *format, ...);
int lh_fail(int error, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error;
}

static char *text_of(const uint8_t *data, size_t size)
{
    char *text = lh_alloc(size + 1);

    if (size > 0)
        memcpy(text, data, size);
    return text;
}

static char path[64];

static void remove_file(void)
{
    (void)unlink(path);
}

/* A file of the process's own with these bytes in it. */
static const char *file_with(const uint8_t *data, size_t size)
{
    (void)snprintf(path, sizeof path, "/tmp/leasehold-fuzz-files-%d", (int)getpid());
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    LH_ASSERT(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    (void)close(fd);
    return path;
}

/* The words between line feeds, in place; behind the last one is NULL. */
static size_t words_of(char *text, size_t size, char *words[WORDS_MAX + 1])
{
    size_t count = 0;

    for (char *word = text; word < text + size && count < WORDS_MAX;) {
        char *end = memchr(word, '\n', (size_t)(text + size - word));
        words[count++] = word;
        if (end == NULL)
            break;
        *end = '\0';
        word = end + 1;
    }
    words[count] = NULL;
    return count;
}

/* ---- Options. */

static struct {
    const char *text;
    bool yes;
    uint64_t number, bytes;
    struct lh_duration time;
    struct lh_flag_list list;
} values;

static const struct lh_flag table[] = {
    {.name = "text", .type = LH_FLAG_STRING, .value = &values.text, .help = "", .letter = 't'},
    {.name = "yes", .type = LH_FLAG_BOOL, .value = &values.yes, .help = "", .letter = 'y'},
    {.name = "number", .type = LH_FLAG_UINT, .value = &values.number, .help = "", .max = 1000},
    {.name = "bytes", .type = LH_FLAG_SIZE, .value = &values.bytes, .help = ""},
    {.name = "time", .type = LH_FLAG_DURATION, .value = &values.time, .help = "", .min = 5},
    {.name = "list", .type = LH_FLAG_LIST, .value = &values.list, .help = ""},
};

static void parse(int argc, char **argv, char **environment)
{
    static const struct lh_flags flags = {.command = "x",
        .usage = "",
        .summary = "",
        .flags = table,
        .count = sizeof table / sizeof table[0]};

    memset(&values, 0, sizeof values); /* what the last one gave is freed */
    struct lh_flags_result r = lh_flags_parse(&flags, argc, argv, environment, "0");
    LH_ASSERT(r.outcome == LH_FLAGS_OK || r.text != NULL);
    if (r.outcome == LH_FLAGS_OK)
        LH_ASSERT(values.number <= 1000 && (values.time.ns == 0 || values.time.ns >= 5));
    lh_flags_free(&r);
}

/* Of a file that is named, or of the word "config" in an environment, nothing is ours. */
static bool names_a_file(char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(words[i], "--c", 3) == 0 || strstr(words[i], "_CONFIG") != NULL)
            return true;
    return false;
}

static void read_options(const uint8_t *data, size_t size)
{
    char *text = text_of(data + 1, size - 1), option[128], *argv[WORDS_MAX + 2] = {(char *)"x"};
    size_t count = words_of(text, size - 1, argv + 1);

    if (data[0] % 3 == 0) {
        (void)snprintf(option, sizeof option, "--config=%s", file_with(data + 1, size - 1));
        argv[1] = option;
        argv[2] = NULL;
        parse(2, argv, NULL);
    } else if (!names_a_file(argv + 1, count)) {
        if (data[0] % 3 == 1)
            parse(1 + (int)count, argv, NULL);
        else
            parse(1, argv, argv + 1);
    }
    free(text);
}

/* ---- Addresses. */

static void read_addresses(const uint8_t *data, size_t size)
{
    struct lh_etcd_options options = {0};
    struct lh_tls_files tls = {0};
    struct lh_reign_config config = {0};
    char *text = text_of(data, size), *words[WORDS_MAX + 1], why[512] = "";

    if (data[0] % 2 == 0 && size > 1) {
        options.user = "u";
        options.password_file = file_with(data + size / 2, size - size / 2);
    }
    if (lh_etcd_options_take(&options, &tls, text, &config, why, sizeof why)) {
        LH_ASSERT(config.member_count >= 1 && config.member_count <= LH_ETCD_MEMBERS_MAX);
        LH_ASSERT(config.prefix[strlen(config.prefix) - 1] == '/');
    } else {
        LH_ASSERT(why[0] != '\0');
    }
    lh_etcd_options_free(&options);
    size_t count = words_of(text, size, words);
    why[0] = '\0';
    if (lh_masters_check((const char *const *)words, count, why, sizeof why) == LH_OK)
        LH_ASSERT(count >= 1 && count <= LH_MASTERS_MAX);
    else
        LH_ASSERT(why[0] != '\0');
    free(text);
}

/* ---- The table of roles. */

static void parse_roles(const uint8_t *data, size_t size)
{
    struct lh_access *access = NULL;
    struct lh_party party;
    char why[512] = "";

    if (lh_access_parse((const char *)data, size, &access, why, sizeof why) != LH_OK) {
        LH_ASSERT(why[0] != '\0' && access == NULL);
        return;
    }
    /* What stands there first is perhaps somebody; a URI of a certificate is, too. */
    char *identity = text_of(data, size);
    identity[strcspn(identity, " \t\n")] = '\0';
    lh_access_party(access, identity, &party);
    (void)lh_party_may(&party, LH_RIGHT_ADMIN);
    (void)lh_party_reaches(&party, "/logs/web", true);
    free(identity);
    lh_access_free(access);
}

/* ---- The file of a guard. */

/* Pages of a few fields each, with checksums that fit unless a byte says otherwise. */
static size_t make_guard(const uint8_t *data, size_t size, uint8_t *file, size_t room)
{
    static const uint8_t header[12] = {'L', 'H', 'G', 'U', 'A', 'R', 'D', '\n', 1};
    size_t at = PAGE;

    const uint8_t first = data[0];

    memset(file, 0, room);
    memcpy(file, header, sizeof header);
    lh_put32(file + 12, lh_crc32c(0, file, 12));
    if (data[0] == 255)
        file[data[1] % 16] ^= 1;
    for (data += 2, size -= 2; size >= 8 && at < room; data += 8, size -= 8, at += PAGE) {
        uint8_t *page = file + at;
        if (data[0] % 8 == 0)
            continue; /* of zeros */
        lh_put32(page, UINT32_C(0x3147484c));
        lh_put64(page + 8, data[1] == 255 ? UINT64_MAX : data[1]);
        lh_put64(page + 16, data[2] == 255 ? UINT64_MAX : data[2]);
        lh_put32(page + 24, data[3] == 255 ? UINT32_MAX : data[3] % 4);
        memcpy(page + 32, data + 4, 3);
        lh_put32(page + 4, lh_crc32c(0, page + 8, PAGE - 8));
        if (data[0] % 8 == 1)
            page[data[7] * 16u] ^= 1;
    }
    return first == 254 && at > 100 ? at - 100 : at;
}

/* Of each name the token that was admitted never falls. */
static void open_guard(const uint8_t *data, size_t size)
{
    static uint8_t bytes[9 * PAGE];
    static const char *const names[] = {"a", "b", "\1"};
    if (size < 2)
        return;
    size_t n = make_guard(data, size, bytes, sizeof bytes);
    struct lh_guard_file file;

    if (lh_guard_file_open(file_with(bytes, n), &file) == LH_OK) {
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            pthread_mutex_lock(&file.mutex);
            struct lh_guard_name *name = lh_guard_file_name(&file, names[i]);
            pthread_mutex_unlock(&file.mutex);
            if (name != NULL && lh_guard_file_admit(&file, name, 7) == LH_OK)
                LH_ASSERT(lh_guard_file_admit(&file, name, 6) != LH_OK);
        }
        lh_guard_file_close(&file);
    }
}

/* ---- IDENTITY. */

/* With some of its lines said for the fuzzer. What is accepted can be written, and is the
 * same then. */
static void decode_identity(const uint8_t *data, size_t size)
{
    static const char *const begins[] = {"", "leasehold-chunkserver 1\nserver_id ",
        "leasehold-chunkserver 1\nserver_id cs1\ncluster_id -\nincarnation ",
        "leasehold-chunkserver 1\nserver_id cs1\ncluster_id c\nincarnation 7\nmaster_term 2\n"};
    char text[LH_IDENTITY_BYTES_MAX], again[LH_IDENTITY_BYTES_MAX], why[512];
    struct lh_identity first = {0}, second = {0};
    int begin = snprintf(text, sizeof text, "%s", begins[data[0] % 4]);

    size = size - 1 < sizeof text - 1 - (size_t)begin ? size - 1 : sizeof text - 1 - (size_t)begin;
    memcpy(text + begin, data + 1, size);
    text[(size_t)begin + size] = '\0';
    if (lh_identity_parse("there", text, &first, why, sizeof why) != LH_OK)
        return;
    first.incarnation++; /* as each opening does */
    LH_ASSERT(lh_identity_print(&first, again, sizeof again) < sizeof again);
    LH_ASSERT(lh_identity_parse("there", again, &second, why, sizeof why) == LH_OK ||
              first.incarnation == UINT64_MAX);
    LH_ASSERT(strcmp(first.server_id, second.server_id) == 0 &&
              strcmp(first.cluster_id, second.cluster_id) == 0 &&
              strcmp(first.scrub, second.scrub) == 0);
    LH_ASSERT(first.incarnation == second.incarnation && first.master_term == second.master_term);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const all[])(const uint8_t *, size_t) = {
        read_options, read_addresses, parse_roles, open_guard, decode_identity};
    static bool registered;

    if (!registered)
        registered = atexit(remove_file) == 0;
    if (size < 2)
        return 0;
    all[data[0] % (sizeof all / sizeof all[0])](data + 1, size - 1);
    return 0;
}
