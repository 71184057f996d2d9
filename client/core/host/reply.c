/* What the servers' replies have in common, and the end of a call. */
#include "base/alloc.h"
#include "base/assert.h"
#include "client/core/host/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int lh_client_reply_error(const void *reply, const char **text)
{
    const ProtobufCMessage *m = reply;
    const ProtobufCFieldDescriptor *error =
        protobuf_c_message_descriptor_get_field_by_name(m->descriptor, "error");
    const ProtobufCFieldDescriptor *error_text =
        protobuf_c_message_descriptor_get_field_by_name(m->descriptor, "error_text");
    unsigned code;
    const char *said;

    LH_ASSERT(error != NULL && error_text != NULL);
    memcpy(&code, (const char *)reply + error->offset, sizeof code);
    memcpy(&said, (const char *)reply + error_text->offset, sizeof said);
    int e = lh_error_from_wire(code);
    *text = said != NULL && said[0] != '\0' ? said : lh_error_text(e);
    return e;
}

int lh_client_reason(int error)
{
    if (error == LH_ERR_STALE_CAPABILITY && !LH_PLANTED("stale-capability-told"))
        return LH_ERR_UNAVAILABLE;
    return error;
}

ProtobufCMessage *lh_client_copy_message(const ProtobufCMessage *m)
{
    size_t size = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes = lh_alloc(size);

    protobuf_c_message_pack(m, bytes);
    ProtobufCMessage *copy = protobuf_c_message_unpack(m->descriptor, NULL, size, bytes);
    free(bytes);
    return copy;
}

void lh_client_complete(struct lh_client_host *c, struct lh_call *call, int error, const char *text)
{
    if (error != LH_OK)
        snprintf(call->text, sizeof call->text, "%s",
            text != NULL && text[0] != '\0' ? text : lh_error_text(error));
    if (call->completed != NULL)
        call->completed(call, error);
    else
        lh_fx_complete(c->fx, call, error);
}
