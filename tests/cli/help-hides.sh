# Hidden words are not in plain help.
! weir convert --help | grep -e null -e "|load"
