#!/usr/bin/python3
"""Keeps the house rules that no compiler checks.

  pure   The cores and what they stand on read no clock, draw no random number, start no thread,
         open no file or socket: the simulator can only vouch for code that does nothing behind
         its back.
  layer  Only grpc/ includes gRPC (<grpc/...>), and tests/unit/stranger.c, which plays a stranger to
         it; of the headers in grpc/ ("grpc/...") others include its door alone, and of runtime/
         only GRPC_USERS that: the loop knows the door of all transports. admission/ and tls/ know
         neither. Pure code includes nothing of runtime/, grpc/, admission/ or tls/.
  thread A thread of the product is started by lh_thread_start() alone, which fails with an error.
  door   Of a folder within a core others include its door alone: the header with the folder's name,
         or those in DOORS. Its BUILD exports nothing else, but what the door is made of. Folders
         within such a folder have doors for each other, and none for others. gcc does not see that
         a header is private to its target.
  bound  What bounds a core (how much at once, how many, how long) is a field of its config, where
         tests and the simulator can make it absurdly small; a bare constant is out of their reach.
         So it is in the client's library, where an option stands for the config.
         What has an entry in UNBOUND is no such thing. Each field of the configs that is not in a
         core's own list of bounds stands in the simulator's settings, which draw it.
  size   No header has more than 300 lines, no source of the product or of the simulator more than
         500: past that it is two things. What is on the list OVERLONG came before the rule; the
         list only gets shorter.
  words  One term for each thing (CONTRIBUTING, "Words"), in code, comments, messages and documents:
         a word of WORDS stands in no more lines than it says there, and the number only gets less.
  links  In README.md, CONTRIBUTING.md and docs/ each link to a file leads to one that is there, and
         each link to a heading to one that stands in that file.
  form   No tabs, no trailing blanks, no line over 100 columns, a line feed at the end of the file.

    tidy_test.py [ROOT]       checks the tree (by default the one this file lies in), prints
                              file:line: what is wrong, exits 1 if anything is
    tidy_test.py --selftest   checks that each rule can fail
"""

import os
import re
import sys

# In these folders every source is pure that is not named below: whoever adds a file that touches
# the system names it here, and a reviewer sees it.
PURE = (
    *("base", "batch", "finder", "flow", "lease", "proto"),
    *("master", "chunkserver", "client", "sim"),
)
IMPURE = re.compile(
    r"^(\w+/main\.[ch]"
    r"|\w+/fuzz_\w+\.c"
    r"|master/store/\w+\.[ch]"
    r"|chunkserver/(data_dir\.c|options\.[ch])"
    r"|master/((copy|page)/\w+|(etcd_)?options|watcher)\.[ch]"
    r"|client/(library|command)/\w+\.[ch]"
    r"|sim/command/\w+\.[ch]"
    r"|sim/scenario/load\.c)$"
)

CALLS = re.compile(
    r"\b(clock_gettime|gettimeofday|clock_nanosleep|nanosleep|usleep|sleep|time|clock|rand|random"
    r"|srand|srandom|rand_r|drand48|arc4random|getrandom|getentropy|pthread_\w+|thrd_\w+|mtx_\w+"
    r"|open|openat|fopen|creat|pread|pwrite|fsync|fdatasync|unlink|unlinkat|rename|renameat|socket"
    r"|connect|accept|bind|listen|recv|sendmsg|epoll_\w+|io_uring_\w+|fork|execve|system"
    r"|getenv)\s*\("
)
PURE_INCLUDES = re.compile(
    r"#[ \t]*include\s*[<\"](grpc/|pthread\.h|threads\.h|time\.h|sys/time\.h|sys/socket\.h|fcntl\.h"
    r"|unistd\.h|liburing\.h|lmdb\.h|runtime/|admission/|tls/)"
)
GRPC_INCLUDE = re.compile(r"#[ \t]*include\s*<grpc/")
# Who chooses a transport, or has to do with gRPC itself.
GRPC_USERS = ("runtime/transports.c", "runtime/server.c", "runtime/listener_probe.c")
# A name that is none of ours would be looked for among the system's, too.
OURS_INCLUDE = re.compile(r'#[ \t]*include\s*"grpc/([^"]*)"')

