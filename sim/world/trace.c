/* The narrative: a line for each input and effect, with the messages spelled out.
 *
 *   [     110.250ms] cs1 > 3 session heartbeat{session=1 stamp=5}     what cs1 does
 *   [     110.731ms] m   < 9 session heartbeat{session=1 stamp=5}     what m is told */
#include "sim/world/internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

static void begin(const struct lh_sim *sim, const char *who)
{
    fprintf(sim->trace, "[%8" PRIu64 ".%03" PRIu64 "ms] %-4s ", sim->now / 1000000,
        sim->now / 1000 % 1000, who);
}

void lh_sim_trace_line(const struct lh_sim *sim, const char *who, const char *format, ...)
{
    va_list args;

    if (sim->trace == NULL)
        return;
    begin(sim, who);
    va_start(args, format);
    vfprintf(sim->trace, format, args);
    va_end(args);
    fputc('\n', sim->trace);
}

void lh_sim_note(struct lh_sim *sim, const char *format, ...)
{
    char text[512];
    va_list args;

    if (sim->trace == NULL && sim->watcher_count == 0)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lh_sim_trace_line(sim, "--", "%s", text);
    lh_sim_notify_noted(sim, text);
}

static const char *lower(const char *name, char *to, size_t size)
{
    size_t i = 0;

    for (; name[i] != '\0' && i + 1 < size; i++)
        to[i] = (char)tolower((unsigned char)name[i]);
    to[i] = '\0';
    return to;
}

static const char *method_name(enum lh_method method, char *to, size_t size)
{
    return method == LH_METHOD_NONE
               ? ""
               : lower(strrchr(lh_method_info(method)->path, '/') + 1, to, size);
}

/* A link's short name: served ones have an S before their number. */
static void print_link(FILE *to, uint64_t link)
{
    fprintf(to, "%s%" PRIu64 " ", (link & LH_LINK_SERVED) != 0 ? "S" : "", link & ~LH_LINK_SERVED);
}

static void print_message(FILE *to, const ProtobufCMessage *message);

/* Prints one value; false when it is the default, which proto3 does not send. */
static bool print_value(FILE *to, const ProtobufCFieldDescriptor *f, const void *at)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_UINT64: {
        uint64_t v = *(const uint64_t *)at;
        if (v != 0)
            fprintf(to, "%s=%" PRIu64 " ", f->name, v);
        return v != 0;
    }
    case PROTOBUF_C_TYPE_UINT32: {
        uint32_t v = *(const uint32_t *)at;
        if (v != 0)
            fprintf(to, "%s=%u ", f->name, v);
        return v != 0;
    }
    case PROTOBUF_C_TYPE_BOOL:
        if (*(const protobuf_c_boolean *)at)
            fprintf(to, "%s ", f->name);
        return *(const protobuf_c_boolean *)at != 0;
    case PROTOBUF_C_TYPE_ENUM: {
        int v = *(const int *)at;
        const ProtobufCEnumValue *name = protobuf_c_enum_descriptor_get_value(f->descriptor, v);
        if (v != 0)
            fprintf(to, "%s=%s ", f->name, name == NULL ? "?" : name->name);
        return v != 0;
    }
    case PROTOBUF_C_TYPE_STRING: {
        const char *v = *(char *const *)at;
        bool there = v != NULL && v[0] != '\0';
        if (there)
            fprintf(to, "%s=\"%.40s\" ", f->name, v);
        return there;
    }
    case PROTOBUF_C_TYPE_MESSAGE: {
        const ProtobufCMessage *v = *(ProtobufCMessage *const *)at;
        if (v == NULL)
            return false;
        fputs(f->name, to);
        print_message(to, v);
        return true;
    }
    default:
        return false; /* the schema has no others outside payload fields */
    }
}

static size_t size_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_UINT64:
        return sizeof(uint64_t);
    case PROTOBUF_C_TYPE_UINT32:
        return sizeof(uint32_t);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_ENUM:
        return sizeof(int);
    default:
        return sizeof(void *);
    }
}

static void print_message(FILE *to, const ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *d = message->descriptor;
    const char *base = (const char *)message;

    fputc('{', to);
    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t count = *(const size_t *)(const void *)(base + f->quantifier_offset);
            const char *items = *(char *const *)(const void *)(base + f->offset);
            for (size_t k = 0; k < count; k++)
                print_value(to, f, items + k * size_of(f->type));
        } else if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
            if (*(const uint32_t *)(const void *)(base + f->quantifier_offset) == f->id)
                print_value(to, f, base + f->offset);
        } else {
            print_value(to, f, base + f->offset);
        }
    }
    fputs("} ", to);
}

const char *lh_sim_disk_op_name(enum lh_disk_op op)
{
    static const char *const names[LH_DISK_OPS] = {
        "create", "write", "sync", "read", "truncate", "remove", "reserve", "replace"};

    return names[op];
}

