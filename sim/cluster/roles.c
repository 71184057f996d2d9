/* Certificates, and the table of roles that all masters and chunkservers read (ACC). The table has
 * lines for strangers alone: programs keep their rights, and what is due to them stays due. Where
 * capabilities are asked for chunkservers have certificates in any case: they are led by name
 * (ACC-9). */
#include "sim/cluster/internal.h"

#include "access/access.h"
#include "sim/world/network.h"

#include <stdio.h>
#include <string.h>

static void give_name(struct lh_sim_node *node, const char *role, const char *name)
{
    char identity[64];

    (void)snprintf(identity, sizeof identity, "leasehold://%s/%s", role, name);
    lh_sim_identify(node, identity);
}

static void give_role(struct lh_sim_node *node, const char *role)
{
    give_name(node, role, lh_sim_name(node));
}

static struct lh_sim_node *stranger(const struct lh_sim_cluster *c, size_t number)
{
    char name[16];

    (void)snprintf(name, sizeof name, "x%u", (unsigned)number);
    return lh_sim_find(c->sim, name);
}

/* A table with a line for each whose rights are taken away. */
static struct lh_access *table(const struct lh_sim_cluster *c)
{
    char text[LH_SIM_NODES_MAX * 80] = "", why[256];
    size_t n = 0;
    struct lh_access *access;

    for (size_t i = 1; i <= c->config.strangers; i++)
        if ((c->without_rights & UINT64_C(1) << i) != 0)
            n += (size_t)snprintf(
                text + n, sizeof text - n, "%s none\n", lh_sim_identity(stranger(c, i)));
    int error = lh_access_parse(text, n, &access, why, sizeof why);
    LH_ASSERT(error == LH_OK);
    return access;
}

/* Readers, nobody of ours, and one who has stolen a chunkserver's key. */
static void give_stranger(const struct lh_sim_cluster *c, size_t number)
{
    const struct lh_sim_node *server =
        c->server_nodes[lh_mix64(c->config.world.seed) % c->config.servers];

    if (number % 2 == 1)
        give_role(stranger(c, number), "reader");
    else if (number == 2)
        give_name(stranger(c, number), "chunkserver", lh_sim_name(server));
    else
        lh_sim_identify(stranger(c, number), "CN=nobody");
}

void lh_sim_roles_init(struct lh_sim_cluster *c)
{
    for (size_t i = 0; i < c->config.servers && (c->config.roles || c->config.capabilities); i++)
        give_role(c->server_nodes[i], "chunkserver");
    if (!c->config.roles)
        return;
    for (size_t i = 0; i < c->config.masters; i++)
        give_role(c->masters[i].node, "master");
    for (size_t i = 0; i < c->config.clients; i++)
        give_role(c->client_nodes[i], "admin"); /* they operate, too */
    for (size_t i = 1; i <= c->config.strangers; i++)
        give_stranger(c, i);
    c->access = table(c);
    c->config.master.access = c->config.server.access = c->access;
}

void lh_sim_roles_deinit(struct lh_sim_cluster *c)
{
    lh_access_free(c->access);
}

/* What runtime/server.c does at SIGHUP. */
static void read_table(struct lh_sim_cluster *c, struct lh_sim_node *changed)
{
    struct lh_access *fresh = table(c);

    lh_access_swap(c->access, fresh);
    lh_access_free(fresh);
    for (size_t i = 0; i < c->config.masters; i++)
        lh_sim_break(c->masters[i].node, changed);
    for (size_t i = 0; i < c->config.servers; i++)
        lh_sim_break(c->server_nodes[i], changed);
}

bool lh_sim_set_rights(struct lh_sim_cluster *c, uint64_t number, bool has)
{
    /* Whoever is nobody of ours has none; and what is stolen looks like its owner's. */
    if (!c->config.roles || number == 0 || number > c->config.strangers || number % 2 == 0 ||
        has == lh_sim_has_rights(c, stranger(c, number)))
        return false;
    c->without_rights ^= UINT64_C(1) << number;
    read_table(c, stranger(c, number));
    return true;
}

bool lh_sim_has_rights(const struct lh_sim_cluster *c, const struct lh_sim_node *node)
{
    for (size_t i = 1; i <= c->config.strangers; i++)
        if (stranger(c, i) == node)
            return (c->without_rights & UINT64_C(1) << i) == 0;
    return true;
}
