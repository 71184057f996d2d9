/* grpc.reflection.v1 and v1alpha: what is served here, for clients without the schema. The two have
 * the same messages. One request of a stream is answered at a time, and the next is read when the
 * answer has left. */
#include "base/alloc.h"
#include "base/assert.h"
#include "grpc/batches.h"
#include "grpc/internal.h"
#include "grpc/services.h"
#include "proto/described.h"
#include "proto/descriptor.pb-c.h"
#include "proto/reflection_v1.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define METHOD_V1      "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
#define METHOD_V1ALPHA "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"

/* Streams at once: each may leave one answer unread, of up to all that is described. */
#define STREAMS_MAX 64u

#define REQUEST_BYTES_MAX 1024u

typedef Grpc__Reflection__V1__ServerReflectionRequest reflection_request;
typedef Grpc__Reflection__V1__ServerReflectionResponse reflection_response;
typedef Leasehold__Described__FileSet file_set;
typedef Leasehold__Described__File file_description;
typedef Leasehold__Described__Message message_description;
typedef Leasehold__Described__Enum enum_description;
typedef Leasehold__Described__Service service_description;
typedef Leasehold__Described__Named named_description;

#define ASKS(what)    GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##what
#define ANSWERS(what) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##what

static const char *const standard_services[] = {
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
};

#define STANDARD_SERVICES (sizeof standard_services / sizeof standard_services[0])

static pthread_once_t described_once = PTHREAD_ONCE_INIT;
static file_set *described; /* as long as the process */

static void describe(void)
{
    described = leasehold__described__file_set__unpack(NULL, lh_described_size, lh_described);
    LH_ASSERT(described != NULL);
}

/* ---- symbols ---- */

/* What follows `name` in the path `symbol`: "" at its end; NULL: it begins with another name. */
static const char *behind(const char *symbol, const char *name)
{
    size_t n = strlen(name);

    if (strncmp(symbol, name, n) != 0 || (symbol[n] != '\0' && symbol[n] != '.'))
        return NULL;
    return symbol[n] == '.' ? symbol + n + 1 : symbol + n;
}

static bool one_of(named_description *const *all, size_t count, const char *symbol)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i]->name, symbol) == 0)
            return true;
    return false;
}

/* An enum's values are names beside it, not below it. */
static bool in_enums(enum_description *const *all, size_t count, const char *symbol)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i]->name, symbol) == 0 || one_of(all[i]->value, all[i]->n_value, symbol))
            return true;
    return false;
}

static bool in_message(const message_description *m, const char *symbol)
{
    const char *rest;

    while ((rest = behind(symbol, m->name)) != NULL) {
        if (*rest == '\0' || one_of(m->field, m->n_field, rest) ||
            in_enums(m->enum_type, m->n_enum_type, rest))
            return true;
        const message_description *inner = NULL;
        for (size_t i = 0; i < m->n_nested_type && inner == NULL; i++)
            inner = behind(rest, m->nested_type[i]->name) != NULL ? m->nested_type[i] : NULL;
        if (inner == NULL)
            return false;
        m = inner;
        symbol = rest;
    }
    return false;
}

static bool in_service(const service_description *s, const char *symbol)
{
    const char *rest = behind(symbol, s->name);

    return rest != NULL && (*rest == '\0' || one_of(s->method, s->n_method, rest));
}

static bool in_file(const file_description *f, const char *symbol)
{
    const char *rest = behind(symbol, f->package);

    if (rest == NULL || *rest == '\0')
        return false;
    for (size_t i = 0; i < f->n_service; i++)
        if (in_service(f->service[i], rest))
            return true;
    for (size_t i = 0; i < f->n_message_type; i++)
        if (in_message(f->message_type[i], rest))
            return true;
    return in_enums(f->enum_type, f->n_enum_type, rest);
}

static bool is_message(const char *symbol)
{
    for (size_t i = 0; i < described->n_file; i++) {
        const char *rest = behind(symbol, described->file[i]->package);
        for (size_t k = 0; rest != NULL && k < described->file[i]->n_message_type; k++)
            if (strcmp(described->file[i]->message_type[k]->name, rest) == 0)
                return true;
    }
    return false;
}

/* The file of that name, or that has that symbol. */
static const file_description *find_file(const char *name, const char *symbol)
{
    for (size_t i = 0; i < described->n_file; i++) {
        const file_description *f = described->file[i];
        if (name != NULL ? strcmp(f->name, name) == 0 : in_file(f, symbol))
            return f;
    }
    return NULL;
}

/* ---- answers ---- */

static struct lh_buf pack(const reflection_response *r)
{
    uint8_t *to;
    struct lh_buf b =
        lh_buf_alloc(grpc__reflection__v1__server_reflection_response__get_packed_size(r), &to);

    grpc__reflection__v1__server_reflection_response__pack(r, to);
    return b;
}

static struct lh_buf pack_error(reflection_response *r, grpc_status_code code, const char *text)
{
    Grpc__Reflection__V1__ErrorResponse e = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;

    e.error_code = (int32_t)code;
    e.error_message = (char *)(uintptr_t)text;
    r->message_response_case = ANSWERS(ERROR_RESPONSE);
    r->error_response = &e;
    return pack(r);
}

/* No file imports another, so one is all that is needed. */
static struct lh_buf pack_file(reflection_response *r, const file_description *f)
{
    Grpc__Reflection__V1__FileDescriptorResponse files =
        GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
    ProtobufCBinaryData bytes;

