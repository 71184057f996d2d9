#include "master/tables/tables.h"

static const char *path_of_file(const void *core, uint64_t id)
{
    const struct lh_m_file *f = lh_m_file_by_id(core, id);

    return f == NULL ? NULL : f->path;
}

static const char *path_of_chunk(const void *core, uint64_t id)
{
    const struct lh_m_chunk *c = lh_m_chunk_find(core, id);

    return c == NULL ? NULL : c->file->path;
}

static int said(struct lh_master *m, int error, const char *text)
{
    if (error == LH_OK)
        return LH_OK;
    LH_MARK("access-refused");
    m->counts.access_refused++;
    lh_access_say(&m->refusals, m->fx, m->now, m->config.refusal_log_pause, text);
    return error;
}

/* A value goes with a session of whoever puts it (ACC-4). If there is no such session, the change
 * is refused in its turn. */
static int attaches(
    struct lh_master *m, const char *identity, const Leasehold__ChangeRequest *change, char *text)
{
    const struct lh_m_program *p = change->attach.len == LH_M_SESSION_ID_BYTES
                                       ? lh_m_program_find(m, change->attach.data)
                                       : NULL;

    return p == NULL || p->identity == NULL ? LH_OK
                                            : lh_m_access_session(m, identity, p->identity, text);
}

int lh_m_access_call(struct lh_master *m, const char *identity, enum lh_method method,
    const void *request, char *text)
{
    const struct lh_access_paths paths = {
        .of_file = path_of_file, .of_chunk = path_of_chunk, .core = m};

    if (LH_PLANTED("method-without-its-right"))
        return LH_OK;
    int error =
        said(m, lh_access_call(m->config.access, identity, method, request, &paths, text), text);
    if (error == LH_OK && method == LH_METHOD_CHANGE && request != NULL)
        error = attaches(m, identity, request, text);
    return error;
}

int lh_m_access_name(struct lh_master *m, const char *identity, enum lh_right right,
    const char *name, bool below, char *text)
{
    if (lh_m_is_lookup(name))
        name++; /* of a file: it is reached as the path is (VAL-7) */
    return said(m, lh_access_name(m->config.access, identity, right, name, below, text), text);
}

int lh_m_access_prefix(struct lh_master *m, const char *identity, const char *prefix, char *text)
{
    if (lh_access_concerns(m->config.access, identity, prefix))
        return LH_OK;
    snprintf(text, LH_ACCESS_TEXT_MAX, "%.256s reaches nothing that begins with \"%.256s\"",
        identity, prefix);
    return said(m, LH_ERR_PERMISSION, text);
}

int lh_m_access_server(struct lh_master *m, const char *identity, const char *server_id, char *text)
{
    return said(m, lh_access_server(m->config.access, identity, server_id, text), text);
}

int lh_m_access_session(
    struct lh_master *m, const char *identity, const char *opened_by, char *text)
{
    if (identity != NULL && strcmp(opened_by, identity) == 0)
        return LH_OK;
    snprintf(text, LH_ACCESS_TEXT_MAX, "%.256s may not use a session of %.256s",
        identity == NULL ? "whoever has no certificate" : identity, opened_by);
    return said(m, LH_ERR_PERMISSION, text);
}
