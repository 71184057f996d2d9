/* The wire as a transport (runtime/transport.h): our own nodes' links over connections of our own
 * protocol (docs/wire.md), and everything that is not spoken in it over gRPC.
 *
 * One port serves both: what begins as the wire does is kept here, everything else is handed to
 * gRPC. Foreign methods (etcd's) are called over gRPC, and so is whoever turns out not to speak the
 * wire. gRPC begins when it is needed: a program that calls only nodes of ours never starts it.
 *
 * Connections to one server are apart by what they carry (lh_mux_class_of()): leases do not wait
 * behind bulk bytes.
 */
#pragma once

#include "runtime/transport_methods.h"

extern const struct lh_transport_methods lh_wire_transport;
