/* `leasehold top` without its terminal: what was asked of the masters, and the rows of text that
 * become of it. Pure: what time it is the caller says. Only how wide a character is depends on the
 * locale (LC_CTYPE): what cannot be shown in it is shown as '?'. */
#pragma once

#include "base/error.h"
#include "client/library/leasehold.h"
#include "client/library/leasehold_leases.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_TOP_LEASES_MAX    5000u  /* in one sample; a larger cluster's others are not shown */
#define LH_TOP_NAMES_MAX     1000u  /* names that are looked at for locks */
#define LH_TOP_EXPLAINED_MAX 3u     /* chunks that are explained */
#define LH_TOP_CHANGING_MAX  10u    /* leases about to change, in the overview */
#define LH_TOP_SAMPLES_MAX   16u    /* that are kept */
#define LH_TOP_WINDOW_MS     10000u /* rates are of so long */

enum lh_top_view {
    LH_TOP_OVERVIEW,
    LH_TOP_SERVERS,
    LH_TOP_LEASES,
    LH_TOP_LOCKS,
    LH_TOP_VIEWS,
};
extern const char *const lh_top_view_names[]; /* NULL-terminated */

/* ---- Samples. */

/* What the masters said at one time. `good`: the active master answered, and all is filled in.
 * Otherwise only the masters are, and `trouble` says why. */
struct lh_top_sample {
    uint64_t at_ms; /* by a clock of this machine that only goes on */
    struct lh_master_list masters;
    bool good;
    int error;
    char *trouble;
    struct lh_server_list servers; /* by name */
    struct lh_lease_info *leases;  /* by chunk */
    size_t lease_count;
    bool leases_more;
    struct lh_name_info *names; /* by name */
    size_t name_count;
    bool names_more;
    char *withheld; /* why leases or names are not there; NULL: they are */
    struct lh_explanation explained[LH_TOP_EXPLAINED_MAX];
    size_t explained_count;
};
void lh_top_sample_free(struct lh_top_sample *sample);

/* Whether something happens to this lease unless its holder is heard of; a rank, 0: nothing. The
 * servers are by name. */
unsigned lh_top_changing(const struct lh_lease_info *lease, const struct lh_server_list *servers);

/* The chunks most worth explaining: their indices in `leases`, at most LH_TOP_EXPLAINED_MAX. */
size_t lh_top_to_explain(const struct lh_top_sample *sample, size_t *indices);

/* The last samples. `newest` is the one of these that came last, or one that is not good. */
struct lh_top_history {
    struct lh_top_sample *good[LH_TOP_SAMPLES_MAX]; /* oldest first */
    size_t count;
    struct lh_top_sample *newest;
};
/* Takes the sample over. */
void lh_top_history_add(struct lh_top_history *history, struct lh_top_sample *sample);
void lh_top_history_deinit(struct lh_top_history *history);

/* ---- Rates, a second. Negative: not known. */

struct lh_top_rates {
    double batches, bytes; /* that the servers ordered */
    double granted, renewed, recalled, expired;
    double locks_granted, locks_released;
    double values_read, values_changed;
};
void lh_top_rates(const struct lh_top_history *history, struct lh_top_rates *rates);
/* Of one server of the newest good sample. */
void lh_top_server_rates(const struct lh_top_history *history, const struct lh_server_info *server,
    double *batches, double *bytes);
/* Batches of one of its leases. */
double lh_top_lease_rate(const struct lh_top_history *history, const struct lh_lease_info *lease);

/* ---- Rows. */

enum lh_top_style { LH_TOP_PLAIN, LH_TOP_HEAD, LH_TOP_TITLE, LH_TOP_WARN, LH_TOP_BAD };

struct lh_top_row {
    enum lh_top_style style;
    char *text; /* nothing in it moves a terminal's cursor but by its width */
};

struct lh_top_rows {
    struct lh_top_row *items;
    size_t count, capacity;
    unsigned width; /* columns; what is longer is cut off, sentences are broken. 0: no limit */
};
void lh_top_rows_deinit(struct lh_top_rows *rows);
/* Columns that `text` takes. */
unsigned lh_top_width(const char *text);

struct lh_top_screen {
    enum lh_top_view view;
    unsigned sort[LH_TOP_VIEWS]; /* lh_top_next_sort() */
    bool paused;
    const char *master; /* who is asked */
    uint64_t now_ms;    /* by the samples' clock */
    uint64_t interval_ms;
    const char *clock; /* the time of day, as it is shown; "": not */
};
void lh_top_next_sort(struct lh_top_screen *screen);

/* What stays at the top, and what can be scrolled below it. */
void lh_top_head(const struct lh_top_history *history, const struct lh_top_screen *screen,
    struct lh_top_rows *rows);
void lh_top_body(const struct lh_top_history *history, const struct lh_top_screen *screen,
    struct lh_top_rows *rows);
/* Instead of the body. */
void lh_top_help(struct lh_top_rows *rows);
