/* The standard services, which are never shown to the owner. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct lh_rpc;
struct served_call;

/* What is asked about: the server (""), or one of its services. */
enum health { HEALTH_SERVER, HEALTH_SERVICES };

/* Serves the call if `path` is a method of the health service; false if it is not. */
bool lh_rpc_health_serve(
    struct lh_rpc *rpc, const struct served_call *call, const char *path, size_t size);

/* Likewise for the reflection service. */
bool lh_rpc_reflection_serve(
    struct lh_rpc *rpc, const struct served_call *call, const char *path, size_t size);
