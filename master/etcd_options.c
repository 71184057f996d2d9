#include "master/etcd_options.h"

#include "base/address.h"
#include "base/alloc.h"
#include "master/reigns/reigns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* HOST:PORT. */
static bool is_member(const char *address)
{
    return strncmp(address, "unix:", 5) != 0 && lh_address_fault(address, 1) == NULL;
}

static bool refuse(char *why, size_t why_size, const char *text)
{
    (void)snprintf(why, why_size, "%s", text);
    return false;
}

static bool read_where(struct lh_etcd_options *o, const char *where, struct lh_reign_config *config,
    char *why, size_t why_size)
{
    o->where = lh_alloc(strlen(where) + 2);
    (void)snprintf(o->where, strlen(where) + 2, "%s", where);
    char *slash = strchr(o->where, '/');
    if (slash == NULL || slash[1] == 0)
        return refuse(why, why_size,
            "etcd: what follows the members' addresses is /PREFIX: the keys of this cluster begin "
            "with it, for example etcd:10.0.0.1:2379,10.0.0.2:2379/leasehold");
    *slash = 0;
    char *prefix = slash + 1;
    size_t length = strlen(prefix);
    if (prefix[length - 1] != '/') {
        prefix[length] = '/';
        prefix[length + 1] = 0;
    }
    config->prefix = prefix;
    for (char *at = o->where, *next; at != NULL; at = next) {
        next = strchr(at, ',');
        if (next != NULL)
            *next++ = 0;
        if (!is_member(at))
            return refuse(why, why_size, "etcd: a member's address is HOST:PORT");
        if (config->member_count == LH_ETCD_MEMBERS_MAX)
            return refuse(why, why_size, "etcd: at most eight members can be given");
        config->members[config->member_count++] = at;
    }
    return true;
}

/* Its first line. */
static bool read_password(
    struct lh_etcd_options *o, struct lh_reign_config *config, char *why, size_t why_size)
{
    char line[256] = "";
    const char *path = o->password_file;

    if (o->user == NULL)
        return true;
    FILE *file = path == NULL ? NULL : fopen(path, "re");
    bool read = file != NULL && fgets(line, sizeof line, file) != NULL;
    if (file != NULL)
        (void)fclose(file);
    if (!read) {
        (void)snprintf(why, why_size,
            "--etcd-user needs --etcd-password-file, a file that can be read%s%s",
            path == NULL ? "" : ": ", path == NULL ? "" : path);
        return false;
    }
    line[strcspn(line, "\r\n")] = 0;
    o->password = lh_strdup(line);
    config->user = o->user;
    config->password = o->password;
    return true;
}

static void default_to(struct lh_tls_files *etcd, const struct lh_tls_files *tls)
{
    bool plain = etcd->ca_file != NULL && etcd->ca_file[0] == 0;

    if (plain) {
        *etcd = (struct lh_tls_files){0};
        return;
    }
    if (etcd->ca_file == NULL)
        etcd->ca_file = tls->ca_file;
    if (etcd->cert_file == NULL && etcd->key_file == NULL) {
        etcd->cert_file = tls->cert_file;
        etcd->key_file = tls->key_file;
    }
}

bool lh_etcd_options_take(struct lh_etcd_options *o, const struct lh_tls_files *tls,
    const char *where, struct lh_reign_config *config, char *why, size_t why_size)
{
    default_to(&o->tls, tls);
    return read_where(o, where, config, why, why_size) && read_password(o, config, why, why_size);
}

void lh_etcd_options_free(struct lh_etcd_options *o)
{
    free(o->where);
    free(o->password);
}
