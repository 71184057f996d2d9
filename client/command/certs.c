/* `leasehold certs`: a small authority for TLS. */
#include "client/command/authority.h"
#include "client/command/command.h"
#include "client/command/json.h"
#include "client/command/table.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define COMMAND "certs"

struct options {
    const char *dir, *out;
    struct lh_flag_list hosts;
    struct lh_duration valid;
    bool force, json;
};

static int exit_code(int error)
{
    switch (error) {
    case LH_ERR_INVALID_ARGUMENT:
        return LH_EXIT_USAGE;
    case LH_ERR_NOT_FOUND:
        return LH_EXIT_NO_INPUT;
    case LH_ERR_CORRUPT:
        return LH_EXIT_DATA;
    case LH_ERR_IO:
        return LH_EXIT_IO;
    case LH_ERR_SYSTEM:
        return LH_EXIT_SYSTEM;
    default:
        return LH_EXIT_FAILED;
    }
}

static struct lh_duration valid_or(const struct options *o, uint64_t days)
{
    return o->valid.ns != 0 ? o->valid : lh_seconds(days * 86400);
}

/* ---- init, issue ---- */

static int init(const struct options *o)
{
    char why[700];
    int error = lh_authority_make(o->dir, valid_or(o, 3650), o->force, why, sizeof why);

    if (error != LH_OK)
        return lh_command_error(exit_code(error), COMMAND, "%s", why);
    (void)printf("an authority in %s; who has " LH_AUTHORITY_KEY
                 " from there can make certificates: no server needs it\n"
                 "next: leasehold certs issue ROLE/NAME --host HOST, for each server and user\n",
        lh_command_shown(o->dir));
    return LH_EXIT_OK;
}

static int issue(const struct options *o, const char *who)
{
    const struct lh_authority_wish wish = {
        .who = who,
        .hosts = o->hosts.items,
        .host_count = o->hosts.count,
        .valid = valid_or(o, 365),
    };
    char why[700];
    char *folder = o->out != NULL ? strdup(o->out) : lh_authority_folder(o->dir, who);
    int error = lh_authority_issue(o->dir, &wish, folder, o->force, why, sizeof why);
    int code = LH_EXIT_OK;

    if (error != LH_OK)
        code = lh_command_error(exit_code(error), COMMAND, "%s", why);
    else
        (void)printf("%s in %s; for that node: --tls-dir=%s, or LEASEHOLD_TLS_DIR\n",
            lh_command_shown(who), lh_command_shown(folder), lh_command_shown(folder));
    free(folder);
    return code;
}

/* ---- show ---- */

struct show {
    struct lh_table table;
    json_t *list;
    int error;
    char why[700];
    size_t count;
};

static void show_file(struct show *s, const char *path)
{
    struct lh_certificate_facts f;
    char until[32], left[32];

    s->error = lh_certificate_read(path, &f, s->why, sizeof s->why);
    if (s->error != LH_OK)
        return;
    int64_t seconds = f.until_unix - (int64_t)time(NULL);
    s->count++;
    if (s->list != NULL) {
        (void)json_array_append_new(
            s->list, json_pack("{s:o, s:o, s:o, s:o, s:o, s:b, s:I, s:I}", "file",
                         lh_json_text(path), "identity", lh_json_text(f.identity), "subject",
                         lh_json_text(f.subject), "hosts", lh_json_text(f.hosts), "signed_by",
                         lh_json_text(f.issuer), "authority", f.authority, "valid_from_unix_s",
                         (json_int_t)f.from_unix, "valid_until_unix_s", (json_int_t)f.until_unix));
    } else {
        lh_table_add(&s->table, "%s", path);
        lh_table_add(&s->table, "%s",
            f.identity[0] != '\0' ? f.identity
            : f.authority         ? "(authority)"
                                  : f.subject);
        lh_table_add(&s->table, "%s", lh_command_or_dash(f.hosts));
        lh_table_add(&s->table, "%s", lh_command_time(until, (uint64_t)(f.until_unix * 1000)));
        lh_table_add(&s->table, "%s",
            seconds <= 0 ? "EXPIRED" : lh_command_duration(left, (uint64_t)seconds * 1000));
    }
    lh_certificate_facts_deinit(&f);
}

static bool show_in(struct show *s, const char *dir, const char *name)
{
    char path[4400];
    struct stat st;

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    if (s->error != LH_OK || stat(path, &st) != 0)
        return false;
    show_file(s, path);
    return true;
}

