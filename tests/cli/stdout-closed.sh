# A reader that went away is no failure.
{ weir inspect --help; echo $? >&2; } | true
