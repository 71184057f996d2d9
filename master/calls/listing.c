/* What clients and operators may look at: pages of files, chunks, leases and servers. */
#include "master/calls/calls.h"

#include "master/calls/internal.h"
#include "master/grants/grants.h"
#include "master/inventory/inventory.h"
#include "master/keep/keep.h"
#include "master/tables/chunk.h"
#include "master/tables/path.h"
#include "master/tables/replies.h"
#include "master/tables/tables.h"

static struct lh_m_file *next_listed(const Leasehold__ListRequest *request, struct lh_m_file *f)
{
    return request->trash ? RB_NEXT(lh_m_trash, NULL, f) : RB_NEXT(lh_m_paths, NULL, f);
}

static struct lh_m_file *first_listed(struct lh_master *m, const Leasehold__ListRequest *request)
{
    bool resumes = strcmp(request->after, request->prefix) >= 0 && request->after[0] != 0;
    struct lh_m_file key = {.path = resumes ? request->after : request->prefix};

    if (request->trash) {
        /* Several may have had one path: without `after_file` all of them are passed over. */
        key.id = !resumes ? 0 : request->after_file == 0 ? UINT64_MAX : request->after_file;
        struct lh_m_file *f = RB_NFIND(lh_m_trash, &m->trash, &key);
        return f != NULL && resumes && strcmp(f->path, key.path) == 0 && f->id == key.id
                   ? RB_NEXT(lh_m_trash, &m->trash, f)
                   : f;
    }
    struct lh_m_file *f = RB_NFIND(lh_m_paths, &m->paths, &key);
    return f != NULL && resumes && strcmp(f->path, key.path) == 0
               ? RB_NEXT(lh_m_paths, &m->paths, f)
               : f;
}

void lh_m_list(struct lh_master *m, uint64_t link, const Leasehold__ListRequest *request)
{
    Leasehold__ListReply reply = LEASEHOLD__LIST_REPLY__INIT;
    char text[LH_TEXT_BYTES];
    int error = lh_path_prefix_check(request->prefix, text, sizeof text);

    if (error == LH_OK)
        error = lh_path_prefix_check(request->after, text, sizeof text);
    if (error != LH_OK) {
        reply.error = lh_m_wire_error(error);
        reply.error_text = text;
        lh_m_reply(m, link, lh_m_ticket(m, NULL), &reply.base);
        return;
    }
    uint32_t limit = lh_m_page_size(request->limit, m->config.list_default, m->config.list_max);
    size_t prefix_size = strlen(request->prefix);
    Leasehold__FileInfo *items = NULL;
    size_t count = 0, capacity = 0, bytes = 0;
    uint64_t ticket = lh_m_ticket(m, NULL);
    struct lh_m_file *f = first_listed(m, request);

    for (; f != NULL && strncmp(f->path, request->prefix, prefix_size) == 0;
         f = next_listed(request, f)) {
        LH_GROW(items, capacity, count + 1);
        lh_m_trash_info(m, f, &items[count]);
        if (count == limit || !lh_m_page_takes(m, &bytes, &items[count].base)) {
            reply.more = true;
            break;
        }
        count++;
        if (f->ticket > ticket)
            ticket = f->ticket;
    }
    Leasehold__FileInfo **pointers = lh_alloc_array(count + 1, sizeof *pointers);
    for (size_t i = 0; i < count; i++)
        pointers[i] = &items[i];
    reply.n_files = count;
    reply.files = pointers;
    lh_m_reply(m, link, ticket, &reply.base);
    free(pointers);
    free(items);
}

