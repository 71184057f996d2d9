/* Proof of death (HA-3a): a second process of the same program that does nothing but wait for the
 * end of the master's, and then resigns its reign. Only the kernel's word on that very process
 * counts: a pidfd, or waitpid().
 *
 * The watcher is the master's child, so whoever starts a master, a service manager too, has the
 * master itself. A first process of a container cannot be that: with it every other one ends. There
 * the master is the child. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* For main(), before the process has descriptors, threads or gRPC of its own: what a watcher has
 * inherited stays open as long as it lives. `*process` is the number by which the watcher knows
 * this process's reigns. False: this was the first process, and the master, its child, has ended:
 * `*code` is what to exit with. Where there can be no watcher, that is logged, and true. */
bool lh_watcher_start(int argc, char **argv, uint64_t *process, int *code);

/* Is it a watcher that was started? Then its main() is the other one. */
bool lh_watcher_is_meant(int argc, char **argv);
int lh_watcher_main(int argc, char **argv);