# Headers that others may include, of folders where that is not, or not only, the one with their
# name.
DOORS = {
    "access": ("access.h", "capability.h"),
    "chunkserver/log": ("log.h", "header.h"),  # and the format of a chunk's file
    "client/core": ("client.h", "leases.h"),
    # A target each, and what keeper.h has.
    "client/command": ("authority.h", "keeper.h", "reach.h", "top.h", "top_rows.h"),
    # And the format of a guard's file.
    "client/library": ("leasehold.h", "leasehold_leases.h", "guard_file.h"),
    "master/store": ("metastore.h", "metastore_lmdb.h", "stores.h"),  # a target each
    "master/page": ("page.h", "json.h", "uri.h"),  # the page, and its pure parts
    # Records, and what is done with all of them.
    "master/tables": (
        "tables.h",
        "answers.h",
        "behind.h",
        "call.h",
        "changed.h",
        "chunk.h",
        "dirty.h",
        "path.h",
        "promised.h",
        "replies.h",
        "write.h",
    ),
}
# A test of something that only its own folder uses.
INSIDE = {("tests/unit/chunkserver_format_test.c", "chunkserver/log/writers.h")}
ROOM_INCLUDE = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*\"(((?:master|chunkserver|client)(?:/\w+)+)/(\w+\.h))\"", re.M
)
EXPORTED = re.compile(r"\bhdrs = \[(.*?)\]", re.S)

CORES = ("master", "chunkserver", "client", "lease", "finder", "flow")
BOUND = re.compile(
    r"(?:#[ \t]*define[ \t]+|\benum\b[^{;]*\{[^}]*?\b|^[ \t]*)"
    r"([A-Z][A-Z0-9_]*_(?:MAX|MIN|LIMIT|BYTES|NS|US|MS|S|SECONDS|TIMEOUT|COUNT|BATCHES|CAPACITY"
    r"|DEFAULT))"
    r"[ \t]*=?[ \t]*\(*[ \t]*(?:UINT\d+_C\([ \t]*)?\d"
)
UNBOUND = {
    "LH_EVENT_SECRET_BYTES": "size of a key of SipHash",
    # What is stored, or said on the wire.
    "LH_SLOT_BYTES": "format of the chunk header",
    "LH_BOOT_ID_BYTES": "format of the chunk header",
    "LH_NAME_BYTES_MAX": "limit of the protocol",
    "KEPT_MAX": "two pages of the longest listing, for who checks replicas",
    "LH_CLIENT_NAME_BYTES_MAX": "limit of the protocol",
    "LH_NAME_LENGTH_MAX": "limit of the protocol",
    "LH_NAME_KEPT_MAX": "limit of the protocol",
    "LH_M_KEPT_BYTES_MAX": "limit of the protocol",
    "LH_KEY_BYTES_MAX": "limit of a kind of store",
    "LH_SESSION_TERM_MAX": "limit of the protocol",
    "LOOKUPS_END_MS": "for how long a program's last call waits",
    "NO_WAIT_MS": "when a program is told that no master answers",
    "CALL_WAIT_MS": "the longest term of a session",
    "LH_CLIENT_INFO_BYTES_MAX": "limit of the protocol",
    "LH_ADDRESS_BYTES_MAX": "limit of the protocol",
    "ADDRESS_BYTES_MAX": "limit of the protocol",
    "LH_M_NAME_BYTES_MAX": "limit of the protocol",
    "LH_M_VALUE_BYTES_MAX": "limit of the protocol",
    "LH_M_INFO_BYTES_MAX": "limit of the protocol",
    "SHARE_PERCENT_MAX": "limit of the protocol",
    "TERM_MAX_MS": "limit of the protocol",
    "LH_M_SESSION_ID_BYTES": "limit of the protocol",
    "LH_MASTERS_MAX": "limit of a setting",
    "LH_FINDER_TEXT_MAX": "size of a sentence",
    "LH_CLUSTER_ID_BYTES": "size of an id",
    "LH_PATH_BYTES_MAX": "limit of the protocol",
    "LH_REPLICATION_MAX": "limit of a setting",
    "LH_SESSION_TERM_MIN_NS": "limit of a setting",
    "LH_SESSION_TERM_MAX_NS": "limit of a setting",
    "LH_REIGN_TERM_MIN_NS": "limit of a setting",
    "LH_REIGN_TERM_MAX_NS": "limit of a setting",
    "LH_ETCD_MEMBERS_MAX": "limit of a setting",
    "LH_MASTER_ID_BYTES_MAX": "limit of a setting",
    "LH_TRASH_RETENTION_MAX_NS": "limit of a setting",
    "LH_REPAIR_STREAMS_MAX": "limit of a setting",
    "LH_DRIFT_PPM_MAX": "limit of a setting",
    "LH_DRIFT_PPM_DEFAULT": "default of a setting",
    "SCRUB_PERIOD_MS": "default of a setting",
    "LH_OPEN_TAIL_WAIT_MS_MAX": "limit of the protocol",
    "VERSION_MAX": "far from the end of numbers: an older copy's leap must have room",
    "CHUNK_MAX": "likewise",
    # Room for text, or for as many as a bound may be.
    "LH_TEXT_BYTES": "room for a sentence",
    "LH_M_TITLE_BYTES": "room for a name",
    "LH_CALL_TEXT_BYTES": "room for a sentence",
    "LH_IDENTITY_TEXT_MAX": "room for a name",
    "LH_IDENTITY_BYTES_MAX": "room for a text",
    "LH_METASTORE_WAITING_MAX": "the store's, which is no core",
    "HEADERS_BYTES": "format of the chunk header",
    "LH_SCRUB_TEXT_MAX": "room for two numbers",
    "LH_WHEN_BYTES": "room for a duration",
    "KEY_MAX": "room for a key",
    "LH_M_LOOKUP_BYTES": "room for what a file keeps for ever",
    "PROBE_BYTES": "what a probe writes",
    "LH_FLIGHT_MESSAGES_MAX": "the most that a bound of the config may be",
    "LH_REPLY_BATCHES_MAX": "the most that a bound of the config may be",
    # The library: threads of the program's, which the simulator does not have; a program sets them
    # in its options.
    "BATCH_BYTES_DEFAULT": "default of an option",
    "BATCH_BYTES_MIN": "limit of an option",
    "MEMORY_BYTES_DEFAULT": "default of an option",
    "GIVE_UP_MS_DEFAULT": "default of an option",
    "READAHEAD_DEFAULT": "default of an option",
    "READAHEAD_MIN": "limit of an option",
    "PIPELINE_BYTES": "at most the option batch_bytes_max, which tests set",
    "FIRST_CAPACITY": "room for records; it grows",
    "SPARE_BATCHES": "memory for the next batches; with none of it they are allocated",
    "PIECE_BYTES": "of one READ of a check; a reply may have fewer",
    "WAITING_MS": "when a program is told what is waited for",
    "REASON_MS": "how long the reason is looked for, once a program is told",
    "RECALL_WAIT_MS_MAX": "limit of the protocol",
    "ANSWER_MS": "when an operator is told that a master does not answer",
    "POLL_ANSWER_MS": "likewise, while a successor is waited for",
    "POLL_PAUSE_MS": "between two looks at whether a successor acts",
    "LH_SURVEY_MAX": "more masters than any list has",
    "LH_RECORD_BYTES_MAX": "limit of the format",
    "NAMES_MAX": "limit of a guard's file",
    "LH_SHOWN_BYTES": "room for a name",
    "LOOK_MS": "between two looks at whether a lock of the kernel is free",
    "LH_VALUE_BYTES_MAX": "limit of the protocol",
    "LH_LOCK_INFO_MAX": "limit of the protocol",
    # Data structures; no work waits for them.
    "LH_INDEX_BUCKETS_MIN": "size of a hash table",
    "LH_INDEX_BUCKETS_MAX": "size of a hash table",
    "LH_SESSION_SLOT_MAX": "bits of a session's number",
    "EXPIRE_WORK_MAX": "how much of the wheel one call turns; the property test crosses it",
    "PACING_BURST_MS": "what a rate means for short times",
    "PACING_PIECE_MIN": "less costs more than it paces",
    "PACING_STEP_MAX": "keeps a product from overflowing",
}
CONFIGS = (
    ("master/config.h", "lh_master_config"),
    ("chunkserver/config.h", "lh_chunkserver_config"),
    ("client/core/config.h", "lh_client_config"),
    ("finder/finder.h", "lh_finder_config"),
)
# Who somebody is and what he has; what only a process knows.
IDENTITIES = (
    "server_id address failure_domain machine_id cluster_id master_term incarnation boot_id masters"
    " process read_only master_count chunks chunk_count capacity_bytes free_bytes scrub_position"
    " bounds seed reign restored refuse_loopback guard guard_arg lookups_host lookups_process"
    " access capability_secret event_secret reign_name reign_followed promises"
).split()

