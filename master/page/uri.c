#include "master/page/uri.h"

#include "base/alloc.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int digit(char c)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    const char *at = c == '\0' ? NULL : strchr(digits, c);

    return at == NULL ? -1 : at - digits < 16 ? (int)(at - digits) : (int)(at - digits) - 6;
}

/* In place. */
static bool unescape(char *text)
{
    char *to = text;

    for (; *text != '\0'; text++) {
        if (*text != '%') {
            *to++ = *text;
            continue;
        }
        int high = digit(text[1]), low = high < 0 ? -1 : digit(text[2]);
        if (low < 0 || (high == 0 && low == 0))
            return false;
        *to++ = (char)(high << 4 | low);
        text += 2;
    }
    *to = '\0';
    return true;
}

static bool is_name(const char *text)
{
    size_t size = strlen(text);

    return size > 0 && size <= 64 && strspn(text, "abcdefghijklmnopqrstuvwxyz_") == size;
}

static bool is_known(const struct lh_uri *uri, const char *name)
{
    for (size_t i = 0; i < uri->count; i++)
        if (strcmp(uri->parameters[i].name, name) == 0)
            return true;
    return false;
}

static bool take(struct lh_uri *uri, char *parameter)
{
    char *value = strchr(parameter, '=');

    if (value == NULL || uri->count == LH_URI_PARAMETERS_MAX)
        return false;
    *value++ = '\0';
    if (!is_name(parameter) || is_known(uri, parameter) || !unescape(value) ||
        !lh_utf8_is_valid(value, strlen(value)))
        return false;
    uri->parameters[uri->count].name = parameter;
    uri->parameters[uri->count++].value = value;
    return true;
}

static bool take_all(struct lh_uri *uri, char *query)
{
    char *parameter;

    while ((parameter = strsep(&query, "&")) != NULL)
        if (!take(uri, parameter))
            return false;
    return true;
}

bool lh_uri_parse(struct lh_uri *uri, const char *text)
{
    *uri = (struct lh_uri){0};
    if (strnlen(text, LH_URI_BYTES_MAX + 1) > LH_URI_BYTES_MAX)
        return false;
    uri->text = uri->path = lh_strdup(text);
    char *query = strchr(uri->path, '?');
    if (query != NULL)
        *query++ = '\0';
    if (query == NULL || take_all(uri, query))
        return true;
    lh_uri_deinit(uri);
    return false;
}

void lh_uri_deinit(struct lh_uri *uri)
{
    free(uri->text);
    *uri = (struct lh_uri){0};
}

/* ---- Hosts. */

static bool is_port(const char *text)
{
    size_t size = strlen(text);

    return size <= 5 && strspn(text, "0123456789") == size;
}

static bool is_named(const char *host, size_t size, const char *names)
{
    while (names != NULL && *names != '\0') {
        size_t n = strcspn(names, ",");
        if (n == size && strncasecmp(names, host, size) == 0)
            return true;
        names += n + (names[n] == ',');
    }
    return false;
}

bool lh_uri_is_host(const char *host, const char *names)
{
    char name[256];
    unsigned char address[16];
    bool bracket = host[0] == '[';
    const char *from = host + bracket, *end = from + strcspn(from, bracket ? "]" : ":");
    size_t size = (size_t)(end - from);

    if (size == 0 || size >= sizeof name || (bracket && *end != ']'))
        return false;
    end += bracket;
    if (*end != '\0' && (*end != ':' || !is_port(end + 1)))
        return false;
    memcpy(name, from, size);
    name[size] = '\0';
    return inet_pton(bracket ? AF_INET6 : AF_INET, name, address) == 1 ||
           (!bracket && (strcasecmp(name, "localhost") == 0 || is_named(name, size, names)));
}
