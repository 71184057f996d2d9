#include "tls/tls.h"

#include "base/alloc.h"
#include "tls/certificate.h"
#include "tls/gate.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* More than any certificate or key has. */
#define FILE_BYTES_MAX (1u << 20)

#define SECOND_NS INT64_C(1000000000)

/* Files that changed less than this ago are left alone: whoever replaces one may be about to
 * replace the next. */
#define SETTLE_NS SECOND_NS

/* Failed handshakes are logged at most this often. */
#define SAY_NS (10 * SECOND_NS)

enum { CA, CERT, KEY, FILES };

/* What tells a file from the one that had its name before. */
struct seen {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec modified, changed;
    int error; /* errno, of one that cannot be looked at */
};

struct lh_tls {
    _Atomic uint32_t references;
    enum lh_tls_use use;
    char *paths[FILES]; /* NULL: none */
    void (*log)(enum lh_level level, const char *text);

    pthread_mutex_t lock; /* for all below */
    struct lh_tls_pem *current;
    struct seen tried[FILES]; /* what was last read, usable or not */
    int64_t looked_ns, said_ns;
    uint64_t renewed, refused, failed_said;
    uint64_t ended_said; /* the generation that has run out, and of which that was said */
};

/* Of the whole process: gRPC says only in its log that a handshake failed, and not whose it was. */
static struct {
    pthread_mutex_t lock;
    uint64_t count;
    char last[256];
} failed = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int64_t clock_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * SECOND_NS + t.tv_nsec;
}

static void forget(char *text)
{
    if (text == NULL)
        return;
    explicit_bzero(text, strlen(text));
    free(text);
}

void lh_tls_pem_unref(struct lh_tls_pem *pem)
{
    if (pem == NULL || atomic_fetch_sub_explicit(&pem->references, 1, memory_order_acq_rel) != 1)
        return;
    free(pem->ca);
    free(pem->cert);
    forget(pem->key);
    free(pem);
}

/* ---- files ---- */

static struct seen look_at(const char *path)
{
    struct seen s;
    struct stat st;

    memset(&s, 0, sizeof s); /* padding, too: they are compared as bytes */
    if (path == NULL)
        return s;
    if (stat(path, &st) != 0) {
        s.error = errno;
        return s;
    }
    s.device = st.st_dev;
    s.inode = st.st_ino;
    s.size = st.st_size;
    s.modified = st.st_mtim;
    s.changed = st.st_ctim;
    return s;
}

/* Whether the files can be expected to be left as they are for now. */
static bool settled(const struct seen *seen, int64_t now)
{
    for (int i = 0; i < FILES; i++) {
        int64_t age = now - ((int64_t)seen[i].changed.tv_sec * SECOND_NS + seen[i].changed.tv_nsec);
        if (seen[i].error == 0 && age >= 0 && age < SETTLE_NS)
            return false;
    }
    return true;
}

/* The whole file as a string; NULL: `why` says why not. */
static char *read_file(const char *path, char *why, size_t why_size)
{
    FILE *file = fopen(path, "re");

    if (file == NULL) {
        (void)snprintf(why, why_size, "cannot open %s: %s", path, strerror(errno));
        return NULL;
    }
    char *text = lh_alloc(FILE_BYTES_MAX + 1); /* zeroed, so it ends in NUL */
    errno = 0;
    size_t size = fread(text, 1, FILE_BYTES_MAX, file);
    bool broken = ferror(file) != 0, good = !broken && strlen(text) == size;
    if (broken)
        (void)snprintf(why, why_size, "cannot read %s: %s", path, strerror(errno));
    else if (!good)
        (void)snprintf(why, why_size, "%s is not in PEM", path);
    (void)fclose(file);
    char *whole = good ? lh_strdup(text) : NULL;
    explicit_bzero(text, size);
    free(text);
    return whole;
}

