/* Which file has a path, cached by programs (VAL-7). A path's lookup is a name of its own: ":" and
 * the path, which no other name begins with. It has no stored value: its revision is the file's id,
 * and its bytes are what a file keeps for ever. A call that takes a file's path away is a change of
 * it. */
#include "master/values/lookups.h"
#include "master/tables/path.h"
#include "master/tables/replies.h"
#include "master/values/internal.h"

/* Without the ":". */
static const char *path_of(const char *lookup)
{
    return lookup + 1;
}

int lh_m_cached_name_check(
    const struct lh_m_program *p, const char *text, char *why, size_t why_size)
{
    if (!lh_m_is_lookup(text))
        return lh_m_name_check(text, why, why_size);
    if (!p->lookups) {
        snprintf(why, why_size, "this session was not opened to look up files");
        return LH_ERR_INVALID_ARGUMENT;
    }
    return lh_path_check(path_of(text), why, why_size);
}

/* ---- What there is. */

/* NULL: there is none, or its path is not durable yet: if this master dies, its id may be given to
 * another file. */
static const struct lh_m_file *file_of(const struct lh_master *m, const char *lookup)
{
    const struct lh_m_file *f = lh_m_file_by_path(m, path_of(lookup));

    if (f == NULL || lh_m_is_durable(m, f->ticket) || LH_PLANTED("lookup-leased-before-durable"))
        return f;
    LH_MARK("lookup-before-durable");
    return NULL;
}

uint64_t lh_m_cached_revision(const struct lh_master *m, const struct lh_m_name *name)
{
    const struct lh_m_file *f;

    if (name == NULL || !lh_m_is_lookup(name->text))
        return lh_m_revision_of(name);
    /* Durable or not: a program that shows it had a lease, and so its path was. What is under way
     * is something else of the file, and the program still serves the path. */
    f = lh_m_file_by_path(m, path_of(name->text));
    return f == NULL ? 0 : f->id;
}

void lh_m_lookup_fill(struct lh_master *m, const Leasehold__ReadValue *asked,
    Leasehold__ValueRead *read, uint8_t bytes[LH_M_LOOKUP_BYTES])
{
    const struct lh_m_file *f = file_of(m, asked->name);
    Leasehold__FileInfo info;

    if (f == NULL) {
        read->error = LEASEHOLD__ERROR_CODE__NOT_FOUND;
        return;
    }
    read->revision = f->id;
    read->same = asked->revision == f->id;
    if (read->same)
        return;
    lh_m_file_attributes(f, &info);
    LH_ASSERT(leasehold__file_info__get_packed_size(&info) <= LH_M_LOOKUP_BYTES);
    read->value.len = leasehold__file_info__pack(&info, bytes);
    read->value.data = bytes;
}

/* ---- Calls that take the path away. */

bool lh_m_lookups_awaited(const struct lh_master *m)
{
    return m->programs.lookups_away > 0;
}

static struct lh_m_change *change_of(
    enum lh_method method, const ProtobufCMessage *request, lh_m_carry_out *carry_out)
{
    struct lh_m_change *c = lh_alloc(sizeof *c);
    size_t size = protobuf_c_message_get_packed_size(request);
    uint8_t *bytes = lh_alloc(size + 1);

    protobuf_c_message_pack(request, bytes);
    c->request = protobuf_c_message_unpack(request->descriptor, NULL, size, bytes);
    LH_ASSERT(c->request != NULL);
    free(bytes);
    c->method = method;
    c->carry_out = carry_out;
    c->size = size;
    return c;
}

bool lh_m_path_changes(struct lh_master *m, uint64_t link, const char *path, enum lh_method method,
    const ProtobufCMessage *request, lh_m_carry_out *carry_out)
{
    char lookup[LH_PATH_BYTES_MAX + 2];

    if (m->names.lookups == 0 && !lh_m_lookups_awaited(m))
        return false;
    snprintf(lookup, sizeof lookup, ":%s", path);
    struct lh_m_name *name = lh_m_name_find(m, lookup);
    if (name == NULL ? !lh_m_lookups_awaited(m) : name == m->value_state->clear)
        return false;
    if (!lh_m_change_fits(m, name, protobuf_c_message_get_packed_size(request))) {
        lh_m_refuse(m, link, method, LH_ERR_NO_MEMORY,
            "too many changes of files' paths, or of values, wait: try again");
        return true;
    }
    LH_MARK("path-change-waits");
    m->counts.path_changes_waited++;
    struct lh_m_change *c = change_of(method, request, carry_out);
    lh_m_pending_begin(m, &c->call, link);
    lh_m_change_add(m, name == NULL ? lh_m_name_get(m, lookup) : name, c);
    return true;
}

/* VAL-2 (4): with all its checks, as if it came now. It may wait again, if its file has another
 * path by now. */
bool lh_m_path_carry_out(struct lh_master *m, struct lh_m_change *c)
{
    const struct lh_m_name *name = c->changing->name;
    const struct lh_m_file *before = lh_m_file_by_path(m, path_of(name->text));
    struct lh_m_taken taken = m->calls.taken;
    uint64_t link = c->call.link.id, file = before == NULL ? 0 : before->id;

    lh_m_pending_resume(m, &c->call);
    m->value_state->clear = name;
    c->carry_out(m, link, c->request);
    m->value_state->clear = NULL;
    m->calls.taken = taken;
    lh_m_change_free(m, c);
    const struct lh_m_file *now = lh_m_file_by_path(m, path_of(name->text));
    return file != (now == NULL ? 0 : now->id);
}

size_t lh_m_path_caches(const struct lh_master *m, const char *path, bool *changing)
{
    char lookup[LH_PATH_BYTES_MAX + 2];

    *changing = false;
    if (m->names.lookups == 0)
        return 0;
    snprintf(lookup, sizeof lookup, ":%s", path);
    const struct lh_m_name *name = lh_m_name_find(m, lookup);
    *changing = name != NULL && name->more->changing != NULL && name->more->changing->change_count;
    return name == NULL ? 0 : name->caches;
}
