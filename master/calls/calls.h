/* What clients and operators ask. */
#pragma once

#include "master/tables/tables.h"

/* ---- What calls ask of those above them, who fill this in. */

struct lh_m_token_owner {
    /* Is the lock on that name in force with exactly this token? */
    bool (*in_force)(const struct lh_master *m, const char *name, uint64_t token);
    /* That may turn out yet: sessions on record are not back (PS-3). */
    bool (*awaited)(const struct lh_master *m);
};

struct lh_m_lookup_owner {
    /* VAL-7. A call that came on `link` is to take the path away from its file. False: it may do so
     * now. True: it was refused, or waits: then `carry_out` is called with it later. */
    bool (*path_changes)(struct lh_master *m, uint64_t link, const char *path,
        enum lh_method method, const ProtobufCMessage *request,
        void (*carry_out)(struct lh_master *m, uint64_t link, const void *request));
    /* How many sessions may have cached which file has the path; `*changing`: a call waits. */
    size_t (*caches)(const struct lh_master *m, const char *path, bool *changing);
};

/* ---- waiters.c */

extern const struct lh_link_user lh_m_waiter_links;
/* Ends every call that waits for `f` (NULL: for any file) with `error`. */
void lh_m_fail_waiters(struct lh_master *m, struct lh_m_file *f, int error, const char *text);
void lh_m_waiter_free(struct lh_master *m, struct lh_m_waiter *w);
/* The sealed chunk in which the caller has to settle and cannot yet, as what is sealed there is on
 * too few disks (FAIL-2a); NULL: none. */
struct lh_m_chunk *lh_m_unbacked_for(const struct lh_master *m, const struct lh_m_waiter *w);
/* Answers and frees it. */
void lh_m_answer(struct lh_master *m, struct lh_m_waiter *w, int error, const char *text);

/* ---- tail.c */

void lh_m_open_tail(struct lh_master *m, uint64_t link, const Leasehold__OpenTailRequest *request);
void lh_m_recall_call(struct lh_master *m, uint64_t link, const Leasehold__RecallRequest *request);
void lh_m_file_advance(struct lh_master *m, struct lh_m_file *f);

/* ---- once.c */

/* HA-12. True: it is a repeat, and was answered. False: it is to be carried out now; what is
 * replied on its link until lh_m_once_end() is kept for repeats, if it has an id. */
bool lh_m_once_begin(
    struct lh_master *m, uint64_t link, enum lh_method method, const ProtobufCMessage *request);
void lh_m_once_end(struct lh_master *m);

/* ---- namespace.c */

/* Out of memory and store, with its chunks. It may be in the trash. */
void lh_m_file_purge(struct lh_master *m, struct lh_m_file *f);
void lh_m_create(struct lh_master *m, uint64_t link, const Leasehold__CreateRequest *request);
void lh_m_stat(struct lh_master *m, uint64_t link, const Leasehold__StatRequest *request);
void lh_m_rename(struct lh_master *m, uint64_t link, const Leasehold__RenameRequest *request);

/* ---- trash.c */

void lh_m_remove(struct lh_master *m, uint64_t link, const Leasehold__RemoveRequest *request);
void lh_m_restore(struct lh_master *m, uint64_t link, const Leasehold__RestoreRequest *request);
/* The clocks of what was loaded begin, or go on once deletion was resumed. */
void lh_m_trash_start(struct lh_master *m);

/* ---- listing.c */

void lh_m_list(struct lh_master *m, uint64_t link, const Leasehold__ListRequest *request);
void lh_m_locate(struct lh_master *m, uint64_t link, const Leasehold__LocateRequest *request);
void lh_m_list_leases(
    struct lh_master *m, uint64_t link, const Leasehold__ListLeasesRequest *request);
void lh_m_list_servers(
    struct lh_master *m, uint64_t link, const Leasehold__ListServersRequest *request);

/* ---- set_server.c */

void lh_m_set_server(
    struct lh_master *m, uint64_t link, const Leasehold__SetServerRequest *request);

/* ---- garbage_call.c */

void lh_m_garbage_call(
    struct lh_master *m, uint64_t link, const Leasehold__GarbageRequest *request);

/* ---- masters_call.c */

void lh_m_masters_call(
    struct lh_master *m, uint64_t link, const Leasehold__MastersRequest *request);

/* ---- explain.c */

void lh_m_explain(struct lh_master *m, uint64_t link, const Leasehold__ExplainRequest *request);

/* ---- states.c */

void lh_m_list_chunks(
    struct lh_master *m, uint64_t link, const Leasehold__ListChunksRequest *request);

/* ---- events_call.c */

void lh_m_list_events(
    struct lh_master *m, uint64_t link, const Leasehold__ListEventsRequest *request);