static int read_files(const struct lh_tls *tls, struct lh_tls_pem **out, char *why, size_t why_size)
{
    const struct lh_tls_files names = {tls->paths[CA], tls->paths[CERT], tls->paths[KEY]};
    struct lh_tls_pem *pem = lh_alloc(sizeof *pem);
    char **texts[FILES] = {&pem->ca, &pem->cert, &pem->key};
    int error = LH_OK;

    atomic_init(&pem->references, 1);
    for (int i = 0; i < FILES && error == LH_OK; i++) {
        if (tls->paths[i] == NULL)
            continue;
        *texts[i] = read_file(tls->paths[i], why, why_size);
        if (*texts[i] == NULL)
            error = LH_ERR_INVALID_ARGUMENT;
    }
    if (error == LH_OK) {
        lh_openssl_enter();
        error = lh_certificate_check(&names, tls->use, pem, why, why_size);
        lh_openssl_leave();
    }
    if (error == LH_OK)
        *out = pem;
    else
        lh_tls_pem_unref(pem);
    return error;
}

/* ---- opening ---- */

bool lh_tls_is_wanted(const struct lh_tls_files *files)
{
    return files->ca_file != NULL || files->cert_file != NULL || files->key_file != NULL;
}

static bool complete(const struct lh_tls_files *files, enum lh_tls_use use)
{
    if ((files->cert_file == NULL) != (files->key_file == NULL))
        return false;
    return use == LH_TLS_FOREIGN || files->cert_file != NULL;
}

int lh_tls_open(const struct lh_tls_files *files, enum lh_tls_use use,
    void (*log)(enum lh_level level, const char *text), struct lh_tls **out, char *why,
    size_t why_size)
{
    const char *paths[FILES] = {files->ca_file, files->cert_file, files->key_file};

    if (files->ca_file == NULL || !complete(files, use)) {
        (void)snprintf(why, why_size, "%s",
            use == LH_TLS_FOREIGN
                ? "TLS with etcd needs the file of the CA that etcd's certificate is checked by; a "
                  "client certificate its key, too, and a key its certificate"
                : "TLS needs three files: a CA, a certificate and its key");
        return LH_ERR_INVALID_ARGUMENT;
    }
    struct lh_tls *tls = lh_alloc(sizeof *tls);
    atomic_init(&tls->references, 1);
    pthread_mutex_init(&tls->lock, NULL);
    tls->use = use;
    tls->log = log;
    for (int i = 0; i < FILES; i++) {
        tls->paths[i] = paths[i] == NULL ? NULL : lh_strdup(paths[i]);
        tls->tried[i] = look_at(paths[i]);
    }
    int error = read_files(tls, &tls->current, why, why_size);
    if (error != LH_OK) {
        lh_tls_unref(tls);
        return error;
    }
    tls->current->generation = 1;
    *out = tls;
    return LH_OK;
}

struct lh_tls *lh_tls_ref(struct lh_tls *tls)
{
    if (tls != NULL)
        atomic_fetch_add_explicit(&tls->references, 1, memory_order_relaxed);
    return tls;
}

void lh_tls_unref(struct lh_tls *tls)
{
    if (tls == NULL || atomic_fetch_sub_explicit(&tls->references, 1, memory_order_acq_rel) != 1)
        return;
    lh_tls_pem_unref(tls->current);
    for (int i = 0; i < FILES; i++)
        free(tls->paths[i]);
    pthread_mutex_destroy(&tls->lock);
    free(tls);
}

struct lh_tls_pem *lh_tls_current(struct lh_tls *tls)
{
    pthread_mutex_lock(&tls->lock);
    struct lh_tls_pem *pem = tls->current;
    atomic_fetch_add_explicit(&pem->references, 1, memory_order_relaxed);
    pthread_mutex_unlock(&tls->lock);
    return pem;
}

bool lh_tls_host(struct lh_tls *tls, char *host, size_t host_size)
{
    struct lh_tls_pem *pem = lh_tls_current(tls);
    bool found = pem->cert != NULL && lh_certificate_host(pem->cert, host, host_size);

    lh_tls_pem_unref(pem);
    return found;
}

/* ---- looking again; all with the lock held ---- */

static void say(const struct lh_tls *tls, enum lh_level level, const char *text)
{
    if (tls->log != NULL)
        tls->log(level, text);
}

