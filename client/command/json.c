/* What the library returns, as JSON; see json.h. */
#include "client/command/json.h"

#include "base/alloc.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static json_t *number(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

json_t *lh_json_text(const char *text)
{
    json_t *json = json_string(text);
    if (json != NULL)
        return json;
    char *mended = lh_strdup(text); /* what a user said; what comes from a server is UTF-8 */
    lh_utf8_mend(mended, strlen(mended));
    json = json_string(mended);
    free(mended);
    return json;
}

json_t *lh_json_hex(uint64_t value)
{
    char text[17];
    (void)snprintf(text, sizeof text, "%016" PRIx64, value);
    return json_string(text);
}

static const char *on_primary_loss(enum lh_on_primary_loss choice)
{
    return lh_command_losses[(unsigned)choice <= LH_LOSS_WAIT ? choice : LH_LOSS_AS_CONFIGURED];
}

json_t *lh_json_file(const struct lh_file_info *info)
{
    return json_pack("{s:o, s:o, s:s, s:i, s:i, s:o, s:o, s:o, s:o, s:s, s:b, s:o, s:o, s:o}",
        "path", lh_json_text(info->path), "file", number(info->file), "durability",
        lh_command_durabilities[info->durability], "replication", (int)info->replication,
        "min_replicas", (int)info->min_replicas, "chunk_size", number(info->chunk_size), "chunks",
        number(info->chunks), "sealed_length", number(info->sealed_length), "created_unix_ms",
        number(info->created_unix_ms), "on_primary_loss", on_primary_loss(info->on_primary_loss),
        "trashed", (int)info->trashed, "trash_left_ms", number(info->trash_left_ms), "lock",
        info->fence == 0 ? json_null() : lh_json_text(info->lock_name), "fence",
        number(info->fence));
}

json_t *lh_json_chunk(const struct lh_chunk_info *c)
{
    json_t *members = json_array();
    for (size_t i = 0; i < c->member_count; i++)
        (void)json_array_append_new(members,
            json_pack("{s:o, s:o, s:b}", "server_id", lh_json_text(c->members[i].server_id),
                "address", lh_json_text(c->members[i].address), "joining",
                (int)c->members[i].joining));
    return json_pack("{s:o, s:o, s:o, s:b, s:o, s:o, s:o}", "chunk", number(c->chunk), "version",
        number(c->version), "start", number(c->start), "sealed", (int)c->sealed, "length",
        number(c->length), "primary", lh_json_text(c->primary), "members", members);
}

json_t *lh_json_chunk_state(const struct lh_chunk_state *s)
{
    json_t *json = lh_json_chunk(&s->info), *replicas = json_array();
    for (size_t i = 0; i < s->replica_count; i++) {
        const struct lh_replica_info *r = &s->replicas[i];
        (void)json_array_append_new(
            replicas, json_pack("{s:o, s:o, s:o, s:b}", "server_id", lh_json_text(r->server_id),
                          "address", lh_json_text(r->address), "state", lh_json_text(r->state),
                          "primary", (int)r->primary));
    }
    (void)json_object_set_new(json, "replicas", replicas);
    (void)json_object_set_new(json, "path", lh_json_text(s->path));
    (void)json_object_set_new(json, "file", number(s->file));
    (void)json_object_set_new(json, "replication", number(s->replication));
    (void)json_object_set_new(json, "min_replicas", number(s->min_replicas));
    (void)json_object_set_new(json, "lease", lh_json_text(s->lease));
    (void)json_object_set_new(json, "lease_left_ms", number(s->lease_left_ms));
    (void)json_object_set_new(json, "rolling", json_boolean(s->rolling));
    (void)json_object_set_new(json, "trashed", json_boolean(s->trashed));
    (void)json_object_set_new(json, "created", json_boolean(s->created));
    (void)json_object_set_new(json, "checksum", lh_json_hex(s->checksum));
    return json;
}

