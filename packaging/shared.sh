# shellcheck shell=bash
# What the programs of packaging/ share; they source it, and $0 is theirs.

say() { echo "packaging/${0##*/}: $*" >&2; }

# What the comment on top of the program says, for --help.
help() { sed -n '2,/^[^#]/s/^#\( \|$\)//p' "$0"; }
misused() { # ARGUMENT
  say "unknown argument '$1'"
  help >&2
  exit 2
}

need() { # TOOL… WHERE: what tools/needs installs them with
  local tool
  for tool in "${@:1:$#-1}"; do
    command -v "$tool" >/dev/null || { say "$tool is missing (on Debian: tools/needs ${!#})"; exit 1; }
  done
}

# Waits until no other build has the lock, a file; it is held until this program ends.
lock() { # FILE
  exec 9>"$1"
  flock --nonblock 9 || { say "waiting for another build, which holds $1"; flock 9; }
}

# A folder that is removed at the end, whose path has plain letters only: the makefiles of others take no other.
temporary() {
  case ${TMPDIR:-/tmp} in *[!A-Za-z0-9/._-]*) local TMPDIR=/tmp ;; esac
  work=$(mktemp -d "${TMPDIR:-/tmp}/weir-${0##*/}-XXXXXX")
  trap 'rm -rf "$work"' EXIT
}

# CMake, or a tool that it writes for, takes no such letter in a path.
buildable() { # PATH…
  local path
  for path in "$@"; do
    case $path in
    *[\"\\\`\|\;:=#%*?\[\]\<\>[:cntrl:]]*)
      say "no build is possible in $path: a path of the clone or of WEIR_CACHE cannot have any of \" \\ \` | ; : = # % * ? [ ] < >"
      exit 1
      ;;
    esac
  done
}