/* Index of the last chunk that begins at or before `offset`. The file has one. */
static size_t chunk_at(const struct lh_m_file *f, uint64_t offset)
{
    size_t low = 0, high = f->chunk_count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (lh_m_file_chunk(f, middle)->start <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void lh_m_locate(struct lh_master *m, uint64_t link, const Leasehold__LocateRequest *request)
{
    Leasehold__LocateReply reply = LEASEHOLD__LOCATE_REPLY__INIT;
    Leasehold__FileInfo info;
    char text[LH_TEXT_BYTES];
    int error = LH_OK;
    struct lh_m_file *f =
        lh_m_file_named(m, request->file, request->path, &error, text, sizeof text);

    if (f == NULL) {
        reply.error = lh_m_wire_error(error);
        reply.error_text = text;
        lh_m_reply(m, link, lh_m_ticket(m, NULL), &reply.base);
        return;
    }
    lh_m_file_info(f, &info);
    reply.info = &info;
    uint32_t limit = lh_m_page_size(request->limit, m->config.locate_default, m->config.locate_max);
    struct lh_m_chunk_view *views = lh_alloc_array(limit, sizeof *views);
    Leasehold__ChunkInfo **pointers = lh_alloc_array(limit, sizeof *pointers);
    size_t count = 0, bytes = 0;
    /* A chunk that is still being created is not there yet; it can only be the last. */
    size_t end = (size_t)info.chunks;
    for (size_t i = f->chunk_count == 0 ? 0 : chunk_at(f, request->offset); i < end; i++) {
        if (count == limit) {
            reply.more = true;
            break;
        }
        lh_m_chunk_view(m, lh_m_file_chunk(f, i), &views[count]);
        lh_m_chunk_view_capability(m, &views[count], LH_CAPABILITY_READ);
        if (!lh_m_page_takes(m, &bytes, &views[count].info.base)) {
            reply.more = true;
            break;
        }
        pointers[count] = &views[count].info;
        count++;
    }
    reply.n_chunks = count;
    reply.chunks = pointers;
    reply.masters = m->masters;
    reply.n_masters = m->master_count;
    lh_m_reply(m, link, lh_m_ticket(m, f), &reply.base);
    free(pointers);
    free(views);
}

static void lease_view(
    const struct lh_master *m, const struct lh_m_chunk *c, Leasehold__Lease *lease)
{
    leasehold__lease__init(lease);
    lease->chunk = c->id;
    lease->path = c->file->path;
    lease->version = lh_m_holder(c) == NULL ? c->version : c->active->grant->lease.version;
    lease->state = (char *)(uintptr_t)lh_m_lease_state(m, c);
    lease->members = c->member_count;
    lease->replication = c->file->replication;
    if (lh_m_holder(c) == NULL)
        return;
    lease->primary = lh_m_holder(c)->id;
    lease->address = lh_m_holder(c)->address;
    lease->left_ms = lh_duration_ms(lh_m_lease_left(m, c));
    lease->appends = c->active->grant->appends;
    lease->session_live = lh_m_live(m, lh_m_holder(c)) &&
                          c->active->grant->lease.session == lh_m_holder(c)->session.client.session;
}

/* The first chunk from `id` on that is listed: one with a holder or, if `all`, unsealed. */
static struct lh_m_chunk *next_lease(struct lh_master *m, uint64_t id, bool all)
{
    struct lh_m_chunk from = {.id = id};
    struct lh_m_active key = {.chunk = &from};
    struct lh_m_active *held = RB_NFIND(lh_m_leased, &m->leased, &key);
    struct lh_m_chunk *open = all ? lh_idmap_from(&m->open, id) : NULL;

    if (held != NULL && (open == NULL || held->chunk->id < open->id))
        return held->chunk;
    return open;
}

void lh_m_list_leases(
    struct lh_master *m, uint64_t link, const Leasehold__ListLeasesRequest *request)
{
    Leasehold__ListLeasesReply reply = LEASEHOLD__LIST_LEASES_REPLY__INIT;
    uint32_t limit = lh_m_page_size(request->limit, m->config.list_default, m->config.list_max);
    Leasehold__Lease *items = NULL;
    size_t count = 0, capacity = 0, bytes = 0;
    struct lh_m_chunk *c = NULL;

    if (request->after_chunk != UINT64_MAX)
        c = next_lease(m, request->after_chunk + 1, request->all);
    for (; c != NULL; c = next_lease(m, c->id + 1, request->all)) {
        LH_GROW(items, capacity, count + 1);
        lease_view(m, c, &items[count]);
        if (count == limit || !lh_m_page_takes(m, &bytes, &items[count].base)) {
            reply.more = true;
            break;
        }
        count++;
    }
    Leasehold__Lease **pointers = lh_alloc_array(count + 1, sizeof *pointers);
    for (size_t i = 0; i < count; i++)
        pointers[i] = &items[i];
    reply.n_leases = count;
    reply.leases = pointers;
    /* Not held up by commits under way: this is what one looks at when the disk hangs. */
    lh_m_reply(m, link, 1, &reply.base);
    free(pointers);
    free(items);
}

/* A server that the master has forgotten, or that has not come back since, is not there. */
static bool listed(const struct lh_m_server *s)
{
    return s->incarnation != 0 || s->census.members > 0;
}

static void figures_of(const struct lh_master *m, Leasehold__MasterFigures *figures)
{
    leasehold__master_figures__init(figures);
    figures->leases = lh_grantor_lease_count(m->leases.engine);
    figures->files = m->files.count;
    figures->chunks = m->chunks.count;
    figures->sessions = m->programs.count - m->programs.over;
    figures->sessions_away = m->leases.away;
    figures->names = m->names.count - m->names.lookups;
    figures->locks = m->locks.held;
    figures->locks_waiting = m->locks.waiting;
    figures->values = m->values.count;
    figures->calls_waiting = m->waiter_count;
    figures->leases_granted = m->counts.grants + m->counts.regrants;
    figures->leases_renewed = m->counts.extensions;
    figures->leases_recalled = m->counts.recalls;
    figures->leases_expired = m->counts.expiries;
    figures->locks_granted = m->counts.locks_granted;
    figures->locks_released = m->counts.locks_released;
    figures->values_read = m->counts.value_reads;
    figures->values_changed = m->counts.changes;
}

static void list_refused(const struct lh_master *m, Leasehold__ListServersReply *reply)
{
    Leasehold__RefusedServer *items = lh_alloc_array(m->refused.count + 1, sizeof *items);

    reply->refused = lh_alloc_array(m->refused.count + 1, sizeof *reply->refused);
    for (const struct lh_m_refused *r = NULL; (r = lh_m_refused_next(m, r)) != NULL;) {
        Leasehold__RefusedServer *item = reply->refused[reply->n_refused] =
            &items[reply->n_refused];
        leasehold__refused_server__init(item);
        item->server_id = r->server_id;
        item->address = r->address;
        item->peer = r->peer;
        item->identity = r->identity;
        item->error = lh_m_wire_error(r->error);
        item->error_text = r->text;
        item->times = r->times;
        item->ago_ms = lh_duration_ms(lh_instant_until(r->at, m->now));
        reply->n_refused++;
    }
    if (reply->n_refused == 0)
        free(items);
}

void lh_m_list_servers(
    struct lh_master *m, uint64_t link, const Leasehold__ListServersRequest *request)
{
    Leasehold__ListServersReply reply = LEASEHOLD__LIST_SERVERS_REPLY__INIT;
    Leasehold__RepairInfo repair;
    Leasehold__MasterFigures figures;
    size_t count = 0, most = HASH_COUNT(m->servers);
    Leasehold__ServerInfo *items = lh_alloc_array(most + 1, sizeof *items);
    Leasehold__ServerInfo **pointers = lh_alloc_array(most + 1, sizeof *pointers);
    const struct lh_m_server *s;

    (void)request;
    TAILQ_FOREACH(s, &m->all_servers, all_link) {
        if (!listed(s))
            continue;
        lh_m_server_view(m, s, &items[count]);
        pointers[count] = &items[count];
        count++;
    }
    reply.n_servers = count;
    reply.servers = pointers;
    reply.master_term = m->term;
    reply.cluster_id = m->cluster_id;
    lh_m_repair_info(m, &repair);
    reply.repair = &repair;
    reply.deleting = m->behind == NULL;
    if (m->behind != NULL)
        reply.deleting_text = m->behind;
    list_refused(m, &reply);
    figures_of(m, &figures);
    reply.figures = &figures;
    reply.session_term_ms = lh_duration_ms(m->config.session_term);
    reply.chunk_term_ms = lh_duration_ms(m->config.chunk_term);
    lh_m_reply(m, link, 1, &reply.base);
    if (reply.n_refused > 0)
        free(reply.refused[0]); /* all of them */
    free(reply.refused);
    free(pointers);
    free(items);
}
