#!/bin/bash
# The Debian packages of the programs as they were built for the tests: lintian finds nothing, they
# hold what they should, and programs, units and config files work once they are unpacked.
#
#   tests/package_test.sh                  as Bazel runs it: what was built for the tests
#   tests/package_test.sh --fresh          by hand, as root, in minutes: a release, installed by apt
#                                          in a fresh Debian 12 with systemd, where a cluster runs
#                                          (package_inside.sh)
set -euo pipefail

# The source tree: a link of Bazel's into it tells where it is.
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
source=$(dirname "$here")
work=$(mktemp -d "${TEST_TMPDIR:-${TMPDIR:-/tmp}}/package_test.XXXXXX")
unset TEST_TMPDIR # or a Bazel of ours would put all its output there
trap 'rm -rf "$work"' EXIT

fail() {
    echo "package_test: $*" >&2
    exit 1
}

has() { # WHAT TEXT PATTERN
    grep -q -- "$3" <<<"$2" || fail "$1: there is no '$3' in: $2"
}

holds() { # PACKAGE FILE...
    local package=$1 list file
    shift
    list=$(dpkg-deb --contents "$work"/out/"$package"_*.deb)
    for file in "$@"; do
        has "$package" "$list" " \\.$file\$\\| \\.$file -> "
    done
}

check_contents() {
    local lib part
    lib=/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
    for part in master chunkserver; do
        holds leasehold-$part /usr/bin/leasehold-$part /etc/leasehold/$part.conf \
            /lib/systemd/system/leasehold-$part.service \
            /usr/lib/sysusers.d/leasehold-$part.conf /usr/share/man/man8/leasehold-$part.8.gz \
            /usr/share/bash-completion/completions/leasehold-$part
    done
    holds leasehold-client /usr/bin/leasehold /usr/share/man/man1/leasehold.1.gz \
        /usr/share/bash-completion/completions/leasehold
    holds leasehold-sim /usr/bin/leasehold-sim /usr/share/man/man1/leasehold-sim.1.gz
    holds libleasehold0 "$lib/libleasehold.so.0" "$lib/libleasehold.so.0.1"
    holds libleasehold-dev /usr/include/leasehold.h /usr/include/leasehold_leases.h \
        "$lib/libleasehold.a" "$lib/libleasehold.so" "$lib/pkgconfig/leasehold.pc"
    holds python3-leasehold /usr/lib/python3/dist-packages/leasehold/__init__.py \
        /usr/lib/python3/dist-packages/leasehold/aio.py \
        /usr/lib/python3/dist-packages/leasehold/py.typed \
        '/usr/lib/python3/dist-packages/leasehold/_capi\.[^ ]*\.so'
    has python3-leasehold "$(dpkg-deb --field "$work"/out/python3-leasehold_*.deb Depends)" \
        'libleasehold0 (>= .*python3-cffi-backend\|python3-cffi-backend.*libleasehold0 (>= '
    # What others are built against: the library's own name for its symbols.
    has symbols "$(dpkg-deb --ctrl-tarfile "$work"/out/libleasehold0_*.deb | tar -xO ./symbols)" \
        'LEASEHOLD_0@LEASEHOLD_0 0.1\|(symver)LEASEHOLD_0 0.1'
}