# How long a file may be, and those that still are longer.
LINES_MAX = {".h": 300, ".c": 500}
SIZED = PURE + ("admission", "grpc", "runtime", "tls")
OVERLONG = """
client/library/leasehold.h
client/library/leasehold_leases.h
sim/cluster/program.c
sim/observers/model.c
sim/observers/inv4.c
sim/report/narrative.c
sim/report/story_beliefs.c
sim/report/story_said.c
sim/scenario/action.c
sim/scenario/actor.c
sim/scenario/phrase.c
sim/world/network.c
""".split()

# What is written otherwise: how often it still stands there, in lines, and what is written instead.
WORDS = {
    r"\bmotions?\b|_motion": (0, "active state"),
    r"stirred": (0, "changed, unsettled"),
    r"lessees?": (0, "client; holder"),
    r"errands?\b": (0, "task"),
    r"farewell": (0, "final heartbeat"),
    r"forgiv": (0, "discount"),
    r"seeker": (0, "waiter"),
    r"doubting": (0, "suspecting"),
    r"untold": (0, "unreported"),
    r"misfit": (0, "diverged"),
    r"mischief|\bprey\b": (0, "fault, target"),
    r"patrol": (0, "sweep"),
    r"lh_m_say_": (0, "lh_m_reply_"),
    r"\bvaluing\b": (0, "value_state"),
    r"told ahead": (0, "notified before"),
    r"once more": (0, "again"),
    r"\bin[ _]vain\b|_in_vain\b": (57, "without result, or the plain verb"),
    r"\banew\b": (100, "again"),
    r"\bunder way\b": (238, "in flight"),
    r"\btold\b": (431, "reported, notified"),
    r"\brooms?\b": (251, "space, memory"),
}
# They name the words, or quote what was.
WORDS_FREE = ("CONTRIBUTING.md", "docs/bugs.md", "tests/tidy_test.py")