json_t *lh_json_lease(const struct lh_lease_info *l)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:i, s:i}", "chunk",
        number(l->chunk), "path", lh_json_text(l->path), "version", number(l->version), "primary",
        lh_json_text(l->primary), "address", lh_json_text(l->address), "state",
        lh_json_text(l->state), "left_ms", number(l->left_ms), "appends", number(l->appends),
        "session_live", (int)l->session_live, "members", (int)l->members, "replication",
        (int)l->replication);
}

static uint64_t used(const struct lh_server_info *s)
{
    return s->capacity_bytes > s->free_bytes ? s->capacity_bytes - s->free_bytes : 0;
}

json_t *lh_json_server(const struct lh_server_info *s)
{
    json_t *json = json_pack("{s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:o, s:o, s:o, s:o, s:o}",
        "server_id", lh_json_text(s->server_id), "address", lh_json_text(s->address),
        "failure_domain", lh_json_text(s->failure_domain), "incarnation", number(s->incarnation),
        "live", (int)s->live, "failing", (int)s->failing, "reachable", (int)s->reachable,
        "session_left_ms", number(s->session_left_ms), "capacity_bytes", number(s->capacity_bytes),
        "free_bytes", number(s->free_bytes), "replicas", number(s->replicas), "primaries",
        number(s->primaries));
    (void)json_object_set_new(json, "read_only", json_boolean(s->read_only));
    (void)json_object_set_new(json, "used_bytes", number(used(s)));
    (void)json_object_set_new(json, "state", lh_json_text(lh_command_server_state(s)));
    (void)json_object_set_new(json, "admin", lh_json_text(lh_command_server_admin(s->admin)));
    (void)json_object_set_new(json, "safe_to_stop", json_boolean(s->safe_to_stop));
    (void)json_object_set_new(json, "replicas_to_move", number(s->replicas_to_move));
    (void)json_object_set_new(json, "obstacle", lh_json_text(s->obstacle));
    (void)json_object_set_new(json, "unheard", lh_json_text(s->unheard));
    (void)json_object_set_new(json, "away_ms", number(s->away_ms));
    (void)json_object_set_new(json, "grace_left_ms", number(s->grace_left_ms));
    (void)json_object_set_new(json, "copies_in", number(s->copies_in));
    (void)json_object_set_new(json, "copies_out", number(s->copies_out));
    (void)json_object_set_new(json, "batches_ordered", number(s->batches_ordered));
    (void)json_object_set_new(json, "bytes_ordered", number(s->bytes_ordered));
    (void)json_object_set_new(json, "ordered_ago_ms", number(s->ordered_ago_ms));
    (void)json_object_set_new(json, "ordered_unreported", json_boolean(s->ordered_unreported));
    return json;
}

json_t *lh_json_refused(const struct lh_refused_info *r)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "server_id",
        lh_json_text(r->server_id), "address", lh_json_text(r->address), "peer",
        lh_json_text(r->peer), "identity", lh_json_text(r->identity), "error",
        lh_json_text(lh_error_name(r->error)), "text", lh_json_text(r->text), "times",
        number(r->times), "ago_ms", number(r->ago_ms));
}

json_t *lh_json_master(const struct lh_master_info *m)
{
    return json_pack("{s:o, s:o, s:b, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "master_id",
        lh_json_text(m->master_id), "address", lh_json_text(m->address), "answered",
        (int)m->answered, "trouble", lh_json_text(m->trouble), "acting", (int)m->acting, "state",
        lh_json_text(m->state), "state_ms", number(m->state_ms), "reign", number(m->reign),
        "revision", json_integer(m->revision), "behind",
        m->follows ? number(m->behind) : json_null(), "servers", number(m->servers));
}

json_t *lh_json_repair(const struct lh_repair_info *r)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "chunks_degraded",
        number(r->chunks_degraded), "chunks_endangered", number(r->chunks_endangered),
        "chunks_unreadable", number(r->chunks_unreadable), "copies_running",
        number(r->copies_running), "copies_waiting", number(r->copies_waiting), "bytes_left",
        number(r->bytes_left), "bytes_per_second", number(r->bytes_per_second), "left_ms",
        number(r->left_ms), "copies_done", number(r->copies_done), "bytes_done",
        number(r->bytes_done));
}

