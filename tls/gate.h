/* OpenSSL in a process that forks.
 *
 * OpenSSL has locks for the whole process, and does nothing about them in a child: one that another
 * thread held there is held for ever. So whoever calls OpenSSL where a program may fork does so
 * between lh_openssl_enter() and lh_openssl_leave(), and fork() waits until nobody is in between.
 * In between no lock is waited for whose holder may want to enter, and no code of an owner is
 * called. Any thread. */
#pragma once

#include <stdbool.h>

/* May be nested. */
void lh_openssl_enter(void);
void lh_openssl_leave(void);

/* Before a thread of ours ends: what OpenSSL keeps of the thread is freed now, and not by the
 * thread's end, for which fork() does not wait. */
void lh_openssl_end_thread(void);

/* By the thread that calls fork(): before it, without one of the locks that are held where somebody
 * enters; and after it. */
void lh_openssl_stop(void);
void lh_openssl_go_on(bool is_child);
