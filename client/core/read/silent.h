/* Servers that did not answer: asked last, for a while. */
#pragma once

#include "client/core/read/reader.h"

/* Whether others should be asked before the server at `address`. */
bool lh_client_is_silent(const struct lh_client_readers *all, const char *address);

/* It is being asked: others wait for how that goes. */
void lh_client_silent_asked(struct lh_client_readers *all, const char *address);

/* It was asked, and cannot be reached or said nothing in time. */
void lh_client_no_answer(struct lh_client_readers *all, const char *address);

/* It has answered something, be it an error. */
void lh_client_answered(struct lh_client_readers *all, const char *address);

void lh_client_silent_deinit(struct lh_client_readers *all);