static void take_up(struct lh_tls *tls, struct lh_tls_pem *pem)
{
    char text[300], when[40] = "";
    struct tm tm;
    time_t until = (time_t)pem->not_after_unix;

    pem->generation = tls->current->generation + 1;
    lh_tls_pem_unref(tls->current);
    tls->current = pem;
    tls->renewed++;
    if (pem->cert != NULL)
        (void)strftime(
            when, sizeof when, ", valid until %Y-%m-%d %H:%M:%S UTC", gmtime_r(&until, &tm));
    (void)snprintf(text, sizeof text, "TLS: new connections use the renewed %.150s%s",
        pem->cert != NULL ? tls->paths[CERT] : tls->paths[CA], when);
    /* The program that has our library in it may write to the same terminal. */
    say(tls, tls->use == LH_TLS_CALLS ? LH_DEBUG : LH_INFO, text);
}

static void look_again(struct lh_tls *tls)
{
    struct seen now[FILES];
    struct lh_tls_pem *pem = NULL;
    char why[600], text[700];

    for (int i = 0; i < FILES; i++)
        now[i] = look_at(tls->paths[i]);
    if (memcmp(now, tls->tried, sizeof now) == 0 || !settled(now, clock_ns(CLOCK_REALTIME)))
        return;
    memcpy(tls->tried, now, sizeof now);
    if (read_files(tls, &pem, why, sizeof why) == LH_OK) {
        take_up(tls, pem);
        return;
    }
    tls->refused++;
    (void)snprintf(text, sizeof text,
        "TLS: renewed files are not used, and the old ones stay in use: %s", why);
    say(tls, LH_ERROR, text);
}

/* Others refuse it from now on, and their logs say so; whoever can renew it reads this one. */
static void say_ended(struct lh_tls *tls)
{
    const struct lh_tls_pem *pem = tls->current;
    char text[300];

    if (tls->use != LH_TLS_SERVES || pem->generation == tls->ended_said ||
        clock_ns(CLOCK_REALTIME) / SECOND_NS < pem->not_after_unix)
        return;
    tls->ended_said = pem->generation;
    (void)snprintf(text, sizeof text,
        "TLS: %.200s has run out: nobody begins a connection with this server until it is renewed",
        tls->paths[CERT]);
    say(tls, LH_ERROR, text);
}

static void say_failed(struct lh_tls *tls, int64_t now)
{
    char text[500];

    if (tls->use != LH_TLS_SERVES || (tls->said_ns != 0 && now - tls->said_ns < SAY_NS))
        return;
    pthread_mutex_lock(&failed.lock);
    uint64_t count = failed.count;
    (void)snprintf(text, sizeof text,
        "TLS: %" PRIu64 " connections were given up in their handshake so far; the last one: %s",
        count, failed.last);
    pthread_mutex_unlock(&failed.lock);
    if (count == tls->failed_said)
        return;
    tls->failed_said = count;
    tls->said_ns = now;
    say(tls, LH_WARN, text);
}

void lh_tls_housekeep(struct lh_tls *tls)
{
    if (tls == NULL)
        return;
    int64_t now = clock_ns(CLOCK_MONOTONIC_COARSE);
    pthread_mutex_lock(&tls->lock);
    if (tls->looked_ns == 0 || now - tls->looked_ns >= SECOND_NS) {
        tls->looked_ns = now;
        look_again(tls);
        say_ended(tls);
        say_failed(tls, now);
    }
    pthread_mutex_unlock(&tls->lock);
}

/* ---- figures ---- */

void lh_tls_note_failed_handshake(const char *text)
{
    pthread_mutex_lock(&failed.lock);
    failed.count++;
    (void)snprintf(failed.last, sizeof failed.last, "%s", text);
    pthread_mutex_unlock(&failed.lock);
}

void lh_tls_figures(struct lh_tls *tls, struct lh_tls_figures *figures)
{
    pthread_mutex_lock(&failed.lock);
    figures->handshakes_failed = failed.count;
    pthread_mutex_unlock(&failed.lock);
    if (tls == NULL)
        return;
    pthread_mutex_lock(&tls->lock);
    int64_t end = tls->current->not_after_unix;
    if (end != 0 && (figures->not_after_unix == 0 || end < figures->not_after_unix))
        figures->not_after_unix = end;
    figures->renewed += tls->renewed;
    figures->refused += tls->refused;
    pthread_mutex_unlock(&tls->lock);
}