static int is_folder(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* A node's directory; or an authority's, with those of the nodes in it. */
static void show_dir(struct show *s, const char *dir)
{
    struct dirent **entries = NULL;
    char path[4200];

    (void)show_in(s, dir, LH_AUTHORITY_CERT);
    (void)show_in(s, dir, LH_NODE_CERT);
    int n = scandir(dir, &entries, is_folder, alphasort);
    for (int i = 0; i < n; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, entries[i]->d_name);
        (void)show_in(s, path, LH_NODE_CERT);
        free(entries[i]);
    }
    free(entries);
    if (s->error == LH_OK && s->count == 0) {
        s->error = LH_ERR_NOT_FOUND;
        (void)snprintf(s->why, sizeof s->why, "there is no certificate in %s", dir);
    }
}

static int show(const struct options *o, const char **paths)
{
    static const char *const titles[] = {
        "FILE", "IDENTITY", "HOSTS", "VALID UNTIL (UTC)", "LEFT", NULL};
    const char *const own[] = {o->dir, NULL};
    struct show s = {.list = o->json ? json_array() : NULL};
    struct stat st;

    lh_table_init(&s.table, titles);
    for (const char *const *at = paths[0] != NULL ? paths : own; *at != NULL && s.error == LH_OK;
         at++) {
        s.count = 0;
        if (stat(*at, &st) == 0 && S_ISDIR(st.st_mode))
            show_dir(&s, *at);
        else
            show_file(&s, *at);
    }
    if (s.error == LH_OK && o->json) {
        lh_command_print_json(lh_json_list("certificates", s.list));
        s.list = NULL;
    } else if (s.error == LH_OK) {
        lh_table_print(&s.table);
    }
    json_decref(s.list);
    lh_table_deinit(&s.table);
    return s.error == LH_OK ? LH_EXIT_OK
                            : lh_command_error(exit_code(s.error), COMMAND, "%s", s.why);
}

static int run(const struct options *o, const char **args, size_t count)
{
    if (strcmp(args[0], "init") == 0 && count == 1)
        return init(o);
    if (strcmp(args[0], "issue") == 0 && count == 2)
        return issue(o, args[1]);
    if (strcmp(args[0], "show") == 0)
        return show(o, args + 1);
    return lh_command_error(LH_EXIT_USAGE, COMMAND,
        "give `init`, `issue ROLE/NAME` or `show [DIRECTORY|FILE]...`; see leasehold certs --help");
}

int lh_command_certs(int argc, char **argv)
{
    struct options o = {0};
    const struct lh_flag table[] = {
        {LH_FLAG("dir", STRING, &o.dir, "leasehold-certs"), .metavar = "DIRECTORY",
            .help = "the authority's directory"},
        {LH_FLAG("host", LIST, &o.hosts, NULL), .metavar = "HOST,...",
            .help =
                "issue: names and IP addresses that a server is reached at; clients check them"},
        {LH_FLAG("out", STRING, &o.out, NULL), .metavar = "DIRECTORY",
            .help = "issue: where ca.pem, cert.pem and key.pem go; by default ROLE-NAME in --dir"},
        {LH_FLAG("valid", DURATION, &o.valid, NULL), .min = 1000000000,
            .help = "for how long; by default ten years for init and a year for issue"},
        {LH_FLAG("force", BOOL, &o.force, NULL), .command_line_only = true,
            .help = "replace what is there: with issue, to renew"},
        {LH_FLAG("json", BOOL, &o.json, NULL), .help = "show: print JSON"},
    };
    const struct lh_flags flags = {
        .command = "leasehold certs",
        .usage = "init | issue ROLE/NAME --host HOST | show [DIRECTORY|FILE]... [OPTION]...",
        .summary =
            "Makes keys and certificates for TLS: `init` an authority, `issue` those of one "
            "server or user, who is master/NAME, chunkserver/NAME, admin/NAME, writer/NAME, "
            "reader/NAME or etcd/NAME; `show` says what they are and until when. Servers and the "
            "library use renewed files within seconds, without a restart.",
        LH_FLAG_ROWS(table),
    };
    struct lh_flags_result args;
    int code;

    if (!lh_command_parse(&flags, argc, argv, 1, 1000, &args, &code))
        return code;
    code = run(&o, args.args, args.arg_count);
    if (fflush(stdout) != 0 && code == LH_EXIT_OK)
        code = lh_command_error(LH_EXIT_IO, COMMAND, "cannot write to standard output");
    lh_flags_free(&args);
    return code;
}
