/* The library: what every master says of itself when all are asked. */
#pragma once

#include "client/library/library.h"

/* Masters that are asked: what they list comes from the network. */
#define LH_SURVEY_MAX 64u

/* A master, by one of its addresses. */
struct lh_asked {
    char *address;
    char *listed_id; /* as another master lists it; NULL: none does */
    bool was_asked;
    bool is_there; /* it has answered once */
    int error;
    struct lh_server_call call;
    const Leasehold__MastersReply *reply; /* NULL: no answer */
};

struct lh_survey {
    struct lh_asked all[LH_SURVEY_MAX];
    size_t count;
};

/* Asks every master for itself: those that the client knows, and those that they name. Its error is
 * of the handle, not of a master. To be given back with lh_survey_deinit(), also after an error. */
int lh_survey_all(struct lh_cluster *cluster, struct lh_survey *s, uint64_t timeout_ms);
void lh_survey_deinit(struct lh_survey *s);

/* UNAVAILABLE, and a sentence: none has answered. PERMISSION: because this side may not ask. */
int lh_survey_check(const struct lh_survey *s);

/* Why one refuses this side, or else why the first of those cannot be reached that said why; NULL:
 * none did. */
const char *lh_survey_reason(const struct lh_survey *s);

/* Asks those without `was_asked`, all at once, and drops what they answered before. False: there is
 * none. */
bool lh_survey_ask(struct lh_cluster *cluster, struct lh_survey *s, struct lh_instant deadline);

/* The active master; NULL: nobody acts. */
const struct lh_asked *lh_survey_acting(const struct lh_survey *s);

/* Two that have answered are of different clusters (SES-10); `text`: which. */
bool lh_survey_is_torn(const struct lh_survey *s, char *text, size_t text_size);

bool lh_asked_acts(const struct lh_asked *a);
bool lh_asked_stands_by(const struct lh_asked *a);

/* Another entry of the survey shows the same master. */
bool lh_asked_is_shown_elsewhere(const struct lh_survey *s, const struct lh_asked *a);

/* Both are known, and the same. */
bool lh_same_id(const char *a, const char *b);