    if (f == NULL)
        return pack_error(r, GRPC_STATUS_NOT_FOUND, "there is no such file or symbol");
    bytes.data = lh_alloc(leasehold__described__file__get_packed_size(f));
    bytes.len = leasehold__described__file__pack(f, bytes.data);
    files.n_file_descriptor_proto = 1;
    files.file_descriptor_proto = &bytes;
    r->message_response_case = ANSWERS(FILE_DESCRIPTOR_RESPONSE);
    r->file_descriptor_response = &files;
    struct lh_buf b = pack(r);
    free(bytes.data);
    return b;
}

static struct lh_buf pack_services(reflection_response *r, const struct lh_rpc *rpc)
{
    Grpc__Reflection__V1__ListServiceResponse list =
        GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
    Grpc__Reflection__V1__ServiceResponse all[LH_TRANSPORT_SERVICES_MAX + STANDARD_SERVICES];
    Grpc__Reflection__V1__ServiceResponse *pointers[LH_TRANSPORT_SERVICES_MAX + STANDARD_SERVICES];
    size_t n = 0;

    const char *const *services = rpc->config.services;
    for (size_t i = 0; services != NULL && i < LH_TRANSPORT_SERVICES_MAX && services[i] != NULL;
         i++) {
        grpc__reflection__v1__service_response__init(&all[n]);
        all[n++].name = (char *)(uintptr_t)services[i];
    }
    for (size_t i = 0; i < STANDARD_SERVICES; i++) {
        grpc__reflection__v1__service_response__init(&all[n]);
        all[n++].name = (char *)(uintptr_t)standard_services[i];
    }
    for (size_t i = 0; i < n; i++)
        pointers[i] = &all[i];
    list.n_service = n;
    list.service = pointers;
    r->message_response_case = ANSWERS(LIST_SERVICES_RESPONSE);
    r->list_services_response = &list;
    return pack(r);
}

/* No message here has extensions. */
static struct lh_buf pack_extensions(reflection_response *r, const char *type)
{
    Grpc__Reflection__V1__ExtensionNumberResponse none =
        GRPC__REFLECTION__V1__EXTENSION_NUMBER_RESPONSE__INIT;

    if (!is_message(type))
        return pack_error(r, GRPC_STATUS_NOT_FOUND, "there is no such message");
    none.base_type_name = (char *)(uintptr_t)type;
    r->message_response_case = ANSWERS(ALL_EXTENSION_NUMBERS_RESPONSE);
    r->all_extension_numbers_response = &none;
    return pack(r);
}

static struct lh_buf answer(const struct lh_rpc *rpc, reflection_request *q)
{
    reflection_response r = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;

    r.valid_host = q->host;
    r.original_request = q;
    switch (q->message_request_case) {
    case ASKS(FILE_BY_FILENAME):
        return pack_file(&r, find_file(q->file_by_filename, NULL));
    case ASKS(FILE_CONTAINING_SYMBOL):
        return pack_file(&r, find_file(NULL, q->file_containing_symbol));
    case ASKS(LIST_SERVICES):
        return pack_services(&r, rpc);
    case ASKS(ALL_EXTENSION_NUMBERS_OF_TYPE):
        return pack_extensions(&r, q->all_extension_numbers_of_type);
    case ASKS(FILE_CONTAINING_EXTENSION):
        return pack_error(&r, GRPC_STATUS_NOT_FOUND, "there is no such extension");
    default:
        return pack_error(&r, GRPC_STATUS_INVALID_ARGUMENT, "the request asks for nothing known");
    }
}

/* ---- streams ---- */

static void reflection_message(struct lh_rpc_link *link, struct lh_buf bytes)
{
    uint8_t flat[REQUEST_BYTES_MAX];
    reflection_request *q = NULL;

    if (bytes.size <= sizeof flat && lh_buf_read(&bytes, 0, flat, bytes.size))
        q = grpc__reflection__v1__server_reflection_request__unpack(NULL, bytes.size, flat);
    lh_buf_clear(&bytes);
    if (q == NULL) {
        lh_rpc_link_close(link, LH_ERR_MALFORMED, "not a ServerReflectionRequest");
        return;
    }
    lh_rpc_link_put(link, answer(link->rpc, q), true);
    grpc__reflection__v1__server_reflection_request__free_unpacked(q, NULL);
}

static void reflection_sent(struct lh_rpc_link *link)
{
    lh_rpc_link_read(link);
}

static void reflection_half_closed(struct lh_rpc_link *link)
{
    lh_rpc_link_close(link, LH_OK, NULL);
}

static void reflection_closed(struct lh_rpc_link *link, int error, const char *text)
{
    (void)link;
    (void)error;
    (void)text;
}

static void reflection_released(struct lh_rpc_link *link)
{
    atomic_fetch_sub(&link->rpc->reflections, 1);
}

static const struct link_handler reflection_handler = {
    .message = reflection_message,
    .half_closed = reflection_half_closed,
    .sent = reflection_sent,
    .closed = reflection_closed,
    .released = reflection_released,
};

static bool is_path(const char *path, size_t size, const char *method)
{
    return size == strlen(method) && memcmp(path, method, size) == 0;
}

bool lh_rpc_reflection_serve(
    struct lh_rpc *rpc, const struct served_call *call, const char *path, size_t size)
{
    if (!is_path(path, size, METHOD_V1) && !is_path(path, size, METHOD_V1ALPHA))
        return false;
    (void)pthread_once(&described_once, describe);
    bool full = atomic_fetch_add(&rpc->reflections, 1) >= STREAMS_MAX;
    struct lh_rpc_link *link =
        lh_rpc_link_serve(rpc, call, LH_METHOD_NONE, false, false, &reflection_handler);
    lh_rpc_link_await_end(link);
    if (full)
        lh_rpc_link_close(link, LH_ERR_NO_MEMORY, "too many streams ask what is served here");
    else
        lh_rpc_link_read(link);
    lh_rpc_link_flush(link);
    lh_rpc_link_unref(link);
    return true;
}
