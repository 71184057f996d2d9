/* What all records and concerns of the master stand on. */
#pragma once

#include "base/alloc.h"
#include "base/assert.h"
#include "base/buf.h"
#include "base/idmap.h"
#include "base/probe.h"
#include "base/step.h"
#include "base/time.h"
#include "base/timers.h"
#include "flow/links.h"
#include "master/config.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <uthash.h>

struct lh_master;
struct lh_m_server;
struct lh_m_chunk;
struct lh_m_active;
struct lh_m_file;
struct lh_m_file_active;
struct lh_m_member;
struct lh_m_roll;

/* Kinds of leases. Those of programs are untracked (lease/service.h). */
enum lh_m_lease_kind { LH_M_LEASE_CHUNK, LH_M_LEASE_LOCK, LH_M_LEASE_VALUE };

#define LH_NAME_BYTES_MAX    128u
#define LH_ADDRESS_BYTES_MAX 256u
#define LH_TEXT_BYTES        512u

/* What is waited for after the `n`-th failure in a row, from 0: `first`, and twice as long each
 * time, up to `most`. */
static inline struct lh_duration lh_m_backoff(
    struct lh_duration first, struct lh_duration most, uint32_t n)
{
    return lh_duration_min(lh_nanoseconds(first.ns << (n < 16 ? n : 16)), most);
}

/* The wire's number for one of the lh_error values. */
static inline Leasehold__ErrorCode lh_m_wire_error(int error)
{
    return (Leasehold__ErrorCode)-error;
}
