"""All of a library in one archive, for programs that are built without Bazel."""

def _archive_impl(ctx):
    # Whatever the library is made of: a list by hand would lack what was divided since.
    archives = []
    for part in ctx.attr.library[CcInfo].linking_context.linker_inputs.to_list():
        if part.owner.package == "third_party":
            continue
        for library in part.libraries:
            archive = library.static_library or library.pic_static_library
            if archive != None:
                archives.append(archive)
    work = ctx.outputs.out.path + ".work"
    ctx.actions.run_shell(
        inputs = archives + [ctx.file.symbols],
        outputs = [ctx.outputs.out],
        mnemonic = "Archive",
        use_default_shell_env = True,
        # What is compiled for link-time optimisation is compiled to the end here.
        command = " && ".join([
            "mkdir -p {work}",
            "gcc -r -nostdlib -O2 -flto=auto -flinker-output=nolto-rel -o {work}/leasehold.o " +
            "-Wl,--whole-archive {archives}",
            "sed -n 's/^    \\(lh_[a-z_]*\\);$/\\1/p' {symbols} > {work}/public",
            "objcopy --keep-global-symbols={work}/public {work}/leasehold.o",
            "ar rcsD {out} {work}/leasehold.o",
            "rm -r {work}",
        ]).format(
            work = work,
            archives = " ".join([archive.path for archive in archives]),
            symbols = ctx.file.symbols.path,
            out = ctx.outputs.out.path,
        ),
    )
    return [DefaultInfo(
        files = depset([ctx.outputs.out]),
        runfiles = ctx.runfiles(files = [ctx.outputs.out]),
    )]

lh_archive = rule(
    implementation = _archive_impl,
    attrs = {
        "library": attr.label(mandatory = True, providers = [CcInfo]),
        "out": attr.output(mandatory = True),
        "symbols": attr.label(mandatory = True, allow_single_file = True),
    },
    doc = """One relocatable object of everything that is ours in `library`, with all that it needs.

Symbols but those of the linker script `symbols` are made local, so that they cannot clash with the
program's. What is not ours stays outside, in the libraries of the system.""",
)