json_t *lh_json_figures(const struct lh_master_figures *f)
{
    const struct {
        const char *name;
        uint64_t value;
    } all[] = {{"leases", f->leases}, {"files", f->files}, {"chunks", f->chunks},
        {"sessions", f->sessions}, {"sessions_away", f->sessions_away}, {"names", f->names},
        {"locks", f->locks}, {"locks_waiting", f->locks_waiting}, {"values", f->values},
        {"calls_waiting", f->calls_waiting}, {"leases_granted", f->leases_granted},
        {"leases_renewed", f->leases_renewed}, {"leases_recalled", f->leases_recalled},
        {"leases_expired", f->leases_expired}, {"locks_granted", f->locks_granted},
        {"locks_released", f->locks_released}, {"values_read", f->values_read},
        {"values_changed", f->values_changed}};
    json_t *json = json_object();

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        (void)json_object_set_new(json, all[i].name, number(all[i].value));
    return json;
}

/* ---- Leases for programs ---- */

static json_t *base64(const uint8_t *data, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = lh_alloc((size + 2) / 3 * 4 + 1);
    size_t n = 0;

    for (size_t i = 0; i < size; i += 3) {
        uint32_t bits = (uint32_t)data[i] << 16 | (i + 1 < size ? (uint32_t)data[i + 1] << 8 : 0) |
                        (i + 2 < size ? data[i + 2] : 0);
        text[n++] = digits[bits >> 18];
        text[n++] = digits[bits >> 12 & 63];
        text[n++] = i + 1 < size ? digits[bits >> 6 & 63] : '=';
        text[n++] = i + 2 < size ? digits[bits & 63] : '=';
    }
    json_t *json = json_string(text);
    free(text);
    return json;
}

json_t *lh_json_value(const char *name, const void *data, size_t size, uint64_t revision)
{
    json_t *text = json_stringn(data != NULL ? data : "", size); /* NULL: no UTF-8 */

    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "name", lh_json_text(name), "revision",
        number(revision), "size", number(size), "value", text != NULL ? text : json_null(),
        "value_base64", base64(data, size));
}

json_t *lh_json_holder(const struct lh_lock_holder *h)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:b, s:o}", "session",
        lh_json_text(h->session), "label", lh_json_text(h->label), "host", lh_json_text(h->host),
        "process", lh_json_text(h->process), "shared", (int)h->shared, "token", number(h->token),
        "left_ms", number(h->left_ms), "cut", (int)h->cut, "info_base64",
        base64(h->info, h->info_size));
}

json_t *lh_json_name(const struct lh_name_info *n)
{
    json_t *holders = json_array(), *sentences = json_array();

    for (size_t i = 0; i < n->holder_count; i++)
        (void)json_array_append_new(holders, lh_json_holder(&n->holders[i]));
    for (size_t i = 0; i < n->sentence_count; i++)
        (void)json_array_append_new(sentences, lh_json_text(n->sentences[i]));
    json_t *value = n->has_value
                        ? json_pack("{s:o, s:o, s:o, s:o}", "revision", number(n->revision), "size",
                              number(n->size), "token", number(n->token), "attached",
                              lh_json_text(n->attached != NULL ? n->attached : ""))
                        : json_null();
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:b, s:o}", "name", lh_json_text(n->name),
        "holders", holders, "waiting", number(n->waiting), "value", value, "caches",
        number(n->caches), "changing", (int)n->changing, "sentences", sentences);
}

json_t *lh_json_list(const char *name, json_t *array)
{
    return json_pack("{s:o}", name, array);
}

json_t *lh_json_one_or_list(const char *name, json_t *array)
{
    json_t *json = NULL;
    if (json_array_size(array) > 1)
        return lh_json_list(name, array);
    if (json_array_size(array) == 1)
        json = json_incref(json_array_get(array, 0));
    json_decref(array);
    return json;
}

void lh_json_finish(bool wanted, json_t *json)
{
    if (wanted)
        lh_command_print_json(json);
    else
        json_decref(json);
}