check_programs() { # ROOT: where the packages are unpacked
    local root=$1 part said
    has version "$("$root"/usr/bin/leasehold --version)" "leasehold $("$source"/tools/version)"
    for part in master chunkserver; do
        # The config file is read, and each of its settings exists.
        said=$("$root"/usr/bin/leasehold-$part --config="$root/etc/leasehold/$part.conf" \
            --network-threads=0 2>&1) && fail "$part starts without a thread"
        has $part "$said" 'network-threads: 0 is too small'
        has $part "$(cat "$root/etc/leasehold/$part.conf")" \
            "^data-dir = /var/lib/leasehold-$part\$"
        has $part "$(cat "$root/etc/leasehold/$part.conf")" '^#log-level = info$'
    done
    # A program is built against what libleasehold-dev has, and runs with what libleasehold0 has.
    cat >"$work/program.c" <<'END'
#include <leasehold.h>
#include <stdio.h>

int main(void)
{
    return puts(lh_error_name(LH_OK)) < 0;
}
END
    local lib flags
    lib=/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
    flags=$(PKG_CONFIG_LIBDIR=$root$lib/pkgconfig pkg-config --cflags --libs leasehold)
    # The folders are those of a machine on which it is installed.
    # shellcheck disable=SC2086
    gcc "$work/program.c" -o "$work/program" -I"$root/usr/include" -L"$root$lib" $flags
    has program "$(LD_LIBRARY_PATH=$root$lib "$work/program")" '^OK$'
    # And with the library in it, as docs/api.md says: the archive is one object, so all of it.
    flags=$(PKG_CONFIG_LIBDIR=$root$lib/pkgconfig pkg-config --cflags --libs --static leasehold |
        sed 's/-lleasehold/-l:libleasehold.a/')
    # shellcheck disable=SC2086
    gcc "$work/program.c" -o "$work/program" -I"$root/usr/include" -L"$root$lib" $flags
    has "static program" "$("$work/program")" '^OK$'
    has python3 "$(LD_LIBRARY_PATH=$root$lib PYTHONPATH=$root/usr/lib/python3/dist-packages \
        /usr/bin/python3 -B -c 'import leasehold, leasehold.aio; print(leasehold.__file__)')" \
        "^$root/usr/lib/python3/dist-packages/leasehold/"
}

# systemd reads the units as they are unpacked, where none of its own is.
check_units() { # ROOT
    local said
    command -v systemd-analyze >/dev/null || fail "there is no systemd-analyze"
    said=$(systemd-analyze verify --man=no --root="$1" leasehold-master.service \
        leasehold-chunkserver.service 2>&1 | grep leasehold |
        grep -v 'Unit sysinit.target not found\|/bin/sh is not executable') || true
    [ -z "$said" ] || fail "units: $said"
}

unpack() { # ROOT
    local package
    for package in "$work"/out/*.deb; do
        case $package in *-dbgsym_*) continue ;; esac
        dpkg-deb --extract "$package" "$1"
    done
}

quick() {
    LEASEHOLD_BUILT=$PWD DEB_BUILD_OPTIONS="nocheck noautodbgsym" \
        "$source"/packaging/build --to "$work/out" --lint
    check_contents
    unpack "$work/root"
    check_programs "$work/root"
    check_units "$work/root"
}

# --- in a fresh Debian ---------------------------------------------------------------------

fresh() {
    local root=$work/debian
    "$source"/packaging/build --to "$work/out" --lint
    check_contents
    mmdebstrap --variant=apt bookworm "$root"
    mkdir "$root/packages"
    cp "$work"/out/*.deb "$root/packages"
    rm -f "$root"/packages/*-dbgsym_*
    chroot "$root" sh -c 'apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y \
        --no-install-recommends install /packages/*.deb bash-completion gcc libc6-dev pkg-config \
        procps systemd-sysv'
    # The first process there is systemd; what it is to do is a unit, and then it ends.
    install -m 755 "$source/tests/package_inside.sh" "$root/package_inside"
    cat >"$root/etc/systemd/system/package-test.service" <<'END'
[Unit]
After=multi-user.target

[Service]
Type=oneshot
ExecStart=/package_inside
StandardOutput=append:/result
StandardError=inherit
ExecStopPost=/bin/systemctl poweroff

[Install]
WantedBy=multi-user.target
END
    chroot "$root" systemctl enable package-test
    systemd-nspawn --quiet --register=no --keep-unit --private-network -D "$root" --boot </dev/null
    cat "$root/result"
    grep -qx "all is well" "$root/result" || fail "see above"
}

case ${1:-} in
--fresh) fresh ;;
*) quick ;;
esac
