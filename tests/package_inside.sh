#!/bin/bash
# What tests/package_test.sh --fresh has a fresh Debian do, with systemd, in which the packages were
# just installed. Its last line is "all is well".
set -euo pipefail

fail() {
    echo "package_inside: $*"
    journalctl --no-pager -u 'leasehold-*' | tail -40
    exit 1
}

is() { # WHAT VALUE EXPECTED
    [ "$2" = "$3" ] || fail "$1: '$2' instead of '$3'"
}

state() { # PART PROPERTY
    systemctl show --property "$2" --value "leasehold-$1"
}

until_so() { # WHAT COMMAND...
    local what=$1
    shift
    for _ in $(seq 150); do
        ! "$@" >/dev/null 2>&1 || return 0
        sleep 0.2
    done
    fail "not within 30 s: $what"
}

has_journal() { # PART TEXT
    journalctl --no-pager -u "leasehold-$1" | grep -q -- "$2"
}

has_server() {
    leasehold --timeout=2s servers | grep -q live
}

is_ready() {
    [ "$(state master StatusText)" = ready ]
}

was_restarted() { # PART
    [ "$(state "$1" NRestarts)" = 1 ] && [ "$(state "$1" ActiveState)" = active ]
}

echo "nothing was started"
for part in master chunkserver; do
    is enabled "$(systemctl is-enabled leasehold-$part || true)" disabled
    is active "$(state $part ActiveState)" inactive
    is user "$(id -un leasehold-$part)" leasehold-$part
done
said=$(systemd-analyze verify --man=no leasehold-master.service leasehold-chunkserver.service 2>&1)
is units "$said" ""

echo "a cluster of one server"
systemctl enable --now leasehold-master leasehold-chunkserver
until_so "a status" is_ready
until_so "a chunkserver" has_server
for part in master chunkserver; do
    is owner "$(stat -c %U:%a /var/lib/leasehold-$part)" leasehold-$part:750
    is user "$(ps -o user:30= -p "$(state $part MainPID)")" leasehold-$part
done
leasehold create --replication=1 --min-replicas=1 /hello
echo world | leasehold append /hello
is cat "$(leasehold cat /hello)" world
has_journal chunkserver io_uring || fail "the unit keeps the chunkserver from io_uring"

echo "a reload"
sed -i 's/^#log-level = .*/log-level = debug/' /etc/leasehold/chunkserver.conf
systemctl reload leasehold-chunkserver
until_so "a reload" has_journal chunkserver 'log-level is debug from now on'

echo "who is killed is started again"
kill -9 "$(state chunkserver MainPID)"
until_so "a restart" was_restarted chunkserver
until_so "a session" has_server
is cat "$(leasehold cat /hello)" world

echo "who does not go on is killed"
kill -STOP "$(state master MainPID)"
sleep 30
until_so "a restart by the watchdog" was_restarted master
has_journal master 'Watchdog timeout' || fail "it was not the watchdog"
is cat "$(leasehold cat /hello)" world

echo "Python"
said=$(timeout 60 python3 -c 'import leasehold
with leasehold.connect("127.0.0.1:7400") as cluster:
    for record in cluster.read("/hello"):
        print(record.data.decode())')
is python3 "$said" world

echo "a mistake in the config file"
echo 'nonsense = 1' >>/etc/leasehold/chunkserver.conf
systemctl restart leasehold-chunkserver && fail "it starts with a mistake"
sleep 3
is active "$(state chunkserver ActiveState)" failed
is restarts "$(state chunkserver NRestarts)" 0
has_journal chunkserver "chunkserver.conf:[0-9]*: there is no option 'nonsense'" ||
    fail "the mistake is not named"

echo "completion, manuals, library"
offered=$(bash -c '. /usr/share/bash-completion/bash_completion; _completion_loader leasehold
    COMP_WORDS=(leasehold cat /h) COMP_CWORD=2 COMP_LINE="leasehold cat /h" COMP_POINT=16
    _leasehold leasehold 2>/dev/null; echo "${COMPREPLY[@]}"')
is completion "$offered" /hello
for page in leasehold.1 leasehold-sim.1 leasehold-master.8 leasehold-chunkserver.8; do
    [ -e "/usr/share/man/man${page##*.}/$page.gz" ] || echo "no $page: this Debian has no manuals"
done
cat >/tmp/program.c <<'END'
#include <leasehold.h>
#include <stdio.h>

int main(void)
{
    return puts(lh_error_name(LH_OK)) < 0;
}
END
# shellcheck disable=SC2046
gcc /tmp/program.c $(pkg-config --cflags --libs leasehold) -o /tmp/program
is program "$(/tmp/program)" OK

echo "removal"
DEBIAN_FRONTEND=noninteractive apt-get -q -y purge leasehold-master >/dev/null 2>&1
is active "$(systemctl is-active leasehold-master || true)" inactive
[ ! -e /etc/leasehold/master.conf ] || fail "purge leaves the config file"
[ -e /var/lib/leasehold-master/FORMAT ] || fail "purge removes the metadata"
echo "all is well"