SOURCES = (".c", ".h")
TEXTS = SOURCES + (".proto", ".py", ".sh", ".bzl", ".txt")
PROSE = (".md", ".scenario")  # whose form is their own
TEXT_NAMES = ("BUILD", "WORKSPACE", "test")
SKIPPED_FOLDERS = re.compile(r"^(\.git|bazel-.*|__pycache__|\.leasehold)$")


def blank(match):
    """What was there, as spaces, so that line numbers and columns stay."""
    return re.sub(r"[^\n]", " ", match.group(0))


def without_comments_and_strings(text):
    """C code in which words in comments, strings and characters cannot be mistaken for calls.
    The names of included files are kept."""
    token = re.compile(
        r"(?P<keep>^[ \t]*#[ \t]*include[^\n]*)|(?P<drop>/\*.*?\*/|//[^\n]*"
        r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')",
        re.S | re.M,
    )
    return token.sub(lambda m: m.group(0) if m.group("keep") else blank(m), text)


def is_pure(path):
    return (
        path.endswith(SOURCES)
        and path.split("/")[0] in PURE
        and "/" in path
        and not IMPURE.match(path)
    )


def check_file(path, text):
    """Yields (line number, complaint) for one file; `path` is relative, with slashes."""
    lines = text.split("\n")
    if text and not text.endswith("\n"):
        yield len(lines), "no line feed at the end of the file"
    for number, line in enumerate(lines, 1):
        if "\t" in line:
            yield number, "a tab"
        if line != line.rstrip():
            yield number, "blanks at the end of the line"
        if len(line) > 100:
            yield number, "%d columns; at most 100" % len(line)

    if not path.endswith(SOURCES):
        return
    for number, line in enumerate(lines, 1):
        if re.search(r'%[0-9]*ll[ux]', line):
            yield number, "a 64-bit integer is printed with PRIu64 or PRIx64"
    most = LINES_MAX[path[-2:]]
    overlong = path.split("/")[0] in SIZED and len(lines) - 1 > most
    if overlong and path not in OVERLONG:
        yield most + 1, "%d lines; at most %d: it is two things" % (len(lines) - 1, most)
    elif path in OVERLONG and not overlong:
        yield 1, "it is short enough now: take it off OVERLONG"
    for match in ROOM_INCLUDE.finditer(text):
        header, folder, name = match.groups()
        if not may_include(path, folder, name) and (path, header) not in INSIDE:
            number = text.count("\n", 0, match.start()) + 1
            yield number, "%s is private to its folder: include a door of it" % header
    pure = is_pure(path)
    in_grpc = path.startswith("grpc/")
    threaded = path.split("/")[0] in SIZED + ("wire",)
    bounded = (pure and path.split("/")[0] in CORES) or path.startswith("client/library/")
    for number, line in enumerate(without_comments_and_strings(text).split("\n"), 1):
        bound = BOUND.search(line) if bounded else None
        if bound and bound.group(1) not in UNBOUND:
            yield number, "%s bounds a core: make it a field of its config" % bound.group(1)
        if "pthread_create" in line and threaded and path != "runtime/thread.c":
            yield number, "start it with lh_thread_start(), which fails with a sentence"
        if GRPC_INCLUDE.search(line) and not in_grpc and path != "tests/unit/stranger.c":
            yield number, "only grpc/ includes gRPC"
        ours = OURS_INCLUDE.search(line)
        if ours and path.startswith(("admission/", "tls/")):
            yield number, "admission/ and tls/ know nothing of grpc/"
        elif ours and path.startswith("runtime/") and path not in GRPC_USERS:
            yield number, "include runtime/transport.h: which transport it is does not matter here"
        elif ours and not in_grpc and ours.group(1) != "rpc.h" and path != "fuzz/fuzz_edges.c":
            yield number, "grpc/%s is no door of grpc/" % ours.group(1)
        if not pure:
            continue
        call = CALLS.search(line)
        if call:
            yield number, "a pure source calls %s()" % call.group(1)
        include = PURE_INCLUDES.search(line)
        if include:
            yield number, "a pure source includes %s" % include.group(1)


