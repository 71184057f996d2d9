/* Messages in words, as story_said.c: those of rolling over (FAIL-2a) and of keeping replicas
 * (REC-4, KEEP-*). */
#include "sim/report/internal.h"

#include "proto/leasehold.pb-c.h"

#include <stdio.h>
#include <string.h>

static void say_fenced(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__Fenced *m)
{
    char n[LH_SIM_NUMBER_BYTES];

    if (m->error == LEASEHOLD__ERROR_CODE__OK)
        lh_sim_narrate(s, lh_sim_about(s, sight, LH_SIM_TOPIC_RECOVERY, &m->base),
            "is fenced, with %s bytes%s", lh_sim_number(n, m->length),
            m->unverified ? ", unverified" : "");
    else
        lh_sim_narrate(s, lh_sim_about(s, sight, LH_SIM_TOPIC_REFUSAL, &m->base),
            "refuses the fence: %s", lh_sim_error_name(m->error));
}

static void say_copied(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__ReplicaCopied *m)
{
    char n[LH_SIM_NUMBER_BYTES];

    if (m->error == LEASEHOLD__ERROR_CODE__OK)
        lh_sim_narrate(s, lh_sim_about(s, sight, LH_SIM_TOPIC_REPLICA, &m->base),
            m->sealed ? "has copied all %s bytes" : "has caught up at %s bytes",
            lh_sim_number(n, m->length));
    else
        lh_sim_narrate(s, lh_sim_about(s, sight, LH_SIM_TOPIC_REFUSAL, &m->base),
            "cannot copy it: %s", lh_sim_error_name(m->error));
}

void lh_sim_say_kept_request(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__SessionRequest *m)
{
    const ProtobufCMessage *body = lh_sim_body_of(&m->base);

    switch (m->body_case) {
    case LEASEHOLD__SESSION_REQUEST__BODY_FENCED:
        say_fenced(s, sight, m->fenced);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_COPIED:
        say_copied(s, sight, m->copied);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_REMOVED:
        lh_sim_narrate(s, lh_sim_about(s, sight, LH_SIM_TOPIC_REPLICA, body),
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
    const ProtobufCMessage *body = lh_sim_body_of(&m->base);
    char names[128] = "";

    switch (m->body_case) {
    case LEASEHOLD__SESSION_REPLY__BODY_INQUIRY:
        lh_sim_narrate(
            s, lh_sim_towards(s, sight, LH_SIM_TOPIC_SESSION, body), "asks whether it lives");
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_FENCE:
        lh_sim_narrate(s, lh_sim_towards(s, sight, LH_SIM_TOPIC_RECOVERY, body), "fences it");
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_COPY:
        for (size_t i = 0; i < m->copy->n_sources; i++) {
            size_t used = strlen(names);
            snprintf(names + used, sizeof names - used, " %s", m->copy->sources[i]->server_id);
        }
        lh_sim_narrate(s, lh_sim_towards(s, sight, LH_SIM_TOPIC_REPLICA, body),
            "has it copied from%s%s", names, m->copy->sealed ? "" : ", to join");
        break;
    default:
        break;
    }
}
