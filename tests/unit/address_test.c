/* Addresses as people write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/address.h"

#include <string.h>

struct address {
    const char *text;
    const char *fault; /* a part of it; NULL: it is one */
};

static void expect(const struct address *a, unsigned port_min)
{
    const char *fault = lh_address_fault(a->text, port_min);

    if (fault != NULL ? a->fault == NULL || strstr(fault, a->fault) == NULL : a->fault != NULL)
        fail_msg("\"%s\": %s", a->text, fault == NULL ? "no fault" : fault);
}

static void addresses_to_connect_to(void **state)
{
    static const struct address all[] = {
        {"127.0.0.1:7400", NULL},
        {"m1.example.com:1", NULL},
        {"h:65535", NULL},
        {"[::1]:7400", NULL},
        {"unix:/run/leasehold", NULL},
        {"unix:", "path"},
        {"", "host:port"},
        {"m1", "host:port"},
        {":7400", "host:port"},
        {"a,b:1", "host:port"},
        {"user@h:1", "host:port"},
        {"h:1/", "host:port"},
        {"http://127.0.0.1:7400", "URL"},
        {"https://h:7400/", "URL"},
        {"dns:///h:7400", "URL"},
        {"::1:7400", "brackets"},
        {"[::1]", "brackets"},
        {"[::1:7400", "brackets"},
        {"h:", "port"},
        {"h:0", "from 1 to 65535"},
        {"h:65536", "from 1 to 65535"},
        {"h:91440", "from 1 to 65535"},
        {"h:4294967297", "from 1 to 65535"},
        {"h:7400x", "from 1 to 65535"},
        {"h:-1", "from 1 to 65535"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        expect(&all[i], 1);
}

static void addresses_to_listen_on(void **state)
{
    static const struct address all[] = {
        {"127.0.0.1:0", NULL},
        {":7400", NULL},
        {"[::]:0", NULL},
        {"0.0.0.0:65535", NULL},
        {"127.0.0.1:91440", "from 0 to 65535"},
        {"127.0.0.1:", "port"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        expect(&all[i], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_to_connect_to),
        cmocka_unit_test(addresses_to_listen_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