def doors_of(folder):
    return DOORS.get(folder, (os.path.basename(folder) + ".h",))


def may_include(path, folder, name):
    """Whether the file at `path` may include that header of the folder."""
    core = os.path.dirname(folder)  # or the product, of a folder that is in no other one
    if path.startswith(folder + "/"):
        # Its own; or, from a folder within it, what that one's target depends on.
        return True
    return name in doors_of(folder) and ("/" not in core or path.startswith(core + "/"))


def parts_of(headers, texts):
    """These headers, and those of the same folder that they include."""
    found = set()
    left = list(headers)
    while left:
        header = left.pop()
        if header in found:
            continue
        found.add(header)
        for part, folder, _ in ROOM_INCLUDE.findall(texts.get(header, "")):
            if folder == os.path.dirname(header):
                left.append(part)
    return found


def check_exports(texts):
    """Yields (path of a BUILD, complaint); `texts` are those of the files of all cores, by path."""
    for path in sorted(texts):
        folder = os.path.dirname(path)
        if os.path.basename(path) != "BUILD" or not re.match(r"(master|chunkserver|client)/", path):
            continue
        if "/" not in folder:
            continue
        doors = {folder + "/" + door for door in doors_of(folder)}
        parts = parts_of(doors, texts)
        for listed in EXPORTED.findall(texts[path]):
            for name in re.findall(r'"([^"]+)"', listed):
                if folder + "/" + name not in parts:
                    yield path, "%s is no door, nor a part of one: it belongs in srcs" % name


def files_of(root):
    for folder, folders, names in os.walk(root, followlinks=False):
        folders[:] = sorted(f for f in folders if not SKIPPED_FOLDERS.match(f))
        for name in sorted(names):
            if name.endswith(TEXTS + PROSE) or name in TEXT_NAMES:
                yield os.path.join(folder, name)


def fields_of(header, struct):
    """Names of the members of a struct that are written out, not made of a list."""
    text = re.sub(r"\bX\(.*", "", without_comments_and_strings(header))
    body = re.search(r"struct %s \{(.*?)\n\};" % struct, text, re.S).group(1)
    body = re.sub(r"^[ \t]*#.*$", "", body, flags=re.M)
    for declaration in body.split(";"):
        for name in re.findall(r"\b(\w+)\s*(?:\[\w+\]\s*)?(?:,|$)", declaration.strip()):
            if " " in declaration.strip():
                yield name


def undrawn(headers, settings):
    """(header, field) of each field that the simulator's settings do not name."""
    for path, struct in CONFIGS:
        for field in fields_of(headers[path], struct):
            if field not in IDENTITIES and not re.search(r"\b%s\b" % field, settings):
                yield path, field


def check_bounds(root):
    def read(path):
        with open(os.path.join(root, path), encoding="utf-8") as f:
            return f.read()

    settings = read("sim/scenario/bounds.c") + read("sim/scenario/settings.c")
    return list(undrawn({path: read(path) for path, _ in CONFIGS}, settings))


def named_tests(text):
    """As documents name tests: (path, definition) each, of `file_test.test_what_it_does` in
    tests/process/, `file_test.what_happens` in tests/unit/ and `what-happens.scenario`."""
    for file, function in re.findall(r"`([a-z0-9_]+_test)\.([a-z0-9_]{5,})`", text):
        if function.startswith("test_"):
            yield "tests/process/%s.py" % file, "def %s(" % function
        else:
            yield "tests/unit/%s.c" % file, "static void %s(void **state)" % function
    for scenario in re.findall(r"`([a-z0-9-]+\.scenario)`", text):
        yield "sim/scenarios/" + scenario, ""


def check_named_tests(texts):
    """Yields those that docs/operations.md names and that are not there."""
    named = list(named_tests(texts["docs/operations.md"]))
    if not named:
        yield "it names no tests"
    for path, definition in named:
        if path not in texts:
            yield "there is no " + path
        elif definition not in texts[path]:
            yield "there is no %s in %s" % (definition, path)


def without_blocks(text):
    """A document without its blocks of code, in which a # is no heading and [] no link."""
    return re.sub(r"^( *)```.*?^ *```[ \t]*$", "", text, flags=re.S | re.M)


def anchors(text):
    """What a link to a heading of that document ends in, as GitHub makes it of the heading."""
    found = set()
    for heading in re.findall(r"^#+[ \t]+(.*?)[ \t]*$", without_blocks(text), re.M):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
        number = 0
        while "%s-%d" % (name, number) in found if number else name in found:
            number += 1
        found.add("%s-%d" % (name, number) if number else name)
    return found


