# bash completion for leasehold, leasehold-master, leasehold-chunkserver and leasehold-sim.
#
# The options are those of the installed program, which prints them (--help=words). Paths, names and
# servers are asked of the master, for two seconds at most.

# Bash breaks words at = and :. What is offered must begin where the present word does for it.
_leasehold_offer() { # CUR CANDIDATE...
    local cur=$1 word=${COMP_WORDS[COMP_CWORD]} skip
    shift
    [[ $word == [=:] ]] && word=
    skip=${cur%"$word"}
    local candidate
    for candidate in "$@"; do
        [[ $candidate == "$cur"* ]] || continue
        printf -v candidate %q "${candidate#"$skip"}" # a name may have any letters
        COMPREPLY+=("$candidate")
    done
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace 2>/dev/null
    fi
}

_leasehold_ask() { # KIND...
    local kind
    for kind in "$@"; do
        "$program" completion "${cluster[@]}" --timeout=2s "$kind" "$cur" 2>/dev/null
    done
}

_leasehold_files() { # PREFIX
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

# The arguments of `command` that stand before the present word, into `given`.
_leasehold_given() {
    local i
    given=()
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        case ${words[i]} in
        -*) [[ " $options " == *" ${words[i]}= "* ]] && ((i++)) ;;
        *) given+=("${words[i]}") ;;
        esac
    done
    given=("${given[@]:1}")
}

# What the arguments of `command` are: the words in capitals of its usage.
_leasehold_arguments() {
    local word
    local -a kinds=() found given
    _leasehold_given
    if [[ -n $subcommands ]]; then
        # shellcheck disable=SC2086
        [[ ${#given[@]} -gt 0 ]] || _leasehold_offer "$cur" $subcommands
        [[ $command:${given[0]-} == certs:show ]] && _leasehold_files "$cur"
        return
    fi
    for word in $arguments; do
        case $command:$word:${#given[@]} in
        append:FILE:0 | append:PATH:[1-9]*) continue ;;
        esac
        case $command:$word in
        *:TO | *:VALUE) ;;
        restore:PATH) kinds+=(trash) ;;
        watch:PREFIX | policy:PREFIX) kinds+=(names) ;;
        *:NAME) kinds+=(names) ;;
        *:SERVER) kinds+=(servers) ;;
        *:PATH | *:PREFIX | *:FROM | *:CHUNK) kinds+=(paths) ;;
        *:FILE) _leasehold_files "$cur" ;;
        esac
    done
    [[ ${#kinds[@]} -gt 0 && $base == leasehold ]] || return
    mapfile -t found < <(_leasehold_ask "${kinds[@]}")
    _leasehold_offer "$cur" "${found[@]}"
}

# False: the present word is no option, nor the value of one.
_leasehold_option() {
    local option value
    if [[ $cur == --*=* ]]; then
        option=${cur%%=*}
    elif [[ " $options " == *" $previous= "* ]]; then
        option=$previous
    else
        [[ $cur == -* ]] || return 1
        # shellcheck disable=SC2086
        _leasehold_offer "$cur" $options
        return 0
    fi
    if [[ " $files " == *" $option "* ]]; then
        _leasehold_files "${cur#"$option="}"
    elif [[ $cur == --*=* ]]; then
        # shellcheck disable=SC2086
        _leasehold_offer "$cur" $values
    else
        for value in $values; do
            [[ $value == "$option=$cur"* ]] && COMPREPLY+=("${value#"$option="}")
        done
    fi
    return 0
}

_leasehold() {
    local program=$1 base=${1##*/} line=${COMP_LINE:0:COMP_POINT} command='' cur previous i
    local commands='' options='' values='' files='' arguments='' subcommands=''
    local -a words cluster=()
    COMPREPLY=()
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=('')
    cur=${words[-1]} previous=${words[-2]-}
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        case ${words[i]} in
        --) # a program and its arguments follow
            if ((i == ${#words[@]} - 2)); then
                mapfile -t COMPREPLY < <(compgen -c -- "$cur")
            else
                _leasehold_files "$cur"
            fi
            return
            ;;
        --master | --config) cluster+=("${words[i]}=${words[++i]}") ;;
        --master=* | --config=*) cluster+=("${words[i]}") ;;
        --timeout) ((i++)) ;;
        -*) ;;
        *) command=${command:-${words[i]}} ;;
        esac
    done
    if [[ $base == leasehold || $base == leasehold-sim ]]; then
        eval "$("$program" --help=words 2>/dev/null)"
        if [[ -z $command || $command == help ]]; then
            options='--master= --timeout= --config= --tls-dir= --tls-ca= --tls-cert= --tls-key= --help --version'
            # shellcheck disable=SC2086
            _leasehold_option || _leasehold_offer "$cur" $commands
            return
        fi
        [[ " $commands " == *" $command "* ]] || return
        eval "$("$program" "$command" --help=words 2>/dev/null)"
    else
        eval "$("$program" --help=words 2>/dev/null)"
    fi
    _leasehold_option || _leasehold_arguments
}

complete -F _leasehold leasehold leasehold-master leasehold-chunkserver leasehold-sim
