/* Messages in words, as story_said.c: those of rolling over (FAIL-2a) and of keeping replicas
 * (REC-4, KEEP-*). */
#include "sim/report/internal.h"

#include "proto/leasehold.pb-c.h"

#include <stdio.h>
#include <string.h>

static struct lh_sim_transition about(const struct lh_sim_story *s,
    const struct lh_sim_sight *sight, enum lh_sim_topic topic, uint64_t chunk, uint64_t version)
{
    return (struct lh_sim_transition){.topic = topic,
        .node = lh_sim_index(s, sight->node),
        .peer = LH_SIM_NOBODY,
        .chunk = chunk,
        .version = version};
}

static struct lh_sim_transition towards(const struct lh_sim_story *s,
    const struct lh_sim_sight *sight, enum lh_sim_topic topic, uint64_t chunk, uint64_t version)
{
    struct lh_sim_transition t = about(s, sight, topic, chunk, version);

    t.peer = sight->peer == NULL ? LH_SIM_NOBODY : lh_sim_index(s, sight->peer);
    return t;
}

static const char *error_name(Leasehold__ErrorCode code)
{
    return lh_error_name(lh_error_from_wire((unsigned)code));
}

static void say_fenced(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__Fenced *m)
{
    char n[LH_SIM_NUMBER_BYTES];

    if (m->error == LEASEHOLD__ERROR_CODE__OK)
        lh_sim_tell(s, about(s, sight, LH_SIM_TOPIC_RECOVERY, m->chunk, m->version),
            "is fenced, with %s bytes%s", lh_sim_number(n, m->length),
            m->doubted ? ", in doubt" : "");
    else
        lh_sim_tell(s, about(s, sight, LH_SIM_TOPIC_REFUSAL, m->chunk, m->version),
            "refuses the fence: %s", error_name(m->error));
}

static void say_copied(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__ReplicaCopied *m)
{
    char n[LH_SIM_NUMBER_BYTES];

    if (m->error == LEASEHOLD__ERROR_CODE__OK)
        lh_sim_tell(s, about(s, sight, LH_SIM_TOPIC_REPLICA, m->chunk, m->version),
            m->sealed ? "has copied all %s bytes" : "has caught up at %s bytes",
            lh_sim_number(n, m->length));
    else
        lh_sim_tell(s, about(s, sight, LH_SIM_TOPIC_REFUSAL, m->chunk, m->version),
            "cannot copy it: %s", error_name(m->error));
}

void lh_sim_say_kept_request(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__SessionRequest *m)
{
    switch (m->body_case) {
    case LEASEHOLD__SESSION_REQUEST__BODY_FENCED:
        say_fenced(s, sight, m->fenced);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_COPIED:
        say_copied(s, sight, m->copied);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_REMOVED:
        lh_sim_tell(s, about(s, sight, LH_SIM_TOPIC_REPLICA, m->removed->chunk, 0),
            m->removed->error == LEASEHOLD__ERROR_CODE__OK ? "has removed its replica"
                                                           : "keeps its replica: it is newer");
        break;
    default:
        break;
    }
}

void lh_sim_say_kept_reply(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__SessionReply *m)
{
    char names[128] = "";

    switch (m->body_case) {
    case LEASEHOLD__SESSION_REPLY__BODY_INQUIRY:
        lh_sim_tell(s, towards(s, sight, LH_SIM_TOPIC_SESSION, 0, 0), "asks whether it lives");
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_FENCE:
        lh_sim_tell(s, towards(s, sight, LH_SIM_TOPIC_RECOVERY, m->fence->chunk, m->fence->version),
            "fences it");
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_COPY:
        for (size_t i = 0; i < m->copy->n_sources; i++) {
            size_t used = strlen(names);
            snprintf(names + used, sizeof names - used, " %s", m->copy->sources[i]->server_id);
        }
        lh_sim_tell(s, towards(s, sight, LH_SIM_TOPIC_REPLICA, m->copy->chunk, m->copy->version),
            "has it copied from%s%s", names, m->copy->sealed ? "" : ", to join");
        break;
    default:
        break;
    }
}
