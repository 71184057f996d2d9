/* Whose appends a file takes (TOK-2): OpenTail names a lock and its token, and is compared with the
 * file's fence whenever something of the file changes. A primary is named only to callers whose
 * token is the fence, and only at a version that was granted under it. */
#include "master/calls/calls.h"

#include "master/calls/internal.h"
#include "master/grants/grants.h"
#include "master/tables/chunk.h"
#include "master/tables/path.h"
#include "master/tables/tables.h"

#include <inttypes.h>

int lh_m_token_check(const Leasehold__OpenTailRequest *request, char *text, size_t text_size)
{
    char why[LH_TEXT_BYTES];

    if (request->token == 0 && request->lock_name[0] == 0)
        return LH_OK;
    if (request->token == 0 || request->lock_name[0] == 0) {
        snprintf(text, text_size, "a lock's name and its token belong together: %s is missing",
            request->token == 0 ? "the token" : "the name");
        return LH_ERR_INVALID_ARGUMENT;
    }
    int error = lh_path_check(request->lock_name, why, sizeof why);
    if (error != LH_OK)
        snprintf(text, text_size, "the lock's name: %s", why);
    return error;
}

bool lh_m_token_is_fence(const struct lh_m_waiter *w)
{
    return w->token == w->file->active->fence;
}

enum standing { ADMITTED, RAISES, AWAITED, REFUSED };

static enum standing standing(const struct lh_master *m, const struct lh_m_waiter *w)
{
    const struct lh_m_file_active *fm = w->file->active;

    if (w->kind != LH_WAIT_TAIL || w->reads)
        return ADMITTED;
    if (w->token != 0 && fm->lock_name != NULL && strcmp(w->lock_name, fm->lock_name) != 0)
        return REFUSED;
    if (lh_m_token_is_fence(w))
        return ADMITTED;
    if (w->token != 0 && w->file->chunk_count > 1 && LH_PLANTED("lower-token-admitted-after-roll"))
        return RAISES;
    if (w->token < fm->fence)
        return REFUSED;
    if (m->token_owner->in_force(m, w->lock_name, w->token))
        return RAISES;
    return m->token_owner->awaited(m) ? AWAITED : REFUSED;
}

static void say_refused(const struct lh_m_waiter *w, char *text, size_t text_size)
{
    const struct lh_m_file_active *fm = w->file->active;

    if (w->token == 0)
        snprintf(text, text_size,
            "\"%.160s\" takes appends only under the lock %.160s, of which token %" PRIu64
            " was admitted last: name the lock and a token",
            w->file->path, fm->lock_name, fm->fence);
    else if (fm->lock_name != NULL && strcmp(w->lock_name, fm->lock_name) != 0)
        snprintf(text, text_size,
            "\"%.130s\" takes appends only under the lock %.130s, not under %.130s", w->file->path,
            fm->lock_name, w->lock_name);
    else if (w->token < fm->fence)
        snprintf(text, text_size,
            "\"%.160s\": token %" PRIu64 " of the lock %.160s is over: %" PRIu64
            " was admitted since",
            w->file->path, w->token, w->lock_name, fm->fence);
    else
        snprintf(text, text_size,
            "\"%.160s\": the lock %.160s is not held with token %" PRIu64 ": acquire it, and "
            "append with the token that it then has",
            w->file->path, w->lock_name, w->token);
}

void lh_m_tokens_admit(struct lh_master *m, struct lh_m_file *f)
{
    struct lh_m_waiter *w, *next, *highest = NULL;
    char text[LH_TEXT_BYTES];

    TAILQ_FOREACH(w, &f->active->waiters, file_link)
        if (standing(m, w) == RAISES && (highest == NULL || w->token > highest->token))
            highest = w;
    if (highest != NULL)
        lh_m_fence_raise(m, f, highest->lock_name, highest->token);
    else
        lh_m_fence_carry(m, f);
    for (w = TAILQ_FIRST(&f->active->waiters); w != NULL; w = next) {
        next = TAILQ_NEXT(w, file_link);
        if (standing(m, w) != REFUSED)
            continue;
        LH_MARK("append-refused-by-token");
        say_refused(w, text, sizeof text);
        lh_m_answer(m, w, LH_ERR_STALE_TOKEN, text);
    }
}

void lh_m_describe_awaited(const struct lh_m_waiter *w, char *text, size_t text_size)
{
    snprintf(text, text_size,
        "\"%.160s\": whether the lock %.160s is held with token %" PRIu64 " is not known yet: "
        "programs that had sessions with the last master are not all back",
        w->file->path, w->lock_name, w->token);
}

bool lh_m_describe_fence(const struct lh_m_file *f, char *text, size_t text_size)
{
    if (f->active->fence == 0)
        return false;
    snprintf(text, text_size, "appends only under lock %.160s, token %" PRIu64,
        f->active->lock_name, f->active->fence);
    return true;
}