def check_links(texts, exists):
    """Yields (path, complaint) of the documents; `exists` says of a path whether it is there."""
    for path in sorted(texts):
        if not path.endswith(".md"):
            continue
        text = re.sub(r"`[^`\n]*`", "``", without_blocks(texts[path]))
        for link in re.findall(r"\]\(([^()\s]+)\)", text):
            if re.match(r"[a-z]+:", link):
                continue
            file, _, heading = link.partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
            if not exists(target):
                yield path, "(%s) leads nowhere: there is no %s" % (link, target)
            elif heading and target in texts and heading not in anchors(texts[target]):
                yield path, "(%s) leads nowhere: %s has no such heading" % (link, target)


def check_words(texts, words):
    """Yields complaints; `texts` are those of all files, by path."""
    for word, (left, instead) in words.items():
        pattern = re.compile(word)
        lines = [
            (path, number)
            for path in sorted(texts)
            if path not in WORDS_FREE
            for number, line in enumerate(texts[path].split("\n"), 1)
            if pattern.search(line)
        ]
        if len(lines) < left:
            yield "tests/tidy_test.py: %s stands in %d lines now: say so in WORDS" % (
                word, len(lines))
        elif len(lines) > left:
            yield "%s: write %s; it is the %d. line with %s, and WORDS allows %d" % (
                ", ".join("%s:%d" % at for at in lines[-4:]), instead, len(lines), word, left)


def check_tree(root):
    complaints = 0
    checked = 0
    pure = set()
    texts = {}
    for full in files_of(root):
        path = os.path.relpath(full, root).replace(os.sep, "/")
        with open(full, encoding="utf-8") as f:
            text = f.read()
        checked += 1
        texts[path] = text
        if path.endswith(PROSE):
            continue
        if is_pure(path):
            pure.add(path.split("/")[0])
        for number, complaint in check_file(path, text):
            print("%s:%d: %s" % (path, number, complaint))
            complaints += 1
    for path, field in check_bounds(root):
        print("%s: the simulator does not draw %s: a row in sim/scenario/bounds.c" % (path, field))
        complaints += 1
    for path, complaint in check_exports(texts):
        print("%s: %s" % (path, complaint))
        complaints += 1
    for complaint in check_words(texts, WORDS):
        print(complaint)
        complaints += 1
    for complaint in check_named_tests(texts):
        print("docs/operations.md: %s" % complaint)
        complaints += 1
    for path, complaint in check_links(texts, lambda p: os.path.exists(os.path.join(root, p))):
        print("%s: %s" % (path, complaint))
        complaints += 1
    for path in OVERLONG:
        if not os.path.exists(os.path.join(root, path)):
            print("%s: it is gone: take it off OVERLONG" % path)
            complaints += 1
    # A check that sees no files passes for ever.
    for folder in ("base", "batch", "lease"):
        if folder not in pure:
            print("%s: no sources of %s/ seen: is this the root?" % (root, folder))
            complaints += 1
    print("tidy: %d files, %d complaints" % (checked, complaints))
    return 1 if complaints else 0


