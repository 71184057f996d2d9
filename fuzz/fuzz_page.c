/* libFuzzer target: what the master's page reads of a browser. The first byte chooses: an address
 * whose parameters become a request, a Host, or a reply whose texts are shown as JSON. */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "master/page/json.h"
#include "master/page/uri.h"
#include "proto/codec.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *text_of(const uint8_t *data, size_t size)
{
    char *text = lh_alloc(size + 1);

    memcpy(text, data, size);
    return text;
}

/* JSON is text of one line, with as many brackets that open as that close. */
static void check_json(const struct lh_json *json)
{
    long open = 0;
    bool quoted = false;

    LH_ASSERT(lh_utf8_is_valid(json->bytes, json->size));
    for (size_t i = 0; i < json->size; i++) {
        char c = json->bytes[i];
        LH_ASSERT((unsigned char)c >= 0x20);
        if (c == '"')
            quoted = !quoted;
        else if (quoted)
            i += c == '\\';
        else
            open += (c == '{' || c == '[') - (c == '}' || c == ']');
        LH_ASSERT(open >= 0);
    }
    LH_ASSERT(!quoted && open == 0);
}

static void show(const ProtobufCMessage *message)
{
    struct lh_json json = {0};

    lh_json_message(&json, message);
    check_json(&json);
    lh_json_deinit(&json);
}

static void read_address(enum lh_method method, const char *text)
{
    const ProtobufCMessageDescriptor *type = lh_method_info(method)->request;
    struct lh_uri uri;
    char why[256];

    if (!lh_uri_parse(&uri, text)) {
        LH_ASSERT(uri.count == 0 && uri.text == NULL);
        return;
    }
    ProtobufCMessage *request = lh_alloc(type->sizeof_message);
    protobuf_c_message_init(type, request);
    for (size_t i = 0; i < uri.count; i++) {
        LH_ASSERT(lh_utf8_is_valid(uri.parameters[i].value, strlen(uri.parameters[i].value)));
        why[0] = '\0';
        if (!lh_json_set(request, uri.parameters[i].name, uri.parameters[i].value, why, sizeof why))
            LH_ASSERT(why[0] != '\0');
    }
    show(request);
    protobuf_c_message_free_unpacked(request, NULL);
    lh_uri_deinit(&uri);
}

static void read_host(const char *text)
{
    bool is = lh_uri_is_host(text, NULL);

    LH_ASSERT(!is || lh_uri_is_host(text, "page.example,other"));
    LH_ASSERT(!is || strspn(text, "0123456789abcdefABCDEFlochstLOCHST.:[]") == strlen(text));
}

static void read_reply(enum lh_method method, const uint8_t *data, size_t size)
{
    ProtobufCMessage *reply =
        protobuf_c_message_unpack(lh_method_info(method)->reply, NULL, size, data);

    if (reply == NULL)
        return;
    show(reply);
    protobuf_c_message_free_unpacked(reply, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    enum lh_method method = (enum lh_method)(1 + data[1] % (LH_METHOD_COUNT - 1));
    const struct lh_method_info *info = lh_method_info(method);
    char *text = text_of(data + 2, size - 2);

    if (info->request != NULL && data[0] % 3 == 0)
        read_address(method, text);
    else if (info->reply != NULL && data[0] % 3 == 1)
        read_reply(method, data + 2, size - 2);
    else
        read_host(text);
    free(text);
    return 0;
}