void lh_sim_trace_input(const struct lh_sim_sight *sight)
{
    const struct lh_sim_node *node = sight->node;
    const struct lh_input *in = sight->input;
    FILE *to = node->sim->trace;
    char method[32];

    if (to == NULL)
        return;
    begin(node->sim, node->name);
    fputs("< ", to);
    switch (in->kind) {
    case LH_IN_TIMER:
        fputs("timer", to);
        break;
    case LH_IN_LINK_OPENED:
        print_link(to, in->link);
        fprintf(to, "%s opened by %s", method_name(in->method, method, sizeof method), in->text);
        if (in->identity[0] != '\0')
            fprintf(to, " (%s)", in->identity);
        break;
    case LH_IN_MESSAGE:
        print_link(to, in->link);
        fputs(method_name(in->method, method, sizeof method), to);
        print_message(to, in->message);
        if (in->payload.size > 0)
            fprintf(to, "+%zu bytes", in->payload.size);
        break;
    case LH_IN_PROGRESS:
    case LH_IN_SENT:
    case LH_IN_HALF_CLOSED:
        print_link(to, in->link);
        fprintf(to, "%s %s", method_name(in->method, method, sizeof method),
            in->kind == LH_IN_PROGRESS ? "in progress"
            : in->kind == LH_IN_SENT   ? "sent"
                                       : "half-closed");
        break;
    case LH_IN_LINK_CLOSED:
        print_link(to, in->link);
        fprintf(to, "%s closed: %s %s", method_name(in->method, method, sizeof method),
            lh_error_name(in->error), in->text == NULL ? "" : in->text);
        break;
    case LH_IN_DISK:
        fprintf(to, "disk: #%" PRIu64 " %s of %" PRIu64 ": %s", in->ticket,
            lh_sim_disk_op_name(in->op), in->file, lh_error_name(in->error));
        if (in->payload.size > 0)
            fprintf(to, ", %zu bytes", in->payload.size);
        break;
    case LH_IN_PERSISTED:
        fprintf(to, "store: #%" PRIu64 " committed: %s", in->ticket, lh_error_name(in->error));
        break;
    case LH_IN_CALL:
        fputs("call", to);
        break;
    case LH_IN_STOP:
        fputs("stop", to);
        break;
    }
    fputc('\n', to);
}

static void print_sent(const struct lh_sim_sight *sight, FILE *to)
{
    char method[32];

    print_link(to, sight->effect->link);
    if (sight->message == NULL) {
        fputs("nobody: the link is closed", to);
        return;
    }
    fputs(method_name(sight->method, method, sizeof method), to);
    print_message(to, sight->message);
    if (sight->payload->size > 0)
        fprintf(to, "+%zu bytes", sight->payload->size);
}

void lh_sim_trace_effect(const struct lh_sim_sight *sight)
{
    const struct lh_sim_node *node = sight->node;
    const struct lh_effect *e = sight->effect;
    static const char *const levels[] = {"debug", "info", "warning", "error"};
    FILE *to = node->sim->trace;
    char method[32];

    if (to == NULL)
        return;
    begin(node->sim, node->name);
    fputs("> ", to);
    switch (e->kind) {
    case LH_FX_OPEN:
        print_link(to, e->link);
        fprintf(to, "%s open to %s", method_name(e->method, method, sizeof method), e->text);
        break;
    case LH_FX_SEND:
        print_sent(sight, to);
        break;
    case LH_FX_CLOSE:
        print_link(to, e->link);
        fprintf(to, "close: %s %s", lh_error_name(e->error), e->text == NULL ? "" : e->text);
        break;
    case LH_FX_HOLD:
        print_link(to, e->link);
        fputs("hold", to);
        break;
    case LH_FX_UNHOLD:
        print_link(to, e->link);
        fputs("unhold", to);
        break;
    case LH_FX_DISK:
        fprintf(to, "disk: #%" PRIu64 " %s of %" PRIu64 " at %" PRIu64 ", %" PRIu64 " bytes",
            e->ticket, lh_sim_disk_op_name(e->op), e->file, e->offset,
            e->op == LH_DISK_WRITE ? e->payload.size : e->length);
        break;
    case LH_FX_PERSIST:
        fprintf(to, "store: #%" PRIu64 " commit of %zu changes", e->ticket, e->change_count);
        break;
    case LH_FX_COMPLETE:
        fprintf(to, "complete: %s", lh_error_name(e->error));
        break;
    case LH_FX_LOG:
        fprintf(to, "log %s: %s", levels[e->level], e->text);
        break;
    case LH_FX_STOPPED:
        fprintf(to, "stopped: %s", lh_error_name(e->error));
        break;
    }
    fputc('\n', to);
}
