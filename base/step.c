#include "base/step.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lh_effect *lh_effects_add(struct lh_effects *fx, enum lh_effect_kind kind)
{
    LH_GROW(fx->items, fx->capacity, fx->count + 1);
    struct lh_effect *e = &fx->items[fx->count++];
    memset(e, 0, sizeof *e);
    e->kind = kind;
    return e;
}

void lh_fx_open(struct lh_effects *fx, uint64_t link, enum lh_method method, const char *address,
    struct lh_duration timeout)
{
    LH_ASSERT((link & LH_LINK_SERVED) == 0);
    struct lh_effect *e = lh_effects_add(fx, LH_FX_OPEN);
    e->link = link;
    e->method = method;
    e->text = lh_strdup(address);
    e->timeout = timeout;
}

void lh_fx_open_with_token(struct lh_effects *fx, uint64_t link, enum lh_method method,
    const char *address, struct lh_duration timeout, const char *token)
{
    lh_fx_open(fx, link, method, address, timeout);
    if (token != NULL)
        fx->items[fx->count - 1].token = lh_strdup(token);
}

#define AT " at " /* neither names nor addresses have spaces */

char *lh_server_at(const char *name, const char *address)
{
    size_t size = strlen(name) + sizeof AT + strlen(address);

    if (name[0] == '\0' || address[0] == '\0')
        return lh_strdup(address);
    char *server = lh_alloc(size);
    (void)snprintf(server, size, "%s" AT "%s", name, address);
    return server;
}

const char *lh_server_address(const char *server, size_t *name_size)
{
    const char *at = strstr(server, AT);

    *name_size = at == NULL ? 0 : (size_t)(at - server);
    return at == NULL ? server : at + sizeof AT - 1;
}

void lh_fx_close(struct lh_effects *fx, uint64_t link, int error, const char *text)
{
    struct lh_effect *e = lh_effects_add(fx, LH_FX_CLOSE);
    e->link = link;
    e->error = error;
    e->text = text == NULL ? NULL : lh_strdup(text);
}

void lh_fx_hold(struct lh_effects *fx, uint64_t link)
{
    lh_effects_add(fx, LH_FX_HOLD)->link = link;
}

void lh_fx_unhold(struct lh_effects *fx, uint64_t link)
{
    lh_effects_add(fx, LH_FX_UNHOLD)->link = link;
}

void lh_fx_disk(struct lh_effects *fx, uint64_t ticket, uint64_t file, enum lh_disk_op op,
    uint64_t offset, uint64_t length, struct lh_buf *data)
{
    struct lh_effect *e = lh_effects_add(fx, LH_FX_DISK);
    e->ticket = ticket;
    e->file = file;
    e->op = op;
    e->offset = offset;
    e->length = length;
    if (data != NULL)
        e->payload = lh_buf_take(data);
}

void lh_fx_complete(struct lh_effects *fx, void *call, int error)
{
    struct lh_effect *e = lh_effects_add(fx, LH_FX_COMPLETE);
    e->call = call;
    e->error = error;
}

void lh_fx_stopped(struct lh_effects *fx, int error)
{
    lh_effects_add(fx, LH_FX_STOPPED)->error = error;
}

void lh_fx_log(struct lh_effects *fx, enum lh_level level, const char *format, ...)
{
    char line[512];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    struct lh_effect *e = lh_effects_add(fx, LH_FX_LOG);
    e->level = level;
    e->text = lh_strdup(line);
}

void lh_fx_persist(struct lh_effects *fx, uint64_t ticket)
{
    lh_effects_add(fx, LH_FX_PERSIST)->ticket = ticket;
}

static struct lh_change *add_change(struct lh_effects *fx, const void *key, size_t key_size)
{
    LH_ASSERT(fx->count > 0);
    struct lh_effect *e = &fx->items[fx->count - 1];
    LH_ASSERT(e->kind == LH_FX_PERSIST);

    e->changes = lh_realloc_array(e->changes, e->change_count + 1, sizeof *e->changes);
    struct lh_change *c = &e->changes[e->change_count++];
    *c = (struct lh_change){.key = lh_alloc(key_size), .key_size = (uint32_t)key_size};
    memcpy(c->key, key, key_size);
    return c;
}

void lh_fx_put(
    struct lh_effects *fx, const void *key, size_t key_size, const void *value, size_t value_size)
{
    struct lh_change *c = add_change(fx, key, key_size);

    c->value = lh_alloc(value_size);
    c->value_size = (uint32_t)value_size;
    if (value_size > 0)
        memcpy(c->value, value, value_size);
}

void lh_fx_delete(struct lh_effects *fx, const void *key, size_t key_size)
{
    add_change(fx, key, key_size);
}

void lh_changes_free(struct lh_change *changes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(changes[i].key);
        free(changes[i].value);
    }
    free(changes);
}

void lh_effect_deinit(struct lh_effect *e)
{
    free(e->text);
    free(e->token);
    lh_buf_clear(&e->header);
    lh_buf_clear(&e->payload);
    lh_changes_free(e->changes, e->change_count);
    e->text = NULL;
    e->token = NULL;
    e->changes = NULL;
    e->change_count = 0;
}

void lh_effects_clear(struct lh_effects *fx)
{
    for (size_t i = 0; i < fx->count; i++)
        lh_effect_deinit(&fx->items[i]);
    fx->count = 0;
}

void lh_effects_deinit(struct lh_effects *fx)
{
    lh_effects_clear(fx);
    free(fx->items);
    *fx = (struct lh_effects){0};
}