def selftest():
    bad = [
        ("lease/grantor.c", "x = clock_gettime(CLOCK_BOOTTIME, &t);", "calls clock_gettime"),
        ("lease/grantor.c", "gettimeofday(&t, 0);", "calls gettimeofday"),
        ("batch/batch.c", "uint64_t t = time(NULL);", "calls time"),
        ("master/master.c", "return rand() % 3;", "calls rand"),
        ("chunkserver/primary/primary.c", "x = random();", "calls random"),
        ("client/core/client.c", "pthread_mutex_lock(&m);", "calls pthread_mutex_lock"),
        ("proto/codec.c", "int fd = open (path, 0);", "calls open"),
        ("sim/world.c", "s = socket(AF_INET, 0, 0);", "calls socket"),
        ("master/master.c", "#include <grpc/grpc.h>", "only grpc/ includes gRPC"),
        ("runtime/server.c", '#include "grpc/grpc.h"', "grpc/grpc.h is no door"),
        ("tests/unit/rpc_test.c", '#include "grpc/internal.h"', "grpc/internal.h is no door"),
        ("runtime/loop.c", '#include "grpc/rpc.h"', "include runtime/transport.h"),
        ("chunkserver/main.c", "#include <grpc/grpc.h>", "only grpc/ includes gRPC"),
        ("admission/peers.c", "#include <grpc/grpc.h>", "only grpc/ includes gRPC"),
        ("admission/peers.c", '#include "grpc/rpc.h"', "know nothing of grpc/"),
        ("tls/tls.c", '# include "grpc/internal.h"', "know nothing of grpc/"),
        ("lease/holder.c", "#include <pthread.h>", "includes pthread.h"),
        ("lease/holder.h", '#include "runtime/loop.h"', "includes runtime/"),
        ("client/core/host/link.c", '# include "grpc/rpc.h"', "includes grpc/"),
        ("lease/holder.c", '#include "admission/admission.h"', "includes admission/"),
        ("master/keep/repair.c", '#include "tls/tls.h"', "includes tls/"),
        ("wire/sockets/loops.c", "e = pthread_create(&t, NULL, run, c);", "lh_thread_start"),
        ("client/library/x.c", "e = pthread_create(&t, NULL, run, c);", "lh_thread_start"),
        ("grpc/rpc.c", "int a;\t", "a tab"),
        ("docs/x.py", "a = 1 ", "blanks at the end"),
        ("base/buf.h", "/*" + "x" * 97 + "*/", "101 columns"),
        ("grpc/rpc.c", 'printf("%llu", x);', "PRIu64"),
        ("chunkserver/log/jobs.c", "#define WRITE_BYTES_MAX (8u << 20)", "WRITE_BYTES_MAX bounds"),
        ("master/roll.c", "#define FENCE_PAUSE_MS 200u", "FENCE_PAUSE_MS bounds"),
        ("client/core/append/stream.c", "#define WAIT_S UINT64_C(5)", "WAIT_S bounds"),
        ("lease/holder.c", "enum { WORK_MAX = 64 };", "WORK_MAX bounds"),
        ("lease/holder.h", "\n" * 300, "301 lines; at most 300"),
        ("lease/holder.c", "\n" * 500, "501 lines; at most 500"),
        (OVERLONG[0], "int a;", "short enough now"),
        ("sim/world/x.c", '#include "chunkserver/log/jobs.h"', "private to its folder"),
        ("master/keep/keep.c", '#include "master/calls/internal.h"', "private to its folder"),
        ("tests/unit/x.c", '#include "chunkserver/log/writers.h"', "private to its folder"),
        ("client/core/names/x.c", '#include "client/core/session/internal.h"', "private to its"),
        ("client/core/client.c", '#include "client/core/session/internal.h"', "private to its"),
        ("sim/cluster/x.c", '#include "client/core/session/session.h"', "private to its folder"),
        ("client/library/x.c", '#include "client/core/calls.h"', "private to its folder"),
        ("client/library/pending.c", "#define SPARE_COUNT 32u", "SPARE_COUNT bounds"),
    ]
    good = [
        ("lease/grantor.c", "/* never clock_gettime() here */"),
        ("lease/grantor.c", "// time(NULL)"),
        ("lease/grantor.c", "log(\"open(%s)\", '\\'', \"time(\\\"\");"),
        ("lease/grantor.c", "lease_time(x); x->open_count(y); uint64_t time = 5;"),
        ("lease/grantor.c", "/* over\n * lines: rand()\n */"),
        ("master/main.c", "clock_gettime(CLOCK_BOOTTIME, &t);\n#include <unistd.h>"),
        ("runtime/thread.c", "e = pthread_create(&t, NULL, run, c);"),
        ("runtime/clock.c", "clock_gettime(CLOCK_BOOTTIME, &t);"),
        ("grpc/rpc.c", "#include <grpc/grpc.h>"),
        ("grpc/rpc.c", '#include "grpc/internal.h"\n#include "tls/tls.h"'),
        ("runtime/server.c", '#include "grpc/rpc.h"\n#include "admission/admission.h"'),
        ("lease/holder.c", "x" * 100),
        ("chunkserver/serve/x.c", '#include "chunkserver/log/log.h"'),
        ("chunkserver/log/x.c", '#include "chunkserver/log/jobs.h"'),
        ("bench/x.c", '#include "chunkserver/log/header.h"'),
        ("sim/cluster/x.c", '#include "client/core/leases.h"'),
        ("client/core/client.c", '#include "client/core/session/session.h"'),
        ("client/core/names/x.c", '#include "client/core/session/session.h"'),
        ("client/core/session/x.c", '#include "client/core/session/internal.h"'),
        ("client/core/session/x.c", '#include "client/core/calls.h"'),
        ("tests/unit/chunkserver_format_test.c", '#include "chunkserver/log/writers.h"'),
        ("lease/holder.h", "\n" * 299),
        ("tests/long_test.c", "\n" * 999),
        ("chunkserver/log/replica.c", "/* #define WRITE_BYTES_MAX (8u << 20) */"),
        ("master/main.c", "#define UPDATE_MS 500"),
        ("runtime/loop.c", "#define WRITE_BYTES_MAX (8u << 20)"),
        ("chunkserver/log/header.h", "#define LH_SLOT_BYTES 4096u"),
        ("chunkserver/log/replica.c", "if (x == LH_CHUNK_BYTES_MIN + 1) y.WORK_MAX == 1;"),
    ]
    failures = 0
    for path, text, expected in bad:
        found = [c for _, c in check_file(path, text + "\n")]
        if not any(expected in c for c in found):
            print("selftest: %s: %r was not found in %r: %s" % (path, expected, text, found))
            failures += 1
    if not any("no line feed" in c for _, c in check_file("base/x.c", "int a;")):
        print("selftest: a missing line feed was not found")
        failures += 1
    for path, text in good:
        found = list(check_file(path, text + "\n"))
        if found:
            print("selftest: %s: nothing is wrong with %r: %s" % (path, text, found))
            failures += 1
    lines = [n for n, c in check_file("lease/x.c", "/* a\n b */\n\nint x = rand();\n")]
    if lines != [4]:
        print("selftest: the line number is wrong: %s" % lines)
        failures += 1
    headers = {path: "struct %s {\n    uint32_t seed, a;\n};" % name for path, name in CONFIGS}
    headers["client/core/config.h"] = (
        "struct lh_client_config {\n    struct lh_duration wait; /* one */\n    uint8_t b[N];\n"
        "#define X(name) uint32_t name;\n    LIST(X)\n};"
    )
    if list(undrawn(headers, "a wait")) != [("client/core/config.h", "b")]:
        print("selftest: undrawn: %s" % list(undrawn(headers, "a wait")))
        failures += 1
    texts = {"a/x.c": "/* told\n told */", "docs/x.md": "retold, told\n", "docs/bugs.md": "told"}
    for left, expected in ((3, 0), (2, 1), (4, 1)):
        if len(list(check_words(texts, {r"\btold\b": (left, "notified")}))) != expected:
            print("selftest: words: %d lines allowed" % left)
            failures += 1
    texts = {
        "a.md": "# One (of `x`)\n## One\n### One\n```sh\n# no\n```\n[a](#one-of-x) [b](#one-1) "
                "[c](#no) [d](b/c.md#two_2) [e](b/c.md#three) `[f](#four)` [g](b/d.md) "
                "[h](b/e.png)",
        "b/c.md": "## [Two_2](../a.md)\n[a](https://x.org/y#z) [b](../a.md#one) [c](../a.md#zero)",
    }
    found = [(at, c.split(" ")[0]) for at, c in
             check_links(texts, lambda p: p in texts or p == "b/e.png")]
    if found != [("a.md", "(#no)"), ("a.md", "(b/c.md#three)"), ("a.md", "(b/d.md)"),
                 ("b/c.md", "(../a.md#zero)")]:
        print("selftest: links: %s" % found)
        failures += 1
    texts = {
        "docs/operations.md": "`a_test.test_one`, `a_test.test_two` `b_test.other_one` "
                              "`b_test.another` `c-1.scenario` `c-2.scenario` `d_test.test_any`",
        "tests/process/a_test.py": "    def test_one(self):",
        "tests/unit/b_test.c": "static void other_one(void **state)",
        "sim/scenarios/c-1.scenario": "",
    }
    found = [re.search("[^ /]+$", c.split("(")[0]).group() for c in check_named_tests(texts)]
    if found != ["test_two", "another", "d_test.py", "c-2.scenario"]:
        print("selftest: named tests: %s" % found)
        failures += 1
    room = {
        "master/keep/BUILD": 'srcs = ["a.h"],\nhdrs = [\n    "keep.h",\n    "b.h",\n    "c.h",\n]',
        "master/keep/keep.h": '#include "master/keep/b.h"\n#include "master/tables/c.h"',
        "master/BUILD": 'hdrs = ["master.h"]',
        "client/core/BUILD": 'hdrs = ["calls.h"],\nhdrs = ["client.h"]',
        "client/core/client.h": '#include "client/core/calls.h"',
        "client/core/read/BUILD": 'hdrs = ["read.h", "reader.h"]',
    }
    found = [(os.path.dirname(at), c.split(" is no door")[0]) for at, c in check_exports(room)]
    if found != [("client/core/read", "reader.h"), ("master/keep", "c.h")]:
        print("selftest: exports: %s" % found)
        failures += 1
    print("tidy: self-test: %d failures" % failures)
    return 1 if failures else 0


def main(arguments):
    if arguments == ["--selftest"]:
        return selftest()
    # Under Bazel this file is a link into the tree, which therefore need not be listed as inputs.
    own = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    root = arguments[0] if arguments else own
    if len(arguments) > 1 or not os.path.isdir(root):
        print(__doc__, file=sys.stderr)
        return 64
    return check_tree(root)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
