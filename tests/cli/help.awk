# Prints parts of the text of 'weir COMMAND --help':
#
#   awk -f help.awk TEXT                    the command's own part, and one line that names the shared groups of options
#   awk -f help.awk -v shared=1 COMMAND...  the shared groups. Each file has the name of its command. Each option is printed
#                                           once, after a line that lists the commands that have it with this text.
#
# In such a line, 'writers' are the commands with the group Layout, and '-NAME' is a writer without the option.

# Puts an item into a list, after the previous item of this command. All commands must have the same order.
function note(list, item,    at) {
  at = before[list]
  before[list] = item
  if ((list, item) in having) {
    do at = next_of[list, at]; while (at != "" && at != item)
    if (at == "") print command " has another order than the commands before it:\n" item
  } else {
    next_of[list, item] = next_of[list, at]
    next_of[list, at] = item
  }
  having[list, item] = having[list, item] " " command
}

function end_option() {
  if (option != "") note(group, option)
  option = ""
}

# Names commands, as differences from the writers if most of them are writers.
function in_words(list,    n, name, i, has, found, missing, others) {
  n = split(list, name)
  for (i = 1; i <= n; i++) {
    has[name[i]] = 1
    if (!(name[i] in is_writer)) others = others " " name[i]
  }
  for (i in is_writer) if (i in has) found++
  if (found < n_writers / 2) return substr(list, 2)
  for (i = 1; i <= n_writers; i++) if (!(writer[i] in has)) missing = missing " -" writer[i]
  return "writers" missing others
}

FNR == 1 { end_option(); split("", before); command = FILENAME; is_shared = 0 }
/^[A-Z][a-z]*:$/ { end_option(); is_shared = !/^(Options|Examples):$/ }
/^$/ { blank = blank "\n"; next }
is_shared { blank = "" }
is_shared && /^[A-Z]/ { group = $0; note("", group); left_out = left_out " " substr($0, 1, length($0) - 1); next }
is_shared && /^  -/ { end_option(); option = $0; next }
is_shared { option = option "\n" $0; next }
!shared {
  if (left_out != "") print "\n[shared:" left_out "]"
  print blank $0
  left_out = blank = ""
}

END {
  end_option()
  if (!shared) exit
  n_writers = split(having["", "Layout:"], writer)
  for (i in writer) is_writer[writer[i]] = 1
  print "writers:" having["", "Layout:"]
  for (group = next_of["", ""]; group != ""; group = next_of["", group]) {
    print "\n" group
    said = ""
    for (option = next_of[group, ""]; option != ""; option = next_of[group, option]) {
      words = in_words(having[group, option])
      if (words != said) print "[" words "]"
      said = words
      print option
    }
  }
}
